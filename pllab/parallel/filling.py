"""The first values of sharded parameters: every rank takes its part of them, one unit at a time.

Parameters that are there come from rank 0. Those on the meta device are made here, the same on every rank, so that no
rank ever holds all of a model and nothing is sent. A group that only counts messages has no values at all.
"""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from pllab import comm
from pllab.comm.devices import fork_rng
from pllab.parallel.shards import Ranks, Unit

Initialise = Callable[[nn.Module], None]


def device_of(module: nn.Module) -> torch.device:
    """Where the shards live: with the parameters, or on this rank's own device if those are on the meta device."""
    device = next(module.parameters()).device
    return device if device.type != "meta" else comm.own_device()


def fill(units: Sequence[Unit], root: nn.Module, initialise: Initialise | None, ranks: Ranks) -> None:
    """Give every rank its part of rank 0's parameters, one unit at a time; make those that are on the meta device."""
    inner = {id(part) for unit in units[:-1] for part in unit.layer.modules()}
    seed = torch.randint(2**62, (), device=comm.readable_device())
    comm.broadcast(seed, 0, ranks.group)
    has_values = ranks.device.type != "meta"
    with fork_rng(comm.readable_device()):
        torch.manual_seed(int(seed))  # so that all ranks make the same, and need not send it
        for unit in units:
            parts = [part for part in unit.layer.modules() if unit.layer is not root or id(part) not in inner]
            _fill_unit(unit, parts if has_values else [], initialise or _reset)


def _fill_unit(unit: Unit, parts: Sequence[nn.Module], initialise: Initialise) -> None:
    real = [shard.real() for shard in unit.shards]
    for shard, parameters in zip(unit.shards, real, strict=True):
        shard.show(parameters)
    is_meta = any(piece.is_meta for piece in unit.pieces)
    for part in reversed(parts if is_meta else []):
        initialise(part)
    for shard, parameters in zip(unit.shards, real, strict=True):
        shard.keep(parameters, are_equal=is_meta)
        shard.cut()
    unit.show(is_whole=False)
    unit.notice_change()


def fill_buffers(module: nn.Module, group: comm.Group | None) -> None:
    """Give every rank rank 0's buffers.

    Raises:
        ValueError: a buffer is on the meta device.
    """
    for name, buffer in module.named_buffers():
        if buffer.is_meta and comm.own_device().type != "meta":
            raise ValueError(f"buffer {name} is on the meta device, and nothing says its values; make it on a real one")
        comm.broadcast(buffer, 0, group)


def _reset(module: nn.Module) -> None:
    """The initialisation of torch's own layers."""
    reset = getattr(module, "reset_parameters", None)
    if reset is not None:
        reset()
    elif next(module.parameters(recurse=False), None) is not None:
        raise ValueError(
            f"{type(module).__name__} has parameters on the meta device and no reset_parameters; say with initialise= "
            "how to make them"
        )
