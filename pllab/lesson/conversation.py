"""One end of a conversation with a process of `answering`: JSON lines over a socket, and how that process ended."""

import json
import re
import select
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import IO, Any

from pllab.comm.fork_server import ForkServer
from pllab.comm.processes import end_children, how_it_ended, is_starved, stack_of, text_of
from pllab.lesson.encoding import NO_VALUE
from pllab.lesson.exercise import Refused, Undecided, Wrong
from pllab.lesson.own_code import is_theirs

START_S = 120.0  # importing torch on a busy machine
_MOST_BYTES = 1 << 26  # of one answer
_SEND_S = 30.0
_CRASHED = "The process that ran your function {how} before the check was over; that never counts as passed."
_LATE = "Your function did not come back within {seconds:g} s; something waits forever."
_NO_ANSWER = "Your function ended the conversation with its check ({error}); a verdict counts only for what it returns."


class Ended(Refused):
    """There will be no answer: the process died ("crashed"), or the deadline passed ("hang")."""

    def __init__(self, hint_id: str, sentence: str, where: str = "") -> None:
        super().__init__(hint_id, sentence)
        self.where = where


@contextmanager
def reading() -> Iterator[None]:
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
    printed: an open file for what it prints.
    hash_seed: it is a new Python that hashes texts with this seed.
    """

    def __init__(
        self,
        server: ForkServer,
        folder: Path,
        job: Mapping[str, Any],
        *,
        printed: IO[bytes] | None = None,
        hash_seed: str = "",
    ) -> None:
        self._folder = folder
        self._buffer = bytearray()
        self._line, other_end = socket.socketpair()
        self._line.settimeout(_SEND_S)
        with other_end:
            words, ends = ["pllab.lesson.answering:run", str(folder)], [other_end.fileno()]
            self._process = server.start(folder, *words, log=printed, pass_fds=ends, hash_seed=hash_seed)
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
        while b"\n" not in self._buffer:
            if not select.select([self._line], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            some = b""
            with suppress(OSError):
                some = self._line.recv(1 << 20)
            self._buffer += some
            if not some or len(self._buffer) > _MOST_BYTES:
                raise self._without_answer()
        text, _, self._buffer = self._buffer.partition(b"\n")
        with reading():
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
        where = last_seen(stack_of(self._process.pid, self._folder / "asked"))
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
        where = last_seen(text_of(self._folder / "stack"))
        code = self._process.returncode
        how = "left the conversation" if code is None else how_it_ended(code)
        return Ended("crashed", _CRASHED.format(how=how), where)


def last_seen(stack: str) -> str:
    """Where the student's code was, from faulthandler's dump: the innermost frame is first."""
    for name, line, function in re.findall(r'File "([^"]+)", line (\d+) in (\S+)', stack):
        if is_theirs(name):
            return f"last seen in line {line} of {function}"
    return ""
