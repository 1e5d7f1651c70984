"""The cases of exercise 09.5: `pipe_step`, forward and backward of a whole batch on the workers.

Its arguments are `(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of)`.

Values are held against the plain model. Stages note on which thread they run: a forward when it is called, a backward
when the gradient of its output is there. That two stages run at the same time is shown by a meeting: two that each wait
for the other. What sees a note may raise, or wait for another stage; no clock is read.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercise import Asked, Function, Wrong, case
from pllab.lesson.exercises import lesson_09_bench as bench
from pllab.lesson.mistakes import retold
from pllab.pipeline import Task, create_workers

LossOf = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# Rows, split_size, stages: ragged and even, one micro-batch, fewer micro-batches than stages, one stage.
_SHAPES = [(7, 3, 2), (8, 2, 2), (5, 1, 3), (3, 2, 3), (4, 9, 2), (1, 1, 2), (6, 4, 1), (11, 2, 1), (7, 6, 4)]

LOST = (
    "hang",
    "Your function waits for a result that never comes: for each task given out take one result from the queue of the "
    "same worker, and let no task wait for one that stands behind it in its own queue.",
)


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
    gradients: bench.Gradients
    notes: list[Note]
    num_started: int


class Step:
    """In the process of the function: workers and watched stages for one step or several.

    `on_note` sees each note on its thread, as the stage's own code would.
    """

    def __init__(self, pipe_step: Function, setup: Setup, on_note: Callable[[Note], None] = lambda _: None) -> None:
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
        note = Note(kind, stage, number, num_rows, bench.place_here(self.workers.threads, self._caller))
        self._notes.append(note)
        self._on_note(note)

    def ran(self) -> Ran:
        """Call the step once, with no gradients and no notes left from before."""
        self._model.zero_grad()
        self._notes.clear()
        ins, outs, _ = self.workers
        with bench.started_threads() as started:
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


def _judge_values(asked: str, setup: Setup, ran: Ran) -> None:
    """Compare loss and gradients with those of one process that has the whole batch."""
    model, batch, targets, loss_of = setup.made()
    loss = loss_of(model(batch), targets)
    loss.backward()
    bench.judge_loss(asked, ran.result, loss.item())
    bench.judge_gradients(asked, ran.gradients, {name: weight.grad for name, weight in model.named_parameters()})


@case("micro-batches have split_size rows; the loss and the gradients are those of the whole batch", on_hang=LOST)
def values(pipe_step: Asked) -> None:
    for setup in (Setup(*shape) for shape in _SHAPES):
        ran: Ran = pipe_step.inside(ran_step, setup)
        got = [note.num_rows for note in ran.notes if (note.kind, note.stage) == ("F", 0)]
        right = [len(piece) for piece in torch.arange(setup.num_rows).split(setup.split_size)]
        if sorted(got[: len(right)]) != sorted(right):
            raise Wrong("wrong", f"For {setup} the first stage got micro-batches of {got} rows; right is {right}.")
        _judge_values(f"For {setup}", setup, ran)


def ran_step(pipe_step: Function, setup: Setup, grad_off: bool = False) -> Ran:
    """In the process of the function: one step, on workers in which an evaluation may have left grad mode off."""
    with Step(pipe_step, setup) as step:
        for ins, outs, _ in zip(*step.workers, strict=True):
            ins.put(Task(partial(torch.set_grad_enabled, not grad_off)))
            outs.get()
        return step.ran()


@case("forward and backward of each stage run on its own worker, and no call starts a thread", on_hang=LOST)
def threads(pipe_step: Asked) -> None:
    ran: Ran = pipe_step.inside(ran_step, Setup(6, 2, 3))
    backward = [note for note in ran.notes if note.kind == "B"]
    if not backward:
        raise Wrong("wrong", "No backward of a stage ran; a step is forward and backward of every micro-batch.")
    if any(note.place == bench.CALLER for note in backward):
        told = "Backward ran on the caller's own thread: autograd runs a graph on the thread that calls backward"
        why = "Call each stage's backward in a task of its own worker, on a graph that ends where the stage begins."
        raise Wrong("main_thread", f"{told}. {why}")
    names = {"F": "Forward", "B": "Backward"}
    bench.judge_threads(ran.num_started, [(names[note.kind], note.stage, note.place) for note in ran.notes])


@case("two stages run forward at the same time, and two run backward at the same time (they meet)", on_hang=LOST)
def together(pipe_step: Asked) -> None:
    kinds, alone = pipe_step.inside(ran_together, bench.MEETING_S)
    if "B" in kinds[: 4 * 2]:  # a stage may run forward again in backward
        raise Wrong("wrong", "A backward ran before the last forward; here all forwards come first, as in GPipe.")
    for kind, name in (("F", "forward"), ("B", "backward")):
        if kind in alone:
            told = f"Two stages never ran {name} at the same time: one waited for the other, not given out yet"
            why = f"In {name}, too, give out all tasks of a cycle before you wait for the first result."
            raise Wrong("sequential", f"{told}. {why}")


def ran_together(pipe_step: Function, meeting_s: float) -> tuple[list[str], set[str]]:
    """In the process of the function: the order of forwards and backwards, and in which of both a stage was alone.

    Of two stages each waits for the other, if a worker runs it. The k-th backward of stage 0 meets the one after it of
    stage 1, whichever order the micro-batches have; in forward it is the other way round. The first of the last stage
    and the last of the first stage have nobody to meet.
    """
    alone: set[str] = set()
    barriers = {kind: threading.Barrier(2) for kind in "FB"}

    def meet(note: Note) -> None:
        comes_later = note.stage == (0 if note.kind == "F" else 1)  # of the two stages of a pair
        has_other = note.number != (0 if comes_later else 3)
        if has_other and (note.place == bench.CALLER or not bench.met(barriers[note.kind], meeting_s)):
            alone.add(note.kind)

    with Step(pipe_step, Setup(8, 2, 2), meet) as step:
        return [note.kind for note in step.ran().notes], alone


@case("gradients are right even if a worker's grad mode was left off", on_hang=LOST)
def grad_mode(pipe_step: Asked) -> None:
    setup = Setup(*_SHAPES[0])  # which came out right with grad mode on
    try:
        _judge_values(f"For {setup}", setup, pipe_step.inside(ran_step, setup, True))
    except (Wrong, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "grad" not in str(error):
            raise
        told = "Grad mode belongs to a thread, and here an evaluation had left it off in the workers"
        why = "their forward made no graph. Switch it on inside the task, where the stage is called."
        raise Wrong("grad_mode", f"{told}: {why}") from None


@case("token numbers go in as they are, and a weight of two stages gets the gradients of both", on_hang=LOST)
def shared_weight(pipe_step: Asked) -> None:
    setup = Setup(7, 2, 3, shared=True)
    asked = "Where the first and the last stage share a weight, which gets the gradients of both,"
    _judge_values(asked, setup, pipe_step.inside(ran_step, setup))


@case("an exception in a worker, in backward too, reaches the caller; the next step is right again", on_hang=LOST)
def exceptions(pipe_step: Asked) -> None:
    """One of these answers is the first of its cycle that is taken."""
    setup = Setup(6, 2, 2)
    for kind, name in (("F", "Forward"), ("B", "Backward")):
        for stage in (0, 1):
            failed: bench.Failed = pipe_step.inside(failed_and_gone_on, setup, kind, stage)
            bench.judge_failed(f"{name} of stage {stage}", failed)
            with retold("stale_result", "Start every step afresh."):
                _judge_values("After a step in which a stage raised,", setup, failed.next)


def failed_and_gone_on(pipe_step: Function, setup: Setup, kind: str, stage: int) -> bench.Failed:
    """In the process of the function: a step in which a stage fails with its second micro-batch, and the one after it.

    The other stage works meanwhile, and is late.
    """
    is_over = threading.Event()
    late_number = 0 if stage == "FB".index(kind) else 2  # a stage is one micro-batch behind the one before it

    def fail(note: Note) -> None:
        if is_over.is_set():
            return
        if note[:3] == (kind, stage, 1):
            bench.burst()
        if note[:3] == (kind, 1 - stage, late_number):
            is_over.wait(timeout=bench.LATE_S)

    with Step(pipe_step, setup, fail) as step:
        return bench.fail_and_go_on(step.ran, is_over, step.workers)
