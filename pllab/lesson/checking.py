"""Check a student's function: ask it in a separate process, and judge its answers.

    the notebook: check, asking            the other process: answering
    packs the function           ->        reads it
    runs the cases: a question   ->        calls the function
    judges                       <-        the answer, as data
    makes the verdict

The function may hang, crash, print or leave threads behind without harm to the notebook's kernel. It is sent as
cloudpickle, because another process cannot import a function of a notebook cell; so it also reaches real ranks. The
process has imported torch already and belongs to the kernel, and so do its ranks: the deadline counts the learner's
work.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pllab.arguments import deadline
from pllab.comm.fork_server import ForkServer, warm_server
from pllab.lesson.asking import Ended, Solution
from pllab.lesson.exercise import Case, Exercise, Refused, Undecided, Wrong, find
from pllab.lesson.keeping import keep
from pllab.lesson.packing import Packed, pack
from pllab.lesson.verdict import Outcome, Verdict

PRELOADED = ("pllab.lesson.answering", "pllab.pipeline", "pllab.parallel")  # with torch and pllab.comm
_MOST_PRINTED = 2000  # bytes of the student's output that a verdict shows


def check(exercise_id: str, solution: Callable[..., Any] | None, *, deadline_s: float | None = None) -> Verdict:
    """Check a solution: not attempted, not yet with hints, or right.

    Example: `check("09.1", make_tasks)` as the last line of a cell shows the verdict under it. A right solution is kept
    in the learner's `my_pllab.py`.

    deadline_s: seconds that all cases together may take; by default the exercise's.

    Raises:
        ValueError: there is no exercise of that number, or the deadline is no number of seconds.
    """
    exercise = find(exercise_id)
    deadline_s = exercise.deadline_s if deadline_s is None else deadline(deadline_s, "deadline_s")
    try:
        packed = pack(solution)
    except Refused as refused:
        return Verdict(exercise=exercise, hint_id=refused.hint_id, hint=refused.sentence)
    with tempfile.TemporaryDirectory(prefix="pllab-check-", ignore_cleanup_errors=True) as folder:
        verdict = judge(exercise, packed, warm_server(*PRELOADED), Path(folder), deadline_s)
    if verdict.outcome is not Outcome.RIGHT:
        return verdict
    return replace(verdict, kept=keep(exercise, solution))


def judge(exercise: Exercise, packed: Packed, server: ForkServer, folder: Path, deadline_s: float) -> Verdict:
    """Judge a solution by its answers, case by case up to the first that fails.

    What fails after that may follow from it, and would name a false cause.

    folder: an empty folder, in which the other process may write.
    """
    package = [f"pllab.{name}" for name in exercise.package]
    server.add(exercise.module, *(name.rpartition(".")[0] for name in package))  # 03.3 and 16.2 import for seconds
    job = {"exercise_id": exercise.id, "file": exercise.module, "package": package, **vars(packed)}
    with tempfile.TemporaryFile() as printed:
        with _as_torch_begins():
            verdict = _judged(exercise, partial(Solution, server, folder, job, printed), deadline_s)
        printed.seek(0)
        return replace(verdict, printed=printed.read(_MOST_PRINTED).decode(errors="replace").strip())


@contextmanager
def _as_torch_begins() -> Iterator[None]:
    """Judge as in a new process; afterwards the notebook's torch settings and the CPU's generator are restored."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with (
            torch.random.fork_rng(devices=[]),
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
            torch.device("cpu"),
        ):
            yield
    finally:
        torch.set_default_dtype(dtype)


def _judged(exercise: Exercise, start: Callable[[], Solution], deadline_s: float) -> Verdict:
    verdict = Verdict(exercise=exercise)
    try:
        with closing(start()) as solution:
            solution.begin(deadline_s)
            for case in exercise.cases:
                verdict = _tested(case, solution, verdict)
                if verdict.hint_id:
                    break
    except Undecided:
        return replace(verdict, is_undecided=True)
    except (Refused, Wrong) as refused:  # not by a case: the whole
        return Verdict(exercise=exercise, hint_id=refused.hint_id, hint=refused.sentence)
    return verdict


def _tested(case: Case, solution: Solution, verdict: Verdict) -> Verdict:
    """The verdict after one more case, which passed, or has its hint and the learner's line."""
    try:
        case.test(solution)
    except Ended as ended:
        hint_id, hint = case.on_hang if case.on_hang and ended.hint_id == "hang" else (ended.hint_id, ended.sentence)
        return replace(verdict, hint_id=hint_id, hint=hint, where=ended.where)
    except Wrong as wrong:
        where = getattr(wrong.__context__, "where", "")
        return replace(verdict, hint_id=wrong.hint_id, hint=wrong.sentence, where=where)
    except Exception as error:
        hint_id, hint = "unusable", f"The check cannot use what your function gave: {error}."
        if shown := getattr(error, "shown", ""):
            hint_id, hint = "raised", f"Your function raised {shown}"
        return replace(verdict, hint_id=hint_id, hint=hint, where=getattr(error, "where", ""))
    return replace(verdict, passed=verdict.passed + 1)
