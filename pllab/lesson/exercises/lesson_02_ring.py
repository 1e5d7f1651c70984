"""The cases of exercise 02.1: `ring_pass(x)` sends to the next rank and returns what the previous one sent.

Small tensors of several types go around first, then one of 8 MB: no socket holds that much, so a send of it waits for
its receive. A deadlock ends by the group's own deadline.
"""

from collections.abc import Callable
from typing import Any

import torch

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.watched_ranks import Watch, refuse_alone, refuse_failures, worlds

RingPass = Callable[[torch.Tensor], Any]

_PLAN = ((3,), (2, 1))
_NUM_LARGE = 2_000_000  # float32: 8 MB
_MAKERS = (
    lambda rank: torch.arange(6).reshape(2, 3) + 100 * (rank + 1),
    lambda rank: torch.tensor(0.1 * (rank + 1), dtype=torch.float64),
    lambda rank: torch.arange(_NUM_LARGE, dtype=torch.float32) % 1000 + 1000 * (rank + 1),
)


@case("in a world of 2 each rank gets the other's tensor, 8 MB too, and x stays as it was")
def two_ranks(ring_pass: RingPass) -> None:
    _judge(ring_pass, 2)


@case("in a world of 3 each rank gets the tensor of the rank before it, with its shape and dtype")
def three_ranks(ring_pass: RingPass) -> None:
    _judge(ring_pass, 3)


@case("in a world of 1 the rank gets its own values and waits for nobody")
def alone(ring_pass: RingPass) -> None:
    refuse_alone(worlds(pass_around, ring_pass, _PLAN).of(1)[0]["attempts"])
    _judge(ring_pass, 1)


def pass_around(watch: Watch, rank: int, world_size: int, ring_pass: RingPass) -> dict[str, Any]:
    """On every rank: what came back, as the number of the rank whose tensor it is, for each kind of tensor."""
    seen: dict[str, Any] = {"attempts": [], "passes": []}
    for make in _MAKERS:
        x = make(rank)
        one = watch.attempt(ring_pass, x)
        seen["attempts"].append(_without_value(one))
        if one.error or one.left:
            break
        if not isinstance(one.value, torch.Tensor):
            return seen | {"no_tensor": repr(one.value)[:80]}
        whose = [other for other in range(world_size) if _is_same(one.value, make(other))]
        seen["passes"].append((whose, _is_same(x, make(rank)), str(one.value.dtype), str(x.dtype)))
    return seen


def _without_value(one: Any) -> Any:
    """8 MB need not travel to the judge."""
    return type(one)(None, one.messages, one.ends, one.error, one.kind, one.late)


def _is_same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(left, right)


def _judge(ring_pass: RingPass, world_size: int) -> None:
    seen = worlds(pass_around, ring_pass, _PLAN).of(world_size)
    where = f"In a world of {world_size}"
    for rank, one in enumerate(seen):
        if "no_tensor" in one:
            raise Wrong("no_tensor", f"Rank {rank} returned {one['no_tensor']}; return the tensor that it received.")
    for number in range(max(len(one["attempts"]) for one in seen)):
        refuse_failures([one["attempts"][min(number, len(one["attempts"]) - 1)] for one in seen], where)
    for rank, one in enumerate(seen):
        for whose, intact, dtype, given in one["passes"]:
            _judge_pass(rank, world_size, whose, intact, dtype, given)


def _judge_pass(rank: int, world_size: int, whose: list[int], intact: bool, dtype: str, given: str) -> None:
    if not intact:
        raise Wrong(
            "sent_changed",
            f"On rank {rank} the tensor x is another one after the call. It is still on its way when you "
            "receive into it; receive into a new tensor.",
        )
    previous = (rank - 1) % world_size
    if whose == [previous]:
        return
    if whose == [rank]:
        raise Wrong("own_tensor", f"Rank {rank} returned its own tensor; return the one that was received.")
    if whose:
        raise Wrong(
            "wrong_neighbour",
            f"In a world of {world_size}, rank {rank} returned the tensor of rank {whose[0]}, and rank {previous} "
            "comes before it: send to the next, receive from the previous.",
        )
    if dtype != given:
        raise Wrong("wrong_type", f"Rank {rank} returned {dtype} where x is {given}; receive into a tensor like x.")
    raise Wrong(
        "not_received",
        f"Rank {rank} returned a tensor that nobody passed on. A receive that was started (irecv) is there only "
        "after its wait(); the tensor to receive into has the shape and the dtype of x.",
    )
