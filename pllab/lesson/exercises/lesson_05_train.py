"""The cases of exercise 05.4: `train(...)` on three ranks, held against one process that takes the same global batches.

Which samples a rank takes, and in which order, is the learner's choice. So every sample carries its number in its
first entry, the model notes the numbers it is called with, and the one process trains on those.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_05_batches import Setting, Steps, judge_count, judge_epoch, judge_epochs, judge_step
from pllab.lesson.exercises.lesson_05_watch import WORLD_SIZE, Attempt, attempt, listed, log_of, run

Train = Callable[..., Any]
Numbers = dict[str, torch.Tensor]

_LR = 0.4
_CLASSES = 5


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


# 29 samples in batches of 12 are three steps with 3 to 6 samples in the last: seven steps are over two epochs.
SETTINGS = {"rows": Setting(24, 4, 3, 6), "ragged": Setting(29, None, 7, 12)}


@dataclass(frozen=True)
class Seen:
    """One rank: what it returned, the samples of its forwards, and its numbers before and after."""

    attempt: Attempt
    returned: Any
    steps: Steps
    before: Numbers
    after: Numbers


def train_on_ranks(rank: int, world_size: int, train: Train, folder: str) -> dict[str, Seen]:
    """Inside a rank: both settings, each with other random numbers and another model than on the other ranks."""
    warm = nn.Parameter(torch.zeros(1))
    torch.optim.SGD([warm], 0.1).step()  # torch imports seconds' worth of itself in the first step of an optimizer
    results = dict[str, Seen]()
    for name, setting in SETTINGS.items():
        torch.manual_seed(100 + rank)
        model = Noting()
        before = _numbers(model)
        arguments = (rank, world_size, model, Samples(setting.number, setting.length))
        steps = (setting.num_steps, setting.batch_size, _LR)
        returned, attempted = attempt(log_of(folder, rank), train, *arguments, *steps)
        results[name] = Seen(attempted, _plain(returned), model.steps, before, _numbers(model))
        if attempted.error:
            break
    return results


def _numbers(model: nn.Module) -> Numbers:
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach().clone() for name, tensor in named}


def _plain(returned: Any) -> Any:
    """The losses as floats, or what came instead, in words."""
    if not isinstance(returned, list | tuple):
        return f"{type(returned).__name__} {returned!r:.40}"
    others = [loss for loss in returned if not isinstance(loss, float)]
    return f"a list with a {type(others[0]).__name__} in it" if others else [float(loss) for loss in returned]


def _seen(name: str, train: Train) -> list[Seen]:
    return run(train_on_ranks, train).of(name)


@case("every rank takes an equal part of each global batch, and together they take every sample once an epoch")
def shared(train: Train) -> None:
    for name, setting in SETTINGS.items():
        seen = _seen(name, train)
        for each in seen:
            judge_count(each.steps, setting)
        for step in range(setting.num_steps):
            judge_step([each.steps[step] for each in seen], step + 1, setting)
        judge_epoch([each.steps for each in seen], setting)
        judge_epochs([each.steps for each in seen], setting)


@case("it returns the loss of every step, the same numbers on all ranks")
def losses_returned(train: Train) -> None:
    for name, setting in SETTINGS.items():
        returned = [each.returned for each in _seen(name, train)]
        for losses in returned:
            if isinstance(losses, str):
                raise Wrong("no_losses", f"It should return a list of {setting.num_steps} floats; it gave {losses}.")
            if len(losses) != setting.num_steps:
                raise Wrong("number_of_losses", f"{setting.num_steps} steps gave {len(losses)} losses.")
        if any(not _near(losses, returned[0]) for losses in returned):
            raise Wrong(
                "own_losses",
                f"The ranks returned other losses ({listed([f'{losses[0]:.3f}' for losses in returned])} for step 1): "
                "each tells of its own share. The loss of the global batch is the mean over the ranks.",
            )


@case("ranks that start from different weights end with equal ones, and what is frozen or skipped stays rank 0's")
def equal_models(train: Train) -> None:
    for name in SETTINGS:
        _judge_equal(_seen(name, train))


@case("losses and weights are those of one process that takes the whole batches with plain SGD")
def equals_one_process(train: Train) -> None:
    for name, setting in SETTINGS.items():
        seen = _seen(name, train)
        batches = [list(chain(*step)) for step in zip(*(each.steps for each in seen), strict=False)]
        for each in seen:
            judge_count(each.steps, setting)
        _judge_equal(seen)
        right = _one_process(seen[0].before, setting, batches)
        if not _same(seen[0].after, right[1]):
            raise _parted(seen, setting, batches, right)
        returned = seen[0].returned
        if isinstance(returned, list) and len(returned) == len(right[0]) and not _near(returned, right[0]):
            raise _other_loss(seen, setting, right[0])


def _judge_equal(seen: list[Seen]) -> None:
    """Whether the ranks end with one model, and if not, why."""
    apart = [key for key in seen[0].after if any(not _close(each.after[key], seen[0].after[key]) for each in seen)]
    if not apart:
        return
    if all(_close(each.after[key], each.before[key]) for each in seen for key in each.after):
        raise Wrong("no_step", "No weight has changed on any rank: nothing was trained, or another model was.")
    moved = [[each.after[key] - each.before[key] for key in apart] for each in seen]
    if apart == ["scale"]:
        raise Wrong("buffers_forgotten", "Each rank still has a scale of its own: it is a buffer, and forward uses it.")
    if set(apart) <= {"fixed.weight", "fixed.bias", "skipped.weight", "skipped.bias", "scale"}:
        raise Wrong("frozen_forgotten", f"{', '.join(apart)} still has another value on each rank.")
    if all(_close(mine, first) for move in moved for mine, first in zip(move, moved[0], strict=True)):
        raise Wrong(
            "own_start",
            "All ranks made the same steps and still have different weights: they started from different ones. "
            "Averaged gradients keep equal models equal; they make none equal.",
        )
    kept = [key for key in ("fixed.weight", "skipped.weight") if key in apart]
    if kept:
        raise Wrong("own_start", f"{kept[0]} is never trained and differs: the ranks did not start from one model.")
    raise Wrong("own_gradients", "The ranks start equal and part: each stepped on a gradient of its own.")


def _one_process(start: Numbers, setting: Setting, batches: Steps, **how: Any) -> tuple[list[float], Numbers]:
    """Losses and weights of one process; `how`: a factor of the gradient, `keep` gradients, momentum."""
    model, data = Noting(), Samples(setting.number, setting.length)
    with torch.no_grad():
        for key, tensor in [*model.named_parameters(), *model.named_buffers()]:
            tensor.copy_(start[key])
    losses, speed = [], {key: torch.zeros_like(p) for key, p in model.named_parameters()}
    for batch in batches:
        if not how.get("keep"):
            model.zero_grad()
        loss = cross_entropy(model(data.x[batch]).flatten(0, -2), data.y[batch].flatten())
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if parameter.grad is not None:
                    speed[key].mul_(how.get("momentum", 0.0)).add_(parameter.grad, alpha=how.get("factor", 1.0))
                    parameter.sub_(speed[key], alpha=_LR)
    return losses, _numbers(model)


def _parted(seen: list[Seen], setting: Setting, batches: Steps, right: tuple[list[float], Numbers]) -> Wrong:
    """Why the weights are not those of one process."""
    after, start = seen[0].after, seen[0].before
    if all(_close(after[key], start[key]) for key in after):
        return Wrong("no_step", "No weight has changed: nothing was trained, or another model was.")
    for rank, each in enumerate(seen[1:], start=1):
        if _same(after, _one_process(each.before, setting, batches)[1]):
            return Wrong("wrong_source", f"All ranks started from the weights of rank {rank}; the source is rank 0.")
    ways: dict[str, tuple[dict[str, Any], str]] = {
        "sum_not_mean": ({"factor": WORLD_SIZE}, f"the gradient is {WORLD_SIZE} times as large: a sum, and no mean"),
        "divided_twice": ({"factor": 1 / WORLD_SIZE}, f"the gradient is divided by {WORLD_SIZE} once too often"),
        "not_zeroed": ({"keep": True}, "the gradients of earlier steps are still in it; they have to be cleared"),
        "momentum": ({"momentum": 0.9}, "it remembers earlier gradients; plain SGD has no momentum"),
    }
    for hint_id, (how, words) in ways.items():
        if _same(after, _one_process(start, setting, batches, **how)[1]):
            return Wrong(hint_id, f"The weights at the end differ from those of one process: {words}.")
    for rank, each in enumerate(seen):
        if _same(after, _one_process(start, setting, each.steps)[1]):
            return Wrong("one_rank_kept", f"All ranks learned from the samples of rank {rank} alone.")
    wrong = [key for key in after if not _close(after[key], right[1][key])]
    return Wrong("parts_from_one_process", f"After {len(batches)} steps {', '.join(wrong)} differs from one process.")


def _other_loss(seen: list[Seen], setting: Setting, right: list[float]) -> Wrong:
    """The weights are right, and the losses are not."""
    losses = seen[0].returned
    if _near(losses, [WORLD_SIZE * loss for loss in right]):
        return Wrong(
            "loss_summed", f"The losses are {WORLD_SIZE} times those of one process: their sum over the ranks."
        )
    if _near(losses[:-1], right[1:]):
        return Wrong("late_loss", "Each loss is that of the next step's: note it before the weights change.")
    step = next(k for k, (mine, its) in enumerate(zip(losses, right, strict=True)) if abs(mine - its) > 1e-4)
    return Wrong(
        "other_loss",
        f"The weights are right and the loss of step {step + 1} of {setting.num_steps} is {losses[step]:.4f}; the mean "
        f"over the global batch is {right[step]:.4f}.",
    )


def _same(mine: Numbers, right: Numbers) -> bool:
    return all(_close(mine[key], right[key]) for key in right)


def _close(mine: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.allclose(mine, right, rtol=1e-3, atol=1e-5)


def _near(mine: Sequence[float], right: Sequence[float]) -> bool:
    return len(mine) == len(right) and all(abs(a - b) <= 1e-4 for a, b in zip(mine, right, strict=True))
