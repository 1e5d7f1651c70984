"""How lesson 05 watches a student's function on real ranks: every collective call, every error, no endless wait.

The ledger hears every call before it is made, and it is written to a file there and then, so that it is known even
when the call never comes back.
"""

import json
import os
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Any

from pllab.comm import Message, RankError, record_messages
from pllab.comm.errors import is_echo
from pllab.lesson.exercise import Wrong, once_a_check
from pllab.lesson.exercises.waits import watch_waits
from pllab.lesson.own_code import their_line

Program = Callable[..., Any]  # program(rank, world_size, function, *args), on every rank
WORLD_SIZE = 3  # with two ranks, a 2 written into the code would pass for the number of ranks
_DEADLINE_S = 8.0  # for one call of the student's function; the start of the processes is not in it
_LATE = "late"


@dataclass(frozen=True)
class Attempt:
    """One call of the student's function on one rank; `error` is empty when it returned."""

    calls: list[Message]
    error: str = ""
    kind: str = ""
    echo: bool = False
    not_waited_for: int = 0

    def num_bytes(self) -> int:
        """The bytes of the busiest kind of call: a reduce and a broadcast of the same tensor count once."""
        return self._busiest({call.order: call.num_bytes for call in self.calls})

    def num_elements(self) -> int:
        """The same in elements: whoever sends all in the largest type sends more bytes, and no more elements."""
        return self._busiest({call.order: prod(call.shape) for call in self.calls})

    def _busiest(self, sizes: dict[int, int]) -> int:
        names = {call.name for call in self.calls}
        return max((sum(sizes[call.order] for call in self.calls if call.name == name) for name in names), default=0)


@dataclass(frozen=True)
class Ran:
    """What all ranks came back with; `results` is empty when a rank died, `calls` is known even then."""

    results: list[dict[str, Any]]
    calls: list[list[Message]]
    failure: str = ""
    late: bool = False

    def of(self, step: str) -> list[Any]:
        """What every rank saw in a step of the program; a rank that stopped before it answers with its last one.

        Raises:
            Wrong: a rank died, raised, waited for ever, or the ranks did not make the same calls.
        """
        if not self.results:
            agree(self.calls)
            if self.late:
                raise Wrong(*_HANG)
            raise Wrong("crashed", f"The ranks did not survive your function: {self.failure}.")
        seen = [result[step] if step in result else list(result.values())[-1] for result in self.results]
        attempts: list[Attempt] = [each.attempt for each in seen]
        for attempt in attempts:
            if attempt.error and not attempt.echo:
                raise _raised(attempt)
        agree([attempt.calls for attempt in attempts])
        if any(attempt.error for attempt in attempts):
            raise Wrong(*_HANG)
        for attempt in attempts:
            if attempt.not_waited_for:
                raise Wrong(
                    "not_waited_for",
                    f"{attempt.not_waited_for} messages were started and nobody waited for them, so they may still be "
                    "under way. Wait for what an asynchronous call returns, or leave out async_op.",
                )
        return seen


LITERAL = (
    "literal_world_size",
    "With three ranks the numbers are right, and in a world of one rank they are not that rank's own: the 3 stands in "
    "your code. Ask the group for the number of ranks.",
)
_HANG = ("hang", "A rank waits for a message that no other rank sends.")


def _raised(attempt: Attempt) -> Exception:
    if attempt.kind == "NotImplementedError":
        return NotImplementedError()
    return Wrong("raised", f"On a rank your function raised {attempt.error}.")


def attempt(log: Path, solution: Callable[..., Any], *arguments: Any) -> tuple[Any, Attempt]:
    """Call the student's function inside a rank; return its value and what was seen, whatever happens.

    log: the file for this rank's calls; a function that does not return in time ends the process.
    """
    calls: list[Message] = []

    def note(call: Message) -> None:
        calls.append(call)
        _append(log, json.dumps(asdict(call)))

    timer = threading.Timer(_DEADLINE_S, _give_up, [log])
    timer.daemon = True
    timer.start()
    try:
        with record_messages(note), watch_waits() as started:
            value = solution(*arguments)
        return value, Attempt(calls, not_waited_for=sum(call.state == "started" for call in started))
    except Exception as error:
        text = traceback.format_exception_only(error)[0].strip().rstrip(".")
        return None, Attempt(calls, text + _where(error), type(error).__name__, is_echo(error))
    finally:
        timer.cancel()


def _give_up(log: Path) -> None:
    _append(log, json.dumps(_LATE))
    os._exit(1)


def _append(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(line + "\n")


def _where(error: BaseException) -> str:
    """` (line 3 of average_gradients: dist.all_reduce(None))`: the innermost line of the student's own code."""
    line = their_line(error)
    return f" ({line})" if line else ""


@once_a_check  # all cases of an exercise ask about the same run
def run(program: Program, solution: Any, world_size: int = WORLD_SIZE) -> Ran:
    """Run `program(rank, world_size, solution, log)` on the ranks and collect what they saw."""
    with tempfile.TemporaryDirectory(dir=solution.folder) as folder:
        try:
            results, failure = solution.on_ranks(program, world_size, folder, timeout_s=45.0), ""
        except RankError as error:
            results, failure = [], str(error).partition("\n")[0]
        logs = [_read_log(log_of(folder, rank)) for rank in range(world_size)]
    calls = [[Message(**line | {"shape": tuple(line["shape"])}) for line in log if line != _LATE] for log in logs]
    return Ran(results, calls, failure, late=any(_LATE in log for log in logs))


def log_of(folder: str, rank: int) -> Path:
    """The file into which a rank writes its calls."""
    return Path(folder, f"calls-{rank}")


def _read_log(log: Path) -> list[Any]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def agree(calls: Sequence[Sequence[Message]]) -> None:
    """Every rank must make the same collective calls in the same order; send and receive have partners instead.

    Raises:
        Wrong: they do not.
    """
    ours = [[call for call in of_rank if call.name not in ("send", "receive")] for of_rank in calls]
    for number, row in enumerate(zip_longest(*ours), start=1):
        there = [call for call in row if call is not None]
        if len({call.peer for call in there}) > 1:
            raise Wrong(
                "own_source",
                f"In call {number} the ranks name the sources {listed([call.peer for call in there])}; "
                "all must name the same one.",
            )
        if len({_kind(call) for call in there}) > 1:  # before the counts: gloo may have ended a rank for it
            made = [(rank, call) for rank, call in enumerate(row) if call is not None]
            said = ", ".join(f"rank {rank} {call.name} of {prod(call.shape)}" for rank, call in made)
            raise Wrong(
                "other_order",
                f"Call {number} is not the same on all ranks ({said} numbers); calls are paired by order.",
            )
        if len(there) < len(row):
            counts = listed([len(of_rank) for of_rank in ours])
            raise Wrong(
                "not_all_ranks",
                f"The ranks made {counts} collective calls; a rank that makes one waits until all others make it too.",
            )


def _kind(call: Message) -> tuple[str, int]:
    """What must agree; a gather or scatter may hand over nothing on most ranks."""
    return call.name, prod(call.shape) if call.name in ("all_reduce", "broadcast", "reduce") else 0


def listed(numbers: Sequence[Any]) -> str:
    """`2, 3 and 5`."""
    return ", ".join(str(number) for number in numbers[:-1]) + f" and {numbers[-1]}"
