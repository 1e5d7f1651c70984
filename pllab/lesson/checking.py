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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pllab.arguments import deadline
from pllab.comm.fork_server import warm_server
from pllab.lesson.asking import judge
from pllab.lesson.exercise import Refused, find
from pllab.lesson.keeping import keep
from pllab.lesson.packing import pack
from pllab.lesson.verdict import Outcome, Verdict, refusal

PRELOADED = ("pllab.lesson.answering", "pllab.pipeline", "pllab.parallel")  # with torch and pllab.comm


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
        return refusal(exercise, refused.hint_id, refused.sentence)
    with tempfile.TemporaryDirectory(prefix="pllab-check-", ignore_cleanup_errors=True) as folder:
        verdict = judge(exercise, packed, warm_server(*PRELOADED), Path(folder), deadline_s)
    if verdict.outcome is not Outcome.RIGHT:
        return verdict
    return replace(verdict, kept=keep(exercise, solution))
