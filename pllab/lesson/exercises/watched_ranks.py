"""A student's function on real ranks, in worlds of several sizes after one launch, with an eye on every message.

Starting processes is what a check with ranks waits for. So one launch answers all cases: its processes meet again and
again, in the worlds of a plan. Every world begins when all processes stand at its door, and only then do deadlines run:
a busy machine starts slowly, and is no deadlock. What a rank sends goes into a file at once, so that the cause is known
even when gloo ends the process.
"""

import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pllab import comm
from pllab.comm.errors import is_echo
from pllab.lesson.conversation import text_of
from pllab.lesson.encoding import decode, encode
from pllab.lesson.exercise import Undecided, Wrong, once_a_check
from pllab.lesson.exercises.watched_waits import End, watch_ends
from pllab.lesson.own_code import copied

_enter_group = copied(comm.setup)  # exercise 02.2 asks for it

Plan = tuple[tuple[int, ...], ...]
"""World sizes, meeting after meeting: `((3,), (2, 1))` is a world of 3, then one of 2 beside one of 1."""

_DEADLINE_S = 5.0  # of a message, once all ranks are there
_LATE_S = 20.0  # of one world; for what waits elsewhere than in a message
_LAUNCH_S = 100.0


@dataclass(frozen=True)
class Attempt:
    """One call of the student's function on one rank; `error` is empty when it returned."""

    value: Any
    messages: tuple[comm.Message, ...]
    ends: tuple[End, ...]
    error: str = ""
    kind: str = ""
    late: bool = False

    @property
    def left(self) -> list[End]:
        """What is still under way after a call that returned: nobody has waited for it."""
        return [] if self.error else [end for end in self.ends if end.state == "started"]

    def named(self, name: str) -> list[comm.Message]:
        """The messages of this name, in order."""
        return [message for message in self.messages if message.name == name]


@dataclass(frozen=True)
class Watch:
    """What a program on a rank is given: `attempt`, and a folder that all processes share."""

    folder: Path
    log: Path

    def attempt(self, solution: Callable[..., Any], *arguments: Any) -> Attempt:
        """Call the student's function and keep what was seen, whatever happens."""
        with watch_ends() as ends, comm.record_messages(self._note) as ledger:
            try:
                value, seen = solution(*arguments), ("", "", False)
            except Exception as error:
                words = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(".")
                late = isinstance(error, RuntimeError | TimeoutError) and (_is_late(words) or is_echo(error))
                value, seen = None, (words, type(error).__name__, late)
        return Attempt(value, tuple(ledger.messages), tuple(ends), *seen)

    def write(self, *line: Any) -> None:
        """A line into this process's log, which outlives the process."""
        with self.log.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _note(self, message: comm.Message) -> None:
        """Stop a message to or from a rank that does not exist, on which gloo would crash; write down all others."""
        if message.peer is not None and not 0 <= message.peer < comm.world_size():
            raise ValueError(f"there is no rank {message.peer} in a world of {comm.world_size()}")
        self.write(message.name, message.peer, message.num_bytes)


Program = Callable[[Watch, int, int, Any], Any]
"""`program(watch, rank, world_size, solution)` on every rank of a world; it returns what it saw."""


@dataclass(frozen=True)
class Worlds:
    """What the ranks of all worlds saw; for a world that did not come to its end, why."""

    seen: dict[int, list[Any]]
    failures: dict[int, Wrong | Undecided]

    def of(self, world_size: int) -> list[Any]:
        """What the ranks of the world of this size saw, in order of rank.

        Raises:
            Wrong: a rank of it died or never came back.
            Undecided: the ranks did not begin in time, because the machine was busy.
        """
        if (failure := self.failures.get(world_size)) is not None:
            raise failure
        return self.seen[world_size]


@once_a_check  # all cases of an exercise ask about the same run
def worlds(program: Program, solution: Any, plan: Plan) -> Worlds:
    """Run the program in every world of the plan, each of which has another size."""
    with tempfile.TemporaryDirectory(dir=solution.folder) as name:
        folder, ended = Path(name), ""
        try:
            solution.on_ranks(_serve, sum(plan[0]), program, plan, name, timeout_s=_LAUNCH_S)
        except comm.RankError as error:
            ended = str(error).partition("\n")[0]
        seen: dict[int, list[Any]] = {}
        failures: dict[int, Wrong | Undecided] = {}
        for meeting, sizes in enumerate(plan):
            for first, size in zip(_firsts(sizes), sizes, strict=True):
                files = [folder / f"{meeting}-{first + rank}" for rank in range(size)]
                results = [file.with_suffix(".result") for file in files]
                if all(file.exists() for file in results):
                    seen[size] = [decode(json.loads(text_of(file))) for file in results]
                else:
                    why = _why(size, [_read(file.with_suffix(".log")) for file in files], ended)
                    # Nobody came to the worlds after the one that failed: they failed with it.
                    failures[size] = next(iter(failures.values()), why) if isinstance(why, Undecided) else why
    return Worlds(seen, failures)


def _serve(process: int, num_processes: int, solution: Any, program: Program, plan: Plan, name: str) -> None:
    """In each process: one world after the other."""
    folder = Path(name)
    for meeting, sizes in enumerate(plan):
        comm.teardown()
        first, size = next((f, s) for f, s in zip(_firsts(sizes), sizes, strict=True) if f <= process < f + s)
        watch = Watch(folder, folder / f"{meeting}-{process}.log")
        line_up(folder, f"door-{meeting}", process, num_processes)
        with _time_limit(watch):
            door = str(folder / f"meeting-{meeting}-{first}")
            _enter_group(process - first, size, "gloo", init_file=door, timeout_s=_DEADLINE_S)
            watch.write("began", None, 0)
            seen = json.dumps(encode(program(watch, process - first, size, solution)))
        draft = folder / f"{meeting}-{process}.draft"
        draft.write_text(seen)
        draft.rename(draft.with_suffix(".result"))


def line_up(folder: Path, name: str, process: int, num_processes: int) -> None:
    """Wait until all processes are here; the launch's own deadline ends this wait."""
    (folder / f"{name}-{process}").touch()
    while not all((folder / f"{name}-{other}").exists() for other in range(num_processes)):
        time.sleep(0.01)


def _firsts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:number]) for number in range(len(sizes))]


@contextmanager
def _time_limit(watch: Watch) -> Iterator[None]:
    def give_up() -> None:
        watch.write("late", None, 0)
        os._exit(1)

    timer = threading.Timer(_LATE_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_late(words: str) -> bool:
    return re.search("PeerError|timed? ?out|timeout|deadline", words, re.IGNORECASE) is not None


def _read(log: Path) -> list[tuple[str, int | None, int]]:
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def _why(size: int, logs: list[list[tuple[str, int | None, int]]], ended: str) -> Wrong | Undecided:
    """Why a world did not come to its end, from what its ranks wrote down."""
    names = [{name for name, *_ in log} for log in logs]
    if late := [rank for rank, said in enumerate(names) if "late" in said]:
        return Wrong(
            "hang",
            f"In a world of {size}, rank {late[0]} had not come back after {_LATE_S:g} s. Something waits for ever.",
        )
    if differing := _different_sizes(logs):
        return Wrong("sizes_differ", f"In a world of {size}, {differing} Both ends need the same shape and dtype.")
    if not all("began" in said for said in names):
        return Undecided(f"the ranks of the world of {size} did not all begin in time ({ended})")
    return Wrong("crashed", f"In a world of {size}, the ranks did not survive your function: {ended}.")


def _different_sizes(logs: list[list[tuple[str, int | None, int]]]) -> str:
    """A clause about the first message whose ends have different sizes."""
    for source, log in enumerate(logs):
        for to in range(len(logs)):
            sent = [num_bytes for name, peer, num_bytes in log if (name, peer) == ("send", to)]
            taken = [num_bytes for name, peer, num_bytes in logs[to] if (name, peer) == ("receive", source)]
            for gone, come in zip(sent, taken, strict=False):
                if gone != come:
                    return (
                        f"rank {source} sent {gone} bytes to rank {to}, which received into a tensor of {come} bytes."
                    )
    return ""


def refuse_failures(attempts: Sequence[Attempt], what: str) -> None:
    """Refuse attempts of all ranks of a world of which one raised, waits for ever, or left a message on its way.

    what: the place, such as `In a world of 3`.

    Raises:
        Wrong: the cause, and not its echo on another rank.
        NotImplementedError: the function is the stub.
    """
    for rank, one in enumerate(attempts):
        if one.kind == "NotImplementedError":
            raise NotImplementedError
        if one.error and not one.late:
            kind = "no_such_rank" if "rank" in one.error else "raised"
            raise Wrong(kind, f"{what}, rank {rank} raised {one.error}.")
    for rank, one in enumerate(attempts):
        if one.left:
            raise Wrong(
                "not_waited",
                f"{what}, rank {rank} came back while {one.left[0]} was still under way: it was started, and nobody "
                "waited for it. Only after its wait() may its tensor be used.",
            )
    if any(one.late for one in attempts):
        raise Wrong("deadlock", _deadlock(attempts, what))


def refuse_alone(attempts: Sequence[Attempt]) -> None:
    """Refuse a rank alone in its world that sent a message, or failed at it.

    Raises:
        Wrong: it did.
        NotImplementedError: the function is the stub.
    """
    for one in attempts:
        if one.kind == "NotImplementedError":
            raise NotImplementedError
        if one.error or one.messages:
            raise Wrong(
                "alone",
                f"In a world of 1 your function {f'failed ({one.kind})' if one.error else 'made a call to others'}. A "
                "rank cannot send to itself or receive from itself, and nobody else is there.",
            )


def _deadlock(attempts: Sequence[Attempt], what: str) -> str:
    """Where each rank stands, and the cause where the places tell it."""
    standing = {
        rank: end for rank, one in enumerate(attempts) if one.late for end in one.ends if end.state == "waiting"
    }
    places = ", ".join(f"rank {rank} stands in {end}" for rank, end in standing.items()) or "a rank waits"
    names = {end.name for end in standing.values()}
    advice = "A message has two ends: look for the rank that never makes the other one."
    if len(standing) == len(attempts) and names == {"send"}:
        advice = "Every rank waits in a send, so nobody comes to its receive: let somebody receive first, or start it."
    if len(standing) == len(attempts) and names == {"receive"}:
        advice = "Every rank waits in a receive, so nobody comes to its send: let somebody send first, or start it."
    return f"{what}, after {_DEADLINE_S:g} s: {places}. {advice}"
