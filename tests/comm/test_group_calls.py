"""Calls of a process group are heard by every listener, and torch's methods are its own again afterwards."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from pllab import comm
from pllab.comm.group_calls import HeardWork, hear_calls

pytestmark = pytest.mark.usefixtures("alone")


def test_methods_are_replaced_once_for_all_kinds_of_listeners_until_the_last_one_leaves(tmp_path):
    before = dict(vars(ProcessGroup))
    heard = []
    ledger_block = comm.record_messages()
    ledger = ledger_block.__enter__()
    once = vars(ProcessGroup)["allreduce"]
    with comm.record_flight(tmp_path / "flight.json") as flight:
        with hear_calls(lambda call: heard.append((call.name, call.shape))):
            assert vars(ProcessGroup)["allreduce"] is once
            dist.all_reduce(torch.ones(4))
        ledger_block.__exit__(None, None, None)  # the first to come is not the last to leave
        assert vars(ProcessGroup)["allreduce"] is once
        dist.all_reduce(torch.ones(2))
    assert dict(vars(ProcessGroup)) == before
    assert heard == [("all_reduce", (4,))] == [(message.name, message.shape) for message in ledger.messages]
    assert [call.shape for call in flight.record.calls] == [(4,), (2,)]


def test_the_last_listener_hears_first_and_one_that_raises_stops_the_call():
    heard = []
    x = torch.ones(1)

    def refuse(_call):
        heard.append("last")
        raise KeyError("no")

    before = dict(vars(ProcessGroup))
    with pytest.raises(KeyError, match="no"), hear_calls(lambda _: heard.append("first")), hear_calls(refuse):
        dist.all_reduce(x)
    assert heard == ["last"]
    assert dict(vars(ProcessGroup)) == before


def test_a_batch_that_nobody_ended_is_forgotten_with_the_last_listener(monkeypatch):
    """As one in which a call raised; the calls after it are in no batch."""
    monkeypatch.setattr(ProcessGroup, "_start_coalescing", lambda *_: None)
    with hear_calls(lambda _: None):
        dist.group.WORLD._start_coalescing()
    steps = []
    with hear_calls(lambda _: lambda work: HeardWork(work, steps.append)):
        dist.all_reduce(torch.ones(1), async_op=True).wait()
    assert steps == ["waiting", "waited"]


def test_steps_of_a_handle_are_told_through_the_handles_of_other_listeners():
    steps = {"outer": [], "inner": []}

    def following(name):
        return lambda _call: lambda work: HeardWork(work, steps[name].append)

    with hear_calls(following("outer")), hear_calls(following("inner")):
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.wait()
        assert work.is_completed()
    assert steps == {name: ["waiting", "waited", "completed"] for name in steps}
