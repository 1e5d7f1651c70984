"""The same room on GPUs; needs torch and pytest only."""

import pytest
import torch

from pllab import accelerator
from pllab.comm import all_gather_object, all_reduce, all_reduce_async, barrier, launch, plan_backend, setup, teardown
from pllab.comm.devices import gpu_backend, num_gpus

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not num_gpus(), reason="needs 1 GPU, found 0")]


def test_nccl_in_a_world_of_one():
    plan = setup(0, 1)
    try:
        assert (plan.name, plan.device) == (gpu_backend(), accelerator.gpu(0))
        x = torch.ones(3, device=plan.device)
        all_reduce(x)
        all_reduce_async(x).wait()
        barrier()
        assert x.tolist() == [1, 1, 1]
        assert all_gather_object("a") == ["a"]
    finally:
        teardown()


def sum_on_device(rank, world_size):
    x = torch.full((2,), float(rank), device=plan_backend(rank, world_size).device)
    all_reduce(x)
    barrier()
    return str(x.device.type), x.tolist()


@pytest.mark.ranks
def test_two_ranks_share_what_there_is():
    """nccl with two GPUs or more; gloo on the CPU when two ranks would share one."""
    expected = accelerator.KIND if num_gpus() >= 2 else "cpu"
    assert launch(sum_on_device, 2, timeout_s=120) == [(expected, [1.0, 1.0])] * 2
