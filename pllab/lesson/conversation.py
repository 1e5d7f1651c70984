"""One end of a conversation with a process of `answering`: JSON lines over a socket, and how that process ended."""

import json
import re
import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import IO, Any

from pllab.comm.fork_server import ForkServer
from pllab.comm.processes import end_children, how_it_ended, is_starved, stack_of, text_of
from pllab.lesson.encoding import NO_VALUE
from pllab.lesson.own_code import is_theirs

_MOST_BYTES = 1 << 26  # of one answer
_SEND_S = 30.0
CRASHED = "The process that ran your function {how} before the check was over; that never counts as passed."
_LATE = "Your function did not come back within {seconds:g} s; something waits forever."
_NO_ANSWER = "Your function ended the conversation with its check ({error}); a verdict counts only for what it returns."


class Ended(BaseException):
    """There will be no answer: the process died, or the deadline passed (`is_late`)."""

    def __init__(self, sentence: str, where: str = "", *, is_late: bool = False) -> None:
        super().__init__(sentence)
        self.where, self.is_late = where, is_late


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

        Raises:
            Ended: the process has ended, or what it said is no value.
        """
        end = time.monotonic() + timeout_s
        while (told := self.pull(end - time.monotonic())) is None:
            if time.monotonic() >= end:
                return None
        return told

    def pull(self, timeout_s: float = 0.0) -> dict[str, Any] | None:
        """Read what has arrived, or arrives within the time; return the value if it is complete.

        Values that arrived together are taken one by one: a process may have given its answer and ended.

        Raises:
            Ended: as `receive` does.
        """
        if b"\n" not in self._buffer and select.select([self._line], [], [], max(0.0, timeout_s))[0]:
            some = b""
            with suppress(OSError):
                some = self._line.recv(1 << 20)
            self._buffer += some
            if not some or len(self._buffer) > _MOST_BYTES:
                raise self._without_answer()
        text, found, rest = self._buffer.partition(b"\n")
        if not found:
            return None
        self._buffer = rest
        try:
            told = json.loads(text)
        except NO_VALUE as error:
            raise no_answer(error) from None
        if not isinstance(told, dict):
            raise no_answer(TypeError())
        return told

    def is_starved(self, wall_s: float) -> bool:
        """Whether other programs have the machine."""
        return is_starved(self._process.pid, wall_s)

    def late(self, timeout_s: float) -> Ended:
        """What to raise when the time is over, with the learner's line where the process is."""
        where = last_seen(stack_of(self._process.pid, self._folder / "asked"))
        return Ended(_LATE.format(seconds=timeout_s), where, is_late=True)

    def end(self) -> None:
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
        return Ended(CRASHED.format(how="left the conversation" if code is None else how_it_ended(code)), where)


def no_answer(error: Exception) -> Ended:
    """What to raise for text that is not an answer."""
    return Ended(_NO_ANSWER.format(error=type(error).__name__))


def last_seen(stack: str) -> str:
    """Where the student's code was, from faulthandler's dump: the innermost frame is first."""
    for name, line, function in re.findall(r'File "([^"]+)", line (\d+) in (\S+)', stack):
        if is_theirs(name):
            return f"last seen in line {line} of {function}"
    return ""
