"""The ring, the groups inside the world, and the group for one piece of work."""

import pytest
import torch

from pllab import comm
from tests.comm import programs_of_lesson_02 as programs

MEMBERS = [[0, 1], [1, 2], [0, 1, 2]]


@pytest.mark.ranks
def test_a_ring_of_three_and_groups_that_overlap(nothing_left):
    seen = comm.launch(programs.pass_and_sum, 3, MEMBERS, backend="gloo", timeout_s=60.0)
    for rank, (got, sent, messages, _, asked, refused) in enumerate(seen):
        assert (got, sent) == ([float((rank - 1) % 3)], [float(rank)])
        assert messages == [("send", 1_000_000, (rank + 1) % 3), ("receive", 1_000_000, (rank - 1) % 3)]
        assert asked == [tuple(ranks) for ranks in MEMBERS]
        assert refused == "there is no rank 3 in a world of 3"
    assert [one[3] for one in seen] == [[11.0, 111.0], [11.0, 110.0, 111.0], [110.0, 111.0]]


def test_a_rank_alone_gets_a_copy():
    x = torch.tensor([1.0, 2.0])
    got = comm.ring_pass(x)
    assert got.tolist() == [1.0, 2.0]
    assert got.data_ptr() != x.data_ptr()


def test_the_group_is_there_for_the_work_and_gone_afterwards(tmp_path):
    assert comm.run_in_group(0, 1, tmp_path / "first", comm.backend_name) == "gloo"
    assert comm.backend_name() is None


def test_the_group_is_gone_when_the_work_raises(tmp_path):
    with pytest.raises(ZeroDivisionError):
        comm.run_in_group(0, 1, tmp_path / "second", lambda: 1 / 0)
    assert comm.backend_name() is None
