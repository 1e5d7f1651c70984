"""A solution on trial: packed for another process, run there, and the report read.

Nothing here runs the learner's code but `pack`, which asks the solution's classes how they travel. What the process of
a check writes is not believed: its files are read only if they are plain and small, and each line needs the key.
"""

import dis
import json
import linecache
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from types import CodeType, FunctionType
from typing import Any

import cloudpickle

from pllab.comm.processes import end_children, how_it_ended, is_starved, stack_of
from pllab.lesson.exercise import Exercise
from pllab.lesson.guard import Refused, codes_of, is_theirs, refuse_package
from pllab.lesson.judging import Job
from pllab.lesson.keeping import namespace_of
from pllab.lesson.nursery import Nursery, Nursling
from pllab.lesson.verdict import Outcome, Result, Verdict

START_S = 120.0  # importing torch on a busy machine; the student's deadline starts after it
PATIENCE = 3  # deadlines that a function gets while other programs have the machine
MOST_PRINTED = 2000  # bytes of the student's output that a verdict shows
_CANNOT_TRAVEL = (
    "The check sends your function to a fresh process, and something it uses cannot be sent ({error}); "
    "make locks, queues, threads, widgets and open files inside the function."
)
CANNOT_BE_READ = (
    "The process of the check could not read your function; define it, and all that it uses, in the notebook."
)
CRASHED = "The process that ran your function {how} before the check was over; that never counts as passed."
_FORGED = "Your function wrote into the report of its own check; a verdict counts only for what the function does."
LATE = "Your function did not come back within {seconds:g} s; something waits for ever."
_MOST_BYTES = 1 << 24  # of a file that another process wrote

Source = tuple[tuple[str, tuple[str, ...]], ...]  # the name of each cell with its lines


@dataclass(frozen=True)
class Packed:
    """A solution on its way to another process: as cloudpickle, with the cells it comes from."""

    function: bytes
    source: Source


def pack(exercise: Exercise, solution: Callable[..., Any] | None) -> Packed | Verdict:
    """Pack a solution; a verdict at once if it is not attempted, the package's own, or cannot travel."""
    if solution is None or _is_stub(solution):
        return Verdict(exercise=exercise, outcome=Outcome.NOT_ATTEMPTED)
    try:
        refuse_package(solution, exercise.package)
        return Packed(cloudpickle.dumps(solution), tuple(_sources(solution)))
    except Refused as refused:
        return refusal(exercise, refused.hint_id, refused.sentence)
    except Exception as error:  # pickling runs foreign code; every failure means the same to the student
        return refusal(exercise, "cannot_travel", _CANNOT_TRAVEL.format(error=error))


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


class Trial:
    """One run of the cases in a process of its own: it waits, then reads the report.

    folder: an empty folder for what the two processes write to each other.
    """

    def __init__(self, exercise: Exercise, packed: Packed, nursery: Nursery, folder: Path, deadline_s: float) -> None:
        self._job = Job(exercise.id, packed.function, packed.source, secrets.token_hex(), nursery.door.fileno())
        self._exercise, self._nursery, self._folder, self._deadline_s = exercise, nursery, folder, deadline_s
        self._stack = ""
        self._starved = False
        self._late = False

    def verdict(self) -> Verdict:
        """Run the cases, wait for their end or the deadline, and say what they found."""
        (self._folder / "task").write_bytes(cloudpickle.dumps(self._job))
        entry, printed = "pllab.lesson.judging:run_job", self._folder / "printed"
        process = self._nursery.start(self._folder, entry, str(self._folder), log=printed, pass_fds=[self._job.door])
        try:
            self._attend(process)
        finally:
            end_children([process])
        self._how = how_it_ended(process.returncode)
        return self._read(text_of(printed, MOST_PRINTED).strip())

    def _attend(self, process: Nursling) -> None:
        """Wait until it has ended, at most for the deadline; a starved process gets the deadline again."""
        report, start = self._folder / "report", time.monotonic()
        while process.returncode is None and not (report.exists() and report.stat().st_size):
            if time.monotonic() - start > START_S:
                self._late = self._starved = True
                return
            time.sleep(0.005)
        for patience in range(1, PATIENCE + 1):
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
        events = []
        for line in text_of(self._folder / "report").splitlines():
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
            return refusal(self._exercise, "forged", _FORGED)
        by_number = {event["number"]: event for event in events if "number" in event}
        results = [self._result(number, by_number.get(number)) for number in range(len(self._exercise.cases))]
        last = events[-1]["event"] if events else "missing"
        match last:
            case "refused":
                return refusal(self._exercise, events[-1]["hint_id"], events[-1]["sentence"], printed)
            case "not attempted":
                return Verdict(exercise=self._exercise, outcome=Outcome.NOT_ATTEMPTED, printed=printed)
            case "missing" if not self._late:
                return refusal(self._exercise, "cannot_travel", CANNOT_BE_READ, printed)
            case "done":
                right = all(result.passed for result in results)
                outcome = Outcome.RIGHT if right else Outcome.NOT_YET
            case _ if self._starved or last == "undecided":
                outcome = Outcome.NOT_YET if any(result.failed for result in results) else Outcome.UNDECIDED
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
            stack = text_of(self._folder / "stack")
            return Result(
                claim=case.claim,
                hint_id="crashed",
                hint=CRASHED.format(how=self._how),
                where=last_seen(stack, self._job.source),
            )
        hint_id, hint = case.on_hang or ("hang", LATE.format(seconds=self._deadline_s))
        return Result(claim=case.claim, hint_id=hint_id, hint=hint, where=last_seen(self._stack, self._job.source))


def last_seen(stack: str, source: Source) -> str:
    """Where the student's code was, from faulthandler's dump: the innermost frame is first."""
    for name, line, function in re.findall(r'File "([^"]+)", line (\d+) in (\S+)', stack):
        if any(name == known for known, _ in source):
            return f"last seen in line {line} of {function}"
    return ""


def text_of(file: Path, most_bytes: int = _MOST_BYTES) -> str:
    """What another process wrote into a file; nothing if it is no plain file any more."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as words:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return words.read(most_bytes).decode(errors="replace")


def refusal(exercise: Exercise, hint_id: str, hint: str, printed: str = "") -> Verdict:
    """A "not yet" on the whole, before or instead of the cases."""
    first, *others = exercise.claims
    results = (Result(claim=first, hint_id=hint_id, hint=hint), *(Result(claim=claim) for claim in others))
    return Verdict(exercise=exercise, outcome=Outcome.NOT_YET, results=results, printed=printed)
