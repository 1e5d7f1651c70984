"""Meshes and the norm over them, against one process and by counted messages, on four ranks."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.testing import assert_close

from pllab import comm
from pllab.parallel import DataParallel, FullyShardedDataParallel, clip_grad_norm
from tests.parallel.on_ranks import Programs, run_on, sentence
from tests.parallel.programs import Chain, batch, gathered, loss_of, share, weights

MOST = 0.01
PROGRAMS = Programs()
WAYS: dict[str, Callable[..., Any]] = {
    "data parallel": DataParallel,
    "sharded": FullyShardedDataParallel,
    "sharded by messages": partial(FullyShardedDataParallel, share_memory=False),
}


@PROGRAMS.add()
def tp_is_innermost_and_pp_outermost(rank: int, world_size: int) -> None:
    mesh = comm.make_mesh(dp=2, tp=2)
    assert mesh.get_coordinate() == (0, rank // 2, rank % 2)
    ranks = {axis: torch.distributed.get_process_group_ranks(comm.group_of(mesh, axis)) for axis in comm.AXES}
    assert ranks == {"pp": [rank], "dp": [rank % 2, rank % 2 + 2], "tp": [rank // 2 * 2, rank // 2 * 2 + 1]}
    for axis in comm.AXES:
        group, total = comm.group_of(mesh, axis), torch.tensor(float(rank))
        comm.all_reduce(total, group)
        assert total == sum(ranks[axis])
        assert group._get_backend(torch.device("cpu")).options._timeout.total_seconds() == 200.0  # as of the world


def clipped_alone(chain: Chain) -> float:
    """The norm of the gradients of the whole batch, by PyTorch, which clips them."""
    loss_of(chain, *batch(0)).backward()
    return float(nn.utils.clip_grad_norm_(chain.parameters(), MOST))


@PROGRAMS.add(how=tuple(WAYS))
def one_clipped_step_equals_one_process(rank: int, world_size: int, how: str) -> None:
    chain = Chain()
    norm = clipped_alone(chain)
    torch.optim.SGD(chain.parameters(), lr=1.0).step()
    mesh = comm.make_mesh(dp=2, tp=2)
    model = WAYS[how](Chain(rank // 2), mesh=mesh)
    loss_of(model, *share(0, rank // 2, 2)).backward()
    with comm.record_messages() as ledger:
        assert clip_grad_norm(model, MOST, mesh) == pytest.approx(norm, rel=1e-6)
    assert [(message.name, message.num_bytes) for message in ledger.messages] == [("all_reduce", 8)]
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    found = gathered(model) if isinstance(model, FullyShardedDataParallel) else weights(model.module)
    assert_close(found, weights(chain))


@PROGRAMS.add(splits=(False, True))
def the_norm_under_pytorchs_classes(rank: int, world_size: int, splits: bool) -> None:
    """Split over tp first, a weight is cut twice along the same dim."""
    mesh, chain = comm.make_mesh(dp=2, tp=2), Chain()
    for block in chain.blocks:
        if splits:
            parallelize_module(block, mesh["tp"], {"linear": ColwiseParallel(output_layouts=Replicate())})
            assert isinstance(block.linear.weight, DTensor)
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(chain, mesh=mesh["dp"])
    loss_of(chain, *share(0, rank // 2, 2)).backward()
    assert clip_grad_norm(chain, MOST, mesh) == pytest.approx(clipped_alone(Chain()), rel=1e-6)


@PROGRAMS.add()
def the_norm_over_stages_counts_a_shared_weight_once(rank: int, world_size: int) -> None:
    """Two stages, each on two ranks that replicate it: gradients 3 and 4, and a tied weight, in bfloat16."""
    mesh = comm.make_mesh(pp=2, dp=2)
    stage = nn.ParameterList([nn.Parameter(torch.zeros(size)) for size in (1, 3)]).bfloat16()
    stage[0].grad = torch.tensor([3.0 + mesh.get_local_rank("pp")]).bfloat16()
    stage[1].grad, stage[1].num_stages = torch.tensor([2.0, 2.0, 4.0]).bfloat16(), 2
    assert clip_grad_norm(stage, 100.0, mesh) == pytest.approx(7.0, rel=1e-6)


@PROGRAMS.add()
def refusals(rank: int, world_size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.distributed.is_initialized", lambda: False)
        assert "call pllab.comm.setup first" in sentence(comm.make_mesh)
    product = "dp 3 x tp 1 x pp 1 is 3, and there are 4 ranks; give sizes whose product is 4"
    assert product in sentence(lambda: comm.make_mesh(dp=3))
    assert "max_norm is 0.0; give a number above 0" in sentence(lambda: clip_grad_norm(nn.Linear(1, 1), 0.0))


failed, test_ranks = run_on(PROGRAMS, 4)
