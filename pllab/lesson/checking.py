"""Test a student's function in a process of its own, and turn the outcome into a verdict.

    the notebook: check                     the other process: judging.run_job
    packs the function       task    ->     reads it and runs the cases in order
    makes the verdict     <- report         one JSON line per event, written as it happens
                          <- stack          where the function was when the deadline passed

The function may hang, crash, print or leave threads behind without harm to the notebook's kernel. It is sent as
cloudpickle, because another process cannot import a function of a notebook cell; so it also reaches real ranks. The
process is forked from one that has imported torch already and belongs to the kernel, and so are its ranks: the deadline
counts the learner's work.
"""

import dis
import json
import linecache
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from subprocess import TimeoutExpired
from types import CodeType, FunctionType
from typing import Any

import cloudpickle

from pllab.comm.nursery import Nursery, Nursling
from pllab.comm.processes import end_children, how_it_ended, is_starved, stack_of
from pllab.lesson.exercise import Exercise, find
from pllab.lesson.guard import Refused, codes_of, is_theirs, refuse_package
from pllab.lesson.judging import Job
from pllab.lesson.keeping import keep, namespace_of
from pllab.lesson.verdict import NotRight, Outcome, Result, Verdict

_START_S = 120.0  # importing torch on a busy machine; the student's deadline starts after it
_PATIENCE = 3  # deadlines that a function gets while other programs have the machine
_MOST_PRINTED = 2000  # bytes of the student's output that a verdict shows
_PRELOADED = ("torch", "torch.distributed", "pllab.lesson.judging", "pllab.comm", "pllab.pipeline", "pllab.parallel")
_CANNOT_TRAVEL = (
    "The check sends your function to a fresh process, and something it uses cannot be sent ({error}); "
    "make locks, queues, threads, widgets and open files inside the function."
)
_CANNOT_BE_READ = (
    "The process of the check could not read your function; define it, and all that it uses, in the notebook."
)
_CRASHED = "The process that ran your function {how} before the check was over; that never counts as passed."
_FORGED = "Your function wrote into the report of its own check; a verdict counts only for what the function does."
_LATE = "Your function did not come back within {seconds:g} s; something waits for ever."


def check(
    exercise_id: str,
    solution: Callable[..., Any] | None,
    *,
    deadline_s: float | None = None,
    strict: bool | None = None,
) -> Verdict:
    """Check a solution: not attempted, not yet with hints, or right; it raises only if it is strict.

    Example: `check("09.1", make_tasks)` as the last line of a cell shows the verdict under it. A right solution is kept
    in the learner's `my_pllab.py`.

    deadline_s: seconds that all cases together may take; by default the exercise's.
    strict: raise if the solution is not right; by default the switch `PLLAB_STRICT=1` in the environment decides.

    Raises:
        ValueError: there is no exercise of that number.
        NotRight: only when strict, with the verdict as its message.
    """
    exercise = find(exercise_id)
    verdict = _judge(exercise, solution, exercise.deadline_s if deadline_s is None else deadline_s)
    if strict is None:  # a switch for teachers and for tests
        strict = os.environ.get("PLLAB_STRICT") == "1"
    if strict and verdict.outcome is not Outcome.RIGHT:
        raise NotRight(str(verdict))
    return verdict


def hints(exercise_id: str, level: int = 1) -> str:
    """Give one of the three hints of an exercise: 1 the symptom, 2 where to look, 3 the idea in words.

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
        refuse_package(solution, exercise.package)
        packed = cloudpickle.dumps(solution)
    except Refused as refused:
        return _refused(exercise, refused.hint_id, refused.sentence)
    except Exception as error:  # pickling runs foreign code; every failure means the same to the student
        return _refused(exercise, "cannot_travel", _CANNOT_TRAVEL.format(error=error))
    with tempfile.TemporaryDirectory(prefix="pllab-check-", ignore_cleanup_errors=True) as folder:
        job = Job(exercise.id, packed, tuple(_sources(solution)), secrets.token_hex(), warm_nursery().door.fileno())
        run = _Run(exercise, Path(folder), job, deadline_s)
        verdict = run.verdict()
    if verdict.outcome is not Outcome.RIGHT:
        return verdict
    return replace(verdict, kept=keep(exercise, solution))


def _is_stub(solution: Callable[..., Any]) -> bool:
    """Whether the body only raises NotImplementedError; then no process is needed."""
    code = getattr(solution, "__code__", None)
    if not isinstance(code, CodeType) or code.co_names != ("NotImplementedError",):
        return False
    return not any(instruction.opname.startswith("RETURN") for instruction in dis.get_instructions(code))


def _sources(solution: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The learner's cells that the solution comes from, so that its traceback has their lines."""
    beside = [one for one in namespace_of(solution).values() if isinstance(one, FunctionType | type)]
    for name in {code.co_filename for one in (solution, *beside) for code in codes_of(one) if is_theirs(code)}:
        yield name, tuple(linecache.getlines(name))


@lru_cache(maxsize=1)
def _nursery_of(_process: int) -> Nursery:
    return Nursery(*_PRELOADED)


def warm_nursery() -> Nursery:
    """The process that forks checks and their ranks; it starts with the first check and ends with this process."""
    if not _nursery_of(os.getpid()).is_alive:
        _nursery_of.cache_clear()
    return _nursery_of(os.getpid())


class _Run:
    """One run of the cases in a process of its own: it waits, then reads the report."""

    def __init__(self, exercise: Exercise, folder: Path, job: Job, deadline_s: float) -> None:
        self._exercise, self._folder, self._job, self._deadline_s = exercise, folder, job, deadline_s
        self._stack = ""
        self._starved = False
        self._late = False

    def verdict(self) -> Verdict:
        (self._folder / "task").write_bytes(cloudpickle.dumps(self._job))
        entry, printed = "pllab.lesson.judging:run_job", self._folder / "printed"
        process = warm_nursery().start(self._folder, entry, str(self._folder), log=printed, pass_fds=[self._job.door])
        try:
            self._attend(process)
        finally:
            end_children([process])
        self._how = how_it_ended(process.returncode)
        words = printed.read_bytes()[:_MOST_PRINTED].decode(errors="replace").strip() if printed.exists() else ""
        return self._read(words)

    def _attend(self, process: Nursling) -> None:
        """Wait until it has ended, at most for the deadline; a starved process gets the deadline again."""
        report, start = self._folder / "report", time.monotonic()
        while process.returncode is None and not (report.exists() and report.stat().st_size):
            if time.monotonic() - start > _START_S:
                self._late = self._starved = True
                return
            time.sleep(0.005)
        for patience in range(1, _PATIENCE + 1):
            with suppress(TimeoutExpired):
                process.wait(self._deadline_s)
                return
            starved = is_starved(process.pid, self._deadline_s * patience)
            if not starved:
                break
        self._late, self._starved = True, starved
        self._stack = stack_of(process.pid, self._folder / "asked")

    def _events(self) -> list[dict[str, Any]] | None:
        """What the process wrote; None if a line has not the key of this check."""
        report, events = self._folder / "report", []
        for line in report.read_text(errors="replace").splitlines() if report.exists() else ():
            try:
                event = json.loads(line)
                if event.pop("key") != self._job.key:
                    return None
            except (ValueError, KeyError, TypeError, AttributeError):
                return None
            events.append(event)
        return events

    def _read(self, printed: str) -> Verdict:
        events = self._events()
        if events is None:
            return _refused(self._exercise, "forged", _FORGED)
        by_number = {event["number"]: event for event in events if "number" in event}
        results = [self._result(number, by_number.get(number)) for number in range(len(self._exercise.cases))]
        last = events[-1]["event"] if events else "missing"
        match last:
            case "refused":
                return _refused(self._exercise, events[-1]["hint_id"], events[-1]["sentence"], printed)
            case "not attempted":
                return Verdict(exercise=self._exercise, outcome=Outcome.NOT_ATTEMPTED, printed=printed)
            case "missing" if not self._late:
                return _refused(self._exercise, "cannot_travel", _CANNOT_BE_READ, printed)
            case "done":
                right = all(result.passed for result in results)
                outcome = Outcome.RIGHT if right else Outcome.NOT_YET
            case _ if self._starved or last == "undecided":
                outcome = Outcome.UNDECIDED
            case _:  # the report stops in the middle: the deadline passed, or the process died
                outcome = Outcome.NOT_YET
                number = min(len(by_number), len(results) - 1)
                results[number] = self._unfinished(number)
        return Verdict(exercise=self._exercise, outcome=outcome, results=tuple(results), printed=printed)

    def _result(self, number: int, event: dict[str, Any] | None) -> Result:
        claim = self._exercise.claims[number]
        if event is None:
            return Result(claim=claim)
        if event["event"] == "passed":
            return Result(claim=claim, passed=True)
        return Result(claim=claim, hint_id=event["hint_id"], hint=event["sentence"], where=event["where"])

    def _unfinished(self, number: int) -> Result:
        case = self._exercise.cases[number]
        if not self._late:
            stack = (self._folder / "stack").read_text()
            return Result(
                claim=case.claim, hint_id="crashed", hint=_CRASHED.format(how=self._how), where=self._last_seen(stack)
            )
        hint_id, hint = case.on_hang or ("hang", _LATE.format(seconds=self._deadline_s))
        return Result(claim=case.claim, hint_id=hint_id, hint=hint, where=self._last_seen(self._stack))

    def _last_seen(self, stack: str) -> str:
        """Where the student's code was, from faulthandler's dump: the innermost frame is first."""
        for name, line, function in re.findall(r'File "([^"]+)", line (\d+) in (\S+)', stack):
            if any(name == known for known, _ in self._job.source):
                return f"last seen in line {line} of {function}"
        return ""


def _refused(exercise: Exercise, hint_id: str, hint: str, printed: str = "") -> Verdict:
    """A verdict on the whole, before or instead of the cases."""
    first, *others = exercise.claims
    results = (Result(claim=first, hint_id=hint_id, hint=hint), *(Result(claim=claim) for claim in others))
    return Verdict(exercise=exercise, outcome=Outcome.NOT_YET, results=results, printed=printed)
