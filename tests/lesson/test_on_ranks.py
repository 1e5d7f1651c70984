"""A function of a notebook cell on real ranks."""

import pytest
import torch

from pllab import comm
from pllab.lesson.on_ranks import run_on_ranks


def sum_of_ranks(rank, world_size, solution):
    x = torch.tensor([float(rank)])
    comm.all_reduce(x)
    return solution(x.item(), world_size)


@pytest.mark.ranks
def test_a_function_that_cannot_be_imported_runs_on_every_rank():
    secret = 10
    assert run_on_ranks(sum_of_ranks, lambda total, world_size: total + world_size + secret, 2) == [13.0, 13.0]


@pytest.mark.ranks
def test_a_function_that_hangs_is_ended_at_the_deadline():
    def hang(total, world_size):
        import time

        time.sleep(60)

    with pytest.raises(comm.RankError, match="had not finished"):
        run_on_ranks(sum_of_ranks, hang, 2, timeout_s=6.0)
