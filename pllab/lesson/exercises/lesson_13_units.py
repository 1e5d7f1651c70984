"""The cases of exercise 13.3: `train_units(units, shards, sizes, x)` gathers a unit, uses it and frees it.

A unit knows every tensor that it was called with: the storages that are still there at the next call were not freed.
What is gathered ahead shows in the order of messages and calls. Truth is one process with all parameters whole.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pllab import comm
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.lesson_13_parts import BYTES, judge_weight, part_of, part_size
from pllab.lesson.exercises.ranks import RANKS, SIZES, UP_TO_3, Attempt, Watch
from pllab.lesson.exercises.tensors import compare_tensors, detached, identical
from pllab.lesson.mistakes import Mistake, compare

_WIDTHS = (8, 7, 9, 8, 5, 6, 8)
_NUM_UNITS = len(_WIDTHS) - 1
_NAME = f"{_NUM_UNITS} units"
_ROWS = 4
_MOST_WHOLE = 2  # the one in use, and the one before or after it
_LET_GO_S = 0.5  # gloo's thread lets go of a message's tensors a little after the wait for it has ended


@dataclass
class Log:
    """What happened on a rank: how many messages of both kinds there were at each call, and what was whole then."""

    gathers: int = 0
    reductions: int = 0
    calls: int = 0
    most_whole: int = 0
    most_ahead: int = 0
    is_late: bool = False
    _known: dict[int, StorageWeakRef] = field(default_factory=dict)

    def on_message(self, message: comm.Message) -> None:
        """Before a message is sent."""
        if message.name == "all_gather":
            in_backward = self.gathers - _NUM_UNITS
            self.is_late |= self.reductions < in_backward - _MOST_WHOLE
            self.gathers += 1
        elif message.name in ("reduce_scatter", "all_reduce", "reduce"):
            self.reductions += 1

    def on_call(self, flat: torch.Tensor) -> None:
        """A unit is called: count what is whole."""
        storage = flat.untyped_storage()
        self._known[storage._cdata] = StorageWeakRef(storage)
        until = time.monotonic() + _LET_GO_S
        while (num_whole := self._num_whole()) > _MOST_WHOLE >= self.most_whole and time.monotonic() < until:
            time.sleep(0.001)
        self.most_whole = max(self.most_whole, num_whole)
        self.calls += 1
        self.most_ahead = max(self.most_ahead, self.gathers - self.calls)

    def _num_whole(self) -> int:
        """Forget the storages that are gone, and count those of the others that hold memory."""
        self._known = {key: known for key, known in self._known.items() if not known.expired()}
        there = [torch.UntypedStorage._new_with_weak_ptr(known.cdata) for known in self._known.values()]
        return sum(one is not None and one.nbytes() > 0 for one in there)


class Unit:
    """A layer whose weights come as one flat tensor: `unit(flat, x)`; the last one gives the loss, a number."""

    def __init__(self, number: int, log: Log | None = None) -> None:
        self._from, self._to, self._log = _WIDTHS[number], _WIDTHS[number + 1], log
        self.is_last = number == _NUM_UNITS - 1
        self.numel = self._from * self._to + self._to

    def __call__(self, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """(numel,), (rows, width) -> (rows, next width), or () of the last unit."""
        if flat.shape != (self.numel,):
            raise ValueError(f"a unit of {self.numel} numbers was given {tuple(flat.shape)}; cut the padding off")
        if self._log is not None:
            self._log.on_call(flat)
        weight, bias = flat.split([self._from * self._to, self._to])
        y = torch.tanh(x @ weight.view(self._from, self._to) + bias)
        return y.square().mean() if self.is_last else y


@case("every rank returns its own loss")
def same_loss(train_units: Function) -> None:
    compare(
        lambda size, rank: _returned(train_units, size, rank)[0],
        RANKS,
        lambda size, rank: _plain(size)[0][rank],
        asked="the loss in a world of {} on rank {}",
        same=lambda loss, right: isinstance(loss, float) and abs(loss - right) < 1e-5,
        show=lambda loss: f"{loss:.6g}" if isinstance(loss, float) else f"{loss!r:.60}",
    )


@case("for every unit it returns its part of the gradient's mean over the ranks, padded with zeros")
def same_gradients(train_units: Function) -> None:
    def mean(number: int, size: int, rank: int) -> torch.Tensor:
        return part_of(_plain(size)[1][number], rank, size)

    summed = "That is the sum over the ranks: divide by their number."
    compare_tensors(
        lambda number, size, rank: _returned(train_units, size, rank)[1][number],
        [(number, *place) for number in range(_NUM_UNITS) for place in RANKS],
        mean,
        [Mistake("sum_for_mean", summed, like=lambda number, size, rank: size * mean(number, size, rank))],
        asked="the gradient of unit {} in a world of {} on rank {}",
    )


@case("at most two units are whole when one is called, in forward and in backward")
def few_whole(train_units: Function) -> None:
    for size, rank in RANKS:
        log, where = _seen(train_units, size)[rank].value[2], f"In a world of {size}, on rank {rank},"
        if log.most_ahead > 1:
            told = f"{where} {log.most_ahead} more units were gathered than called"
            raise Wrong("gathered_ahead", f"{told}: gather at most one ahead of its turn.")
        if log.most_whole > _MOST_WHOLE:
            told = f"{where} {log.most_whole} units were whole at the same time. What holds the others? A list of yours"
            raise Wrong("kept_whole", f"{told}, or the graph of a forward that autograd recorded.")


@case("gradients are not held whole: a unit's are reduced before the backward is two units further")
def reduced_early(train_units: Function) -> None:
    for size, rank in RANKS:
        _, _, log, behind, _ = _seen(train_units, size)[rank].value
        where = f"In a world of {size}, on rank {rank},"
        if log.is_late and log.gathers <= 2 * _NUM_UNITS:  # who gathers more often is told so, by its bytes
            told = f"{where} the gradients of three or more units were whole at once"
            raise Wrong("late_reduction", f"{told}: reduce each as soon as you have it.")
        for number, held in enumerate(behind):
            most = BYTES * part_size(Unit(number).numel, size)
            if held > most:
                shown = f"{where} part {number} is a view: {most} bytes keep {held} alive"
                raise Wrong("whole_gradient_kept", f"{shown}. Put it into new memory.")


@case("a rank sends no more than two gathers and one scattered sum of every unit")
def few_bytes(train_units: Function) -> None:
    for size in SIZES[1:]:
        parts = sum(part_size(Unit(number).numel, size) for number in range(_NUM_UNITS))
        judge_weight(_seen(train_units, size), parts, "two gathers and a scattered sum", times=3)


def train_all(watch: Watch, rank: int, world_size: int, train_units: Function) -> dict[str, Attempt]:
    """On every rank, one step: the loss, the parts, the log, and the bytes behind every part."""
    log = Log()
    units = [Unit(number, log) for number in range(_NUM_UNITS)]
    shards, rights = ([part_of(whole, rank, world_size) for whole in _wholes()] for _ in range(2))
    with comm.record_messages(log.on_message):
        one = watch.attempt(train_units, units, shards, [unit.numel for unit in units], _rows(rank))
    log._known.clear()
    is_kept = len(shards) == len(rights) and all(map(identical, shards, rights))
    try:
        loss, parts = one.value
        parts = list(parts)
    except (TypeError, ValueError):
        return {_NAME: one.holding(f"{one.value!r:.60}")}
    behind = [part.untyped_storage().nbytes() if isinstance(part, torch.Tensor) else 0 for part in parts]
    loss = loss.item() if isinstance(loss, torch.Tensor) and loss.numel() == 1 else loss
    return {_NAME: one.holding((loss, [detached(part) for part in parts], log, behind, is_kept))}


def _wholes() -> list[torch.Tensor]:
    some = torch.Generator().manual_seed(13)
    return [torch.randn(Unit(number).numel, generator=some) / 2 for number in range(_NUM_UNITS)]


def _rows(rank: int) -> torch.Tensor:
    return torch.randn(_ROWS, _WIDTHS[0], generator=torch.Generator().manual_seed(rank))


def _plain(size: int) -> tuple[list[float], list[torch.Tensor]]:
    """One process, all whole: the loss of each rank's rows, and the mean over the ranks of every unit's gradient."""
    wholes = [whole.requires_grad_() for whole in _wholes()]
    losses = []
    for rank in range(size):
        x = _rows(rank)
        for number, whole in enumerate(wholes):
            x = Unit(number)(whole, x)
        losses.append(x.item())
        (x / size).backward()
    return losses, [whole.grad for whole in wholes if whole.grad is not None]


def _seen(train_units: Function, size: int) -> list[Attempt]:
    return seen_in_call(train_all, train_units, UP_TO_3, size, _NAME)


def _returned(train_units: Function, size: int, rank: int) -> tuple[Any, list[Any]]:
    """The loss and the parts, of which there are as many as units."""
    told, where = _seen(train_units, size)[rank].value, f"In a world of {size}, rank {rank}"
    if isinstance(told, str):
        raise Wrong("no_pair", f"{where} returned {told}; return the loss and a list of parts, one for a unit.")
    if len(told[1]) != _NUM_UNITS:
        raise Wrong("no_pair", f"{where} returned {len(told[1])} parts for {_NUM_UNITS} units.")
    if not told[4]:
        raise Wrong("wrong", f"{where} changed its shards; they are the weights of the next step.")
    return told[0], told[1]
