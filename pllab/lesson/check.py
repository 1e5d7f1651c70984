"""Put a student's function to the test in a process of its own, and turn whatever happens into a verdict.

The function may hang, crash, print or leave threads behind: the notebook's kernel never notices. The function
travels as cloudpickle, because a function of a notebook cell cannot be imported by another process.
"""

import dis
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import cloudpickle

from pllab.lesson.exercise import Exercise, find
from pllab.lesson.job import Job
from pllab.lesson.verdict import NotRight, Outcome, Verdict

# Starting Python and importing torch takes seconds on a busy machine; the student's deadline starts after it.
_START_S = 120.0


def check(
    exercise_id: str,
    solution: Callable[..., Any] | None,
    *,
    deadline_s: float | None = None,
    strict: bool | None = None,
) -> Verdict:
    """Check a solution: not attempted, not yet with a hint, or right; it never raises unless it is strict.

    Example: `check("09.1", make_tasks)` as the last line of a cell shows the verdict under it.

    deadline_s: seconds that all cases together may take; by default what the exercise says.
    strict: raise for everything that is not right; by default the switch `PLLAB_STRICT=1` in the environment
    decides.

    Raises:
        ValueError: there is no exercise of that number.
        NotRight: only when strict, with the verdict as its message.
    """
    exercise = find(exercise_id)
    verdict = _judge(exercise, solution, exercise.deadline_s if deadline_s is None else deadline_s)
    if strict is None:  # a switch for teachers and for tests; the one look at the environment in this room
        strict = os.environ.get("PLLAB_STRICT") == "1"
    if strict and verdict.outcome is not Outcome.RIGHT:
        raise NotRight(str(verdict))
    return verdict


def hints(exercise_id: str, level: int = 1) -> str:
    """Give one of the three hints of an exercise: 1 the symptom, 2 where to look, 3 almost the answer.

    Raises:
        ValueError: the level is not 1, 2 or 3, or there is no such exercise.
    """
    if level not in (1, 2, 3):
        raise ValueError(f"an exercise has hints 1, 2 and 3, not {level!r}; start with hints({exercise_id!r}, 1)")
    return find(exercise_id).hints[level - 1]


def _judge(exercise: Exercise, solution: Callable[..., Any] | None, deadline_s: float) -> Verdict:
    if solution is None or _is_stub(solution):
        return Verdict(exercise=exercise, outcome=Outcome.NOT_ATTEMPTED)
    try:
        job = _pack(exercise, solution, deadline_s)
    except Exception as error:  # pickling runs foreign code, and every way it fails is the same news to the student
        return _not_yet(exercise, 0, "cannot_travel", _CANNOT_TRAVEL.format(error=error))
    with tempfile.TemporaryDirectory(prefix="pllab-check-") as folder:
        printed = _run(Path(folder), job)
        return _read(exercise, Path(folder), job, printed)


_CANNOT_TRAVEL = (
    "The check sends your function to a fresh process, and something it uses cannot be sent ({error}); "
    "make locks, queues, threads, widgets and open files inside the function."
)

_CANNOT_BE_READ = (
    "The process of the check could not read your function; define it, and all that it uses, in the notebook."
)


def _is_stub(solution: Callable[..., Any]) -> bool:
    """Whether the body does nothing but raise NotImplementedError; then no process is needed to know it."""
    code = getattr(solution, "__code__", None)
    if not isinstance(code, CodeType) or code.co_names != ("NotImplementedError",):
        return False
    return not any(instruction.opname.startswith("RETURN") for instruction in dis.get_instructions(code))


def _pack(exercise: Exercise, solution: Callable[..., Any], deadline_s: float) -> Job:
    code = getattr(solution, "__code__", None)
    name = code.co_filename if isinstance(code, CodeType) else ""
    lines = tuple(linecache.getlines(name)) if name else ()
    return Job(exercise.id, cloudpickle.dumps(solution), name, lines, tuple(sys.path), deadline_s)


def _run(folder: Path, job: Job) -> str:
    """Run the job in its own process and session; return what it printed; leave no process of it behind."""
    (folder / "task").write_bytes(cloudpickle.dumps(job))
    with (folder / "printed").open("w+b") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "pllab.lesson.runner", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(timeout=_START_S + job.deadline_s)
        except subprocess.TimeoutExpired:
            pass  # the report says how far it came
        finally:
            _end(process)
        printed.seek(0)
        return printed.read(_MOST_PRINTED).decode(errors="replace").strip()


# Bytes of the student's output that a verdict shows.
_MOST_PRINTED = 2000


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the session we started, with any children the student's code started in it."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # all of it has ended already
    else:
        process.kill()
    process.wait()


def _read(exercise: Exercise, folder: Path, job: Job, printed: str) -> Verdict:
    report = folder / "report"
    events = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    passed = sum(event["event"] == "passed" for event in events)
    last = events[-1] if events else {"event": "missing"}
    match last["event"]:
        case "done":
            return Verdict(exercise=exercise, outcome=Outcome.RIGHT, num_passed=passed, printed=printed)
        case "not attempted":
            return Verdict(exercise=exercise, outcome=Outcome.NOT_ATTEMPTED, printed=printed)
        case "wrong":
            return _not_yet(exercise, passed, last["hint_id"], last["sentence"], printed)
        case "raised":
            sentence = f"Your function raised {last['sentence']}"
            return _not_yet(exercise, passed, "raised", sentence, printed, last["where"])
        case "missing":
            return _not_yet(exercise, 0, "cannot_travel", _CANNOT_BE_READ, printed)
    return _not_ended(exercise, passed, folder, job, printed)


def _not_ended(exercise: Exercise, passed: int, folder: Path, job: Job, printed: str) -> Verdict:
    """The report stops in the middle: the deadline passed, or the process died."""
    stack = (folder / "stack").read_text()
    if not stack:
        sentence = "The process that ran your function ended in the middle; a crash never counts as passed."
        return _not_yet(exercise, passed, "crashed", sentence, printed)
    default = ("hang", f"Your function did not come back within {job.deadline_s:g} s; something waits for ever.")
    hint_id, sentence = exercise.cases[passed].on_hang or default
    return _not_yet(exercise, passed, hint_id, sentence, printed, _last_seen(stack, job.source_name))


def _last_seen(stack: str, source_name: str) -> str:
    """Where the student's code was when the deadline passed, from faulthandler's dump."""
    if not source_name:
        return ""
    found = re.findall(rf'File "{re.escape(source_name)}", line (\d+) in (\S+)', stack)
    return f"last seen in line {found[0][0]} of {found[0][1]}" if found else ""


def _not_yet(exercise: Exercise, passed: int, hint_id: str, hint: str, printed: str = "", where: str = "") -> Verdict:
    return Verdict(
        exercise=exercise,
        outcome=Outcome.NOT_YET,
        num_passed=passed,
        hint_id=hint_id,
        hint=hint,
        printed=printed,
        where=where,
    )
