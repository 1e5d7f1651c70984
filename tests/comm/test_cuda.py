"""The same room on GPUs; needs torch and pytest only."""

import pytest
import torch

from pllab import accelerator
from pllab.comm import all_gather_object, all_reduce, all_reduce_async, barrier, setup, teardown
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
