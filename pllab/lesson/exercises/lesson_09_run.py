"""One run of exercise 09.5: a model, a batch, the plain gradients and loss, and the student's step on workers.

Gradients that differ are compared with those of well-known mistakes, so that the hint can name the mistake.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_09_watch import LossOf, Machine, Note, PipeStep, Watch
from pllab.pipeline import Task


class Run:
    """One step of the student's, beside the plain one; with `grad_off`, in workers whose grad mode is off."""

    def __init__(
        self,
        pipe_step: PipeStep,
        num_rows: int,
        split_size: int,
        num_stages: int,
        watch: Watch | None = None,
        *,
        model: nn.Sequential | None = None,
        data: tuple[torch.Tensor, torch.Tensor] | None = None,
        loss_of: LossOf = nn.functional.mse_loss,
        grad_off: bool = False,
        call: bool = True,
    ) -> None:
        self.watch = watch or Watch()
        self.model = model or _model(num_stages)
        self._pipe_step, self._split_size, self._loss_of = pipe_step, split_size, loss_of
        self.batch, self.targets = data or _data(num_rows)
        plain = loss_of(self.model(self.batch), self.targets)
        plain.backward()
        self.plain_loss, self.plain_grads = plain.item(), _take_grads(self.model)
        self.machine = Machine(list(self.model), split_size, loss_of, self.watch)
        self.result: Any = None
        if grad_off:
            for ins, outs in zip(*self.machine.workers[:2], strict=True):
                ins.put(Task(partial(torch.set_grad_enabled, False)))
                outs.get()
        if call:
            with self.machine:
                self.call()

    def call(self) -> None:
        """Call the student's step once."""
        self.result = self.machine.step(self._pipe_step, self.batch, self.targets)

    def notes(self, kind: str) -> list[Note]:
        """What was noted of forward, "F", or of backward, "B"."""
        return [note for note in self.watch.notes if note.kind == kind]

    def grads_of_mistakes(self) -> dict[str, list[torch.Tensor]]:
        """By hint: the gradients that well-known mistakes give."""
        pieces = list(zip(self.batch.split(self._split_size), self.targets.split(self._split_size), strict=True))
        shares = {
            "mean_of_means": [1 / len(pieces)] * len(pieces),
            "summed": [1.0] * len(pieces),
            "last_only": [0.0] * (len(pieces) - 1) + [len(pieces[-1][0]) / len(self.batch)],
        }
        grads, kept = {}, [weight.grad for weight in self.model.parameters()]
        for hint_id, weights in shares.items():
            self.model.zero_grad()
            for share, (x, y) in zip(weights, pieces, strict=True):
                (share * self._loss_of(nn.Sequential.forward(self.model, x), y)).backward()
            grads[hint_id] = _take_grads(self.model)
        for weight, grad in zip(self.model.parameters(), kept, strict=True):
            weight.grad = grad
        return grads


_MISTAKES = {
    "mean_of_means": "They are those of the mean of the micro-batches' means: a smaller micro-batch counts too much. "
    "Each loss counts as its rows do in the batch.",
    "summed": "They are those of the sum of the micro-batches' losses. Each of these is a mean over its own rows, and "
    "counts as its rows do in the batch.",
    "last_only": "They are those of the last micro-batch alone; backward adds to what is there, and nothing must clear "
    "it on the way.",
}


def judge_gradients(
    model: nn.Module, right: Sequence[torch.Tensor], mistakes: dict[str, list[torch.Tensor]], hint_id: str = ""
) -> None:
    """Refuse gradients that are not the right ones; `mistakes` has those of known mistakes by hint."""
    weights = dict(model.named_parameters())
    for name, weight in weights.items():
        if weight.grad is None:
            raise Wrong(
                "no_gradient",
                f"Weight {name} got no gradient. Backward of a stage ends at its input, so the gradient found there "
                "must start the backward of the stage before it.",
            )
    got = [weight.grad for weight in weights.values() if weight.grad is not None]
    if _same(got, right):
        return
    for mistake, grads in mistakes.items():
        if _same(got, grads):
            raise Wrong(mistake, f"The gradients are not the plain model's. {_MISTAKES[mistake]}")
    name = next(n for n, mine, theirs in zip(weights, got, right, strict=True) if not _same([mine], [theirs]))
    if hint_id == "shared_weight" and name == next(iter(weights)):
        raise Wrong(
            hint_id,
            f"Weight {name} is in the first stage and in the last, and its gradient is not the sum of both: add to "
            "what is there, as backward does, where you set a gradient yourself.",
        )
    raise Wrong("wrong_gradient", f"The gradient of weight {name} is not the plain model's.")


def _same(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return all(torch.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in zip(some, others, strict=True))


def _take_grads(model: nn.Module) -> list[torch.Tensor]:
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
