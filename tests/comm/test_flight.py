"""The flight recorder in a world of one: what it writes, when, and what it hears of exceptions."""

import json
import sys
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from pllab import comm
from pllab.autopsy import Record, read_records
from pllab.comm.group import counted_rank
from tests.comm.programs import on_ranks


@pytest.fixture
def group(alone, tmp_path):
    return tmp_path / "flight-0.json"


def read(path: Path) -> Record:
    return read_records([path])[0]


def test_calls_of_this_room_and_of_torch_are_recorded_before_and_after_beside_torchs_record(group, tmp_path):
    torchs = tmp_path / "gloo_trace_0.json"
    with comm.record_flight(group, torchs=torchs) as flight:
        x = torch.ones(4)
        comm.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        flight.write()
        during = read(group)
        work.wait()
        comm.broadcast(torch.ones(2, 3))
    after = read(group)
    assert [str(call) for call in after.calls] == ["all_reduce(4)", "all_reduce(4)", "broadcast(2, 3) with root rank 0"]
    assert [call.finished for call in during.calls] == [True, False]
    assert all(call.finished and call.finished_s >= call.started_s for call in after.calls)
    assert [call.order for call in after.calls] == [0, 1, 2] and after.calls[0].dtype == "float32"
    assert after.calls[0].where.startswith("test_flight.py:")
    assert (during.state, after.state) == ("running", "returned")
    assert during.stack[0].startswith("test_flight.py:") and after.stack == ()
    assert "broadcast(2, 3)" in [str(call) for call in read(torchs).calls]


def test_a_value_that_is_no_number_is_flagged_where_it_is_put_in(group):
    with comm.record_flight(group):
        comm.all_reduce(torch.tensor([1.0, torch.nan]))
        comm.all_reduce(torch.tensor([1.0, torch.inf]))
        comm.all_reduce(torch.tensor([1, 2]))
    assert [call.has_nan for call in read(group).calls] == [True, False, False]


@on_ranks(2)
def test_what_lies_in_the_buffer_of_a_receive_is_not_flagged_and_collectives_are_counted_alone(rank, world_size):
    """Rank 0 sends numbers, and rank 1 receives them over what is none, also in a broadcast; then both sum twice."""
    with TemporaryDirectory() as folder:
        with comm.record_flight(Path(folder, "flight.json")):
            if rank == 0:
                comm.send(torch.ones(2), 1)
            else:
                comm.receive(torch.full((2,), torch.nan), 0)
            comm.broadcast(torch.full((2,), torch.nan if rank else 1.0))
            for _ in range(2):
                comm.all_reduce(torch.ones(2))
        calls = read(Path(folder, "flight.json")).calls
    assert [call.has_nan for call in calls] == [False] * 4
    assert [call.order for call in calls if call.is_collective] == [0, 1, 2]


def test_a_batch_has_its_results_when_torchs_one_handle_of_it_has_them(tmp_path, monkeypatch):
    """As over nccl, where torch drops the handles of the single calls."""
    handle = SimpleNamespace(wait=lambda: True, is_completed=lambda: True)
    monkeypatch.setattr(dist.ProcessGroup, "_get_backend", lambda *_: SimpleNamespace(supports_coalescing=True))
    monkeypatch.setattr(dist.ProcessGroup, "_start_coalescing", lambda *_: None)
    monkeypatch.setattr(dist.ProcessGroup, "_end_coalescing", lambda *_: handle)
    with counted_rank(0, 2), comm.record_flight(tmp_path / "flight-0.json"):
        comm.ring_pass(torch.ones(2))
    assert [(call.name, call.finished) for call in read(tmp_path / "flight-0.json").calls] == [
        ("receive", True),
        ("send", True),
    ]


def swallow() -> None:
    try:
        int("x")
    except ValueError:
        pass


def test_exceptions_that_the_program_catches_are_heard_in_threads_and_in_the_function_of_the_block(group):
    frame = sys._getframe()
    sys.settrace(lambda *_: None)  # as a debugger's
    before = sys.gettrace(), frame.f_trace, frame.f_trace_lines
    with comm.record_flight(group, watch=__file__):
        comm.barrier()
        thread = threading.Thread(target=swallow)
        thread.start()
        thread.join()
        with suppress(StopIteration):  # the end of a loop is not heard, nor what others catch
            next(iter([]))
        json.loads('{"a": 1}')
        try:
            int("y")
        except ValueError:
            pass
    after = sys.gettrace(), frame.f_trace, frame.f_trace_lines
    sys.settrace(None)
    # A thread that goes on asks for the rank while the next test ends the group.
    assert not [thread for thread in threading.enumerate() if thread.name == "pllab-flight"]
    in_thread, in_block = read(group).caught
    assert in_thread.text == "ValueError: invalid literal for int() with base 10: 'x'"
    assert in_thread.where.endswith("in swallow") and in_thread.before_call == in_block.before_call == 1
    assert in_block.text.endswith("'y'") and "the_function_of_the_block" in in_block.where
    assert after == before


def test_a_group_that_ends_inside_the_block_leaves_the_rank_as_it_was(group, monkeypatch):
    def gone() -> int:
        raise ValueError("Default process group has not been initialized")

    monkeypatch.setattr(dist, "get_rank", lambda: 3)
    monkeypatch.setattr(dist, "get_world_size", lambda: 5)
    with comm.record_flight(group) as flight:
        flight.write()
        monkeypatch.setattr(dist, "get_rank", gone)
        monkeypatch.setattr(dist, "get_world_size", gone)
    monkeypatch.undo()
    assert (read(group).rank, read(group).world_size) == (3, 5)


def test_an_exception_that_ends_the_program_is_its_state_and_is_not_swallowed(group):
    with pytest.raises(KeyError), comm.record_flight(group, watch=__file__):
        raise KeyError("x")
    after = read(group)
    assert after.state == "raised KeyError: 'x'" and after.caught == ()
