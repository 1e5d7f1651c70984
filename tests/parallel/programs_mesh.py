"""What four ranks in a mesh run; in a module, because a new process imports functions by name."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from pllab import comm
from pllab.parallel import DataParallel, FullyShardedDataParallel, clip_grad_norm
from tests.parallel.programs import _sentence, batch, loss_of
from tests.parallel.programs_sharded import Chain, whole

MOST = 0.01


def run_all(rank: int, world_size: int) -> dict[str, Any]:
    del rank, world_size
    mesh = comm.make_mesh(dp=2, tp=2)
    number = mesh.get_local_rank("dp")
    return {
        "coordinates": mesh.get_coordinate(),
        "groups": {axis: torch.distributed.get_process_group_ranks(comm.group_of(mesh, axis)) for axis in comm.AXES},
        "deadlines": {axis: _deadline_s(comm.group_of(mesh, axis)) for axis in comm.AXES},
        "sums": {axis: _sum_over(mesh, axis) for axis in comm.AXES},
        "data_parallel": _one_step(DataParallel(Chain(number), mesh=mesh), mesh),
        "sharded": _one_step(FullyShardedDataParallel(Chain(number), mesh=mesh), mesh),
        "by_messages": _one_step(FullyShardedDataParallel(Chain(number), mesh=mesh, share_memory=False), mesh),
        "fsdp2": [_norm_of_fsdp2(mesh, splits) for splits in (False, True)],
        "stages": _stages(),
        "refusals": _refusals(mesh),
    }


def _deadline_s(group: comm.Group | None) -> float:
    assert group is not None
    return float(group._get_backend(torch.device("cpu")).options._timeout.total_seconds())


def _sum_over(mesh: comm.Mesh, axis: str) -> float:
    total = torch.tensor(float(comm.rank()))
    comm.all_reduce(total, comm.group_of(mesh, axis))
    return float(total)


def _share(mesh: comm.Mesh) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, targets = batch(0)
    number = mesh.get_local_rank("dp")
    return tokens.chunk(2)[number], targets.chunk(2)[number]


def _one_step(model: DataParallel | FullyShardedDataParallel, mesh: comm.Mesh) -> dict[str, Any]:
    loss_of(model, *_share(mesh)).backward()
    with comm.record_messages() as ledger:
        norm = clip_grad_norm(model, MOST, mesh)
    sent = [(message.name, message.num_bytes) for message in ledger.messages]
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    weights = whole(model) if isinstance(model, FullyShardedDataParallel) else model.module.state_dict()
    return {"norm": norm, "sent": sent, "weights": {n: value.detach().clone() for n, value in weights.items()}}


def _norm_of_fsdp2(mesh: comm.Mesh, splits: bool) -> float:
    """The norm under PyTorch's classes; split over tp first, a weight is cut twice along the same dim."""
    chain = Chain()
    for block in chain.blocks:
        if splits:
            parallelize_module(block, mesh["tp"], {"linear": ColwiseParallel(output_layouts=Replicate())})
            assert isinstance(block.linear.weight, DTensor)
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(chain, mesh=mesh["dp"])
    loss_of(chain, *_share(mesh)).backward()
    return clip_grad_norm(chain, MOST, mesh)


def _stages() -> float:
    """Two stages, each on two ranks that replicate it: gradients 3 and 4, and a tied weight with gradient 12."""
    mesh = comm.make_mesh(pp=2, dp=2)
    stage = nn.ParameterList([nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))])
    stage[0].grad = torch.tensor([3.0 + mesh.get_local_rank("pp")])
    stage[1].grad, stage[1].num_stages = torch.tensor([12.0]), 2
    return clip_grad_norm(stage, 100.0, mesh)


def _refusals(mesh: comm.Mesh) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.distributed.is_initialized", lambda: False)
        no_group = _sentence(lambda: comm.make_mesh())
    return [
        no_group,
        _sentence(lambda: comm.make_mesh(dp=3)),
        _sentence(lambda: comm.group_of(mesh["dp"], "tp")),
        _sentence(lambda: clip_grad_norm(nn.Linear(1, 1), 0.0)),
    ]
