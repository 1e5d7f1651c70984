"""The bench of exercise 09.5: workers, and stages that note on which thread their forward and their backward run.

A stage notes its forward when it is called, and its backward when the gradient of its output is there. What sees a note
may raise, or wait for another stage; no clock is read.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercises.lesson_09_bench import place_here, started_threads
from pllab.lesson.exercises.lesson_09_cut import Gradients
from pllab.pipeline import create_workers

PipeStep = Callable[..., Any]
LossOf = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Setup(NamedTuple):
    """What a step is asked for; `shared` is the model of token numbers whose first and last stage share a weight."""

    num_rows: int
    split_size: int
    num_stages: int
    shared: bool = False

    def __str__(self) -> str:
        return f"len(batch) = {self.num_rows}, split_size = {self.split_size} and {self.num_stages} partitions"

    def made(self) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor, LossOf]:
        """The model, batch, targets and loss: the same in every process."""
        if self.shared:
            return _tokens()
        generator = torch.Generator().manual_seed(self.num_stages)
        model = nn.Sequential(*(nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(self.num_stages)))
        for weight in model.parameters():
            nn.init.normal_(weight, generator=generator)
        data = torch.randn(2, self.num_rows, 3, generator=torch.Generator().manual_seed(self.num_rows))
        return model, data[0], data[1], nn.functional.mse_loss


def _tokens() -> tuple[nn.Sequential, torch.Tensor, torch.Tensor, LossOf]:
    def loss_of(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())

    torch.manual_seed(9)
    embedding, head = nn.Embedding(11, 4), nn.Linear(4, 11, bias=False)
    head.weight = embedding.weight
    tokens, targets = torch.randint(11, (2, 7, 3)).unbind()
    return nn.Sequential(embedding, nn.Sequential(nn.Linear(4, 4), nn.Tanh()), head), tokens, targets, loss_of


class Note(NamedTuple):
    """A stage's forward or backward: "F" or "B", the stage, how many it did before, the rows, and where it ran."""

    kind: str
    stage: int
    number: int
    num_rows: int
    place: int


class Ran(NamedTuple):
    """What a step returned and left."""

    result: Any
    gradients: Gradients
    notes: list[Note]
    num_started: int


class Step:
    """In the process of the function: workers and watched stages for one step or several.

    `on_note` sees each note on its thread, as the stage's own code would.
    """

    def __init__(self, pipe_step: PipeStep, setup: Setup, on_note: Callable[[Note], None] = lambda _: None) -> None:
        self._pipe_step, self._split_size = pipe_step, setup.split_size
        self._model, self._batch, self._targets, self._loss_of = setup.made()
        self._caller, self._notes, self._on_note = threading.current_thread(), list[Note](), on_note
        self._stages = [_WatchedStage(layers, partial(self._note, stage)) for stage, layers in enumerate(self._model)]
        self._devices = [torch.device("cpu", stage) for stage in range(len(self._model))]
        self.workers = create_workers(self._devices)

    def __enter__(self) -> "Step":
        return self

    def __exit__(self, *_: object) -> None:
        self.workers.close()

    def _note(self, stage: int, kind: str, num_rows: int) -> None:
        number = sum((note.kind, note.stage) == (kind, stage) for note in self._notes)
        note = Note(kind, stage, number, num_rows, place_here(self.workers.threads, self._caller))
        self._notes.append(note)
        self._on_note(note)

    def ran(self) -> Ran:
        """Call the step once, with no gradients and no notes left from before."""
        self._model.zero_grad()
        self._notes.clear()
        ins, outs, _ = self.workers
        with started_threads() as started:
            result = self._pipe_step(
                self._batch, self._targets, self._stages, self._devices, ins, outs, self._split_size, self._loss_of
            )
        gradients = {name: weight.grad for name, weight in self._model.named_parameters()}
        return Ran(result, gradients, list(self._notes), len(started))


class _WatchedStage(nn.Module):
    """Layers that note what is done to them."""

    def __init__(self, layers: nn.Module, note: Callable[[str, int], None]) -> None:
        super().__init__()
        self.layers, self._note = layers, note

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers on the micro-batch x (rows, ...)."""
        self._note("F", len(x))
        output: torch.Tensor = self.layers(x)
        if output.requires_grad:
            output.register_hook(lambda gradient: self._note("B", len(gradient)))
        return output
