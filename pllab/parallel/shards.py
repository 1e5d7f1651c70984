"""Where the parameters of a sharded model lie: those of a unit side by side in a flat tensor, cut across the ranks.

Drawn, for a unit of a weight of 5 numbers and a bias of 2, on two ranks:

    whole   | w w w w | w b b . |         in memory while the unit computes
    rank 0  | w w w w |                   weight: a piece of 4 numbers, bias: of none
    rank 1            | w b b . |         weight: 1 number, bias: 2, and one of padding

In order: a parameter's piece, the unit of several that is gathered at once, how a model is cut into units, the first
values, and how pieces become a whole again for a checkpoint. `sharded.py` decides when they travel.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import torch
from torch import nn

from pllab import comm
from pllab.arguments import require
from pllab.comm.devices import fork_rng
from pllab.parallel.bucketing import dense
from pllab.parallel.tensor import gather_slices, slice_of, split_of, whole_of

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

Initialise = Callable[[nn.Module], None]


class Piece(NamedTuple):
    """Where the pieces of a parameter are: it begins at `start` of a unit of which every rank has `part` numbers.

    Example: the weight drawn above is `Piece((5,), start=0, part=4)`; rank 1 has its numbers 4 to 5.
    """

    shape: torch.Size
    start: int
    part: int

    def range_of(self, number: int) -> tuple[int, int]:
        """The range of the parameter's numbers that a rank has."""
        edges = (number * self.part - self.start, (number + 1) * self.part - self.start)
        low, high = (min(max(edge, 0), self.shape.numel()) for edge in edges)
        return low, high


class Slot(NamedTuple):
    """A parameter: the object that is this rank's piece of it, its whole shape, and the modules that use it."""

    piece: nn.Parameter
    shape: torch.Size
    places: tuple[tuple[nn.Module, str], ...]


class Unit:
    """The parameters of a layer side by side: this rank's part of them, and room for the whole."""

    def __init__(
        self,
        layer: nn.Module,
        slots: Sequence[Slot],
        compute: torch.dtype | None,
        device: torch.device,
        group: comm.Group | None,
    ) -> None:
        types = {str(slot.piece.dtype).removeprefix("torch.") for slot in slots}
        told = f"a {type(layer).__name__} has parameters of {' and '.join(sorted(types))}, a flat tensor one type"
        require(len(types) < 2, f"{told}; cast the model to one type, or name smaller layers in units")
        own = slots[0].piece.dtype if slots else torch.float32
        sizes = [slot.shape.numel() for slot in slots]
        self._group, self._number, num_ranks = group, comm.rank(group), comm.world_size(group)
        self.layer, self.slots = layer, slots
        self.numel = -(-sum(sizes) // num_ranks)
        self._part = torch.zeros(self.numel, dtype=own, device=device)
        dtype = compute if compute is not None and own.is_floating_point else own
        whole = torch.empty(self.numel * num_ranks, dtype=dtype, device=device)
        self._storage, self._num_bytes = whole.untyped_storage(), whole.untyped_storage().nbytes()
        self.dtype, self.device, self.whole_numel = dtype, device, whole.numel()
        self._sizes = [*sizes, whole.numel() - sum(sizes)]
        for slot in slots:
            is_plain = not hasattr(slot.piece, "piece_of")
            require(is_plain, f"a {type(layer).__name__} is sharded already; use the model as it is")
            slot.piece.was_trained = slot.piece.requires_grad  # type: ignore[attr-defined]  # its wholes are marked too
        self._whole = whole.data  # autograd does not see what is written through it: the values are the same as before
        self.wholes = self._views(whole)
        self.trained = [pair for pair in zip(self.pieces, self.wholes, strict=True) if pair[1].requires_grad]
        self.has_frozen = len(self.trained) < len(slots)
        self.num_missing = 0  # gradients of this backward that are not there yet
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
        """Put these parameters, the pieces or the wholes, into the modules."""
        for slot, parameter in zip(self.slots, parameters, strict=True):
            for module, name in slot.places:
                module._parameters[name] = parameter

    def start_gathering(self) -> None:
        """Make room for the whole and send the message that fills it, unless that is done already."""
        if self._num_bytes and not self.is_allocated:
            self._storage.resize_(self._num_bytes)
            self._pending = comm.all_gather_async(self._whole, self._part.to(self._whole.dtype), self._group)

    def gather(self) -> None:
        """Make the unit whole, unless it is already."""
        self.start_gathering()
        self._wait()

    def free(self) -> None:
        """Free the memory of the whole; its tensors remain, and have their values again when it is gathered."""
        self._wait()
        self._storage.resize_(0)

    def _wait(self) -> None:
        """Wait for a message under way."""
        if self._pending is not None:
            self._pending.wait()
            self._pending = None

    def version(self) -> int:
        """How often the pieces were written to.

        Raises:
            ValueError: one does not lie in this rank's part any more.
        """
        mine = self._part.untyped_storage().data_ptr()
        is_mine = all(piece.untyped_storage().data_ptr() == mine for piece in self.pieces)
        told = "a piece was cast, moved or replaced through .data, which nothing would gather"
        require(is_mine, f"{told}; cast or move the model before it is sharded, and write into pieces in place")
        return sum(piece._version for piece in self.pieces)

    def values(self) -> list[nn.Parameter]:
        """The parameters, whole and in their own type."""
        whole = torch.empty(self.whole_numel, dtype=self._part.dtype, device=self.device)
        if self.slots:
            comm.all_gather_async(whole, self._part, self._group).wait()
        return self._views(whole)

    @torch.no_grad()
    def cut(self, parameters: Sequence[nn.Parameter], are_equal: bool) -> None:
        """Replace every parameter by its piece of this rank's part, with rank 0's values unless all are equal."""
        whole = torch.cat([*(parameter.flatten() for parameter in parameters), self._part.new_zeros(self._sizes[-1])])
        if self.slots and not are_equal:
            comm.broadcast(whole, 0, self._group)
        self._part.copy_(whole[self._number * self.numel :][: self.numel])
        start, taken = 0, 0
        for slot, size in zip(self.slots, self._sizes, strict=False):
            piece = Piece(slot.shape, start, self.numel)
            low, high = piece.range_of(self._number)
            _become(slot.piece, self._part[taken : taken + high - low])
            slot.piece.piece_of = piece  # type: ignore[attr-defined]  # read below and by `norms.py`
            start, taken = start + size, taken + high - low

    def _views(self, whole: torch.Tensor) -> list[nn.Parameter]:
        views = zip(whole.split(self._sizes), self.slots, strict=False)
        return [_like(slot.piece, view.view(slot.shape)) for view, slot in views]

    @torch.no_grad()
    def copy_gradients(self, flat: torch.Tensor) -> None:
        """Copy the whole gradients side by side into a flat tensor, with zeros for missing ones."""
        *views, padding = flat.split(self._sizes)
        padding.zero_()
        for whole, view in zip(self.wholes, views, strict=True):
            view.zero_() if whole.grad is None else view.copy_(dense(whole.grad).flatten())

    def drop_gradients(self) -> None:
        """Free the whole gradients."""
        for whole in self.wholes:
            whole.grad = None

    def add_gradient(self, part: torch.Tensor) -> None:
        """Add this rank's part of the sum over the ranks, as a mean, to the gradients of its trained pieces."""
        part = part.to(self._part.dtype).div_(comm.world_size(self._group))
        start = 0
        for piece in self.pieces:
            added = part[start : start + piece.numel()]
            if piece.requires_grad:
                piece.grad = added if piece.grad is None else piece.grad.add_(added)
            start += piece.numel()


def layers_of_classes(module: nn.Module, classes: Sequence[type[nn.Module]] | None) -> list[nn.Module]:
    """The layers to gather one at a time, none inside another."""
    if classes is None:
        lists = [part for part in module.modules() if isinstance(part, nn.ModuleList)]
        inside = {part for each in lists for part in each.modules() if part is not each}
        longest = max((each for each in lists if each not in inside), key=len, default=())
        return [layer for part in longest for layer in _called(part)]
    found = [part for part in module.modules() if isinstance(part, tuple(classes))]
    for wanted in classes:
        is_there = any(isinstance(part, wanted) for part in found)
        told = f"{type(module).__name__} has no layer of class {wanted.__name__}"
        require(is_there, f"{told}; name its own in units")
    inner = {id(part) for each in found for part in each.modules() if part is not each}
    return [each for each in found if id(each) not in inner]


def _called(layer: nn.Module) -> list[nn.Module]:
    """The layer, or what is called in its place if it has no forward, as a ModuleList has none."""
    if type(layer).forward is not nn.Module.forward:
        return [layer]
    return [inner for part in layer.children() for inner in _called(part)]


def check_parameters(module: nn.Module) -> None:
    """Refuse a module that has got parameters since it was sharded, which would not be trained.

    Raises:
        ValueError: one is no piece and no whole of a unit, or was frozen when the unit was made.
    """
    for name, parameter in module.named_parameters():
        told = f"parameter {name} was added, replaced or unfrozen after sharding, so nothing would train it"
        # A piece and its wholes are marked, anything else is not.
        is_known = getattr(parameter, "was_trained", -1) >= parameter.requires_grad
        require(is_known, f"{told}; change the model first, then shard it")


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


def give_first_values(units: Sequence[Unit], initialise: Initialise | None, group: comm.Group | None) -> None:
    """Give every rank its part of the first values, one unit at a time, and the buffers; the last unit is the root.

    Parameters that are there come from rank 0. Those on the meta device are made here, the same on every rank, so that
    no rank ever holds all of a model and nothing is sent. A group that only counts messages has no values at all.
    """
    root = units[-1].layer
    for buffer in root.buffers():
        comm.broadcast(buffer, 0, group)
    inner = {id(part) for unit in units[:-1] for part in unit.layer.modules()}
    seed = torch.randint(2**62, (), device=comm.readable_device())
    comm.broadcast(seed, 0, group)
    with fork_rng(comm.readable_device()):
        torch.manual_seed(int(seed))  # so that all ranks make the same, and need not send it
        for unit in units:
            parts = [part for part in unit.layer.modules() if unit.layer is not root or id(part) not in inner]
            _make_and_cut(unit, parts, initialise)


def _make_and_cut(unit: Unit, parts: Sequence[nn.Module], initialise: Initialise | None) -> None:
    # Those on the meta device get memory, which `initialise` fills before it is cut.
    real = [_like(p, torch.empty_like(p, device=unit.device)) if p.is_meta else p for p in unit.pieces]
    unit.show(real)
    is_made_here = any(piece.is_meta for piece in unit.pieces)
    for part in reversed(parts if is_made_here and unit.device.type != "meta" else []):
        assert initialise is not None, "a model on the meta device needs initialise= for its first values"
        initialise(part)
    unit.cut(real, are_equal=is_made_here)
    unit.show(unit.pieces)


def _like(parameter: nn.Parameter, data: torch.Tensor) -> nn.Parameter:
    """A parameter with new data, and with the marks that say how it is split."""
    like = nn.Parameter(data, parameter.requires_grad)
    like.__dict__.update({**parameter.__dict__, **like.__dict__})
    return like


def _become(parameter: nn.Parameter, data: torch.Tensor) -> None:
    """Give a parameter new data; the object stays, so an optimizer that was made before trains the piece."""
    parameter.grad = None
    if parameter.is_meta:
        torch.utils.swap_tensors(parameter, _like(parameter, data))
    else:
        parameter.data = data


def is_dtensor(tensor: torch.Tensor) -> "TypeGuard[DTensor]":
    """Whether it is one of PyTorch's DTensors, told without the import of their class, which takes half a second."""
    return hasattr(tensor, "device_mesh")


@torch.no_grad()
def join(parameter: nn.Parameter, part: torch.Tensor, mesh: comm.Mesh | None = None) -> torch.Tensor:
    """The whole tensor of which each rank has a part, cut as this parameter is; all ranks of the mesh call it.

    It works for a parameter and for whatever has its shape, such as its moments in an optimizer, so a checkpoint does
    not depend on how ranks share a model. The marks on a parameter say how it was cut: `split_over` by tensor
    parallelism, `piece_of` by `FullyShardedDataParallel`; DTensors know it.

    Example: with ZeRO on 2 ranks, the parts of a bias of 5 numbers are 4 and 1 long, and both ranks get 5.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    if is_dtensor(part):
        return part.full_tensor()
    piece: Piece | None = getattr(parameter, "piece_of", None)
    if piece is not None:
        group = comm.group_of(mesh, "dp")
        ranges = map(piece.range_of, range(comm.world_size(group)))
        part = gather_slices(part, [high - low for low, high in ranges], 0, group).view(piece.shape)
    split = split_of(parameter)
    return part if split is None else whole_of(part, split, comm.group_of(mesh, "tp"))


@torch.no_grad()
def part_of(parameter: nn.Parameter, whole: torch.Tensor, mesh: comm.Mesh | None = None) -> torch.Tensor:
    """This rank's part of a whole tensor that it has, cut as this parameter is; nothing is sent.

    Raises:
        ValueError: the whole is not of the parameter's shape.
    """
    if is_dtensor(parameter):
        from torch.distributed.tensor import distribute_tensor  # half a second, for those who have DTensors

        return distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
    split, piece = split_of(parameter), getattr(parameter, "piece_of", None)
    if split is not None:
        whole = slice_of(whole, split, comm.group_of(mesh, "tp"))
    expected = parameter.shape if piece is None else piece.shape
    if whole.shape != expected:
        raise ValueError(f"it has shape {tuple(whole.shape)}, not {tuple(expected)}")
    if piece is None:
        return whole
    low, high = piece.range_of(comm.rank(comm.group_of(mesh, "dp")))
    return whole.flatten()[low:high]
