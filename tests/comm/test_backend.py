"""The plan is a pure function of counts, so every row of the table is tested without a GPU."""

import pytest
import torch

from pllab.comm import plan_backend


@pytest.mark.parametrize(
    ("world_size", "num_gpus", "name"),
    [(1, 0, "gloo"), (1, 1, "nccl"), (2, 1, "gloo"), (2, 2, "nccl"), (4, 2, "gloo"), (4, 8, "nccl")],
)
def test_nccl_only_with_one_gpu_per_rank(world_size, num_gpus, name):
    plans = [plan_backend(rank, world_size, num_gpus=num_gpus) for rank in range(world_size)]
    assert {plan.name for plan in plans} == {name}
    if name == "nccl":
        assert [plan.device for plan in plans] == [torch.device("cuda", rank) for rank in range(world_size)]
    else:
        assert {plan.device for plan in plans} == {torch.device("cpu")}


def test_the_gpus_of_a_host_are_numbered_from_its_own_ranks():
    plan = plan_backend(5, 8, local_rank=1, local_world_size=4, num_gpus=4)
    assert (plan.name, plan.device) == ("nccl", torch.device("cuda", 1))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_gpus": 0}, "there is no GPU"),
        ({"num_gpus": 1}, "2 ranks would share 1 GPU"),
        ({"num_gpus": 2, "backend": "gloo"}, "as asked"),
        ({"num_gpus": 2}, "2 ranks and 2 GPUs"),
    ],
)
def test_the_reason_is_a_sentence(arguments, words):
    assert words in plan_backend(0, 2, **arguments).reason


@pytest.mark.parametrize(
    ("rank", "world_size", "arguments", "words"),
    [
        (0, 2, {"backend": "nccl", "num_gpus": 1}, "2 ranks and 1 GPU"),
        (0, 2, {"backend": "mpi"}, "'mpi' is unknown"),
        (2, 2, {}, "rank 2 is not in a world of 2"),
        (-1, 2, {}, "rank -1"),
        (0, 0, {}, "world_size is 0"),
    ],
)
def test_bad_input_names_the_value(rank, world_size, arguments, words):
    with pytest.raises(ValueError, match=words):
        plan_backend(rank, world_size, **arguments)
