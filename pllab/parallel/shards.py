"""The parameters of a unit, cut over the ranks: where each one is, as pieces or whole, and how they come and go.

Drawn, for a unit of a weight of 5 numbers and a bias of 2, on two ranks:

    whole   | w w w w | w b b . |         room that is there while the unit computes
    rank 0  | w w w w |                   weight: a piece of 4 numbers, bias: of none
    rank 1            | w b b . |         weight: 1 number, bias: 2, and one of padding

This file says where parameters are; `sharded.py` decides when they are gathered, reduced and freed.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import nn

from pllab import comm
from pllab.parallel.resharding import Piece

_LEAST = 2**16  # numbers that a turn of shared memory holds at least; fewer would only mean more barriers

_TURNS = 4  # in which the largest unit is reduced


class Ranks(NamedTuple):
    """Who shares a model, on which device this rank has its part, and whether parts may lie in shared memory."""

    group: comm.Group | None
    device: torch.device
    shares_memory: bool

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return comm.world_size(self.group)

    def buffer(self, numel: int, dtype: torch.dtype) -> comm.SharedBuffer | None:
        """Memory that the ranks share, if they can and may."""
        return comm.shared_buffer(numel, dtype, self.device, self.group) if self.shares_memory else None


class Slot(NamedTuple):
    """A parameter: the object that is this rank's piece of it, its whole shape, and the modules that use it."""

    piece: nn.Parameter
    shape: torch.Size
    places: tuple[tuple[nn.Module, str], ...]


class Shard:
    """Parameters of one type side by side: this rank's part of them, and room for the whole."""

    def __init__(self, slots: Sequence[Slot], compute: torch.dtype | None, ranks: Ranks) -> None:
        first, sizes = slots[0].piece, [slot.shape.numel() for slot in slots]
        device, self._group, self._number = ranks.device, ranks.group, comm.rank(ranks.group)
        self.slots = tuple(slots)
        self.numel = -(-sum(sizes) // ranks.size)
        self._part = torch.zeros(self.numel, dtype=first.dtype, device=device)
        dtype = compute if compute is not None and first.dtype.is_floating_point else first.dtype
        whole = torch.empty(self.numel * ranks.size, dtype=dtype, device=device)
        self._storage, self._num_bytes = whole.untyped_storage(), whole.untyped_storage().nbytes()
        self.dtype, self.device, self.whole_numel = dtype, device, whole.numel()
        self._sizes = [*sizes, whole.numel() - sum(sizes)]
        self._whole = whole.data  # autograd does not see what is written through it: the values are the same as before
        self.wholes = self._views(whole)
        self._pending: comm.Pending | None = None
        self.free()

    @property
    def is_allocated(self) -> bool:
        """Whether there is room for the whole."""
        return self._storage.nbytes() > 0

    @property
    def pieces(self) -> list[nn.Parameter]:
        """This rank's piece of each parameter."""
        return [slot.piece for slot in self.slots]

    def show(self, parameters: Sequence[nn.Parameter]) -> None:
        """Let the modules have these parameters."""
        for slot, parameter in zip(self.slots, parameters, strict=True):
            for module, name in slot.places:
                module._parameters[name] = parameter

    def allocate(self) -> None:
        """Make room for the whole."""
        self._storage.resize_(self._num_bytes)

    def start_gathering(self) -> None:
        """Send the message that fills the whole, unless it is under way."""
        if self._pending is None:
            self.allocate()
            self._pending = comm.all_gather_async(self._whole, self._part.to(self._whole.dtype), self._group)

    def gather(self) -> None:
        """Fill the whole from the parts of all ranks."""
        self.start_gathering()
        self.wait()

    def wait(self) -> None:
        """Let a message under way arrive."""
        if self._pending is not None:
            self._pending.wait()
            self._pending = None

    def free(self) -> None:
        """Give the memory of the whole back; its tensors stay, and have their values again when it is gathered."""
        self.wait()
        self._storage.resize_(0)

    def real(self) -> list[nn.Parameter]:
        """The parameters before they are cut; memory for those on the meta device."""
        device = self._part.device
        return [_like(p, torch.empty_like(p, device=device)) if p.is_meta else p for p in self.pieces]

    def values(self) -> list[nn.Parameter]:
        """The parameters, whole and in their own type."""
        whole = torch.empty(self.whole_numel, dtype=self._part.dtype, device=self._part.device)
        comm.all_gather_async(whole, self._part, self._group).wait()
        return self._views(whole)

    @torch.no_grad()
    def keep(self, parameters: Sequence[nn.Parameter], are_equal: bool = False) -> None:
        """Take this rank's part of the parameters; of rank 0's, unless all ranks have the same."""
        padding = self._part.new_zeros(self._sizes[-1])
        whole = torch.cat([*(parameter.flatten() for parameter in parameters), padding])
        if not are_equal:
            comm.broadcast(whole, 0, self._group)
        self._part.copy_(whole[self._number * self.numel :][: self.numel])

    def cut(self) -> None:
        """Let every parameter of the model be its piece of this rank's part."""
        start, taken = 0, 0
        for slot, size in zip(self.slots, self._sizes, strict=False):
            piece = Piece(slot.shape, start, self.numel)
            low, high = piece.range_of(self._number)
            _become(slot.piece, self._part[taken : taken + high - low])
            slot.piece.piece_of = piece  # type: ignore[attr-defined]  # read by `norms.py` and `resharding.py`
            start, taken = start + size, taken + high - low

    def _views(self, whole: torch.Tensor) -> list[nn.Parameter]:
        views = zip(whole.split(self._sizes), self.slots, strict=False)
        return [_like(slot.piece, view.view(slot.shape)) for view, slot in views]

    def copy_gradients(self, rows: torch.Tensor, low: int) -> None:
        """Copy the gradients for all ranks, (ranks, numbers) from number `low` of each part on; zeros where is none."""
        for number, row in enumerate(rows):
            self._copy_range(number * self.numel + low, row)

    def _copy_range(self, start: int, out: torch.Tensor) -> None:
        before = 0
        for grad, size in zip([*(whole.grad for whole in self.wholes), None], self._sizes, strict=True):
            low, high = max(start, before), min(start + out.numel(), before + size)
            if low < high:
                view = out[low - start : high - start]
                view.zero_() if grad is None else view.copy_(grad.reshape(-1)[low - before : high - before])
            before += size

    def drop_gradients(self) -> list[bool]:
        """Free the whole gradients; return where there was one."""
        used = [whole.grad is not None for whole in self.wholes]
        for whole in self.wholes:
            whole.grad = None
        return used

    def add_gradient(self, part: torch.Tensor) -> None:
        """Add this rank's part of the sum over the ranks, as a mean, to the gradients of its pieces."""
        part = part.to(self._part.dtype).div_(comm.world_size(self._group))
        start = 0
        for piece in self.pieces:
            added = part[start : start + piece.numel()]
            piece.grad = added if piece.grad is None else piece.grad.add_(added)
            start += piece.numel()


class Unit:
    """A layer whose parameters are gathered together, in one shard for each type and for the frozen ones."""

    def __init__(self, layer: nn.Module, shards: Sequence[Shard]) -> None:
        self.layer = layer
        self.shards = tuple(shards)
        self.trained = [shard for shard in shards if shard.wholes[0].requires_grad]
        self.has_frozen = len(self.trained) < len(shards)
        self.is_whole = False
        self.used: list[bool] = []
        self.was_none: list[bool] = []
        self._version = -1

    @property
    def pieces(self) -> list[nn.Parameter]:
        """This rank's pieces of all parameters."""
        return [piece for shard in self.shards for piece in shard.pieces]

    @property
    def is_allocated(self) -> bool:
        """Whether any shard has room for its whole."""
        return any(shard.is_allocated for shard in self.shards)

    def begin(self) -> None:
        """Begin a new backward: every gradient is missing."""
        self.num_missing = sum(len(shard.wholes) for shard in self.trained)

    def on_gradient(self, then: Callable[[torch.Tensor], None]) -> None:
        """Call a function after each gradient of a backward."""
        for whole in (whole for shard in self.trained for whole in shard.wholes):
            whole.register_post_accumulate_grad_hook(then)

    def show(self, is_whole: bool) -> None:
        """Let the modules have the whole parameters, or the pieces."""
        for shard in self.shards:
            shard.show(shard.wholes if is_whole else shard.pieces)

    def start_gathering(self) -> None:
        """Send the messages of `gather`, unless they are sent."""
        for shard in self.shards if not self.is_whole else ():
            shard.start_gathering()

    def gather(self) -> None:
        """Make the unit whole, unless it is."""
        for shard in self.shards if not self.is_whole else ():
            shard.gather()
        self.is_whole = True

    def free(self) -> None:
        """Give back the memory of the whole."""
        for shard in self.shards:
            shard.free()
        self.is_whole = False

    def notice_change(self) -> bool:
        """Whether the pieces were written to since the last call; then the whole is out of date."""
        version = sum(piece._version for piece in self.pieces)
        is_changed, self._version = version != self._version, version
        return is_changed

    def forget(self) -> None:
        """Take the whole for out of date."""
        for shard in self.shards:
            shard.wait()
        self.is_whole = False

    def reduce(self, scratch: "Scratch") -> None:
        """Replace the whole gradients by this rank's part of their mean."""
        self.used, self.was_none = [], []
        for shard in self.trained:
            self.was_none += [piece.grad is None for piece in shard.pieces]
            self.used += scratch.reduce(shard)


class Scratch:
    """Where whole gradients meet to be summed: shared memory, made once, or a message for each shard.

    Two shared buffers take turns. Who is at the barrier of one turn has read all of the turn before. A buffer holds a
    quarter of the largest unit: more would hold memory, less would wait at more barriers.
    """

    def __init__(self, units: Sequence[Unit], ranks: Ranks) -> None:
        self._ranks = ranks
        self._under_way: list[tuple[Shard, torch.Tensor, comm.Pending]] = []
        self.messages: list[torch.Tensor] = []
        """What travels now, the part of a sum and the whole that is summed."""
        self._shared: dict[torch.dtype, list[comm.SharedBuffer]] = {}
        sizes: dict[torch.dtype, list[int]] = {}
        for shard in (shard for unit in units for shard in unit.trained):
            sizes.setdefault(shard.dtype, []).append(shard.whole_numel)
        for dtype in sorted(sizes, key=str):
            numel = min(max(_LEAST, -(-max(sizes[dtype][:-1] or [0]) // _TURNS)), max(sizes[dtype]))
            pair = [ranks.buffer(numel, dtype) for _ in range(2)]
            if None not in pair:
                self._shared[dtype] = [buffer for buffer in pair if buffer is not None]
        self.is_shared = bool(self._shared)

    def reduce(self, shard: Shard) -> list[bool]:
        """Sum the gradients of a shard over the ranks; return which parameters have one on this rank."""
        part = torch.empty(shard.numel, dtype=shard.dtype, device=shard.device)
        if buffers := self._shared.get(shard.dtype):
            self._reduce_in_turns(shard, part, buffers)
            used = shard.drop_gradients()
            shard.add_gradient(part)
            return used
        self.wait()
        flat = torch.empty(shard.whole_numel, dtype=shard.dtype, device=shard.device)
        shard.copy_gradients(flat.view(-1, shard.numel), 0)
        self.messages = [part, flat]
        self._under_way.append((shard, part, comm.reduce_scatter_async(part, flat, self._ranks.group)))
        return shard.drop_gradients()

    def _reduce_in_turns(self, shard: Shard, part: torch.Tensor, buffers: list[comm.SharedBuffer]) -> None:
        num_ranks = self._ranks.size
        width = buffers[0].tensor.numel() // num_ranks
        for low in range(0, shard.numel, width):
            piece = part[low : low + width]
            buffers.reverse()
            shard.copy_gradients(buffers[0].tensor[: num_ranks * piece.numel()].view(num_ranks, -1), low)
            buffers[0].reduce_scatter(piece)

    def wait(self) -> None:
        """Wait for the messages under way; one at a time bounds the memory."""
        for shard, part, pending in self._under_way:
            pending.wait()
            shard.add_gradient(part)
        self._under_way.clear()
        self.messages = []


def layers_of_classes(module: nn.Module, classes: Sequence[type[nn.Module]] | None) -> list[nn.Module]:
    """The layers to gather one at a time, none inside another."""
    if classes is None:
        lists = [list(part) for part in module.modules() if isinstance(part, nn.ModuleList)]
        return max(lists, key=len, default=[])
    found = [part for part in module.modules() if isinstance(part, tuple(classes))]
    for wanted in classes:
        if not any(isinstance(part, wanted) for part in found):
            raise ValueError(f"{type(module).__name__} has no layer of class {wanted.__name__}; name its own in units")
    inner = {id(part) for each in found for part in each.modules() if part is not each}
    return [each for each in found if id(each) not in inner]


def owned_slots(module: nn.Module, layers: Sequence[nn.Module]) -> list[tuple[nn.Module, list[Slot]]]:
    """The parameters of each layer, then those of the root: of no layer, or of several places that tie layers."""
    number_of = {id(part): number for number, layer in enumerate(layers) for part in layer.modules()}
    places: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    owners: dict[nn.Parameter, set[int]] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                places.setdefault(parameter, []).append((part, name))
                owners.setdefault(parameter, set()).add(number_of.get(id(part), len(layers)))
    slots: list[list[Slot]] = [[] for _ in range(len(layers) + 1)]
    for parameter, uses in places.items():
        owner = owners[parameter].pop() if len(owners[parameter]) == 1 else len(layers)
        slots[owner].append(Slot(parameter, parameter.shape, tuple(uses)))
    return list(zip([*layers, module], slots, strict=True))


def shards_of(slots: Sequence[Slot], compute: torch.dtype | None, ranks: Ranks) -> list[Shard]:
    """One shard for each data type, the frozen parameters in shards of their own."""
    kinds: dict[tuple[torch.dtype, bool], list[Slot]] = {}
    for slot in slots:
        kinds.setdefault((slot.piece.dtype, slot.piece.requires_grad), []).append(slot)
    return [Shard(kind, compute, ranks) for kind in kinds.values()]


def _like(parameter: nn.Parameter, data: torch.Tensor) -> nn.Parameter:
    """A parameter with other data, and with the marks that say how it is split."""
    like = nn.Parameter(data, parameter.requires_grad)
    like.__dict__.update({**parameter.__dict__, **like.__dict__})
    return like


def _become(parameter: nn.Parameter, data: torch.Tensor) -> None:
    """Let a parameter have other data; the object stays, so an optimizer that was made before trains the piece."""
    parameter.grad = None
    if parameter.is_meta:
        torch.utils.swap_tensors(parameter, _like(parameter, data))
    else:
        parameter.data = data
