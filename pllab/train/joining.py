"""Whole tensors from what ranks have of a model: on every rank, or on the one that writes them to a checkpoint.

The names and the layout are those of transformers, however the model is shared.
"""

from collections.abc import Mapping

import torch

from pllab import comm
from pllab.parallel.shards import join
from pllab.train.updates import Part, Updates

_EMBEDDING, _TIED_HEAD = "transformer.wte.weight", "lm_head.weight"
Tensors = dict[str, torch.Tensor]


def whole_weights(updates: Updates, mesh: comm.Mesh | None) -> Tensors:
    """All weights on every rank; all ranks call it."""
    mine = {name_of(part): join(part.parameter, part.parameter.detach(), mesh) for part in updates.parts()}
    group = comm.group_of(mesh, "pp")
    outlines = comm.all_gather_object({name: (value.shape, value.dtype) for name, value in mine.items()}, group)
    known: set[str] = set()
    for holder, those in enumerate(outlines if len(outlines) > 1 else []):
        for name, (shape, dtype) in those.items():
            if name not in known:  # stages that share a weight have the same
                value = mine.setdefault(name, torch.empty(shape, dtype=dtype, device=comm.own_device()))
                comm.broadcast(value, holder, group)
        known |= those.keys()
    return mine


def tensors_to_write(updates: Updates, mesh: comm.Mesh | None) -> tuple[Tensors, Tensors]:
    """The whole weights and states that this rank writes; every rank that has a part of one helps to join it."""
    parts = list(updates.parts())
    writers = _writers({key: value.numel() for part in parts for key, value in _tensors(part).items()})
    weights, states = Tensors(), Tensors()
    for part in parts:
        for key, value in _tensors(part).items():
            whole = join(part.parameter, value, mesh) if value.ndim else value
            if writers[key] == comm.rank():
                (weights if key == name_of(part) else states)[key] = whole.cpu().clone()
    return weights, states


def _writers(mine: Mapping[str, int]) -> dict[str, int]:
    """Which rank writes each tensor: among those that have it, the one with the fewest numbers to write so far."""
    sizes, holders = dict[str, int](), dict[str, list[int]]()
    for rank, of_rank in enumerate(comm.all_gather_object(mine)):
        sizes |= of_rank
        for key in of_rank:
            holders.setdefault(key, []).append(rank)
    writers, load = dict[str, int](), [0] * comm.world_size()
    for key, those in holders.items():
        writers[key] = min(those, key=load.__getitem__)
        load[writers[key]] += sizes[key]
    return writers


def name_of(part: Part) -> str:
    """Its name in the file: the head takes the embedding, to which it is tied."""
    return _EMBEDDING if part.name == _TIED_HEAD else part.name


def _tensors(part: Part) -> Tensors:
    """What a rank has of a parameter: its weight, and its state in the optimizer."""
    states = {f"{name_of(part)}.{kind}": value for kind, value in part.state.items()}
    return {name_of(part): part.parameter.detach(), **states}
