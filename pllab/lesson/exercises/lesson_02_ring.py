"""The cases of exercise 02.1: `ring_pass(x)` sends to the next rank and returns what the previous one sent.

Small tensors of several types go around first, then one of 8 MB: no socket holds that much, so a send of it waits for
its receive. A deadlock ends by the group's own deadline.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.failures import refuse_alone, refuse_failures, seen_in_world
from pllab.lesson.exercises.ranks import Watch

RingPass = Callable[[torch.Tensor], Any]


class Pass(NamedTuple):
    """One call on one rank: whose tensor came back (exactly, or nearly), and what became of `x`."""

    whose: list[int]
    near: list[int]
    intact: bool
    kind: str
    given: str


_PLAN = ((2, 1), (3,))  # the first claim's world first: who waits for ever does so under that claim
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
    refuse_alone(seen_in_world(pass_around, ring_pass, _PLAN, 1)[0]["attempts"])
    _judge(ring_pass, 1)


def pass_around(watch: Watch, rank: int, world_size: int, ring_pass: RingPass) -> dict[str, Any]:
    """On every rank: what came back, as the number of the rank whose tensor it is, for each kind of tensor."""
    seen: dict[str, Any] = {"attempts": [], "passes": []}
    for make in _MAKERS:
        x = make(rank)
        one = watch.attempt(ring_pass, x)
        seen["attempts"].append(_without_value(one))
        if one.failed:
            break
        if not isinstance(one.value, torch.Tensor):
            return seen | {"no_tensor": repr(one.value)[:80]}
        whose = [other for other in range(world_size) if _is_same(one.value, make(other))]
        near = [other for other in range(world_size) if _is_near(one.value, make(other))]
        kinds = (_kind(one.value), _kind(make(rank)))
        seen["passes"].append(Pass(whose, near, _is_same(x, make(rank)), *kinds))
    return seen


def _without_value(one: Any) -> Any:
    """8 MB need not travel to the judge."""
    return one.holding(None)


def _is_same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(left, right)


def _is_near(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape and torch.allclose(left.double(), right.double(), rtol=1e-2)


def _kind(x: torch.Tensor) -> str:
    return f"{x.dtype} of shape {tuple(x.shape)}"


def _judge(ring_pass: RingPass, world_size: int) -> None:
    seen = seen_in_world(pass_around, ring_pass, _PLAN, world_size)
    where = f"In a world of {world_size}"
    for rank, one in enumerate(seen):
        if "no_tensor" in one:
            raise Wrong("no_tensor", f"Rank {rank} returned {one['no_tensor']}; return the tensor that it received.")
    for number in range(max(len(one["attempts"]) for one in seen)):
        kind = _kind(_MAKERS[number](0))
        attempts = [one["attempts"][min(number, len(one["attempts"]) - 1)] for one in seen]
        refuse_failures(attempts, f"{where}, with an x that is {kind}")
    for rank, one in enumerate(seen):
        for passed in one["passes"]:
            _judge_pass(rank, world_size, passed)


def _judge_pass(rank: int, world_size: int, passed: Pass) -> None:
    where = f"In a world of {world_size}, rank {rank} returned"
    previous = (rank - 1) % world_size
    if not passed.intact:
        raise Wrong(
            "sent_changed",
            f"On rank {rank} the tensor x is another one after the call. x stays as it was, also once it was sent: "
            "receive into a new tensor, and return that one.",
        )
    if passed.whose == [previous]:
        return
    if passed.kind != passed.given:
        text = f"{where} {passed.kind} where x is {passed.given}; receive into a tensor like x."
        raise Wrong("wrong_type", text)
    if world_size == 1:
        raise Wrong("alone", "In a world of 1 your function returned other values; a rank that is alone gets its own.")
    if passed.whose == [rank]:
        raise Wrong("own_tensor", f"Rank {rank} returned its own tensor; return the one that was received.")
    if passed.whose:
        raise Wrong(
            "wrong_neighbour",
            f"{where} the tensor of rank {passed.whose[0]}, and rank {previous} comes before it: send to the next, "
            "receive from the previous.",
        )
    if passed.near == [previous]:
        text = f"{where} a {passed.given} with rounded values: send it as it is, not through another dtype."
        raise Wrong("rounded", text)
    raise Wrong(
        "not_received",
        f"{where} a tensor that nobody passed on. A receive that was started (irecv) is there only after its wait().",
    )
