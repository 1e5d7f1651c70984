"""How many bytes every stage keeps for its backward, over time: the staircase of a schedule in bytes.

A process-wide peak cannot say which stage holds the memory. Autograd can: it passes every tensor it saves through two
hooks, and the hook's result lives as long as autograd needs it. Counting costs little time.
"""

import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle


class SavedBytes:
    """The bytes that `live_saved_bytes` has counted so far; it may be read at any time."""

    def __init__(self, num_stages: int) -> None:
        self._num_stages = num_stages
        # When, by which stage, in which memory, how many bytes, and whether a tensor was saved (+1) or freed (-1). To
        # append is atomic, so workers need no lock.
        self._changes: list[tuple[float, int, int, int, int]] = []

    @property
    def now(self) -> tuple[int, ...]:
        """Bytes held now, per stage."""
        return tuple(steps[-1][1] if (steps := self.over_time(stage)) else 0 for stage in range(self._num_stages))

    @property
    def peak(self) -> tuple[int, ...]:
        """The most bytes held at once, per stage."""
        return tuple(max((held for _, held in self.over_time(stage)), default=0) for stage in range(self._num_stages))

    def over_time(self, stage: int) -> list[tuple[float, int]]:
        """The staircase of one stage: `(seconds, bytes held from then on)`; time starts at the first saved tensor."""
        holders: Counter[int] = Counter()
        held, steps, changes = 0, [], tuple(self._changes)
        for seconds, of, storage, num_bytes, change in changes:
            if of == stage:
                holders[storage] += change
                if holders[storage] == max(change, 0):  # the first holder came, or the last one went
                    held += change * num_bytes
                steps.append((seconds - changes[0][0], held))
        return steps

    def hold(self, stage: int, holder: object, tensor: torch.Tensor) -> None:
        """Count the memory of `tensor` from now until `holder` is gone."""
        storage, num_bytes = _storage(tensor), tensor.untyped_storage().nbytes()
        self._add(stage, storage, num_bytes, +1)
        weakref.finalize(holder, self._add, stage, storage, num_bytes, -1).atexit = False

    def _add(self, stage: int, storage: int, num_bytes: int, change: int) -> None:
        self._changes.append((time.perf_counter(), stage, storage, num_bytes, change))


@contextmanager
def live_saved_bytes(stages: Sequence[nn.Module]) -> Iterator[SavedBytes]:
    """Count the bytes each stage keeps for its backward while the block runs, on any thread.

    Example, two stages under GPipe with 8 micro-batches:

        with live_saved_bytes(stages) as saved, LaneExecutor(gpipe(2, 8), stages, loss) as executor:
            executor.step(x, y)
        saved.peak              # bytes of 8 micro-batches, per stage
        saved.over_time(0)      # [(seconds, bytes), ...]

    It counts the stage's inputs and the tensors that autograd saves in the stage's forward, until each is freed. A
    storage counts once in a stage, and whole, even if several tensors share it or show only a part of it. Parameters,
    buffers and a loss outside the stages do not count.

    Source: `torch.autograd.graph.saved_tensors_hooks`. Lesson 10.
    """
    saved = SavedBytes(len(stages))
    handles = [handle for number, stage in enumerate(stages) for handle in _watch(saved, number, stage)]
    try:
        yield saved
    finally:
        for handle in handles:
            handle.remove()


def _watch(saved: SavedBytes, number: int, stage: nn.Module) -> list[RemovableHandle]:
    """Put the hooks around every forward of one stage, until their handles are removed."""
    running = threading.local()

    def enter(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        weights = {_storage(tensor) for tensor in (*stage.parameters(), *stage.buffers())}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            kept = tensor.detach()  # the tensor itself could keep its own graph alive
            if _storage(tensor) not in weights:
                saved.hold(number, kept, tensor)
            return kept

        for tensor in tree_leaves(inputs):
            if isinstance(tensor, torch.Tensor):
                saved.hold(number, tensor, tensor)
        running.hooks = saved_tensors_hooks(pack, lambda kept: kept)
        running.hooks.__enter__()

    def leave(*_: object) -> None:
        running.hooks.__exit__()

    return [stage.register_forward_pre_hook(enter), stage.register_forward_hook(leave, always_call=True)]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
