"""Test a student's function in a process of its own, and turn the outcome into a verdict.

    the notebook: check                     the other process: run_job
    packs the function       task    ->     reads it and runs the cases in order
    makes the verdict     <- report         one JSON line per event, written as it happens
                          <- stack          where the function was when the deadline passed

The function may hang, crash, print or leave threads behind without harm to the notebook's kernel. It is sent as
cloudpickle, because another process cannot import a function of a notebook cell; so it also reaches real ranks.
"""

import dis
import faulthandler
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import IO, Any

import cloudpickle

from pllab.lesson.exercise import Exercise, NotRight, Outcome, Verdict, Wrong, find

_START_S = 120.0  # starting Python and importing torch on a busy machine; the student's deadline starts after it
_MOST_PRINTED = 2000  # bytes of the student's output that a verdict shows
_CANNOT_TRAVEL = (
    "The check sends your function to a fresh process, and something it uses cannot be sent ({error}); "
    "make locks, queues, threads, widgets and open files inside the function."
)
_CANNOT_BE_READ = (
    "The process of the check could not read your function; define it, and all that it uses, in the notebook."
)
_CRASHED = "The process that ran your function ended in the middle; a crash never counts as passed."
Program = Callable[..., Any]  # program(rank, world_size, solution, *args)


def check(
    exercise_id: str,
    solution: Callable[..., Any] | None,
    *,
    deadline_s: float | None = None,
    strict: bool | None = None,
) -> Verdict:
    """Check a solution: not attempted, not yet with a hint, or right; it raises only if it is strict.

    Example: `check("09.1", make_tasks)` as the last line of a cell shows the verdict under it.

    deadline_s: seconds that all cases together may take; by default the exercise's.
    strict: raise if the solution is not right; by default the switch `PLLAB_STRICT=1` in the environment decides.

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


def run_on_ranks(
    program: Program, solution: Callable[..., Any], world_size: int, *args: Any, timeout_s: float = 15.0
) -> list[Any]:
    """Run `program(rank, world_size, solution, *args)` on every rank; return the results in order of rank.

    The program is a function of an exercise's module, which a rank can import. Let it return its observations
    (gradients, shares, the ledger's messages) and judge them afterwards; a launch takes a few seconds, so make several
    observations in one.

    Example: `run_on_ranks(average_three_steps, solution, 2)` -> the weights of rank 0 and of rank 1.

    Raises:
        RankError: a rank raised, or had not finished after `timeout_s` seconds ("had not finished" in its sentence).
    """
    from pllab.comm import launch  # torch takes a second to import, and most checks start no ranks

    return launch(_enter, world_size, program, cloudpickle.dumps(solution), args, backend="gloo", timeout_s=timeout_s)


def _enter(rank: int, world_size: int, program: Program, packed: bytes, args: tuple[Any, ...]) -> Any:
    return program(rank, world_size, cloudpickle.loads(packed), *args)


@dataclass(frozen=True)
class _Job:
    """The message to the other process: the function, with its source for tracebacks, and the import path."""

    exercise_id: str
    function: bytes
    source_name: str
    source_lines: tuple[str, ...]
    path: tuple[str, ...]
    deadline_s: float


def _judge(exercise: Exercise, solution: Callable[..., Any] | None, deadline_s: float) -> Verdict:
    if solution is None or _is_stub(solution):
        return Verdict(exercise=exercise, outcome=Outcome.NOT_ATTEMPTED)
    try:
        job = _pack(exercise, solution, deadline_s)
    except Exception as error:  # pickling runs foreign code; every failure means the same to the student
        return _not_yet(exercise, 0, "cannot_travel", _CANNOT_TRAVEL.format(error=error))
    with tempfile.TemporaryDirectory(prefix="pllab-check-") as folder:
        printed = _run(Path(folder), job)
        return _read_report(exercise, Path(folder), job, printed)


def _is_stub(solution: Callable[..., Any]) -> bool:
    """Whether the body only raises NotImplementedError; then no process is needed."""
    code = getattr(solution, "__code__", None)
    if not isinstance(code, CodeType) or code.co_names != ("NotImplementedError",):
        return False
    return not any(instruction.opname.startswith("RETURN") for instruction in dis.get_instructions(code))


def _pack(exercise: Exercise, solution: Callable[..., Any], deadline_s: float) -> _Job:
    code = getattr(solution, "__code__", None)
    name = code.co_filename if isinstance(code, CodeType) else ""
    lines = tuple(linecache.getlines(name)) if name else ()
    return _Job(exercise.id, cloudpickle.dumps(solution), name, lines, tuple(sys.path), deadline_s)


def _run(folder: Path, job: _Job) -> str:
    """Run the job in its own process and session, end all its processes, and return its output."""
    (folder / "task").write_bytes(cloudpickle.dumps(job))
    with (folder / "printed").open("w+b") as printed:
        process = _start(folder, printed)
        try:
            process.wait(timeout=_START_S + job.deadline_s)
        except subprocess.TimeoutExpired:
            pass  # the report says how far it came
        finally:
            _end(process)
        printed.seek(0)
        return printed.read(_MOST_PRINTED).decode(errors="replace").strip()


def _start(folder: Path, printed: IO[bytes]) -> "subprocess.Popen[bytes]":
    program = "import sys; from pllab.lesson.checking import run_job; run_job(sys.argv[1])"
    command = [sys.executable, "-c", program, str(folder)]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=printed, stderr=nothing, start_new_session=True)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the job's session, with any processes that the student's code started in it."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # all of it has ended already
    else:
        process.kill()
    process.wait()


def run_job(folder: str) -> None:
    """In the other process: run the job of the folder, and exit without waiting for its threads."""
    job: _Job = cloudpickle.loads(Path(folder, "task").read_bytes())
    sys.path[:] = list(job.path)
    linecache.cache[job.source_name] = (len("".join(job.source_lines)), None, list(job.source_lines), job.source_name)
    with Path(folder, "report").open("w") as report, Path(folder, "stack").open("w") as stack:

        def write(**event: Any) -> None:
            report.write(json.dumps(event) + "\n")
            report.flush()

        solution, exercise = cloudpickle.loads(job.function), find(job.exercise_id)
        write(event="ready")
        # The process ends itself at the deadline, even if its parent is gone.
        faulthandler.dump_traceback_later(job.deadline_s, exit=True, file=stack)
        run_cases(exercise, solution, job.source_name, write)
        sys.stdout.flush()
        os._exit(0)


def run_cases(exercise: Exercise, solution: Callable[..., Any], source_name: str, write: Callable[..., None]) -> None:
    """Run the cases in order, stop at the first that fails, and write one event for each."""
    for case in exercise.cases:
        try:
            case.test(solution)
        except NotImplementedError:
            return write(event="not attempted")
        except Wrong as wrong:
            return write(event="wrong", hint_id=wrong.hint_id, sentence=wrong.sentence)
        except BaseException as error:  # SystemExit too: an exception of the student's code must not end the check
            sentence = traceback.format_exception_only(error)[0].strip()  # `ZeroDivisionError: division by zero`
            return write(event="raised", sentence=sentence, where=_raised_in(error, source_name))
        write(event="passed")
    write(event="done")


def _raised_in(error: BaseException, source_name: str) -> str:
    """The innermost line of the student's own code: `line 3 of make_tasks: return a / 0`."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == source_name]
    return f"line {frames[-1].lineno} of {frames[-1].name}: {frames[-1].line}" if frames else ""


def _read_report(exercise: Exercise, folder: Path, job: _Job, printed: str) -> Verdict:
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
    # The report stops in the middle: the deadline passed, or the process died.
    stack = (folder / "stack").read_text()
    if not stack:
        return _not_yet(exercise, passed, "crashed", _CRASHED, printed)
    default = ("hang", f"Your function did not come back within {job.deadline_s:g} s; something waits for ever.")
    hint_id, sentence = exercise.cases[passed].on_hang or default
    return _not_yet(exercise, passed, hint_id, sentence, printed, _last_seen(stack, job.source_name))


def _last_seen(stack: str, source_name: str) -> str:
    """Where the student's code was when the deadline passed, from faulthandler's dump."""
    match = re.search(rf'File "{re.escape(source_name)}", line (\d+) in (\S+)', stack) if source_name else None
    return f"last seen in line {match[1]} of {match[2]}" if match else ""


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
