"""A check that asks: the cases run here, the learner's function in another process, and each call is a question.

    a case                          Solution                        the process of `answering`
    solution(8, 4)            ->    {"args": [8, 4]}          ->    calls the function
    a value, or an exception  <-    decoded                   <-    {"value": ..., "after": ...}

What comes back is data, so nothing that the function patches, imports or returns changes how it is judged. What a case
gives away stays here: a function among the arguments is called here, and the lists and tensors are copied back.
"""

import base64
import builtins
import json
import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from types import TracebackType
from typing import Any, Self

from pllab.comm.processes import end_children, how_it_ended, is_starved, stack_of
from pllab.lesson.encoding import NO_VALUE, Call, decode, encode, write_back
from pllab.lesson.exercise import Case, Exercise, Wrong
from pllab.lesson.nursery import Nursery
from pllab.lesson.trial import (
    CANNOT_BE_READ,
    CRASHED,
    LATE,
    MOST_PRINTED,
    PATIENCE,
    START_S,
    Packed,
    last_seen,
    refusal,
    text_of,
)
from pllab.lesson.verdict import Outcome, Result, Verdict

_MOST_BYTES = 1 << 26  # of one answer
_PACKAGED = "This is {name} of the package, which is what the exercise asks for; write it yourself."
_NO_ANSWER = "Your function ended the conversation with its check ({error}); a verdict counts only for what it returns."
_UNUSABLE = "The check cannot use what your function gave: {error}."


class Unread(BaseException):
    """The other process could not read the function."""


class Ended(BaseException):
    """There will be no answer: the process died, or the deadline passed.

    is_late: the deadline passed.
    is_starved: other programs had the machine meanwhile.
    """

    def __init__(self, sentence: str, where: str = "", *, is_late: bool = False, is_starved: bool = False) -> None:
        super().__init__(sentence)
        self.where, self.is_late, self.is_starved = where, is_late, is_starved

    @property
    def hint_id(self) -> str:
        """The class of what happened."""
        return "hang" if self.is_late else "crashed"


class PackagedCalled(BaseException):
    """The function called what the exercise asks for."""


class Raised(Exception):
    """What the learner's function raised, of no class of Python's own, or of one that ends programs."""


class Solution:
    """The learner's function, as a case sees it: a context that ends the process behind it.

    Example:
        with Solution(exercise, packed, nursery, folder, 20.0) as solution:
            solution(8, 4)      # asks, and returns the answer or raises what was raised

    An exception comes back as the first of Python's own classes that it is of, with `where`, the learner's line.
    """

    def __init__(self, exercise: Exercise, packed: Packed, nursery: Nursery, folder: Path, deadline_s: float) -> None:
        self._folder, self._source = folder, packed.source
        self._deadline_s, self._left_s, self._patience = deadline_s, START_S, 0
        self._is_ready = False
        self._buffer = bytearray()
        self._line, other_end = socket.socketpair()
        words = [str(folder), str(other_end.fileno())]
        with other_end:
            self._process = nursery.start(
                folder, "pllab.lesson.answering:run", *words, log=folder / "printed", pass_fds=[other_end.fileno()]
            )
        self._job = {
            "function": base64.b64encode(packed.function).decode(),
            "package": list(exercise.package),
            "source": packed.source,
        }

    def __enter__(self) -> Self:
        try:
            self._send(self._job)
            if "ready" not in self._receive():
                raise Unread
        except BaseException:
            self._end()
            raise
        self._left_s, self._is_ready = self._deadline_s, True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the other process.

        Raises:
            Ended: it died or is late.
            PackagedCalled: the function called what the exercise asks for.
            Exception: what the function raised.
        """
        calls: list[Call] = []
        self._send({"args": encode(list(args), calls), "kwargs": encode(kwargs, calls)})
        told = self._receive()
        while "call" in told:
            self._send(self._called(calls, told))
            told = self._receive()
        if "packaged" in told:
            raise PackagedCalled(str(told["packaged"]))
        if "raised" in told:
            raise _exception(told["raised"])
        value, after = self._decoded(told)
        for mine, theirs in zip(args, after, strict=True):
            write_back(mine, theirs)
        return value

    def _called(self, calls: list[Call], told: dict[str, Any]) -> dict[str, Any]:
        """Call a function of the case for the learner's; what else it raises, a refusal too, ends the question."""
        try:
            call, args, kwargs = calls[told["call"]], decode(told["args"]), decode(told["kwargs"])
        except NO_VALUE as error:
            raise _no_answer(error) from None
        try:
            value = call(*args, **kwargs)
        except (ValueError, TypeError, RuntimeError, LookupError) as error:
            return {"raised": [_kind([each.__name__ for each in type(error).__mro__]).__name__, str(error)]}
        except BaseException:
            with suppress(Ended):
                self._send({"stopped": True})
                self._receive()
            raise
        return {"value": encode(value), "after": encode(args)}

    def _decoded(self, told: dict[str, Any]) -> tuple[Any, list[Any]]:
        try:
            return decode(told["value"]), list(decode(told["after"]))
        except NO_VALUE as error:
            raise _no_answer(error) from None

    def _send(self, words: dict[str, Any]) -> None:
        self._line.settimeout(max(1.0, self._deadline_s))
        try:
            self._line.sendall(json.dumps(words).encode() + b"\n")
        except OSError:
            raise self._without_answer() from None

    def _receive(self) -> dict[str, Any]:
        start = time.monotonic()
        try:
            told = json.loads(self._text())
        except NO_VALUE as error:
            raise _no_answer(error) from None
        self._left_s -= time.monotonic() - start
        if not isinstance(told, dict):
            raise _no_answer(TypeError())
        return told

    def _text(self) -> bytes:
        """The next line; a process that is starved gets the deadline again."""
        until = time.monotonic() + self._left_s
        while (end := self._buffer.find(b"\n")) < 0:
            if not select.select([self._line], [], [], max(0.0, until - time.monotonic()))[0]:
                until += self._more_time()
                continue
            try:
                some = self._line.recv(1 << 20)
            except OSError:
                some = b""
            if not some or len(self._buffer) > _MOST_BYTES:
                raise self._without_answer()
            self._buffer += some
        text = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return text

    def _more_time(self) -> float:
        if not self._is_ready:  # the learner's code has not begun
            raise Ended(LATE.format(seconds=START_S), is_late=True, is_starved=True)
        self._patience += 1
        is_starving = is_starved(self._process.pid, self._deadline_s * self._patience)
        if is_starving and self._patience < PATIENCE:
            return self._deadline_s
        where = last_seen(stack_of(self._process.pid, self._folder / "asked"), self._source)
        raise Ended(LATE.format(seconds=self._deadline_s), where, is_late=True, is_starved=is_starving)

    def _without_answer(self) -> Ended:
        """The reason why the other end is closed."""
        self._line.close()
        with suppress(TimeoutExpired):
            self._process.wait(1.0)
        where = last_seen(text_of(self._folder / "stack"), self._source)
        return Ended(CRASHED.format(how=how_it_ended(self._process.returncode)), where)

    def _end(self) -> None:
        self._line.close()
        end_children([self._process])


def _no_answer(error: Exception) -> Ended:
    return Ended(_NO_ANSWER.format(error=type(error).__name__))


def _kind(names: Sequence[Any]) -> type[Exception]:
    """The first of Python's own classes among these, of those that `except Exception` catches."""
    kinds = (getattr(builtins, str(name), None) for name in names)
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)), Raised)


def _exception(told: Any) -> Exception:
    """What the function raised, to be raised here."""
    try:
        error = _kind(told["kinds"])(str(told["text"]))
        error.shown, error.where = str(told["shown"]), str(told["where"])  # type: ignore[attr-defined]
    except (KeyError, TypeError) as wrong:
        raise _no_answer(wrong) from None
    return error


def judge(exercise: Exercise, packed: Packed, nursery: Nursery, folder: Path, deadline_s: float) -> Verdict:
    """Judge a solution by its answers: all cases, also after one that failed, but none after it stopped answering.

    folder: an empty folder for what the other process prints.
    """
    results: list[Result] = []
    is_starved = False
    try:
        with Solution(exercise, packed, nursery, folder, deadline_s) as solution:
            for case in exercise.cases:
                results.append(_result(case, solution))
    except Unread:
        return refusal(exercise, "cannot_travel", CANNOT_BE_READ, _printed(folder))
    except NotImplementedError:
        return Verdict(exercise=exercise, outcome=Outcome.NOT_ATTEMPTED, printed=_printed(folder))
    except PackagedCalled as packaged:
        return refusal(exercise, "packaged", _PACKAGED.format(name=packaged), _printed(folder))
    except Ended as ended:
        is_starved = ended.is_starved
        results += [] if is_starved else [_unanswered(exercise.cases[len(results)], ended)]
    has_failed = any(result.failed for result in results)
    undecided = is_starved and not has_failed
    outcome = Outcome.UNDECIDED if undecided else Outcome.NOT_YET if has_failed else Outcome.RIGHT
    results += [Result(claim=claim) for claim in exercise.claims[len(results) :]]
    return Verdict(exercise=exercise, outcome=outcome, results=tuple(results), printed=_printed(folder))


def _unanswered(case: Case, ended: Ended) -> Result:
    hint_id, hint = case.on_hang if ended.is_late and case.on_hang else (ended.hint_id, str(ended))
    return Result(claim=case.claim, hint_id=hint_id, hint=hint, where=ended.where)


def _printed(folder: Path) -> str:
    """The beginning of what the function printed."""
    return text_of(folder / "printed", MOST_PRINTED).strip()


def _result(case: Case, solution: Solution) -> Result:
    try:
        case.test(solution)
    except NotImplementedError:
        raise
    except Wrong as wrong:
        where = getattr(wrong.__context__, "where", "")
        return Result(claim=case.claim, hint_id=wrong.hint_id, hint=wrong.sentence, where=where)
    except Exception as error:
        shown = getattr(error, "shown", "")
        hint = f"Your function raised {shown}" if shown else _UNUSABLE.format(error=error)
        return Result(
            claim=case.claim, hint_id="raised" if shown else "unusable", hint=hint, where=getattr(error, "where", "")
        )
    return Result(claim=case.claim, passed=True)
