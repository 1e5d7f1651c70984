"""The cases of exercise 13.3: `train_units(units, shards, sizes, x)` gathers a unit, uses it and frees it.

A unit knows every tensor that it was called with: the storages that are still there at the next call were not freed.
What is gathered ahead shows in the order of messages and calls. Truth is one process with all parameters whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pllab import comm
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_13_ranks import (
    SIZES,
    Seen,
    close,
    judge_weight,
    part_of,
    part_size,
    seen_in,
    without_value,
)
from pllab.lesson.exercises.ranks import Watch

TrainUnits = Callable[..., Any]

_WIDTHS = (8, 7, 9, 8, 5, 6, 8)
_NAME = f"{len(_WIDTHS) - 1} units"
_ROWS = 4
_MOST_WHOLE = 2  # the one in use, and the one before or after it


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
            in_backward = self.gathers - (len(_WIDTHS) - 1)
            self.is_late |= self.reductions < in_backward - _MOST_WHOLE
            self.gathers += 1
        elif message.name in ("reduce_scatter", "all_reduce", "reduce"):
            self.reductions += 1

    def on_call(self, flat: torch.Tensor) -> None:
        """A unit is called: count what is whole."""
        storage = flat.untyped_storage()
        self._known[storage._cdata] = StorageWeakRef(storage)
        self._known = {key: known for key, known in self._known.items() if not known.expired()}
        there = [torch.UntypedStorage._new_with_weak_ptr(known.cdata) for known in self._known.values()]
        self.most_whole = max(self.most_whole, sum(one is not None and one.nbytes() > 0 for one in there))
        self.calls += 1
        self.most_ahead = max(self.most_ahead, self.gathers - self.calls)


class Unit:
    """A layer whose weights come as one flat tensor: `unit(flat, x)`; the last one gives the loss, a number."""

    def __init__(self, number: int, log: Log | None = None) -> None:
        self._from, self._to, self._log = _WIDTHS[number], _WIDTHS[number + 1], log
        self.is_last = number == len(_WIDTHS) - 2
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
def same_loss(train_units: TrainUnits) -> None:
    for size in SIZES:
        losses, _ = _plain(size)
        for rank, one in enumerate(_seen(train_units, size)):
            loss, _ = _result(one, f"In a world of {size}, rank {rank}")
            if not isinstance(loss, float) or abs(loss - losses[rank]) > 1e-5:
                told = f"returned the loss {loss}, and of its own rows it is {losses[rank]:.5f}"
                raise Wrong("other_loss", f"In a world of {size}, rank {rank} {told}.")


@case("and for every unit its part of the gradient's mean over the ranks, padded with zeros")
def same_gradients(train_units: TrainUnits) -> None:
    for size in SIZES:
        _, means = _plain(size)
        for rank, one in enumerate(_seen(train_units, size)):
            where = f"In a world of {size}, rank {rank}"
            _, parts = _result(one, where)
            for number, (mine, mean) in enumerate(zip(parts, means, strict=True)):
                _judge_part(mine, part_of(mean, rank, size), size, f"{where}, unit {number}:")


@case("two units at most are whole when one is called, in forward and in backward")
def few_whole(train_units: TrainUnits) -> None:
    for size in SIZES:
        for rank, one in enumerate(_seen(train_units, size)):
            log, where = one.held[0], f"In a world of {size}, on rank {rank},"
            if log.most_ahead > 1:
                raise Wrong(
                    "gathered_ahead",
                    f"{where} {log.most_ahead} more units were gathered than called: gather a unit when it is its "
                    "turn, or one ahead of it.",
                )
            if log.most_whole > _MOST_WHOLE:
                raise Wrong(
                    "kept_whole",
                    f"{where} {log.most_whole} units were whole at the same time. What holds the others? A list of "
                    "yours, or the graph of a forward that autograd recorded: it keeps the weights for its backward.",
                )


@case("gradients do not wait whole: a unit's are reduced before the backward is two units further")
def reduced_early(train_units: TrainUnits) -> None:
    for size in SIZES:
        for rank, one in enumerate(_seen(train_units, size)):
            log, behind = one.held
            if log.is_late and log.gathers <= 2 * len(behind):  # who gathers more often is told so, by its bytes
                raise Wrong(
                    "late_reduction",
                    f"In a world of {size}, on rank {rank}, units were gathered for backward while the gradients of "
                    "three others or more still waited whole: reduce a unit's gradient as soon as you have it.",
                )
            for number, (mine, most) in enumerate(zip(behind, _part_sizes(size), strict=True)):
                if mine > 4 * most:
                    raise Wrong(
                        "whole_gradient_kept",
                        f"In a world of {size}, on rank {rank}, the part of unit {number} is a view that keeps {mine} "
                        f"bytes alive for its {4 * most}; return a tensor with memory of its own.",
                    )


@case("a rank sends no more than two gathers and one scattered sum of every unit")
def few_bytes(train_units: TrainUnits) -> None:
    for size in (3, 2):
        judge_weight(_seen(train_units, size), sum(_part_sizes(size)), "two gathers and a scattered sum", times=3)


def train_all(watch: Watch, rank: int, world_size: int, train_units: TrainUnits) -> dict[str, Seen]:
    """On every rank: one step; `held` is the log, and the bytes behind every part."""
    log = Log()
    units = [Unit(number, log) for number in range(len(_WIDTHS) - 1)]
    shards = [part_of(whole, rank, world_size) for whole in _wholes()]
    with comm.record_messages(log.on_message):
        one = watch.attempt(train_units, units, shards, [unit.numel for unit in units], _rows(rank))
    behind, result = list[int](), one.value
    if isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], tuple | list):
        loss, parts = result
        behind = [part.untyped_storage().nbytes() for part in parts if isinstance(part, torch.Tensor)]
        told = float(loss) if isinstance(loss, torch.Tensor) and loss.numel() == 1 else loss
        result = (told, [part.detach().clone() if isinstance(part, torch.Tensor) else None for part in parts])
    else:
        result = type(result).__name__
    log._known.clear()
    return {_NAME: Seen(without_value(one), result, (log, behind))}


def _wholes() -> list[torch.Tensor]:
    some = torch.Generator().manual_seed(13)
    return [torch.randn(Unit(number).numel, generator=some) / 2 for number in range(len(_WIDTHS) - 1)]


def _rows(rank: int) -> torch.Tensor:
    return torch.randn(_ROWS, _WIDTHS[0], generator=torch.Generator().manual_seed(rank))


def _part_sizes(size: int) -> list[int]:
    return [part_size(Unit(number).numel, size) for number in range(len(_WIDTHS) - 1)]


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


def _seen(train_units: TrainUnits, size: int) -> list[Seen]:
    return seen_in(train_all, train_units, size, _NAME)


def _result(one: Seen, where: str) -> tuple[Any, Sequence[Any]]:
    if isinstance(one.result, str):
        raise Wrong("no_pair", f"{where} returned {one.result}; return the loss and a list of parts, one for a unit.")
    loss, parts = one.result
    if len(parts) != len(_WIDTHS) - 1:
        raise Wrong("no_pair", f"{where} returned {len(parts)} parts for {len(_WIDTHS) - 1} units.")
    return loss, parts


def _judge_part(mine: Any, right: torch.Tensor, size: int, where: str) -> None:
    if not isinstance(mine, torch.Tensor):
        raise Wrong("no_gradient", f"{where} there is no gradient.")
    if mine.shape != right.shape:
        raise Wrong(
            "other_shape",
            f"{where} the gradient has shape {tuple(mine.shape)}, and this rank's part {tuple(right.shape)}.",
        )
    if close(mine, right):
        return
    if size > 1 and close(mine, right * size):
        raise Wrong("sum_for_mean", f"{where} the gradient is the sum over the ranks; divide by their number.")
    raise Wrong(
        "other_gradient",
        f"{where} the gradient is not the one of a plain backward. A unit needs in backward the weights and the input "
        "of its forward, and the gradient that comes from the unit after it; and every rank's gradient counts.",
    )
