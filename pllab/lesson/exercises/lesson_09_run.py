"""One run of exercise 09.5: the student's step on workers, and the same step in one process.

Gradients that differ are compared with those of well-known mistakes, so that the hint can name the mistake.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_09_compute import place_of
from pllab.lesson.exercises.lesson_09_watch import LossOf, Machine, Meeting, PipeStep, Watch
from pllab.pipeline import Task as WorkerTask


class Plain(NamedTuple):
    """The same step in one process: the model with its data, the loss, and the gradients."""

    model: nn.Sequential
    batch: torch.Tensor
    targets: torch.Tensor
    loss_of: LossOf
    loss: float
    gradients: list[torch.Tensor]

    def gradients_of_mistakes(self, split_size: int) -> dict[str, list[torch.Tensor]]:
        """By hint: the gradients that well-known mistakes give."""
        pieces = list(zip(self.batch.split(split_size), self.targets.split(split_size), strict=True))
        shares = {
            "mean_of_means": [1 / len(pieces)] * len(pieces),
            "summed": [1.0] * len(pieces),
            "last_only": [0.0] * (len(pieces) - 1) + [len(pieces[-1][0]) / len(self.batch)],
        }
        found = {}
        for hint_id, weights in shares.items():
            for share, (x, y) in zip(weights, pieces, strict=True):
                (share * self.loss_of(self.model(x), y)).backward()
            found[hint_id] = _take_gradients(self.model)
        return found


class Task(NamedTuple):
    """What a step is asked for; `shared` is the model of token numbers whose first and last stage share a weight."""

    num_rows: int
    split_size: int
    num_stages: int
    shared: bool = False

    def made(self) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor, LossOf]:
        """The model, batch, targets and loss: the same in every process."""
        if self.shared:
            return *_shared_weight(), _cross_entropy
        return _model(self.num_stages), *_data(self.num_rows), nn.functional.mse_loss


def plain_step(task: Task) -> Plain:
    """One process with the whole batch."""
    model, batch, targets, loss_of = task.made()
    loss = loss_of(model(batch), targets)
    loss.backward()
    return Plain(model, batch, targets, loss_of, loss.item(), _take_gradients(model))


class Ran(NamedTuple):
    """What a step returned and left: notes are (kind, stage, rows, place of the thread)."""

    result: Any
    gradients: list[torch.Tensor | None]
    notes: list[tuple[str, int, int, int]]
    num_started: int
    alone: set[str] = set()

    def of(self, kind: str) -> list[tuple[str, int, int, int]]:
        """What was noted of forward, "F", or of backward, "B"."""
        return [note for note in self.notes if note[0] == kind]


class Step:
    """In the process of the function: workers and watched stages for one step or several."""

    def __init__(self, pipe_step: PipeStep, task: Task, watch: Watch | None = None) -> None:
        self.watch = watch or Watch()
        self.model, self._batch, self._targets, loss_of = task.made()
        self.machine = Machine(list(self.model), task.split_size, loss_of, self.watch)
        self._pipe_step = pipe_step

    def leave_grad_off(self) -> None:
        """As an evaluation may have left the workers."""
        for ins, outs in zip(*self.machine.workers[:2], strict=True):
            ins.put(WorkerTask(partial(torch.set_grad_enabled, False)))
            outs.get()

    def ran(self) -> Ran:
        """Call the step once."""
        result = self.machine.step(self._pipe_step, self._batch, self._targets)
        workers = self.machine.workers.threads
        notes = [(note.kind, note.stage, note.rows, place_of(note.thread, workers)) for note in self.watch.notes]
        gradients = [weight.grad for weight in self.model.parameters()]
        return Ran(result, gradients, notes, len(self.machine.started))


def ran_step(pipe_step: PipeStep, task: Task, grad_off: bool = False) -> Ran:
    """In the process of the function: one step."""
    step = Step(pipe_step, task)
    with step.machine:
        if grad_off:
            step.leave_grad_off()
        return step.ran()


def ran_together(pipe_step: PipeStep, meeting_s: float) -> Ran:
    """In the process of the function: one step whose stages meet, in forward and in backward."""
    meeting = Meeting(4, meeting_s)
    step = Step(pipe_step, Task(8, 2, 2), Watch(meeting))
    with step.machine:
        return step.ran()._replace(alone=meeting.alone)


_MISTAKES = {
    "mean_of_means": "They are those of the mean of the micro-batches' means: a smaller micro-batch counts too much. "
    "Each loss counts as its rows do in the batch.",
    "summed": "They are those of the sum of the micro-batches' losses. Each of these is a mean over its own rows, and "
    "counts as its rows do in the batch.",
    "last_only": "They are those of the last micro-batch alone; backward adds to what is there, and nothing must clear "
    "it on the way.",
}


def judge_gradients(
    plain: Plain, mine: Sequence[torch.Tensor | None], mistakes: dict[str, list[torch.Tensor]], hint_id: str = ""
) -> None:
    """Refuse gradients that are not the right ones; `mistakes` has those of known mistakes by hint."""
    names, right = [name for name, _ in plain.model.named_parameters()], plain.gradients
    for name, gradient in zip(names, mine, strict=True):
        if gradient is None:
            raise Wrong(
                "no_gradient",
                f"Weight {name} got no gradient. Backward of a stage ends at its input, so the gradient found there "
                "must start the backward of the stage before it.",
            )
    got = [gradient for gradient in mine if gradient is not None]
    if _same(got, right):
        return
    for mistake, grads in mistakes.items():
        if _same(got, grads):
            raise Wrong(mistake, f"The gradients are not the plain model's. {_MISTAKES[mistake]}")
    name = next(n for n, one, other in zip(names, got, right, strict=True) if not _same([one], [other]))
    if hint_id == "shared_weight" and name == names[0]:
        raise Wrong(
            hint_id,
            f"Weight {name} is in the first stage and in the last, and its gradient is not the sum of both: add to "
            "what is there, as backward does, where you set a gradient yourself.",
        )
    raise Wrong("wrong_gradient", f"The gradient of weight {name} is not the plain model's.")


def _same(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return all(torch.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in zip(some, others, strict=True))


def _take_gradients(model: nn.Module) -> list[torch.Tensor]:
    grads = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
    model.zero_grad()
    return grads


def _model(num_stages: int) -> nn.Sequential:
    generator = torch.Generator().manual_seed(num_stages)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(num_stages)))
    for weight in model.parameters():
        nn.init.normal_(weight, generator=generator)
    return model


def _data(num_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    batch, targets = torch.randn(2, num_rows, 3, generator=torch.Generator().manual_seed(num_rows)).unbind()
    return batch, targets


def _shared_weight() -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    torch.manual_seed(9)
    embedding, head = nn.Embedding(11, 4), nn.Linear(4, 11, bias=False)
    head.weight = embedding.weight
    tokens, targets = torch.randint(11, (2, 7, 3)).unbind()
    return nn.Sequential(embedding, nn.Sequential(nn.Linear(4, 4), nn.Tanh()), head), tokens, targets


def _cross_entropy(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())
