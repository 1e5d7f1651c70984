"""The bench of exercise 09.5: stages that note on which thread their forward and their backward run, and who may meet.

A stage notes its forward when it is called, and its backward by a function of autograd behind its layers, which comes
first in backward. A note may raise, or wait for another stage; no clock is read.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercises.lesson_09_bench import started_threads
from pllab.lesson.exercises.lesson_09_compute import met
from pllab.pipeline import Workers, create_workers

PipeStep = Callable[..., Any]
LossOf = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Note(NamedTuple):
    """A stage's forward or backward: "F" or "B", the stage, the rows of the micro-batch, and the thread it ran on."""

    kind: str
    stage: int
    rows: int
    thread: threading.Thread


class Watch:
    """What was noted, in order; `on_note` sees each note on its thread, as the stage's own code would."""

    def __init__(self, on_note: Callable[[Note], None] = lambda _: None) -> None:
        self.notes: list[Note] = []
        self._on_note = on_note

    def note(self, kind: str, stage: int, rows: int) -> None:
        """Note what the calling thread does."""
        note = Note(kind, stage, rows, threading.current_thread())
        self.notes.append(note)
        self._on_note(note)


class Meeting:
    """Two stages meet, in forward and in backward: each of a pair waits for the other, if a worker runs it.

    The k-th backward of stage 0 meets the one after it of stage 1, whichever order the micro-batches have; in forward
    it is the other way round. The first of the last stage and the last of the first stage have nobody to meet.
    """

    def __init__(self, num_microbatches: int, meeting_s: float) -> None:
        self.alone: set[str] = set()
        self._count: Counter[tuple[str, int]] = Counter()
        self._barriers = {kind: threading.Barrier(2) for kind in "FB"}
        self._last = num_microbatches - 1
        self._caller = threading.current_thread()
        self._meeting_s = meeting_s

    def __call__(self, note: Note) -> None:
        """Wait for the other of the pair, if there is one."""
        number = self._count[note.kind, note.stage]
        self._count[note.kind, note.stage] += 1
        comes_later = note.stage == (0 if note.kind == "F" else 1)  # of the two stages of a pair
        if number == (0 if comes_later else self._last):
            return
        if note.thread is self._caller or not met(self._barriers[note.kind], self._meeting_s):
            self.alone.add(note.kind)


class _Noted(torch.autograd.Function):
    """Pass the value on, and note when the gradient comes back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, watch: Watch, stage: int) -> torch.Tensor:
        ctx.watch, ctx.stage = watch, stage
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        ctx.watch.note("B", ctx.stage, len(grads[0]))
        return grads[0], None, None


class WatchedStage(nn.Module):
    """Layers that note what is done to them."""

    def __init__(self, number: int, layers: nn.Module, watch: Watch) -> None:
        super().__init__()
        self.layers = layers
        self._number = number
        self._watch = watch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers on the micro-batch x (rows, ...)."""
        self._watch.note("F", self._number, len(x))
        result: torch.Tensor = _Noted.apply(self.layers(x), self._watch, self._number)
        return result


class Machine:
    """Workers and watched stages for them, and the student's step called on both."""

    def __init__(self, layers: Sequence[nn.Module], split_size: int, loss_of: LossOf, watch: Watch) -> None:
        self.stages = [WatchedStage(number, stage, watch) for number, stage in enumerate(layers)]
        self.devices = [torch.device("cpu", number) for number in range(len(layers))]
        self.workers: Workers = create_workers(self.devices)
        self.started: list[threading.Thread] = []
        self._split_size = split_size
        self._loss_of = loss_of

    def step(self, pipe_step: PipeStep, batch: torch.Tensor, targets: torch.Tensor) -> Any:
        """One call of the student's function; threads that it starts are noted."""
        ins, outs, _ = self.workers
        with started_threads() as started:
            try:
                return pipe_step(
                    batch, targets, list(self.stages), list(self.devices), ins, outs, self._split_size, self._loss_of
                )
            finally:
                self.started += started

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: object) -> None:
        self.workers.close()
