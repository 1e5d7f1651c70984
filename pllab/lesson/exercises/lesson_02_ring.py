"""The cases of exercise 02.1: `ring_pass(x)` sends to the next rank and returns what the previous one sent.

Small tensors of several types go around first, then one of 8 MB: no socket holds that much, so a send of it waits for
its receive. A deadlock ends by the group's own deadline.
"""

from typing import NamedTuple

import torch

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import refuse_alone, refuse_collectives, seen_in_call
from pllab.lesson.exercises.ranks import Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import difference


class Passed(NamedTuple):
    """One call on one rank: whose tensor came back, what it has instead of the right one, and the same of `x`."""

    whose: list[int]
    difference: str
    x_difference: str


_PLAN = ((2, 1), (3,))  # the first claim's world first: who waits for ever does so under that claim
_MAKERS = {
    "an x of 2 x 3 whole numbers": lambda rank: torch.arange(6).reshape(2, 3) + 100 * (rank + 1),
    "a single float64 as x": lambda rank: torch.tensor(0.1 * (rank + 1), dtype=torch.float64),
    "an x of 8 MB": lambda rank: torch.arange(2_000_000, dtype=torch.float32) % 1000 + 1000 * (rank + 1),
}


@case("in a world of 2 each rank gets the other's tensor, even one of 8 MB, and x does not change")
def two_ranks(ring_pass: Function) -> None:
    _judge(ring_pass, 2)


@case("in a world of 3 each rank gets the tensor of the rank before it, with its shape and dtype")
def three_ranks(ring_pass: Function) -> None:
    _judge(ring_pass, 3)


@case("in a world of 1 the rank gets its own values and waits for no other")
def alone(ring_pass: Function) -> None:
    refuse_alone(pass_around, ring_pass, _PLAN)
    _judge(ring_pass, 1)


@until_one_fails
def pass_around(watch: Watch, rank: int, world_size: int, ring_pass: Function) -> Calls:
    """On every rank, a call for each kind of tensor; 8 MB need not travel to the judge, so they are compared here."""
    for name, make in _MAKERS.items():
        x = make(rank)
        one = watch.attempt(ring_pass, x)
        differences = [difference(one.value, make(other)) for other in range(world_size)]
        whose = [other for other in range(world_size) if not differences[other]]
        passed = Passed(whose, differences[(rank - 1) % world_size], difference(x, make(rank)))
        yield name, one.holding(passed)


def _judge(ring_pass: Function, world_size: int) -> None:
    for name in _MAKERS:
        attempts, where = seen_in_call(pass_around, ring_pass, _PLAN, world_size, name), f"In a world of {world_size}"
        refuse_collectives(where, attempts, "the ring")
        for rank, one in enumerate(attempts):
            _judge_pass(f"{where}, with {name}, rank {rank}", rank, world_size, one.value)


def _judge_pass(who: str, rank: int, world_size: int, passed: Passed) -> None:
    if passed.x_difference:
        raise Wrong("sent_changed", f"{who} then has another x: {passed.x_difference}. Receive into a new tensor.")
    if not passed.difference:
        return
    if passed.whose == [rank]:
        raise Wrong("own_tensor", f"{who} returned its own tensor; return the one that it received.")
    if passed.whose:
        told = f"{who} returned the tensor of rank {passed.whose[0]}; right is that of rank {(rank - 1) % world_size}"
        raise Wrong("wrong_neighbour", f"{told}: send to the next rank, receive from the previous one.")
    raise Wrong("wrong" if world_size > 1 else "alone", f"{who} returned something else: {passed.difference}.")
