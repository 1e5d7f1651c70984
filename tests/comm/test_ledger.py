"""The ledger hears torch.distributed called directly, and nothing twice."""

import pytest
import torch
from torch.distributed import ProcessGroup

from pllab.comm import all_reduce, launch, record_messages
from tests.comm import programs_of_the_ledger as programs

OWN = ["all_reduce", "all_reduce", "broadcast"]
AFTER = ["all_gather_object", "barrier", "send", "receive", "all_reduce"]


@pytest.mark.ranks
def test_direct_calls_are_recorded_in_order_with_shape_bytes_and_the_other_end(nothing_left):
    seen = launch(programs.direct_calls, 3, backend="gloo", timeout_s=60)
    collectives = [
        ("all_reduce", (2, 3), 24, None),
        ("all_reduce", (2, 3), 24, None),
        ("broadcast", (2, 3), 24, 2),
        ("reduce", (2, 3), 24, 1),
        ("all_gather", (4,), 16, None),
        ("all_gather", (4,), 16, None),
    ]
    after = [("gather", (4,), 16, 0), ("reduce_scatter", (3, 4), 48, None), ("barrier", (), 0, None)]
    for rank, messages in enumerate(seen):
        scatter = ("scatter", (3, 4), 48, 0) if rank == 0 else ("scatter", (), 0, 0)
        pair = [("send", (5,), 40, 1 - rank), ("receive", (5,), 40, 1 - rank)] if rank < 2 else []
        assert messages == [*collectives, scatter, *after, *pair]


@pytest.mark.ranks
def test_the_other_end_is_named_by_its_rank_in_the_world():
    seen = launch(programs.in_a_group, 3, backend="gloo", timeout_s=60)
    assert seen[0] == []
    assert seen[1] == [("broadcast", (2,), 8, 1), ("send", (1,), 4, 2)]
    assert seen[2] == [("broadcast", (2,), 8, 1), ("receive", (1,), 4, 1)]


@pytest.mark.ranks
def test_calls_of_this_room_are_not_heard_a_second_time():
    for names in launch(programs.through_the_room, 2, backend="gloo", timeout_s=60):
        assert names[: len(OWN) + 1 + len(AFTER)] == [*OWN, "all_reduce", *AFTER]
        assert names.count("barrier") == 1  # those of the shared buffer are its own


def test_the_last_ledger_to_close_puts_torch_back():
    before = {name: vars(ProcessGroup)[name] for name in ("allreduce", "barrier", "send")}
    with record_messages():
        with record_messages():
            pass
        assert vars(ProcessGroup)["allreduce"] is not before["allreduce"]
    with pytest.raises(KeyError), record_messages():
        raise KeyError
    assert {name: vars(ProcessGroup)[name] for name in before} == before


def test_each_message_is_told_as_it_is_written():
    told = []
    with record_messages(told.append) as ledger:
        all_reduce(torch.ones(2))
        assert told == ledger.messages
        all_reduce(torch.ones(3))
    assert [message.order for message in told] == [0, 1]
