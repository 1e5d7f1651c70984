"""The cases of exercise 03.1: `tree_broadcast(tensor, root=0)` by send and receive, in worlds of 1 to 7 ranks.

Rounds are read off the ledgers: a rank sends one message a round, and sends on in the rounds after it received.
"""

from collections.abc import Iterator, Sequence

import torch

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import refuse_alone, refuse_collectives, seen_in_call
from pllab.lesson.exercises.ranks import Attempt, Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import difference, identical, refuse_differences

_PLAN = ((7,), (6, 1), (5, 2), (4, 3))
_WORLDS = range(2, 8)  # to 7: a tree of two children each has a round too many there
_MAKERS = {
    "12 whole numbers": lambda rank: torch.arange(12).reshape(3, 4) + 2**62 + 2**50 * (rank + 1),  # no float holds them
    "a single float64": lambda rank: torch.tensor(0.1 + rank, dtype=torch.float64),
    "60,001 floats": lambda rank: torch.rand(60_001, generator=torch.Generator().manual_seed(rank)),
}


@case("every rank ends with the numbers of rank 0 in its own tensor, in worlds of 2 to 7")
def from_rank_0(tree_broadcast: Function) -> None:
    _judge_values(tree_broadcast, _WORLDS, slice(1))


@case("any rank can be the root")
def from_other_ranks(tree_broadcast: Function) -> None:
    _judge_values(tree_broadcast, _WORLDS, slice(1, None))


@case("w ranks exchange w - 1 messages of the whole tensor, in 1, 2, 2, 3, 3 and 3 rounds for w = 2 to 7")
def few_messages(tree_broadcast: Function) -> None:
    for where, size, root, attempts in _calls(tree_broadcast, _WORLDS):
        _judge_messages(where, size, root, attempts)
        rounds, least = _rounds(attempts, root), (size - 1).bit_length()
        if rounds > least:
            told = f"{where}, the last rank had the numbers after {rounds} rounds, and {least} are enough"
            why = "in each round every rank that has them sends them to one that does not."
            raise Wrong("too_many_rounds", f"{told}: {why}")


@case("a rank that is alone sends nothing and keeps its numbers")
def alone(tree_broadcast: Function) -> None:
    refuse_alone(broadcast_all, tree_broadcast, _PLAN)
    _judge_values(tree_broadcast, (1,), slice(1))


@until_one_fails
def broadcast_all(watch: Watch, rank: int, world_size: int, tree_broadcast: Function) -> Calls:
    """On every rank, a call for every root and tensor; its value is what the rank then holds, as `difference`s."""
    for root in range(world_size):
        for kind, make in _MAKERS.items():
            tensor, right = make(rank), make(root)
            memory = tensor.view_as(tensor)
            one = watch.attempt(tree_broadcast, tensor, root) if root else watch.attempt(tree_broadcast, tensor)
            held = [difference(each, right) for each in (memory, tensor, one.value)]
            if held[1] and identical(tensor, make(rank)):
                held[1] = f"there are still the numbers of rank {rank}; right are those of rank {root}"
            yield _name(root, kind), one.holding(held)


def _name(root: int, kind: str) -> str:
    return f"rank {root} as the root of {kind}"


def _calls(
    tree_broadcast: Function, worlds: Sequence[int], roots: slice = slice(None)
) -> Iterator[tuple[str, int, int, list[Attempt]]]:
    """Every call with one of these roots: where it was made, the world size, the root, and what the ranks saw."""
    for size in worlds:
        for root in range(size)[roots]:
            for kind in _MAKERS:
                name = _name(root, kind)
                attempts = seen_in_call(broadcast_all, tree_broadcast, _PLAN, size, name)
                yield f"In a world of {size}, with {name}", size, root, attempts


def _judge_values(tree_broadcast: Function, worlds: Sequence[int], roots: slice) -> None:
    for where, _, _, attempts in _calls(tree_broadcast, worlds, roots):
        refuse_differences(where, [one.value for one in attempts])


def _judge_messages(where: str, size: int, root: int, each: Sequence[Attempt]) -> None:
    refuse_collectives(where, each, "the broadcast")
    sent = [message.num_bytes for one in each for message in one.named("send")]
    received = [len(one.named("receive")) for one in each]
    if len(sent) != size - 1 or received != [int(rank != root) for rank in range(size)] or len(set(sent)) > 1:
        told = f"{where}, messages had {sent} bytes, and the ranks received {received} of them"
        why = f"right is w - 1 = {size - 1} messages of the whole tensor, one to each rank but the root."
        raise Wrong("too_many_messages", f"{told}; {why}")


def _rounds(each: Sequence[Attempt], root: int) -> int:
    """The round in which the last message of a tree arrives; in a circle of messages this would never end."""
    have, last = [(root, 0)], 0
    for rank, now in have:  # grows while it is walked
        for number, message in enumerate(each[rank].named("send"), start=now + 1):
            have.append((message.peer or 0, number))
            last = max(last, number)
    return last
