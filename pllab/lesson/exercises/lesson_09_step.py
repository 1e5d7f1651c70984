"""The cases of exercise 09.5: `pipe_step`, forward and backward of a whole batch on the workers.

Its arguments are `(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of)`.

Values are held against the plain model. That backward runs on the workers is read off the threads it ran on, and that
two stages run it at the same time is shown by a meeting: two stages that each wait for the other.
"""

import threading
from functools import partial

import torch

from pllab.lesson.exercise import Asked, Wrong, case
from pllab.lesson.exercises import lesson_09_bench as bench
from pllab.lesson.exercises import lesson_09_compute
from pllab.lesson.exercises.lesson_09_cut import judge_gradients, judge_loss
from pllab.lesson.exercises.lesson_09_watch import Note, PipeStep, Ran, Setup, Step
from pllab.pipeline import Task

# Rows, split_size, stages: ragged and even, one micro-batch, fewer micro-batches than stages, one stage.
_SHAPES = [(7, 3, 2), (8, 2, 2), (5, 1, 3), (3, 2, 3), (4, 9, 2), (1, 1, 2), (6, 4, 1), (11, 2, 1), (7, 6, 4)]

LOST = (
    "hang",
    "Your function waits for a result that never comes: for each task given out take one result from the queue of the "
    "same worker, and let no task wait for one that stands behind it in its own queue.",
)


def _judge_values(asked: str, setup: Setup, ran: Ran) -> None:
    """Compare loss and gradients with those of one process that has the whole batch."""
    model, batch, targets, loss_of = setup.made()
    loss = loss_of(model(batch), targets)
    loss.backward()
    judge_loss(asked, ran.result, loss.item())
    judge_gradients(asked, ran.gradients, {name: weight.grad for name, weight in model.named_parameters()})


@case("micro-batches have split_size rows; the loss and the gradients are those of the whole batch", on_hang=LOST)
def values(pipe_step: Asked) -> None:
    for setup in (Setup(*shape) for shape in _SHAPES):
        ran: Ran = pipe_step.inside(ran_step, setup)
        got = [note.num_rows for note in ran.notes if (note.kind, note.stage) == ("F", 0)]
        right = [len(piece) for piece in torch.arange(setup.num_rows).split(setup.split_size)]
        if sorted(got[: len(right)]) != sorted(right):
            raise Wrong("wrong", f"For {setup} the first stage got micro-batches of {got} rows; right is {right}.")
        _judge_values(f"For {setup}", setup, ran)


def ran_step(pipe_step: PipeStep, setup: Setup, grad_off: bool = False) -> Ran:
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
        raise Wrong(
            "main_thread",
            "Backward ran on the caller's own thread. Autograd runs a graph on the thread that calls backward, whoever "
            "ran the forward; so each stage's backward must be called in a task of its own worker, on a graph that "
            "ends where the stage begins.",
        )
    names = {"F": "Forward", "B": "Backward"}
    bench.judge_threads(ran.num_started, [(names[note.kind], note.stage, note.place) for note in ran.notes])


@case("two stages run forward at the same time, and two run backward at the same time (they meet)", on_hang=LOST)
def together(pipe_step: Asked) -> None:
    kinds, alone = pipe_step.inside(ran_together, lesson_09_compute.MEETING_S)
    if alone and "F" in kinds[kinds.index("B") :]:
        raise Wrong("wrong", "A backward ran before the last forward; here all forwards come first, as in GPipe.")
    for kind, name in (("F", "forward"), ("B", "backward")):
        if kind in alone:
            raise Wrong(
                "sequential",
                f"Two stages never ran {name} at the same time: one waited for the other, which had not been given "
                f"out yet. In {name}, too, give out all tasks of a cycle before you wait for the first result.",
            )


def ran_together(pipe_step: PipeStep, meeting_s: float) -> tuple[list[str], set[str]]:
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


@case("gradients come out right where a worker's grad mode was left off", on_hang=LOST)
def grad_mode(pipe_step: Asked) -> None:
    setup = Setup(*_SHAPES[0])  # which came out right with grad mode on
    try:
        _judge_values(f"For {setup}", setup, pipe_step.inside(ran_step, setup, True))
    except (Wrong, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "grad" not in str(error):
            raise
        raise Wrong(
            "grad_mode",
            "Grad mode belongs to a thread, and here an evaluation had left it off in the workers: their forward made "
            "no graph. Switch it on inside the task, where the stage is called.",
        ) from None


@case("token numbers go in as they are, and a weight of two stages gets the gradients of both", on_hang=LOST)
def shared_weight(pipe_step: Asked) -> None:
    setup = Setup(7, 2, 3, shared=True)
    asked = "Where the first and the last stage share a weight, which gets the gradients of both,"
    _judge_values(asked, setup, pipe_step.inside(ran_step, setup))


@case("an exception of a worker, also in backward, reaches the caller; the next step is right again", on_hang=LOST)
def exceptions(pipe_step: Asked) -> None:
    """One of these answers is the first of its cycle that is taken."""
    setup = Setup(6, 2, 2)
    for kind, name in (("F", "Forward"), ("B", "Backward")):
        for stage in (0, 1):
            failed: bench.Failed = pipe_step.inside(failed_and_gone_on, setup, kind, stage)
            bench.judge_failed(f"{name} of stage {stage}", failed)
            try:
                _judge_values("After a step in which a stage raised,", setup, failed.next)
            except Wrong as wrong:
                raise Wrong("stale_result", f"{wrong.sentence} Begin every step afresh.") from None


def failed_and_gone_on(pipe_step: PipeStep, setup: Setup, kind: str, stage: int) -> bench.Failed:
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
