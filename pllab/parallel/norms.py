"""The norm of all gradients when each rank has only some of them, or some of each.

A parameter is replicated over some axes of the mesh and split over others. If every rank adds the squares of its own
gradients, each divided by the number of ranks that have the same numbers, the sum over all ranks counts each number
once: one message of eight bytes.

    2 x 2 ranks         split over dp        split over tp        replicated
    (dp x tp)           and tp               only
    counts as           all of it            a half               a quarter
"""

import math
from math import prod
from typing import Any

import torch
from torch import nn

from pllab import comm
from pllab.parallel.shards import is_dtensor


def clip_grad_norm(model: nn.Module, max_norm: float, mesh: comm.Mesh | None = None) -> float:
    """Scale all gradients together so that their norm is at most `max_norm`; return the norm before.

    Works with plain parameters, with those of `FullyShardedDataParallel` and `tensor_parallel`, with those that
    pipeline stages share, and with PyTorch's DTensors. All ranks call it.

    Example: gradients [3.] on a parameter of stage 0 and [4.] on one of stage 1 have norm 5; with `max_norm=1` they
    become [0.6] and [0.8].

    Args:
        model: what this rank has of the model.
        max_norm: the largest norm; infinite, to compute the norm only.
        mesh: how the ranks share the model; by default all replicate what is not split.

    Raises:
        ValueError: max_norm is not above 0.
        PeerError: another rank went away or did not come in time.

    Source: `torch.nn.utils.clip_grad_norm_`, which knows one way to split; Megatron-LM's `clip_grads.py`.
    """
    if not max_norm > 0:
        raise ValueError(f"max_norm is {max_norm}; give a number above 0")
    norm = _norm(model, mesh)
    if norm > max_norm:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(max_norm / (norm + 1e-6))
    return norm


def _norm(model: nn.Module, mesh: comm.Mesh | None) -> float:
    squares = []
    for parameter in model.parameters():
        if parameter.grad is not None:
            grad = parameter.grad.to_local() if is_dtensor(parameter.grad) else parameter.grad
            wide = torch.promote_types(grad.dtype, torch.float32)
            squares.append(torch.linalg.vector_norm(grad, dtype=wide).double() ** 2 / _num_copies(parameter, mesh))
    is_alone = comm.backend_name() is None  # then the sum is where the first gradient is, so that no GPU is waited for
    home = squares[0].device if squares and is_alone else comm.own_device()
    total = torch.zeros((), dtype=torch.float64, device=home)
    for square in squares:
        total += square.to(home)
    comm.all_reduce(total)
    return math.nan if total.is_meta else float(total) ** 0.5


def _num_copies(parameter: nn.Parameter, mesh: comm.Mesh | None) -> int:
    """The number of ranks that have the same numbers of a parameter as this one.

    Example on a mesh of dp 2 x tp 2: 4 for a bias that no one splits, 2 for a weight that `tensor_parallel` split, 1 if
    `FullyShardedDataParallel` cut that too. A weight that two pipeline stages share has as many copies more.
    """
    axes = _axes_of(parameter)
    if mesh is None:
        return 1 if axes else comm.world_size()
    over = prod(comm.world_size(comm.group_of(mesh, axis)) for axis in ("dp", "tp") if axis not in axes)
    return over * int(getattr(parameter, "num_stages", 1))


def _axes_of(parameter: Any) -> set[str]:
    """The axes of the mesh over which a parameter is split."""
    if is_dtensor(parameter):
        names = parameter.device_mesh.mesh_dim_names or ("dp",)
        return {name for name, place in zip(names, parameter.placements, strict=True) if not place.is_replicate()}
    marks = {"dp": "piece_of", "tp": "split_over"}
    return {axis for axis, mark in marks.items() if getattr(parameter, mark, None)}
