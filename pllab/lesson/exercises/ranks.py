"""A student's function on real ranks, in worlds of several sizes after one launch, with an eye on every message.

Starting processes is what a check with ranks waits for. So one launch answers all cases: its processes meet again and
again, in the worlds of a plan. Every world begins when all processes stand at its door, and only then do deadlines run:
a busy machine starts slowly, and is no deadlock. What a rank sends goes into a file at once, so that the cause is known
even when gloo ends the process. What nobody waits for may still be under way when it is read: how far each call came
tells that, and a deadlock. What is refused about a run as such is in `failures`.
"""

import json
import math
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal, Self

from pllab import comm
from pllab.comm.errors import is_echo
from pllab.comm.ledger import GroupCall, HeardWork, Step, hear_calls
from pllab.comm.processes import text_of
from pllab.lesson.encoding import decode, encode
from pllab.lesson.exercise import once_a_check
from pllab.lesson.own_code import copied, is_stub, their_line

_enter_group = copied(comm.setup)  # exercise 02.2 asks for it

Plan = tuple[tuple[int, ...], ...]
"""World sizes, meeting after meeting: `((3,), (2, 1))` is a world of 3, then one of 2 beside one of 1."""

# Worlds of 1, 2 and 3 ranks: as a plan, their sizes, and every rank of each.
UP_TO_3: Plan = ((3,), (2, 1))
SIZES = (1, 2, 3)
RANKS = [(size, rank) for size in SIZES for rank in range(size)]

DEADLINE_S = 5.0  # of a message, once all ranks are there
LATE_S = 20.0  # of one world; for what waits elsewhere than in a message
_LAUNCH_S = 100.0


@dataclass
class Started:
    """A call that this process made, and how far it came; `peer` is None for a receive from anybody."""

    name: str
    peer: int | None
    state: Literal["started", "waiting", "through"] = "started"

    def __str__(self) -> str:
        what = f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"
        if self.name not in ("send", "receive"):
            return what
        other = "anybody" if self.peer is None else f"rank {self.peer}"
        return f"{what} {'to' if self.name == 'send' else 'from'} {other}"


class _Handle(HeardWork):
    """torch's handle of a call; whoever asks for its future or its result takes care of the end."""

    def __getattr__(self, name: str) -> Any:
        if name in ("get_future", "get_future_result", "result"):
            self._on_step("waited")
        return super().__getattr__(name)


@contextmanager
def watch_waits() -> Iterator[list[Started]]:
    """List every call that this process starts inside the block, through whatever function of torch.

    Example: after `dist.isend(x, 1)` the list is `[Started("send", 1, "started")]`, and after its `wait()` the state is
    "through". While a rank stands in `wait()`, or `wait()` has raised, it is "waiting".

    A handle is kept until its call is through, or else to the end of the block, so a receive that nobody waits for
    still takes its message, and does not look like a deadlock of its sender. With its call it lets go of the tensors.
    """
    calls: list[Started] = []
    kept: dict[int, HeardWork] = {}

    def listen(call: GroupCall) -> Callable[[Any], HeardWork]:
        def started(work: Any) -> HeardWork:
            number, one = len(calls), Started(call.name, call.args[1] if call.method in ("send", "recv") else None)

            def go_on(step: Step) -> None:
                one.state = "waiting" if step == "waiting" else "through"
                if one.state == "through":
                    kept.pop(number, None)

            calls.append(one)
            handle = kept[number] = _Handle(work, go_on)
            return handle

        return started

    with hear_calls(listen):
        yield calls


@dataclass(frozen=True)
class Attempt:
    """One call of the student's function on one rank; `error` is empty when it returned.

    where: the student's line that raised, such as `line 3 of average: dist.all_reduce(None)`.
    late: it waited for a message until the deadline, or the rank at the other end was gone.
    """

    value: Any
    messages: tuple[comm.Message, ...]
    started: tuple[Started, ...]
    error: str = ""
    where: str = ""
    late: bool = False

    @property
    def left(self) -> list[Started]:
        """What is still under way after a call that returned: nobody has waited for it."""
        return [] if self.error else [call for call in self.started if call.state == "started"]

    @property
    def failed(self) -> bool:
        """Whether it raised, or left something under way: what comes after it on this rank would say nothing."""
        return bool(self.error or self.left)

    def named(self, name: str) -> list[comm.Message]:
        """The messages of this name, in order."""
        return [message for message in self.messages if message.name == name]

    def busiest(self, measure: Callable[[comm.Message], int]) -> int:
        """The most that calls of one name moved: a reduce and a broadcast of the same tensor count once."""
        names = {message.name for message in self.messages}
        return max((sum(map(measure, self.named(name))) for name in names), default=0)

    def holding(self, value: Any) -> Self:
        """The same attempt with what the judge needs of its value."""
        return replace(self, value=value)


@dataclass(frozen=True)
class Watch:
    """What a program on a rank is given: `attempt`, and a folder that all processes share."""

    folder: Path
    log: Path

    def attempt(self, solution: Callable[..., Any], *arguments: Any) -> Attempt:
        """Call the student's function and keep what was seen, whatever happens; the stub's exception passes."""
        error: dict[str, Any] = {}
        with watch_waits() as started, comm.record_messages(self._note) as ledger:
            try:
                value = solution(*arguments)
            except Exception as raised:
                if is_stub(raised):
                    raise
                value, error = None, _told(raised)
        return Attempt(value, tuple(ledger.messages), tuple(started), **error)

    def write(self, line: Mapping[str, Any]) -> None:
        """A line into this process's log, which outlives the process."""
        with self.log.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _note(self, message: comm.Message) -> None:
        """Stop a message to or from a rank that does not exist, on which gloo would crash; write down all others."""
        if message.peer is not None and not 0 <= message.peer < comm.world_size():
            raise ValueError(f"there is no rank {message.peer} in a world of {comm.world_size()}")
        self.write(asdict(message))


def _told(error: Exception) -> dict[str, Any]:
    words = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(".")
    is_late = re.search("timed? ?out", words, re.IGNORECASE) is not None
    late = isinstance(error, RuntimeError | TimeoutError) and (is_late or is_echo(error))
    return {"error": words, "where": their_line(error), "late": late}


Program = Callable[[Watch, int, int, Any], Any]
"""`program(watch, rank, world_size, solution)` on every rank of a world; it returns what it saw."""


Calls = Iterator[tuple[str, Attempt]]
"""What the generator of a program yields: the names of its calls, and the attempts."""


def until_one_fails(calls: Callable[..., Calls]) -> Program:
    """The program that makes the calls of a generator.

    The first that fails on this rank is the last: its peers notice that the rank leaves the group.
    """

    @wraps(calls)
    def program(watch: Watch, rank: int, world_size: int, solution: Any) -> dict[str, Attempt]:
        seen = {}
        for name, one in calls(watch, rank, world_size, solution):
            seen[name] = one
            if one.failed:
                break
        return seen

    return program


@dataclass(frozen=True)
class Log:
    """What a process wrote down in one world, known even when it did not come back."""

    began: bool
    late: bool
    messages: tuple[comm.Message, ...]


@dataclass(frozen=True)
class World:
    """What the ranks of one world saw, in order of rank; if one of them did not come back, their logs and why."""

    seen: list[Any] | None
    logs: list[Log]
    ended: str = ""


@once_a_check  # all cases of an exercise ask about the same run
def run_worlds(program: Program, solution: Any, plan: Plan) -> dict[int, World]:
    """Run the program in every world of the plan, each of which has another size."""
    with tempfile.TemporaryDirectory(dir=solution.folder) as name:
        folder, ended = Path(name), ""
        try:
            solution.on_ranks(_serve, sum(plan[0]), program, plan, name, timeout_s=_LAUNCH_S)
        except comm.RankError as error:
            ended = str(error).partition("\n")[0]
        worlds: dict[int, World] = {}
        for meeting, sizes in enumerate(plan):
            for first, size in _places(sizes):
                files = [folder / f"{meeting}-{first + rank}" for rank in range(size)]
                results = [file.with_suffix(".result") for file in files]
                whole = all(file.exists() for file in results)
                seen = [decode(json.loads(text_of(file))) for file in results] if whole else None
                worlds[size] = World(seen, [_read(file.with_suffix(".log")) for file in files], ended)
    return worlds


def _serve(process: int, num_processes: int, solution: Any, program: Program, plan: Plan, name: str) -> None:
    """In each process: one world after the other."""
    folder = Path(name)
    for meeting, sizes in enumerate(plan):
        comm.teardown()
        line_up(folder, f"door-{meeting}", process, num_processes)
        first, size = next((first, size) for first, size in _places(sizes) if process < first + size)
        file = folder / f"{meeting}-{process}"
        watch = Watch(folder, file.with_suffix(".log"))
        with _time_limit(watch):
            door = str(folder / f"meeting-{meeting}-{first}")
            _enter_group(process - first, size, "gloo", init_file=door, timeout_s=DEADLINE_S)
            watch.write({"began": True})
            seen = json.dumps(encode(program(watch, process - first, size, solution)))
        draft = file.with_suffix(".draft")
        draft.write_text(seen)
        draft.rename(file.with_suffix(".result"))


def line_up(folder: Path, name: str, process: int, num_processes: int) -> None:
    """Wait until all processes are here; the launch's own deadline ends this wait."""
    (folder / f"{name}-{process}").touch()
    appear(*(folder / f"{name}-{other}" for other in range(num_processes)))


def appear(*files: Path, timeout_s: float = math.inf) -> bool:
    """Wait for files that other processes write; whether all were there in time."""
    until = time.monotonic() + timeout_s
    while not (are_there := all(file.exists() for file in files)) and time.monotonic() < until:
        time.sleep(0.01)
    return are_there


def _places(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """The first process and the size of each world of a meeting, in which every process has its place."""
    return [(sum(sizes[:number]), size) for number, size in enumerate(sizes)]


@contextmanager
def _time_limit(watch: Watch) -> Iterator[None]:
    def give_up() -> None:
        watch.write({"late": True})
        os._exit(1)

    timer = threading.Timer(LATE_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _read(log: Path) -> Log:
    lines = [json.loads(line) for line in text_of(log).splitlines()]
    messages = [comm.Message(**line | {"shape": tuple(line["shape"])}) for line in lines if "name" in line]
    return Log({"began": True} in lines, {"late": True} in lines, tuple(messages))
