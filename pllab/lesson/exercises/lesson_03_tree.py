"""The cases of exercise 03.1: `tree_broadcast(tensor, root=0)` by send and receive, in worlds of 1 to 7 ranks.

Rounds are read off the ledgers: a rank sends one message a round, and sends on in the rounds after it received.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.failures import refuse_alone, refuse_failures, seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Watch

TreeBroadcast = Callable[..., Any]

_PLAN = ((7,), (6, 1), (5, 2), (4, 3))
_WORLDS = range(2, 8)  # to 7: a tree of two children each has a round too many there
_MAKERS = (
    lambda rank: torch.arange(12).reshape(3, 4) + 2**62 + 2**50 * (rank + 1),  # no float holds these
    lambda rank: torch.tensor(0.1 + rank, dtype=torch.float64),
    lambda rank: torch.rand(60_001, generator=torch.Generator().manual_seed(rank)),
)


@case("every rank ends with the numbers of rank 0 in its own tensor, in worlds of 2 to 7")
def from_rank_0(tree_broadcast: TreeBroadcast) -> None:
    for size in _WORLDS:
        _judge_values(size, 0, _attempts(tree_broadcast, size, 0))


@case("any rank can be the root")
def from_other_ranks(tree_broadcast: TreeBroadcast) -> None:
    for size in _WORLDS:
        for root in range(1, size):
            _judge_values(size, root, _attempts(tree_broadcast, size, root))


@case("w ranks exchange w - 1 messages, each of the whole tensor, and no other call")
def few_messages(tree_broadcast: TreeBroadcast) -> None:
    for size in _WORLDS:
        for root in range(size):
            for attempts in _attempts(tree_broadcast, size, root):
                _judge_messages(size, root, attempts)


@case("the last rank has them after ceil(log2 w) rounds: 1, 2, 2, 3, 3 and 3 for w = 2 to 7")
def few_rounds(tree_broadcast: TreeBroadcast) -> None:
    for size in _WORLDS:
        for root in range(size):
            for attempts in _attempts(tree_broadcast, size, root):
                _judge_messages(size, root, attempts)
                _judge_rounds(size, root, attempts)


@case("a rank that is alone sends nothing and keeps its numbers")
def alone(tree_broadcast: TreeBroadcast) -> None:
    refuse_alone(seen_in_world(broadcast_all, tree_broadcast, _PLAN, 1)[0][0])
    _judge_values(1, 0, _attempts(tree_broadcast, 1, 0))


def broadcast_all(watch: Watch, rank: int, world_size: int, tree_broadcast: TreeBroadcast) -> dict[int, list[Attempt]]:
    """On every rank, for every root: calls with tensors of several types. A value is (in place, returned).

    The first call that goes wrong on this rank is the last: its peers notice that the rank leaves the group.
    """
    seen: dict[int, list[Attempt]] = {}
    for root in range(world_size):
        for make in _MAKERS:
            tensor, right = make(rank), make(root)
            memory = tensor.view_as(tensor)
            one = watch.attempt(tree_broadcast, tensor, root) if root else watch.attempt(tree_broadcast, tensor)
            value = _found(tensor, memory, one.value, right)
            seen.setdefault(root, []).append(one.holding(value))
            if one.failed:
                return seen
    return seen


def _found(tensor: torch.Tensor, memory: torch.Tensor, returned: Any, right: torch.Tensor) -> str:
    """What a rank holds after a call; `memory` is where its tensor lay before."""
    if torch.equal(tensor, right):
        return "right" if torch.equal(memory, right) else "moved"
    if isinstance(returned, torch.Tensor) and torch.equal(returned, right):
        return "returned"
    rounded = any(torch.equal(tensor, right.to(kind).to(tensor.dtype)) for kind in (torch.float, torch.double))
    return "rounded" if rounded else "wrong"


def _attempts(tree_broadcast: TreeBroadcast, size: int, root: int) -> list[list[Attempt]]:
    """For each tensor, the attempts of all ranks.

    Raises:
        Wrong: with a root up to this one a rank failed, so that nobody knows what this one would have done.
    """
    seen = seen_in_world(broadcast_all, tree_broadcast, _PLAN, size)
    for earlier in range(root + 1):
        for number in range(len(_MAKERS)):
            reached = [one[earlier][number] for one in seen if number < len(one.get(earlier, ()))]
            refuse_failures(reached, f"In a world of {size}, with rank {earlier} as the root")
    return [[one[root][number] for one in seen] for number in range(len(_MAKERS))]


def _judge_values(size: int, root: int, attempts: Sequence[Sequence[Attempt]]) -> None:
    where = f"In a world of {size}, with rank {root} as the root"
    for each in attempts:
        values = [one.value for one in each]
        if "returned" in values:
            rank = values.index("returned")
            raise Wrong(
                "not_in_place",
                f"{where}, rank {rank} returned the right numbers, and its tensor does not hold them; receive into "
                "the tensor itself.",
            )
        if "moved" in values:
            raise Wrong(
                "other_memory",
                f"{where}, rank {values.index('moved')}'s tensor has been given another memory, and whoever holds a "
                "view of the old one sees nothing; copy the numbers into the tensor.",
            )
        if "rounded" in values:
            raise Wrong(
                "other_type",
                f"{where}, rank {values.index('rounded')} holds the root's numbers rounded to floats of fewer digits; "
                "send the tensor in its own dtype.",
            )
        if values[root] != "right":
            raise Wrong("root_changed", f"{where}, the root's own tensor is another one after the call.")
        if "wrong" in values:
            raise Wrong("wrong_values", f"{where}, rank {values.index('wrong')} does not hold the numbers of the root.")


def _judge_messages(size: int, root: int, each: Sequence[Attempt]) -> None:
    where = f"In a world of {size}, with rank {root} as the root"
    others = [message.name for one in each for message in one.messages if message.name not in ("send", "receive")]
    if others:
        raise Wrong("collective", f"{where}, it called {others[0]}; make the broadcast of send and receive alone.")
    sent = [message for one in each for message in one.named("send")]
    received = [len(one.named("receive")) for one in each]
    if len(sent) != size - 1 or received != [int(rank != root) for rank in range(size)]:
        raise Wrong(
            "too_many_messages",
            f"{where}, messages sent: {len(sent)}; received, by rank: {received}. Each rank but the root "
            f"receives once, so w - 1 = {size - 1} are enough.",
        )
    if len({message.num_bytes for message in sent}) > 1:
        raise Wrong("pieces", f"{where}, messages had {sorted({m.num_bytes for m in sent})} bytes; send whole tensors.")


def _judge_rounds(size: int, root: int, each: Sequence[Attempt]) -> None:
    rounds, least = _rounds(each, root), (size - 1).bit_length()
    if rounds > least:
        raise Wrong(
            "too_many_rounds",
            f"In a world of {size}, with rank {root} as the root, the last rank had the numbers after {rounds} rounds, "
            f"and {least} are enough: in each round everybody who has them sends them to one rank that has not.",
        )


def _rounds(each: Sequence[Attempt], root: int) -> int:
    """The round in which the last message of a tree arrives."""
    have, last = [(root, 0)], 0
    for rank, now in have:  # grows while it is walked
        for number, message in enumerate(each[rank].named("send"), start=now + 1):
            have.append((message.peer or 0, number))
            last = max(last, number)
    return last
