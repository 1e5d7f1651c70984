"""A check that asks: the cases run here, the learner's function in another process, and each call is a question.

    a case                          Solution                        the process of `answering`
    solution(8, 4)            ->    {"args": [8, 4]}          ->    calls the function
    a value, or an exception  <-    decoded                   <-    {"value": ..., "after": ...}

What comes back is data, so no value can be disguised, and nothing that the function patches or imports changes how its
answers are judged. What a program of a case looks at in that process (`inside`, `on_ranks`) is believed. What a case
passes on stays here: a function among the arguments is called here, and the lists and tensors are copied back.

On ranks each is such a process, and what its program saw comes back as data.

In order: one end of a conversation with such a process, JSON lines over a socket; the questions; the ranks.
"""

import builtins
import json
import re
import select
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from os.path import samestat
from pathlib import Path
from subprocess import TimeoutExpired
from typing import IO, Any

from pllab.comm import RankError
from pllab.comm.errors import sounds_like_echo
from pllab.comm.fork_server import ForkServer
from pllab.comm.processes import end_children, how_it_ended, is_starved, stack_of, text_of
from pllab.lesson.encoding import NO_VALUE, Call, decode, encode, full_name, write_back
from pllab.lesson.exercise import Refused, Undecided, Wrong
from pllab.lesson.own_code import is_theirs

START_S = 120.0  # importing torch on a busy machine
_MAKE_S = 60.0  # reading the function with its imports, or running the cells that make it; then the deadline starts
PATIENCE = 3  # deadlines that a function gets while other programs have the machine
_MOST_CALLS = 100_000  # that one question may lead to; the deadline does not count what is done here
_MOST_BYTES = 1 << 26  # of one answer
_SEND_S = 30.0
_GRACE_S = 3.0  # in which a cause may arrive after its echo
_KINDS = {name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)}
_CRASHED = "The process that ran your function {how} before the check was over; that never counts as passed."
_MOVED = "The process that ran your function moved the folder of its check; that never counts as passed."
_LATE = "Your function did not come back within {seconds:g} s; something waits forever."
_NO_ANSWER = "Your function ended the conversation with its check ({error}); a verdict counts only for what it returns."


class Ended(Refused):
    """There will be no answer: the process died ("crashed"), or the deadline passed ("hang")."""

    def __init__(self, hint_id: str, sentence: str, where: str = "") -> None:
        super().__init__(hint_id, sentence)
        self.where = where


@contextmanager
def _reading() -> Iterator[None]:
    """Read what the process told; what cannot be read is no answer.

    Raises:
        Ended: it cannot be read.
    """
    try:
        yield
    except NO_VALUE as error:
        raise Ended("crashed", _NO_ANSWER.format(error=type(error).__name__)) from None


class Conversation:
    """A process for the learner's function, with the job that it was given.

    job: the packed function, what is taken out of the package, and the cells that the function comes from.
    folder: an empty one, for its stack.
    log: an open file for what it prints.
    hash_seed: it is a new Python that hashes texts with this seed.
    """

    def __init__(
        self, server: ForkServer, folder: Path, job: dict[str, Any], log: IO[bytes] | None = None, hash_seed: str = ""
    ) -> None:
        self._folder = folder
        self._buffer = bytearray()
        self._line, other_end = socket.socketpair()
        self._line.settimeout(_SEND_S)
        with other_end:
            words, ends = ["pllab.lesson.answering:run", str(folder)], [other_end.fileno()]
            self._process = server.start(folder, *words, log=log, pass_fds=ends, hash_seed=hash_seed)
        self.send(job)

    def wait_until_ready(self) -> None:
        """Wait for its imports; the learner's code has not begun.

        Raises:
            Undecided: they took too long.
        """
        if self.receive(START_S) is None:
            raise Undecided

    def fileno(self) -> int:
        """The descriptor to wait for, with `select`."""
        return self._line.fileno()

    @property
    def has_word(self) -> bool:
        """Whether a value has arrived, together with the one before it."""
        return b"\n" in self._buffer

    def send(self, words: Mapping[str, Any]) -> None:
        """Send one value.

        Raises:
            Ended: the process has ended.
        """
        try:
            self._line.sendall(json.dumps(words).encode() + b"\n")
        except OSError:
            raise self._without_answer() from None

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """Wait for one value; None when the time is over.

        Values that arrived together are taken one by one: a process may have given its answer and ended.

        Raises:
            Ended: the process has ended, or what it said is no value.
            Refused: the function is.
            Wrong: a program of the check refuses what it saw.
        """
        end = time.monotonic() + timeout_s
        while not self.has_word:
            if not select.select([self._line], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            some = b""
            with suppress(OSError):
                some = self._line.recv(1 << 20)
            self._buffer += some
            if not some or len(self._buffer) > _MOST_BYTES:
                raise self._without_answer()
            if b"\n" not in some and time.monotonic() > end:  # who talks for ever is late too
                return None
        text, _, self._buffer = self._buffer.partition(b"\n")
        with _reading():
            told = dict(json.loads(text))
            for kind, refusal in (("refused", Refused), ("wrong", Wrong)):
                if kind in told:
                    raise refusal(*map(str, told[kind]))
        return told

    def is_starved(self, wall_s: float) -> bool:
        """Whether other programs have the machine."""
        return is_starved(self._process.pid, wall_s)

    def late(self, timeout_s: float) -> Ended:
        """What to raise when the time is over, with the learner's line where the process is."""
        where = _last_seen(stack_of(self._process.pid, self._folder / "asked"))
        return Ended("hang", _LATE.format(seconds=timeout_s), where)

    def close(self) -> None:
        """End the process with all that it started."""
        self._line.close()
        end_children([self._process])

    def _without_answer(self) -> Ended:
        """The reason why the other end is closed."""
        self._line.close()
        with suppress(TimeoutExpired):
            self._process.wait(1.0)
        where = _last_seen(text_of(self._folder / "stack"))
        code = self._process.returncode
        how = "left the conversation" if code is None else how_it_ended(code)
        return Ended("crashed", _CRASHED.format(how=how), where)


def _last_seen(stack: str) -> str:
    """Where the student's code was, from faulthandler's dump: the innermost frame is first."""
    for name, line, function in re.findall(r'File "([^"]+)", line (\d+) in (\S+)', stack):
        if is_theirs(name):
            return f"last seen in line {line} of {function}"
    return ""


class Solution:
    """The learner's function, as a case sees it, in a process of its own that ends with `close`.

    Example:
        with closing(Solution(server, folder, job, printed)) as solution:
            solution.begin(deadline_s=20.0)
            solution(8, 4)      # asks, and returns the answer or raises what was raised

    Both processes may write in `folder`; `job` is what `Conversation` gives; `printed` is an open file for what the
    function prints. An exception comes back as the first of Python's own classes that it belongs to, with `where`, the
    learner's line.
    """

    def __init__(self, server: ForkServer, folder: Path, job: dict[str, Any], printed: IO[bytes]) -> None:
        self._folder, self._made, self._server, self._job = folder, folder.lstat(), server, job
        self.kept: dict[Any, Any] = {}
        self._line = Conversation(server, folder, job, printed)

    @property
    def folder(self) -> Path:
        """The folder in which both sides may write; foreign code could put a link to another one in its place.

        Raises:
            Ended: it is no longer the one that was given.
        """
        with suppress(OSError):
            if samestat(self._folder.lstat(), self._made):
                return self._folder
        raise Ended("crashed", _MOVED)

    def begin(self, deadline_s: float) -> None:
        """Wait for the function; the deadline is for all questions together, once the function is there.

        Raises:
            Refused, Undecided: as for a question, or it cannot be made.
        """
        self._line.wait_until_ready()
        self._give(_MAKE_S)
        self._receive()
        self._give(deadline_s)

    def close(self) -> None:
        """End its process."""
        self._line.close()

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

    def on_ranks(
        self, program: Callable[..., Any], world_size: int, *args: Any, timeout_s: float = 15.0, hash_seed: str = ""
    ) -> list[Any]:
        """What `program(rank, world_size, function, *args)` returned on every rank of a ready group, in order.

        The program is a function of an exercise's module. It returns observations (gradients, messages, plain records
        of that module), which are judged here.

        Raises:
            RankError: a rank raised, died, or had not finished after `timeout_s` seconds.
            Refused: a rank called what the exercise asks for.
            Wrong: the program refused what it saw on a rank.
            Undecided: a rank had not finished, and other programs had the machine.
        """
        asked = {"program": full_name(program), "size": world_size, "args": encode(args), "timeout_s": timeout_s}
        with tempfile.TemporaryDirectory(prefix="ranks-", dir=self.folder) as name, ExitStack() as ending:
            ranks: list[Conversation] = []
            for rank in range(world_size):
                place = Path(name, str(rank))
                place.mkdir()
                job = {**self._job, "ranks": asked | {"rank": rank, "meet": f"{name}/meeting"}}
                line = Conversation(self._server, place, job, hash_seed=hash_seed)
                ranks.append(ending.enter_context(closing(line)))
            for line in ranks:
                line.wait_until_ready()
            return _answers(ranks, timeout_s)

    def _give(self, deadline_s: float) -> None:
        self._deadline_s, self._left_s, self._patience = deadline_s, deadline_s, 0

    def _ask(self, args: Sequence[Any], kwargs: dict[str, Any], **more: str) -> Any:
        calls: list[Call] = []
        self._line.send({"args": encode(list(args), calls), "kwargs": encode(kwargs, calls), **more})
        for _ in range(_MOST_CALLS):
            if "call" not in (told := self._receive()):
                break
            self._line.send(self._called(calls, told))
        else:
            raise self._line.late(self._deadline_s)
        if "raised" in told:
            raise _exception(told["raised"])
        with _reading():
            value, after = decode(told["value"]), decode(told["after"])
        if after is not None:  # the function has written into its arguments
            for mine, theirs in zip(args, after, strict=True):
                write_back(mine, theirs)
        return value

    def _called(self, calls: list[Call], told: dict[str, Any]) -> dict[str, Any]:
        """Call a function of the case for the learner's code; what else it raises, refusals too, ends the question."""
        with _reading():
            call, args, kwargs = calls[told["call"]], decode(told["args"]), decode(told["kwargs"])
        try:
            value = call(*args, **kwargs)
        except (ValueError, TypeError, RuntimeError, LookupError, AttributeError) as error:
            made = _made([each.__name__ for each in type(error).__mro__], str(error))
            return {"raised": [type(made).__name__, str(error)]}
        except BaseException:
            with suppress(Refused, Wrong, Undecided):
                self._line.send({"stopped": True})
                self._receive()
            raise
        return {"value": encode(value), "after": encode([*args, *kwargs.values()])}

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


def _exception(told: Any) -> Exception:
    """What the function raised, to be raised here."""
    with _reading():
        error = _made(told["kinds"], str(told["text"]))
        error.shown, error.where = str(told["shown"]), str(told["where"])  # type: ignore[attr-defined]
    return error


def _made(names: Sequence[str], text: str) -> Exception:
    """An exception of the first of Python's own classes among these, of those that `except Exception` catches."""
    for name in names:
        with suppress(KeyError, TypeError):  # it is none, or one that needs more than a text, as a UnicodeDecodeError
            return _KINDS[name](text)
    return Exception(text)


def _answers(ranks: Sequence[Conversation], timeout_s: float) -> list[Any]:
    """The answer of each rank; the first failure that is not an echo of another ends the wait for the rest."""
    told: dict[int, dict[str, Any]] = {}
    failures: list[tuple[bool, int]] = []  # whether it is an echo, and the rank
    end = time.monotonic() + timeout_s
    while len(told) < len(ranks) and all(is_echo for is_echo, _ in failures):
        waited_for = {rank: line for rank, line in enumerate(ranks) if rank not in told}
        left_s = end - time.monotonic()
        ready = [line for line in waited_for.values() if line.has_word]
        ready = ready or select.select(list(waited_for.values()), [], [], max(0.0, left_s))[0]
        if not ready or left_s < -_GRACE_S:  # who talks for ever is late too
            break
        heard = {rank: _heard(line) for rank, line in waited_for.items() if line in ready}
        told |= {rank: one for rank, one in heard.items() if one is not None}
        failures = [(one["is_echo"], rank) for rank, one in told.items() if "failed" in one]
        if failures:
            end = min(end, time.monotonic() + _GRACE_S)
    if failures:
        _, rank = min(failures)
        raise RankError(rank, f"rank {rank} {told[rank]['failed']}")
    if late := [rank for rank in range(len(ranks)) if rank not in told]:
        if any(ranks[rank].is_starved(timeout_s) for rank in late):
            raise Undecided
        names = ", ".join(map(str, late))
        raise RankError(late[0], f"rank {names} of {len(ranks)} had not finished after {timeout_s:g} s")
    return [decode(told[rank]["value"]) for rank in range(len(ranks))]


def _heard(line: Conversation) -> dict[str, Any] | None:
    """What a rank answers or, if it failed, how, and whether it only lost another one; None while it is silent."""
    try:
        told = line.receive(0.0)
    except Ended as ended:
        return {"failed": ended.sentence, "is_echo": False}
    if told is None or "value" in told:
        return told
    with _reading():
        name, shown = str(told["raised"]["kinds"][0]), str(told["raised"]["shown"])
    return {"failed": f"raised {shown}", "is_echo": sounds_like_echo(name, shown)}
