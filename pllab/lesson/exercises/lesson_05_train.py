"""The cases of exercise 05.4: `train(...)` on three ranks, held against one process that takes the same global batches.

Which samples a rank takes, and in which order, is the learner's choice. So every sample carries its number in its
first entry, the model notes the numbers it is called with, and the one process trains on those.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from math import isclose
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import close, compare_tensors, numbers_of, sgd_step, told
from pllab.lesson.mistakes import Mistake, compare

Numbers = dict[str, torch.Tensor]
Steps = list[list[int]]  # the numbers of the samples in each forward

_SIZE = 3
_PLAN = ((1, 1, 1), (_SIZE,))  # each process alone at first, to get ready
_LR = 0.4
_CLASSES = 5


@dataclass(frozen=True)
class Setting:
    """What one training is asked for; samples, their length, steps and global batch."""

    number: int
    length: int | None
    num_steps: int
    batch_size: int

    def __str__(self) -> str:
        return f"{self.number} samples, num_steps={self.num_steps} and batch_size={self.batch_size}"


# 29 samples in batches of 12 are three steps with 3 to 6 samples in the last: seven steps are over two epochs.
_SETTINGS = (Setting(24, 4, 3, 6), Setting(29, None, 7, 12))
_NEVER_TRAINED = ("fixed.weight", "fixed.bias", "skipped.weight", "skipped.bias", "scale")


class Samples:
    """A data set: sample i is (x, y), and x begins with i; `length` is None where y is one class and no row of them."""

    def __init__(self, number: int, length: int | None) -> None:
        generator = torch.Generator().manual_seed(number)
        shape = () if length is None else (length,)
        self.x = torch.randn(number, *shape, 4, generator=generator)
        self.x[..., 0] = torch.arange(number).reshape(number, *[1 for _ in shape])
        self.y = torch.randint(_CLASSES, (number, *shape), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= index < len(self.x):
            raise IndexError(f"sample {index} of {len(self.x)}")
        return self.x[index], self.y[index]


class Noting(nn.Module):
    """Logits (batch, ..., 5), with a layer that forward skips, a frozen one, and a buffer that forward needs."""

    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.skipped = nn.Linear(2, 2)
        self.inner = nn.Linear(3, 8)
        self.fixed = nn.Linear(8, 8).requires_grad_(False)
        self.head = nn.Linear(8, _CLASSES)
        self.register_buffer("scale", torch.rand(8) + 0.5, persistent=False)
        self.steps: Steps = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Note who is in the batch, unless it is only looked at."""
        if torch.is_grad_enabled():
            self.steps.append([int(number) for number in x[..., 0].reshape(len(x), -1)[:, 0]])
        logits: torch.Tensor = self.head(torch.tanh(self.fixed(self.inner(x[..., 1:]) * self.scale)))
        return logits


@dataclass(frozen=True)
class Seen:
    """One rank: what it returned, the samples of its forwards, and its numbers before and after."""

    returned: Any
    steps: Steps
    before: Numbers
    after: Numbers


@until_one_fails
def train_on_ranks(watch: Watch, rank: int, world_size: int, train: Function) -> Calls:
    """On every rank: both settings, each with other random numbers and another model than on the other ranks."""
    if world_size == 1:
        unused = nn.Parameter(torch.zeros(1))
        torch.optim.SGD([unused], 0.1).step()  # torch imports seconds' worth of itself in an optimizer's first step
        return
    for setting in _SETTINGS:
        torch.manual_seed(100 + rank)
        model = Noting()
        before = numbers_of(model)
        arguments = (rank, world_size, model, Samples(setting.number, setting.length))
        attempt = watch.attempt(train, *arguments, setting.num_steps, setting.batch_size, _LR)
        yield str(setting), attempt.holding(Seen(_plain(attempt.value), model.steps, before, numbers_of(model)))


def _plain(returned: Any) -> Any:
    """The losses as floats, or what came instead, in words."""
    if not isinstance(returned, list | tuple):
        return f"{type(returned).__name__} {returned!r:.40}"
    others = [loss for loss in returned if not isinstance(loss, float)]
    return f"a list with a {type(others[0]).__name__} in it" if others else [float(loss) for loss in returned]


def _seen(train: Function, setting: Setting) -> list[Seen]:
    return [one.value for one in seen_in_call(train_on_ranks, train, _PLAN, _SIZE, str(setting))]


@case("every rank takes an equal part of each global batch, and together they take every sample once an epoch")
def shared(train: Function) -> None:
    for setting in _SETTINGS:
        _judge_samples([each.steps for each in _seen(train, setting)], setting)


def _judge_samples(steps: Sequence[Steps], setting: Setting) -> None:
    """Refuse samples, of all ranks in all steps, that are too many, too few, or not those that are asked for."""
    for rank, of_rank in enumerate(steps):
        if len(of_rank) != setting.num_steps:
            shown = f"With {setting}, rank {rank} called the model {len(of_rank)} times; right is {setting.num_steps}"
            raise Wrong("number_of_steps", f"{shown}, one call a step. After the last sample a new epoch begins.")
    for number, parts in enumerate(zip(*steps, strict=True), start=1):
        _judge_step(parts, number, setting)
    _judge_epochs([list(chain(*parts)) for parts in zip(*steps, strict=True)], setting, len(steps))


def _judge_step(parts: Sequence[list[int]], number: int, setting: Setting) -> None:
    sizes, last = [len(part) for part in parts], setting.number % setting.batch_size
    is_equal = len(set(sizes)) == 1
    is_whole = sum(sizes) == setting.batch_size or (last and 0 < sum(sizes) < setting.batch_size)
    has_shares = not all(sorted(part) == sorted(parts[0]) for part in parts)
    if not (is_equal and is_whole and has_shares):
        took = ", ".join(f"rank {rank} took {len(part)} samples {part[:3]}" for rank, part in enumerate(parts))
        shown = f"With {setting}, in step {number} {took} (the first three of each)"
        raise Wrong("shares", f"{shown}. Right is a third of the global batch on each rank, and other samples on each.")


def _judge_epochs(batches: Steps, setting: Setting, world_size: int) -> None:
    """Some cut into epochs leaves out or repeats fewer than a world of samples in each."""
    reached = _cut(batches, Counter(), setting.number, world_size)
    if reached < len(batches):
        times = Counter(chain(*batches[: reached + 1]))
        fewest, *_, most = sorted(range(setting.number), key=times.__getitem__)
        shown = f"up to step {reached + 1} sample {most} came {times[most]} times, and sample {fewest} {times[fewest]}"
        why = f"An epoch takes every sample once, but for fewer than {world_size}; then the next one begins."
        raise Wrong("epochs", f"With {setting}, {shown}. {why}")


def _cut(batches: Steps, taken: Counter[int], number: int, world_size: int) -> int:
    """How many of these steps fit into epochs, the first of which has taken some samples already."""
    if not batches or taken.total() - len(taken) >= world_size:
        return 0 if not batches else -1
    first, rest = batches[0], batches[1:]
    longer, ends = taken + Counter(first), [0]
    if longer.total() - len(longer) < world_size:
        ends.append(1 + _cut(rest, longer, number, world_size))
    if taken and number - len(taken) < world_size:  # a new epoch begins with this step
        ends.append(1 + _cut(rest, Counter(first), number, world_size))
    fresh = [sample for sample in first if not taken[sample]]
    if taken and fresh and number - len(taken) - len(fresh) < world_size:  # or within it
        ends.append(1 + _cut(rest, Counter(first) - Counter(fresh), number, world_size))
    return max(ends)


@case("it returns the loss of every step, the same numbers on all ranks")
def losses_returned(train: Function) -> None:
    for setting in _SETTINGS:
        returned = [each.returned for each in _seen(train, setting)]
        for losses in returned:
            if isinstance(losses, str) or len(losses) != setting.num_steps:
                what = losses if isinstance(losses, str) else f"{len(losses)} losses"
                raise Wrong("no_losses", f"With {setting} you returned {what}; right is a list of floats, one a step.")
        for step, losses in enumerate(zip(*returned, strict=True), start=1):
            if any(not _near(loss, losses[0]) for loss in losses):
                said = ", ".join(f"{loss:.4f}" for loss in losses)
                shown = f"With {setting}, the ranks returned {said} for step {step}"
                raise Wrong("own_losses", f"{shown}; right is the global batch's mean.")


@case("ranks that start from different weights end with equal ones, and frozen or skipped weights stay those of rank 0")
def equal_models(train: Function) -> None:
    for setting in _SETTINGS:
        seen = _seen(train, setting)
        for key in (*_NEVER_TRAINED, *seen[0].after):  # the start shows best where nothing is trained
            for rank, each in enumerate(seen):
                if _same(each.after[key], seen[0].after[key]):
                    continue
                ends = f"{key} on rank {rank} ends with {told(each.after[key], seen[0].after[key])}, as on rank 0"
                if key in _NEVER_TRAINED:
                    raise Wrong("own_start", f"{ends}. Training leaves it alone: start with rank 0's numbers.")
                raise Wrong("wrong", f"{ends}. The ranks started equal and then diverged.")


@case("losses and weights are those of one process that takes the whole batches with plain SGD")
def equals_one_process(train: Function) -> None:
    seen = {setting: _seen(train, setting) for setting in _SETTINGS}

    @cache
    def one_process(setting: Setting, **how: float) -> tuple[list[float], Numbers]:
        batches = [list(chain(*parts)) for parts in zip(*(each.steps for each in seen[setting]), strict=True)]
        return _one_process(setting, seen[setting][0].before, batches, **how)

    mistakes = [
        Mistake(
            "sum_not_mean",
            f"A gradient {_SIZE} times as large gives this, such as a sum over the ranks.",
            like=lambda key, setting: one_process(setting, factor=_SIZE)[1][key],
        ),
        Mistake(
            "not_zeroed",
            "Gradients kept from earlier steps give this; clear them before each backward.",
            like=lambda key, setting: one_process(setting, kept=1.0)[1][key],
        ),
    ]
    compare_tensors(
        lambda key, setting: seen[setting][0].after[key],
        [(key, setting) for setting in _SETTINGS for key in seen[setting][0].after],
        lambda key, setting: one_process(setting)[1][key],
        mistakes,
        asked="{} after training with {}",
        same=_same,
    )
    compare(
        lambda step, setting: seen[setting][0].returned[step - 1],
        [(step, setting) for setting in _SETTINGS for step in range(1, setting.num_steps + 1)],
        lambda step, setting: one_process(setting)[0][step - 1],
        asked="the loss of step {} with {}",
        same=_near,
    )


def _one_process(
    setting: Setting, start: Numbers, batches: Steps, factor: float = 1.0, kept: float = 0.0
) -> tuple[list[float], Numbers]:
    """Losses and weights of one process; `kept` is the part of the last step's gradient that is in the next one."""
    model, data, losses = Noting(), Samples(setting.number, setting.length), []
    with torch.no_grad():
        for key, tensor in [*model.named_parameters(), *model.named_buffers()]:
            tensor.copy_(start[key])
    for batch in batches:
        loss = cross_entropy(model(data.x[batch]).flatten(0, -2), data.y[batch].flatten())
        loss.backward()
        losses.append(loss.item())
        sgd_step(model.parameters(), _LR * factor)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad *= kept
    return losses, numbers_of(model)


_same = partial(close, rtol=1e-3, atol=1e-5)
_near = partial(isclose, rel_tol=0.0, abs_tol=1e-4)
