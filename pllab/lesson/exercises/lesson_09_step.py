"""The cases of exercise 09.5: `pipe_step`, forward and backward of a whole batch on the workers.

Its arguments are `(batch, targets, partitions, devices, in_queues, out_queues, split_size, loss_of)`.

Values are held against the plain model. That backward runs on the workers is read off the threads it ran on, and that
two stages run it at the same time is shown by a meeting: two stages that each wait for the other.
"""

import threading
import traceback
from collections import Counter
from collections.abc import Sequence

import torch

from pllab.lesson.exercise import Asked, Wrong, case
from pllab.lesson.exercises import lesson_09_compute
from pllab.lesson.exercises.lesson_09_bench import judge_leftovers
from pllab.lesson.exercises.lesson_09_compute import CALLER
from pllab.lesson.exercises.lesson_09_cut import judge_loss
from pllab.lesson.exercises.lesson_09_run import Ran, Step, Task, judge_gradients, plain_step, ran_step, ran_together
from pllab.lesson.exercises.lesson_09_watch import Note, PipeStep, Watch

# Rows, split_size, stages: ragged and even, one micro-batch, fewer micro-batches than stages, one stage.
_SHAPES = [(7, 3, 2), (8, 2, 2), (5, 1, 3), (3, 2, 3), (4, 9, 2), (1, 1, 2), (6, 4, 1), (11, 2, 1), (7, 6, 4)]

LOST = (
    "hang",
    "Your function waits for a result that never comes: for each task given out take one result from the queue of the "
    "same worker, and let no task wait for one that stands behind it in its own queue.",
)


@case("split_size is the number of rows of a micro-batch, and the loss is that of the whole batch", on_hang=LOST)
def loss(pipe_step: Asked) -> None:
    for shape in _SHAPES:
        task = Task(*shape)
        ran: Ran = pipe_step.inside(ran_step, task)
        got = [rows for _, stage, rows, _ in ran.of("F") if stage == 0]
        right = [len(piece) for piece in torch.arange(task.num_rows).split(task.split_size)]
        if sorted(got[: len(right)]) != sorted(right):
            asked = f"A batch of {task.num_rows} rows with split_size {task.split_size}"
            by_count = [len(piece) for piece in torch.arange(task.num_rows).chunk(task.split_size)]
            raise Wrong(
                "size_as_count" if got == by_count else "wrong_rows",
                f"{asked} came to the first stage in pieces of {got} rows instead of {right}: split_size is the number "
                "of rows of a micro-batch.",
            )
        judge_loss(ran.result, plain_step(task).loss)


@case("the gradients equal the plain model's, also where the last micro-batch is smaller", on_hang=LOST)
def gradients(pipe_step: Asked) -> None:
    for shape in _SHAPES:
        task = Task(*shape)
        ran, plain = pipe_step.inside(ran_step, task), plain_step(task)
        judge_gradients(plain, ran.gradients, plain.gradients_of_mistakes(task.split_size))


@case("forward and backward of each stage run on the worker of its device, and no call starts a thread", on_hang=LOST)
def threads(pipe_step: Asked) -> None:
    ran: Ran = pipe_step.inside(ran_step, Task(6, 2, 3))
    if ran.num_started:
        raise Wrong("threads_per_call", "Your function started threads of its own; the workers are there already.")
    _judge_backward([(stage, place) for _, stage, _, place in ran.of("B")])
    for _, stage, _, place in ran.of("F"):
        if place == CALLER:
            raise Wrong("no_workers", f"Forward of stage {stage} ran on the caller's own thread; a worker must run it.")
        if place != stage:
            raise Wrong("wrong_worker", f"Forward of stage {stage} ran on another stage's worker.")


@case("two stages run forward at the same time, and two run backward at the same time (they meet)", on_hang=LOST)
def together(pipe_step: Asked) -> None:
    ran: Ran = pipe_step.inside(ran_together, lesson_09_compute.MEETING_S)
    if not ran.of("B") or any(place == CALLER for *_, place in ran.of("B")):
        raise Wrong("main_thread", _MAIN_THREAD)
    kinds = [kind for kind, *_ in ran.notes]
    if ran.alone and "F" in kinds[kinds.index("B") :]:
        raise Wrong("not_gpipe", "A backward ran before the last forward; here all forwards come first, as in GPipe.")
    for kind, name in (("F", "forward"), ("B", "backward")):
        if kind in ran.alone:
            raise Wrong(
                f"sequential_{name}",
                f"Two stages never ran {name} at the same time: one waited for the other, which had not been given "
                f"out yet. In {name}, too, give out all tasks of a cycle before you wait for the first result.",
            )


@case("gradients come out right where a worker's grad mode was left off", on_hang=LOST)
def grad_mode(pipe_step: Asked) -> None:
    task = Task(5, 2, 2)
    try:
        judge_gradients(plain_step(task), pipe_step.inside(ran_step, task, True).gradients, {})
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
    task = Task(7, 2, 3, shared=True)
    judge_gradients(plain_step(task), pipe_step.inside(ran_step, task).gradients, {}, "shared_weight")


@case("an exception of a worker reaches the caller with its traceback, also one in backward", on_hang=LOST)
def exceptions(pipe_step: Asked) -> None:
    for kind, stage in _FAILURES:
        pipe_step.inside(raises_in_a_stage, kind, stage)


def raises_in_a_stage(pipe_step: PipeStep, kind: str, stage: int) -> None:
    """In the process of the function: what the caller of a step gets whose stage raises."""
    name = "forward" if kind == "F" else "backward"
    step = Step(pipe_step, Task(6, 2, 2), Watch(_Failure(kind, stage)))
    try:
        with step.machine:
            step.ran()
    except _Burst as error:
        if "_explode" not in _frames(error):
            raise Wrong(
                "lost_traceback",
                f"The exception of a stage's {name} came back without the line that raised it; the third part of "
                "what the worker sent is the traceback.",
            ) from None
    except Exception as error:
        raise Wrong(
            "wrong_exception",
            f"A stage's {name} raised {_Burst(name)!r} and the caller got {error!r}; raise the worker's own.",
        ) from None
    else:
        raise Wrong("swallowed", f"A stage raised in its {name} and your function returned as if nothing had happened.")


@case("after an exception the next step is right again", on_hang=LOST)
def after_exception(pipe_step: Asked) -> None:
    plain = plain_step(Task(6, 2, 2))
    for kind, stage in _FAILURES:
        try:
            ran: Ran = pipe_step.inside(failed_and_gone_on, kind, stage)
            judge_loss(ran.result, plain.loss)
            judge_gradients(plain, ran.gradients, {})
        except (Wrong, KeyError, TypeError, RuntimeError) as error:
            if isinstance(error, Wrong) and error.hint_id in _LEFT_BEHIND:
                raise
            told = error.sentence if isinstance(error, Wrong) else getattr(error, "shown", repr(error))
            raise Wrong(
                "stale_result",
                f"After an exception the next step, in which no stage fails, went wrong: {told} Begin every step "
                "afresh.",
            ) from None


_LEFT_BEHIND = ("stale_result", "dead_worker", "old_failure")


def failed_and_gone_on(pipe_step: PipeStep, kind: str, stage: int) -> Ran:
    """In the process of the function: the step after one that failed."""
    failure = _Failure(kind, stage)
    step = Step(pipe_step, Task(6, 2, 2), Watch(failure))
    with step.machine:
        try:
            step.ran()
        except Exception:
            pass  # expected; another case judges it
        finally:
            failure.is_over.set()
        judge_leftovers(step.machine.workers)
        step.model.zero_grad()
        try:
            return step.ran()
        except _Burst:
            raise Wrong(
                "old_failure",
                "This was the next step, in which no stage fails, and your function raised the exception of the step "
                "before: a failure belongs to one call and must be forgotten after it.",
            ) from None


_MAIN_THREAD = (
    "Backward ran on the caller's own thread. Autograd runs a graph on the thread that calls backward, whoever ran "
    "the forward; so each stage's backward must be called in a task of its own worker, on a graph that ends where "
    "the stage begins."
)


def _judge_backward(ran: Sequence[tuple[int, int]]) -> None:
    if not ran:
        raise Wrong("no_backward", "No backward ran: the step is forward and backward of every micro-batch.")
    if any(place == CALLER for _, place in ran):
        raise Wrong("main_thread", _MAIN_THREAD)
    if len({place for _, place in ran}) == 1:
        raise Wrong(
            "whole_graph",
            "All stages ran backward on one worker: a graph that goes through several stages runs whole on the thread "
            "that calls backward. Cut it: each stage begins with a value that has no history.",
        )
    for stage, place in ran:
        if place != stage:
            raise Wrong("wrong_worker", f"Backward of stage {stage} ran on another stage's worker.")


class _Burst(Exception):
    """Raised by a stage on purpose."""


# Forward or backward, and the stage that fails in it: one of these answers is the first of its cycle that is taken.
_FAILURES = [(kind, stage) for kind in "FB" for stage in (0, 1)]
# Seconds that the other stage takes longer than the one that fails, unless the step is given up before.
_LATE_S = 0.3


class _Failure:
    """A stage of two fails with its second micro-batch, while the other one works and is late, until it is over."""

    def __init__(self, kind: str, stage: int) -> None:
        self.is_over = threading.Event()
        self._fails, self._late = (kind, stage), (kind, 1 - stage)
        comes_first = stage == (0 if kind == "F" else 1)
        self._late_number = 1 if comes_first else 3  # a stage is one micro-batch behind the one before it
        self._count: Counter[tuple[str, int]] = Counter()

    def __call__(self, note: Note) -> None:
        """Raise, or wait, if it is this one's turn."""
        if self.is_over.is_set():
            return
        one = note.kind, note.stage
        self._count[one] += 1
        if one == self._fails and self._count[one] == 2:
            _explode(note)
        if one == self._late and self._count[one] == self._late_number:
            self.is_over.wait(timeout=_LATE_S)


def _explode(note: Note) -> None:
    raise _Burst(f"stage {note.stage} failed on purpose")


def _frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
