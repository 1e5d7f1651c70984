"""What is refused about a run on ranks as such: a rank that raised, crashed or waits, and calls that do not match.

A failing rank makes the others fail a moment later, and ranks whose calls do not fit end each other. So the causes are
looked for in this order: a rank's own exception, calls that the ranks do not make alike, a call that nobody waited for,
and only then a wait without end.
"""

from collections.abc import Sequence
from itertools import zip_longest
from math import prod
from typing import Any

from pllab.comm import Message
from pllab.lesson.exercise import Undecided, Wrong
from pllab.lesson.exercises.ranks import DEADLINE_S, LATE_S, Attempt, Log, Plan, Program, World, run_worlds


def seen_in_world(program: Program, solution: Any, plan: Plan, size: int) -> list[Any]:
    """What the program returned on every rank of the world of this size, in order of rank.

    Raises:
        Wrong: a rank of it died or never came back.
        Undecided: the ranks did not begin in time, because the machine was busy.
    """
    worlds = run_worlds(program, solution, plan)
    if worlds[size].seen is None:
        raise _first_cause(worlds, size)
    return worlds[size].seen


def seen_in_call(program: Program, solution: Any, plan: Plan, size: int, name: str) -> list[Any]:
    """What every rank of a world saw of the call of this name, after the calls before it went well.

    The program returns an `Attempt` by the name of each call, in their order, and stops after one that failed.

    Raises:
        Wrong: a call up to this one failed on a rank, or a rank did not survive it.
    """
    seen: list[dict[str, Any]] = seen_in_world(program, solution, plan, size)
    names = max((list(one) for one in seen), key=len)
    for earlier in names[: names.index(name) + 1] if name in names else names:
        reached = [one[earlier] for one in seen if earlier in one]
        refuse_failures(reached, f"In a world of {size}, with {earlier}")
    if not all(name in one for one in seen):
        raise Wrong("crashed", f"In a world of {size} not every rank reached the call with {name}.")
    return [one[name] for one in seen]


def refuse_failures(attempts: Sequence[Attempt], what: str) -> None:
    """Refuse attempts of all ranks of a world of which one raised, waits for ever, or left a message on its way.

    what: the place, such as `In a world of 3`.

    Raises:
        Wrong: the cause, and not its echo on another rank.
    """
    for rank, one in enumerate(attempts):
        if one.error and not one.late:
            kind = "no_such_rank" if "there is no rank" in one.error else "raised"
            where = f" ({one.where})" if one.where else ""
            raise Wrong(kind, f"{what}, rank {rank} raised {one.error}{where}.")
    agree([one.messages for one in attempts])
    for rank, one in enumerate(attempts):
        if one.left:
            told = f"{what}, rank {rank} came back while {one.left[0]} was still under way"
            why = "Wait for what an asynchronous call returns: only then is its tensor ready."
            raise Wrong("not_waited", f"{told}. {why}")
    if any(one.late for one in attempts):
        raise Wrong("deadlock", _deadlock(attempts, what))


def refuse_collectives(where: str, attempts: Sequence[Attempt], what: str) -> None:
    """Refuse ranks that call anything but send and receive, of which they should make `what`.

    Raises:
        Wrong: they do.
    """
    others = [message.name for one in attempts for message in one.messages if message.name not in ("send", "receive")]
    if others:
        raise Wrong("collective", f"{where}, your function called {others[0]}; make {what} of send and receive only.")


def refuse_alone(program: Program, solution: Any, plan: Plan) -> None:
    """Refuse a rank alone in its world that sent a message, or failed at it, in any call of the program.

    Raises:
        Wrong: it did.
    """
    for one in seen_in_world(program, solution, plan, 1)[0].values():
        if one.error or one.messages:
            told = f"In a world of 1 your function {f'raised {one.error}' if one.error else 'made a call to others'}"
            why = "A rank cannot send to itself or receive from itself, and there is no other rank."
            raise Wrong("alone", f"{told}. {why}")


def agree(messages: Sequence[Sequence[Message]]) -> None:
    """All ranks of a world must make the same collective calls in the same order; send and receive have partners.

    Calls within smaller groups are left out.

    Raises:
        Wrong: they do not.
    """
    size = len(messages)
    ours = [[one for one in rank if one.name not in ("send", "receive") and one.num_ranks == size] for rank in messages]
    for number, row in enumerate(zip_longest(*ours), start=1):
        there = [call for call in row if call is not None]
        if len({call.peer for call in there}) > 1:
            sources = ", ".join(str(call.peer) for call in there)
            raise Wrong("own_source", f"In call {number} the ranks name the sources {sources}; name the same on all.")
        if len({_kind(call) for call in there}) > 1:  # before the counts: gloo may have ended a rank for it
            made = [(rank, call) for rank, call in enumerate(row) if call is not None]
            said = ", ".join(f"rank {rank} {call.name} of {prod(call.shape)}" for rank, call in made)
            raise Wrong("other_order", f"Call {number} differs ({said} numbers); ranks pair their calls by order.")
        if len(there) < len(row):
            counts = ", ".join(str(len(rank)) for rank in ours)
            told = f"The ranks made {counts} collective calls"
            raise Wrong("not_all_ranks", f"{told}; a rank that makes one waits until all others make it too.")


def _kind(call: Message) -> tuple[str, int]:
    """What must agree; a gather or scatter may hand over nothing on most ranks."""
    return call.name, prod(call.shape) if call.name in ("all_reduce", "broadcast", "reduce") else 0


def _first_cause(worlds: dict[int, World], size: int) -> Wrong | Undecided:
    """Why a world did not come to its end; nobody came to those after the first that failed."""
    causes = {each: _cause(world, each) for each, world in worlds.items() if world.seen is None}
    return next(iter(causes.values())) if isinstance(causes[size], Undecided) else causes[size]


def _cause(world: World, size: int) -> Wrong | Undecided:
    """Why a world did not come to its end, from what its ranks wrote down."""
    try:
        agree([log.messages for log in world.logs])
    except Wrong as wrong:
        return wrong
    if differing := _different_sizes(world.logs):
        return Wrong("sizes_differ", f"In a world of {size}, {differing} Both ends need the same shape and dtype.")
    if late := [rank for rank, log in enumerate(world.logs) if log.late]:
        told = f"In a world of {size}, rank {late[0]} had not come back after {LATE_S:g} s"
        return Wrong("hang", f"{told}. Something waits forever.")
    if not all(log.began for log in world.logs):
        return Undecided(f"the ranks of the world of {size} did not all begin in time ({world.ended})")
    return Wrong("crashed", f"In a world of {size}, the ranks did not survive your function: {world.ended}.")


def _different_sizes(logs: Sequence[Log]) -> str:
    """A clause about the first message whose ends have different sizes."""
    for source, log in enumerate(logs):
        for to, other in enumerate(logs):
            sent = [one.num_bytes for one in log.messages if (one.name, one.peer) == ("send", to)]
            taken = [one.num_bytes for one in other.messages if (one.name, one.peer) == ("receive", source)]
            for gone, come in zip(sent, taken, strict=False):
                if gone != come:
                    return f"rank {source} sent {gone} bytes to rank {to}, which received into {come} bytes."
    return ""


def _deadlock(attempts: Sequence[Attempt], what: str) -> str:
    """Where each rank stands, and the cause where the places tell it."""
    standing = {
        rank: call for rank, one in enumerate(attempts) if one.late for call in one.started if call.state == "waiting"
    }
    places = ", ".join(f"rank {rank} waits in {call}" for rank, call in standing.items()) or "a rank waits"
    names = {call.name for call in standing.values()} if len(standing) == len(attempts) else set()
    advice = "A message has two ends: look for the rank that never makes the other one."
    if names in ({"send"}, {"receive"}):
        mine, other = ("send", "receive") if names == {"send"} else ("receive", "send")
        advice = f"Every rank waits in a {mine}, so none reaches its {other}: start one before you wait."
    return f"{what}, after {DEADLINE_S:g} s: {places}. {advice}"
