"""The process of a check: run the cases, and write what each one found.

It is forked for one check and ends with it. Every line of its report carries a key that only the check knows; the
guard refuses code that goes looking for it.
"""

import faulthandler
import json
import linecache
import os
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle

from pllab.comm import RankError, launch, report
from pllab.comm.launching import StartChild
from pllab.comm.processes import answer_with_stack, start_child
from pllab.lesson.exercise import Exercise, Undecided, Wrong, find
from pllab.lesson.fence import on_breach
from pllab.lesson.guard import Fingerprint, Refused, refuse_package, their_line, undisguised, watch
from pllab.lesson.nursery import ask

Program = Callable[..., Any]  # program(rank, world_size, solution, *args)
Write = Callable[..., None]


@dataclass(frozen=True)
class _Check:
    """What the ranks of a check need: where they come from, and what of the package is refused on them too."""

    door: socket.socket
    package: tuple[str, ...]


_checks: list[_Check] = []  # one in the process of a check, none elsewhere


@dataclass(frozen=True)
class Job:
    """The message to the process of a check: the function with its source for tracebacks, and what it may use."""

    exercise_id: str
    function: bytes
    source: tuple[tuple[str, tuple[str, ...]], ...]
    key: str
    door: int


def run_job() -> None:
    """The entry point of the process of a check, with its folder on the command line."""
    folder = Path(sys.argv.pop())
    job: Job = cloudpickle.loads((folder / "task").read_bytes())
    (folder / "task").unlink()
    exercise = find(job.exercise_id)
    _checks.append(_Check(socket.socket(fileno=job.door), exercise.package))
    for name, lines in job.source:
        linecache.cache[name] = (len("".join(lines)), None, list(lines), name)
    with (folder / "report").open("w") as events, (folder / "stack").open("w") as stack:
        faulthandler.enable(stack)
        answer_with_stack(folder / "asked")
        write = _writer(events.write, events.flush, job.key)
        tell = partial(_leave, write)
        watch(exercise.package, tell)
        on_breach(tell)
        before = Fingerprint(exercise.cases)
        try:
            solution = cloudpickle.loads(job.function)
            before.compare()  # reading it runs code of its classes
            refuse_package(solution, exercise.package)  # the process that packed it is not believed
        except Refused as refused:
            tell(refused.hint_id, refused.sentence)
        except Exception:
            return  # the report stays empty
        write(event="ready")
        run_cases(exercise, solution, write)
        sys.stdout.flush()


def _writer(put: Callable[[str], Any], flush: Callable[[], Any], key: str) -> Write:
    def write(**event: Any) -> None:
        put(json.dumps(event | {"key": key}) + "\n")
        flush()

    return write


def _leave(write: Write, hint_id: str, sentence: str) -> None:
    write(event="refused", hint_id=hint_id, sentence=sentence)
    os._exit(1)


def run_cases(exercise: Exercise, solution: Callable[..., Any], write: Write) -> None:
    """Run all cases, also after one that failed, and write one event for each.

    A function that waits for ever in one case would do so in the next, so after a hang the others are not tested.
    """
    solution = undisguised(solution, exercise.package)
    for number, test in enumerate([case.test for case in exercise.cases]):
        before = Fingerprint(exercise.cases)
        try:
            event = _event_of(test, solution)
            before.compare()
        except Refused as refused:
            return write(event="refused", hint_id=refused.hint_id, sentence=refused.sentence)
        except Undecided:
            return write(event="undecided")
        except NotImplementedError:
            return write(event="not attempted")
        write(number=number, **event)
        if event.get("hint_id") == "hang":
            break
    write(event="done")


def _event_of(test: Callable[[Any], None], solution: Callable[..., Any]) -> dict[str, Any]:
    try:
        test(solution)
    except (NotImplementedError, Refused, Undecided):
        raise
    except Wrong as wrong:
        where = (their_line(wrong.__context__) if wrong.__context__ else "") or their_line(wrong)
        return {"event": "failed", "hint_id": wrong.hint_id, "sentence": wrong.sentence, "where": where}
    except BaseException as error:  # SystemExit too: an exception of the student's code must not end the check
        sentence = f"Your function raised {traceback.format_exception_only(error)[0].strip()}"
        return {"event": "failed", "hint_id": "raised", "sentence": sentence, "where": their_line(error)}
    return {"event": "passed"}


def run_on_ranks(
    program: Program,
    solution: Callable[..., Any],
    world_size: int,
    *args: Any,
    timeout_s: float = 15.0,
    hash_seed: str = "",
) -> list[Any]:
    """Run `program(rank, world_size, solution, *args)` on every rank; return the results in order of rank.

    The program is a function of an exercise's module, which a rank can import. Let it return its observations
    (gradients, shares, the ledger's messages) and judge them afterwards; make several observations in one launch.

    Example: `run_on_ranks(average_three_steps, solution, 2)` -> the weights of rank 0 and of rank 1.

    hash_seed: the ranks are new Python processes that hash texts with this seed; that takes seconds. Without one they
    may be forks, which hash as this process does.

    Raises:
        RankError: a rank raised, or had not finished after `timeout_s` seconds ("had not finished" in its sentence).
        Refused: the guard saw something on a rank.
        Undecided: a rank had not finished, and other programs had the machine.
    """
    if on_ranks := getattr(solution, "on_ranks", None):  # a solution that is asked starts its own
        return on_ranks(program, world_size, *args, timeout_s=timeout_s, hash_seed=hash_seed)
    start = _starter(hash_seed)
    package = _checks[0].package if _checks else None
    refused: list[Refused] = []

    def hear(_: int, words: Any) -> None:
        refused.append(Refused(*words))

    given = (program, cloudpickle.dumps(solution), package, args)
    try:
        return launch(_enter, world_size, *given, backend="gloo", timeout_s=timeout_s, on_report=hear, start=start)
    except RankError as error:
        if error.starved and not refused:
            raise Undecided from None
        if not refused:
            raise
    finally:
        if refused:
            raise refused[0]
    return []


def _starter(hash_seed: str) -> StartChild | None:
    """What makes the ranks: the nursery of a check, or `launch` itself where there is none."""
    if _checks:
        return partial(ask, _checks[0].door, hash_seed=hash_seed)
    return partial(start_child, environment={"PYTHONHASHSEED": hash_seed}) if hash_seed else None


def _enter(
    rank: int, world_size: int, program: Program, packed: bytes, package: tuple[str, ...] | None, args: tuple[Any, ...]
) -> Any:
    """On a rank: the program between two looks at its surroundings."""
    if package is not None:
        watch(package, _leave_rank)
        on_breach(_leave_rank)
    before = Fingerprint()
    try:
        result = program(rank, world_size, cloudpickle.loads(packed), *args)
        before.compare()
    except Refused as refused:
        _leave_rank(refused.hint_id, refused.sentence)
    return result


def _leave_rank(hint_id: str, sentence: str) -> None:
    report((hint_id, sentence))
    os._exit(1)
