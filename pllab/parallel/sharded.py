"""Fully sharded data parallel: a rank keeps a slice of every parameter, and gathers a layer only while it computes.

The parameters of a unit (a transformer block) lie side by side in one flat tensor, of which every rank keeps an equal
part: the shard, drawn in `shards.py`. The optimizer sees the pieces of parameters in this rank's shard.

Parameters of no unit, or of several (tied embeddings), belong to the root, which stays whole from the beginning of
forward to the end of backward. `zero` says how much is sharded, in the words of ZeRO:

    zero=1   optimizer state                    gradients reduced once, at the end of backward
    zero=2   and gradients                      a unit's gradients reduced as soon as it has them
    zero=3   and parameters                     a unit whole only while it computes

One rank's step under zero=3, with the messages of one unit (ranks of one host reduce in shared memory):

    forward    gather 0 | 0 | free, gather 1 | 1 | free, gather 2 | 2 |
    backward   | 2 | reduce 2, free, gather 1 | 1 | reduce 1, free, gather 0 | 0 | reduce 0, free

Source: Rajbhandari et al. 2020 (ZeRO); Zhao et al. 2023 (PyTorch FSDP); torch.distributed.fsdp.fully_shard.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_map_only

from pllab import comm
from pllab.arguments import require
from pllab.parallel.averaging import check_same_model
from pllab.parallel.data_parallel import Averaging, tensors_in, weak_hook
from pllab.parallel.shards import Initialise, Unit, check_parameters, give_first_values, layers_of_classes, owned_slots


class FullyShardedDataParallel(Averaging):
    """A data-parallel model whose parameters, gradients and optimizer state are spread over the ranks.

    Example, on every rank, with an ordinary loop:

        model = FullyShardedDataParallel(model, zero=3)
        optimizer = AdamW(model.parameters())      # of this rank's pieces, each 1-D, perhaps empty
        model(input_ids, labels=labels).loss.backward()
        optimizer.step()                           # pieces of the gradient are means over the ranks

    The wrapped model is `.module`; `gathered()` makes it whole. Rank 0's weights are taken. A parameter that no rank
    used keeps `grad = None`. A model on the meta device is made unit by unit, so that no rank ever holds all of it.

    All ranks run the same units in the same order, because messages are paired by their order. Of experts, of which
    each rank may run other ones, name the block around them in `units`. An optimizer sees pieces, so one that looks at
    more than one number at a time (LBFGS, Adafactor, LAMB) takes other steps than with the whole model.

    Args:
        module: the same model on each rank; layers are expected to run in the order of their definition.
        zero: what is sharded, see above.
        units: classes of the layers that are gathered one at a time; by default the children of the longest
            ModuleList outside other lists, and in place of a child that is a list or dict, what is in it.
        mesh: shard over its axis dp; by default over all ranks.
        mixed_precision: the type in which the model computes and gradients travel; shards keep their own.
        initialise: gives the parameters of a module of a model on the meta device their first values; called with each
            module, children first. The random numbers are the same on every rank.
        share_memory: whether gloo ranks of one host sum gradients in shared memory, or always by messages.

    Raises:
        ValueError: zero is none of 1, 2, 3, the ranks have different models, or the module is wrapped already; in
            forward, also if parameters were added, replaced, unfrozen, cast or moved since.

    Source: see above. Lesson 13.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        zero: int = 3,
        units: Sequence[type[nn.Module]] | None = None,
        mesh: comm.Mesh | None = None,
        mixed_precision: torch.dtype | None = None,
        initialise: Initialise | None = None,
        share_memory: bool = True,
    ) -> None:
        super().__init__(module)
        require(zero in (1, 2, 3), f"zero is {zero}; give 1 (optimizer state), 2 (and gradients) or 3 (and parameters)")
        self.zero, self.mixed_precision = zero, mixed_precision
        self._group = group = comm.group_of(mesh, "dp")
        check_same_model(module, group)
        device = next(module.parameters()).device
        self._device = device if device.type != "meta" else comm.own_device()
        owned = owned_slots(module, layers_of_classes(module, units))
        self._all = [Unit(layer, slots, mixed_precision, self._device, group) for layer, slots in owned]
        *self._units, self._root = self._all
        give_first_values(self._all, initialise, group)
        self._sums = _GradientSums(self._all, self._device, group, share_memory)
        where = "in shared memory, as all ranks are on this host" if self._sums.is_shared else "by messages"
        self.reason = f"ZeRO-{zero}: {len(self._units)} units and the root, gradients summed {where}"
        self._is_held = False
        self._is_accumulating = False
        self._versions: list[int] = []
        self.most_gathered = 0
        """The most units besides the root that were whole, or on their way to be, at the same time."""
        for index, unit in enumerate(self._units):
            unit.layer.register_forward_pre_hook(partial(self._before_forward, index))
            unit.layer.register_forward_hook(partial(self._after_forward, index), always_call=True)
        for index, unit in enumerate(self._all):
            for _, whole in unit.trained:
                whole.register_post_accumulate_grad_hook(weak_hook(self._arrived, index))
        self._reset()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the wrapped model on this rank's share of the batch."""
        self._begin()
        self._refresh()
        self._gather(self._root)
        self._root.show(self._root.wholes)
        try:
            result = self.module(*self._cast(args), **self._cast(kwargs))
        finally:
            self._root.show(self._root.wholes if self._is_in_backward else self._root.pieces)
        if not self._watch(result, len(self._units)):
            self._free(self._root)
        return result

    def __reduce_ex__(self, _: Any) -> Any:
        """Refuse copies and pickles, also those of the module, whose hooks lead here: the wholes have no memory."""
        raise ValueError("a sharded model cannot be copied; load gathered().state_dict() into a plain model")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep every unit and its gradients whole inside the block, for several forwards and backwards in any order.

        For stages of a pipeline, of which an executor calls the layers. Example, with zero=1:

            with model.held():              # gathers every unit, then sends nothing
                executor.step(batch, targets)
            model.average_now()             # pieces of the gradients are means over the ranks
        """
        self._begin()
        self._refresh()
        for unit in self._all:
            self._gather(unit)
            unit.show(unit.wholes)
        self._is_held = True
        try:
            with self.no_sync():
                yield
        finally:
            self._is_held = False
            for unit in self._all:
                unit.show(unit.pieces)

    @contextmanager
    def gathered(self) -> Iterator[nn.Module]:
        """Make the model whole inside the block, on every rank, in its own type; changes to it are lost.

        Example: `with model.gathered() as whole: state = whole.state_dict()`; copy what you keep.
        """
        self._refresh()
        for unit in self._all:
            unit.show(unit.values())
        try:
            yield self.module
        finally:
            for unit in self._all:
                unit.show(unit.pieces)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Also what `no_sync` has collected; the `zero_grad` of an optimizer knows the pieces alone."""
        self._begin()
        for unit in self._all:
            unit.drop_gradients()
        super().zero_grad(set_to_none)

    def temporary(self) -> dict[str, list[torch.Tensor]]:
        """What a rank holds for a time besides its pieces: whole parameters, their gradients, and message buffers."""
        wholes = [whole for unit in self._all for whole in unit.wholes]
        grads = [whole.grad for whole in wholes if whole.grad is not None]
        return {"gathered": list[torch.Tensor](wholes), "gradients": grads, "messages": self._sums.messages}

    # Forward: gather before, free after.

    def _refresh(self) -> None:
        """Let every forward gather anew: a step of a fused optimizer or through `.data` leaves no trace in the pieces.

        Between two backwards that add up nothing steps, so units that are whole stay so.
        """
        check_parameters(self.module)
        versions = [unit.version() for unit in self._all]
        if not self._is_accumulating or versions != self._versions:
            for unit in self._all:
                unit.free()
        self._is_accumulating, self._versions = False, versions

    def _gather(self, unit: Unit) -> None:
        unit.gather()
        self._count_gathered()

    def _prefetch(self, index: int) -> None:
        """Start gathering the next unit."""
        for unit in self._units[index : index + 1] if index >= 0 else ():
            unit.start_gathering()
        self._count_gathered()

    def _count_gathered(self) -> None:
        self.most_gathered = max(self.most_gathered, sum(unit.is_allocated for unit in self._units))

    def _free(self, unit: Unit) -> None:
        unit.show(unit.pieces)
        if self.zero == 3:
            unit.free()

    def _before_forward(self, index: int, *_: Any) -> None:
        if self._is_held:
            return
        unit = self._units[index]
        self._gather(unit)
        if not self._is_in_backward:  # where a checkpoint computes it again
            self._prefetch(index + 1)
        unit.show(unit.wholes)

    def _after_forward(self, index: int, _: nn.Module, __: Any, result: Any) -> None:
        if self._is_held:
            return
        unit = self._units[index]
        is_next = self._watch(result, index) and index == len(self._units) - 1  # its backward comes first
        if self._is_in_backward:
            return
        unit.show(unit.pieces)
        if not is_next:
            self._free(unit)

    def _watch(self, result: Any, index: int) -> bool:
        """Call `_before_backward` when the first gradient of a result is known; False if there will be none."""
        found = tensors_in(result, may_be_none=self.zero < 3) if torch.is_grad_enabled() else []
        if tensors := [tensor for tensor in found if tensor.requires_grad]:
            register_multi_grad_hook(tensors, lambda _: self._before_backward(index), mode="any")
        return bool(tensors)

    def _cast(self, value: Any) -> Any:
        if self.mixed_precision is None:
            return value
        return tree_map_only(
            torch.Tensor, lambda leaf: leaf.to(self.mixed_precision) if leaf.is_floating_point() else leaf, value
        )

    # Backward: gather before, reduce and free after.

    def _begin(self) -> None:
        """Forget an unfinished backward and what `no_sync` collected before it: an exception does not affect the next.

        Nothing is forgotten in the middle of a backward, where a checkpoint computes the whole model again.
        """
        if torch._C._current_graph_task_id() != -1:
            return
        if self._is_in_backward:
            self._sums.wait(is_wanted=False)
            for unit in self._all:
                unit.drop_gradients()
                unit.show(unit.pieces)
        self._reset()

    def _reset(self) -> None:
        self._is_in_backward = False
        self._to_reduce = [*self._units[::-1], self._root]
        # Of each piece: whether this rank used it, and whether it had no gradient before.
        self._reduced: list[tuple[nn.Parameter, bool, bool]] = []
        for unit in self._all:
            unit.num_missing = len(unit.trained)

    def _before_backward(self, index: int) -> None:
        is_first_order = self.zero < 3 or not torch.is_grad_enabled()
        require(is_first_order, "zero=3 frees weights that a double backward needs; take zero=1")
        self._enter_backward()
        for unit in self._units[index + 1 :]:  # autograd runs what was made last first, so these are through
            self._free(unit)
        self._gather(unit := self._all[index])
        unit.show(unit.wholes)  # for a checkpoint that computes it again, perhaps without its hooks
        self._prefetch(index - 1)

    def _arrived(self, index: int, _: torch.Tensor) -> None:
        """A gradient is there. After its last one a unit is freed, and reduced if its turn has come."""
        unit = self._all[index]
        unit.num_missing -= 1
        if unit is self._root or unit.num_missing:
            return
        if not (self._is_held or unit.has_frozen):  # no gradient shows that a frozen one is no longer needed
            self._free(unit)
        if self._is_synchronizing and self.zero > 1:
            # Never before an earlier one, because ranks pair messages by their order.
            while self._to_reduce[0] is not self._root and not self._to_reduce[0].num_missing:
                self._reduce_next()

    def _reduce_next(self) -> None:
        """From the last unit to the first, then the root; a frozen one sends nothing."""
        unit = self._to_reduce.pop(0)
        if unit.trained:
            self._reduced += [(piece, whole.grad is not None, piece.grad is None) for piece, whole in unit.trained]
            self._sums.add(unit)

    def _finish(self) -> None:
        """End of backward: reduce what is left, drop the gradients that no rank has, free everything."""
        if self._is_synchronizing:
            while self._to_reduce:
                self._reduce_next()
            self._sums.wait()
            self._drop_unused()
        for unit in self._all:
            self._free(unit)
        self._is_accumulating = not self._is_synchronizing
        self._reset()

    def _drop_unused(self) -> None:
        """Leave parameters that no rank used without a gradient."""
        mine = [is_used for _, is_used, _ in self._reduced]
        used = torch.tensor(mine, dtype=torch.float32, device=self._device)
        comm.all_reduce(used, self._group)
        if all(mine):  # on a GPU the next lines wait
            return
        for (piece, _, was_none), num_users in zip(self._reduced, used.tolist(), strict=True):
            if was_none and not num_users:
                piece.grad = None


class _GradientSums:
    """Sums of gradients over the ranks, one at a time: in shared memory, or by a message for each unit.

    Shared memory is two buffers in turn, so that a rank writes into one while another still reads the other.
    """

    def __init__(
        self, units: Sequence[Unit], device: torch.device, group: comm.Group | None, share_memory: bool
    ) -> None:
        self._group = group
        self._under_way: tuple[Unit, comm.Pending] | None = None
        self.messages: list[torch.Tensor] = []
        """The message buffers in use: the part of a sum and the whole that is summed, if it is not shared."""
        sizes: dict[torch.dtype, int] = {}
        for unit in units if share_memory else ():
            if unit.trained:
                sizes[unit.dtype] = max(sizes.get(unit.dtype, 0), unit.whole_numel)
        self._shared = {
            dtype: [comm.shared_buffer(numel, dtype, device, group) for _ in range(2)] for dtype, numel in sizes.items()
        }
        self.is_shared = any(buffer for pair in self._shared.values() for buffer in pair)

    def add(self, unit: Unit) -> None:
        """Start to sum the gradients of a unit, and drop them."""
        self.wait()  # one at a time bounds the memory
        pair = self._shared.get(unit.dtype, [None])
        pair.reverse()
        buffer, part = pair[0], torch.empty(unit.numel, dtype=unit.dtype, device=unit.device)
        flat = part.new_empty(unit.whole_numel) if buffer is None else buffer.tensor[: unit.whole_numel]
        unit.copy_gradients(flat)
        self.messages = [part, flat] if buffer is None else [part]  # first: whoever hears the message counts its bytes
        if buffer is None:
            pending = comm.reduce_scatter_async(part, flat, self._group)
        else:
            pending = buffer.reduce_scatter_async(part)
        self._under_way = unit, pending
        unit.drop_gradients()

    def wait(self, *, is_wanted: bool = True) -> None:
        """Wait for the sum under way, and add it to the gradients of its pieces, unless its backward has failed."""
        if self._under_way is not None:
            unit, pending = self._under_way
            pending.wait()
            if is_wanted:
                unit.add_gradient(self.messages[0])
            self._under_way, self.messages = None, []
