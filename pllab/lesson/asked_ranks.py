"""The learner's function on real ranks: each is a process of `answering`, and what it saw comes back as data."""

import select
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pllab.comm import RankError
from pllab.comm.errors import sounds_like_echo
from pllab.comm.fork_server import ForkServer
from pllab.lesson.conversation import Conversation, Ended
from pllab.lesson.encoding import decode, encode, full_name
from pllab.lesson.exercise import Refused, Undecided, Wrong

_GRACE_S = 3.0  # in which a cause may arrive after its echo


def raise_refusal(told: Mapping[str, Any]) -> None:
    """Raise what an answer says of a function, or of what a program of the check saw of it, that is refused."""
    for kind, refusal in (("refused", Refused), ("wrong", Wrong)):
        if kind in told:
            raise refusal(*map(str, told[kind]))


def ask_ranks(
    server: ForkServer,
    folder: Path,
    job: Mapping[str, Any],
    program: Callable[..., Any],
    world_size: int,
    args: tuple[Any, ...],
    *,
    timeout_s: float = 15.0,
    hash_seed: str = "",
) -> list[Any]:
    """Run `program(rank, world_size, function, *args)` on every rank of a ready group; return what each saw, in order.

    The program is a function of an exercise's module. It returns observations (gradients, messages, plain records of
    that module), which are judged here.

    Raises:
        RankError: a rank raised, died, or had not finished after `timeout_s` seconds.
        Refused: a rank called what the exercise asks for.
        Wrong: the program refused what it saw on a rank.
        Undecided: a rank had not finished, and other programs had the machine.
    """
    asked = {"program": full_name(program), "size": world_size, "args": encode(args)}
    with tempfile.TemporaryDirectory(prefix="ranks-", dir=folder) as name, ExitStack() as ending:
        ranks: list[Conversation] = []
        for rank in range(world_size):
            place = Path(name, str(rank))
            place.mkdir()
            own = asked | {"rank": rank, "meet": f"{name}/meeting", "timeout_s": timeout_s}
            ranks.append(Conversation(server, place, {**job, "ranks": own}, hash_seed=hash_seed))
            ending.callback(ranks[-1].end)
        return [decode(told["value"]) for told in _answers(ranks, timeout_s)]


def _answers(ranks: list[Conversation], timeout_s: float) -> list[dict[str, Any]]:
    """The answer of each rank; the first failure that is not an echo of another ends the wait for the rest."""
    answers: dict[int, dict[str, Any]] = {}
    failures: dict[int, tuple[str, bool]] = {}
    end = time.monotonic() + timeout_s
    while len(answers) + len(failures) < len(ranks) and all(is_echo for _, is_echo in failures.values()):
        waited_for = [rank for rank in range(len(ranks)) if rank not in answers and rank not in failures]
        left_s = end - time.monotonic()
        ready = select.select([ranks[rank] for rank in waited_for], [], [], max(0.0, left_s))[0]
        if not ready or left_s < -_GRACE_S:  # who talks for ever is late too
            if failures:
                break
            raise _late(ranks, waited_for, timeout_s)
        for rank in waited_for:
            if ranks[rank] in ready:
                _listen(ranks[rank], rank, answers, failures)
        if failures:
            end = min(end, time.monotonic() + _GRACE_S)
    if failures:
        rank = min(failures, key=lambda rank: (failures[rank][1], rank))
        raise RankError(rank, f"rank {rank} {failures[rank][0]}")
    return [answers[rank] for rank in range(len(ranks))]


def _listen(
    line: Conversation, rank: int, answers: dict[int, dict[str, Any]], failures: dict[int, tuple[str, bool]]
) -> None:
    try:
        told = line.pull()
        if told is not None and "ready" in told:  # once: who repeats it is not waited for
            told = line.pull()
    except Ended as ended:
        failures[rank] = (str(ended), False)
        return
    if told is None:
        return
    raise_refusal(told)
    if "value" in told:
        answers[rank] = told
        return
    error = dict(told.get("raised") or {"shown": "an error that it did not tell"})
    shown = str(error["shown"])
    name = str(next(iter(error.get("kinds", [])), ""))
    failures[rank] = (f"raised {shown}", sounds_like_echo(name, shown))


def _late(ranks: list[Conversation], waited_for: list[int], timeout_s: float) -> BaseException:
    if any(ranks[rank].is_starved(timeout_s) for rank in waited_for):
        return Undecided()
    late = ", ".join(map(str, waited_for))
    return RankError(waited_for[0], f"rank {late} of {len(ranks)} had not finished after {timeout_s:g} s")
