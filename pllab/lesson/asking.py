"""A check that asks: the cases run here, the learner's function in another process, and each call is a question.

    a case                          Solution                        the process of `answering`
    solution(8, 4)            ->    {"args": [8, 4]}          ->    calls the function
    a value, or an exception  <-    decoded                   <-    {"value": ..., "after": ...}

What comes back is data, so no value can be disguised, and nothing that the function patches or imports changes how its
answers are judged. What a program of a case looks at in that process (`inside`, `on_ranks`) is believed. What a case
passes on stays here: a function among the arguments is called here, and the lists and tensors are copied back.
"""

import builtins
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import torch

from pllab.comm.fork_server import ForkServer
from pllab.lesson.asked_ranks import ask_ranks, raise_refusal
from pllab.lesson.conversation import Conversation, Ended, no_answer
from pllab.lesson.encoding import NO_VALUE, Call, decode, encode, full_name, write_back
from pllab.lesson.exercise import Case, Exercise, Refused, Undecided, Wrong
from pllab.lesson.packing import InCells, Packed
from pllab.lesson.verdict import Outcome, Result, Verdict, refusal

START_S = 120.0  # importing torch on a busy machine
_MAKE_S = 60.0  # reading the function with its imports, or running the cells that make it; then the deadline starts
PATIENCE = 3  # deadlines that a function gets while other programs have the machine
_MOST_CALLS = 100_000  # that one question may lead to; the deadline does not count what is done here
MOST_PRINTED = 2000  # bytes of the student's output that a verdict shows


class Solution:
    """The learner's function, as a case sees it: a context that ends the process behind it.

    Example:
        with Solution(server, folder, job, printed, deadline_s=20.0) as solution:
            solution(8, 4)      # asks, and returns the answer or raises what was raised

    Both processes may write in `folder`; `job` is what `Conversation` gives; `printed` is an open file for what the
    function prints; `deadline_s` is for all questions together, once the function is there. An exception comes back as
    the first of Python's own classes that it belongs to, with `where`, the learner's line.
    """

    def __init__(
        self, server: ForkServer, folder: Path, job: dict[str, Any], printed: IO[bytes], *, deadline_s: float
    ) -> None:
        self.folder, self._server, self._job, self._printed = folder, server, job, printed
        self._of_questions_s = deadline_s
        self._give(_MAKE_S)
        self.kept: dict[Any, Any] = {}

    def __enter__(self) -> Self:
        self._line = Conversation(self._server, self.folder, self._job, printed=self._printed)
        try:
            if self._line.receive(START_S) is None:  # the learner's code has not begun
                raise Undecided
            self._wait_until_made()
        except BaseException:
            self._line.end()
            raise
        self._give(self._of_questions_s)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.end()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the other process.

        Raises:
            Ended: it died or is late.
            Undecided: it is late, and other programs had the machine.
            Refused: the function is the stub, or called what the exercise asks for.
            Exception: what the function raised.
        """
        return self._ask(args, kwargs)

    def inside(self, program: Callable[..., Any], *args: Any) -> Any:
        """What `program(function, *args)` returned in the other process; the program is a function of an exercise.

        It looks at what cannot be sent, such as which layer is which, and returns it as data. It may raise `Wrong`.
        """
        return self._ask(args, {}, program=full_name(program))

    def _ask(self, args: Sequence[Any], kwargs: dict[str, Any], **more: str) -> Any:
        calls: list[Call] = []
        self._line.send({"args": encode(list(args), calls), "kwargs": encode(kwargs, calls), **more})
        for _ in range(_MOST_CALLS):
            if "call" not in (told := self._receive()):
                break
            self._line.send(self._called(calls, told))
        else:
            raise self._line.late(self._deadline_s)
        raise_refusal(told)
        if "raised" in told:
            raise _exception(told["raised"])
        value, after = self._decoded(told)
        if after is not None:  # the function has written into its arguments
            for mine, theirs in zip(args, after, strict=True):
                write_back(mine, theirs)
        return value

    def _give(self, deadline_s: float) -> None:
        self._deadline_s, self._left_s, self._patience = deadline_s, deadline_s, 0

    def _wait_until_made(self) -> None:
        """Wait for the function; the first case has not begun yet, so its own hints explain nothing here."""
        try:
            told = self._receive()
            if "made" in told:
                return
            hint_id, sentence = map(str, told["refused"])
        except NO_VALUE as error:
            hint_id, sentence = "crashed", str(no_answer(error))
        except Ended as ended:
            hint_id, sentence = ("hang" if ended.is_late else "crashed"), str(ended)
        raise Refused(hint_id, sentence)

    def on_ranks(self, program: Callable[..., Any], world_size: int, *args: Any, **options: Any) -> list[Any]:
        """What `program(rank, world_size, function, *args)` returned on each rank; see `ask_ranks`."""
        return ask_ranks(self._server, self.folder, self._job, program, world_size, args, **options)

    def _called(self, calls: list[Call], told: dict[str, Any]) -> dict[str, Any]:
        """Call a function of the case for the learner's code; what else it raises, refusals too, ends the question."""
        try:
            call, args, kwargs = calls[told["call"]], decode(told["args"]), decode(told["kwargs"])
        except NO_VALUE as error:
            raise no_answer(error) from None
        try:
            value = call(*args, **kwargs)
        except (ValueError, TypeError, RuntimeError, LookupError) as error:
            made = _made([each.__name__ for each in type(error).__mro__], str(error))
            return {"raised": [type(made).__name__, str(error)]}
        except BaseException:
            with suppress(Ended, Undecided):
                self._line.send({"stopped": True})
                self._receive()
            raise
        return {"value": encode(value), "after": encode([*args, *kwargs.values()])}

    def _decoded(self, told: dict[str, Any]) -> tuple[Any, list[Any] | None]:
        try:
            after = told["after"]
            return decode(told["value"]), None if after is None else list(decode(after))
        except NO_VALUE as error:
            raise no_answer(error) from None

    def _receive(self) -> dict[str, Any]:
        """The next answer; a process that is starved gets the deadline again."""
        start = time.monotonic()
        while (told := self._line.receive(self._left_s)) is None:
            self._patience += 1
            if not self._line.is_starved(self._deadline_s * self._patience):
                raise self._line.late(self._deadline_s)
            if self._patience == PATIENCE:
                raise Undecided
            start, self._left_s = time.monotonic(), self._deadline_s
        self._left_s -= time.monotonic() - start
        return told


def _made(names: Sequence[Any], text: str) -> Exception:
    """An exception of the first of Python's own classes among these, of those that `except Exception` catches."""
    kinds: Iterator[Any] = (getattr(builtins, str(name), None) for name in names)
    for kind in kinds:
        with suppress(TypeError):  # it is no class, or one that needs more than a text, as a UnicodeDecodeError
            if issubclass(kind, Exception):
                return kind(text)
    return Exception(text)  # not one of Python's own classes, or one that ends programs


def _exception(told: Any) -> Exception:
    """What the function raised, to be raised here."""
    try:
        error = _made(told["kinds"], str(told["text"]))
        error.shown, error.where = str(told["shown"]), str(told["where"])  # type: ignore[attr-defined]
    except (KeyError, TypeError) as wrong:
        raise no_answer(wrong) from None
    return error


def judge(exercise: Exercise, packed: Packed | InCells, server: ForkServer, folder: Path, deadline_s: float) -> Verdict:
    """Judge a solution by its answers, case by case up to the first that fails.

    What fails after that may follow from it, and would name a false cause.

    folder: an empty folder, in which the other process may write.
    """
    package = [f"pllab.{name}" for name in exercise.package]
    server.add(exercise.module, *(name.rpartition(".")[0] for name in package))  # 03.3 and 16.2 import for seconds
    with tempfile.TemporaryFile() as printed:
        job = {"file": exercise.module, "package": package, **vars(packed)}
        with _as_torch_begins():
            verdict = _judged(exercise, Solution(server, folder, job, printed, deadline_s=deadline_s))
        printed.seek(0)
        return replace(verdict, printed=printed.read(MOST_PRINTED).decode(errors="replace").strip())


def _judged(exercise: Exercise, solution: Solution) -> Verdict:
    results: list[Result] = []
    outcome = Outcome.RIGHT
    try:
        with solution:
            for case in exercise.cases:
                results.append(_result(case, solution))
                if results[-1].failed:
                    break
    except Refused as refused:
        return refusal(exercise, refused.hint_id, refused.sentence)
    except Undecided:
        outcome = Outcome.UNDECIDED
    except Ended as ended:
        results.append(_unanswered(exercise.cases[len(results)], ended))
    if any(result.failed for result in results):
        outcome = Outcome.NOT_YET
    results += [Result(claim=claim) for claim in exercise.claims[len(results) :]]
    return Verdict(exercise=exercise, outcome=outcome, results=tuple(results))


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


def _unanswered(case: Case, ended: Ended) -> Result:
    hint_id, hint = ("hang" if ended.is_late else "crashed"), str(ended)
    if ended.is_late and case.on_hang:
        hint_id, hint = case.on_hang
    return Result(claim=case.claim, hint_id=hint_id, hint=hint, where=ended.where)


def _result(case: Case, solution: Solution) -> Result:
    try:
        case.test(solution)
    except Wrong as wrong:
        where = getattr(wrong.__context__, "where", "")
        return Result(claim=case.claim, hint_id=wrong.hint_id, hint=wrong.sentence, where=where)
    except Exception as error:
        if shown := getattr(error, "shown", ""):
            hint_id, hint = "raised", f"Your function raised {shown}"
        else:
            hint_id, hint = "unusable", f"The check cannot use what your function gave: {error}."
        return Result(claim=case.claim, hint_id=hint_id, hint=hint, where=getattr(error, "where", ""))
    return Result(claim=case.claim, passed=True)
