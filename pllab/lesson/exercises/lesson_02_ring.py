"""The cases of exercise 02.1: `ring_pass(x)` sends to the next rank and returns what the previous one sent.

A small tensor of integers goes around first, then one of 8 MB: no socket holds that much, so a send of it
waits for its receive. A deadlock ends by the group's own deadline, and the rank says so.
"""

from collections.abc import Callable
from typing import Any

import torch

from pllab import comm
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_02_meeting import late, on_ranks, stuck

RingPass = Callable[[torch.Tensor], Any]

_NUM_LARGE = 2_000_000  # float32: 8 MB


@case("in a world of 2 each rank gets the other's tensor, 8 MB too, and x stays as it was")
def two_ranks(ring_pass: RingPass) -> None:
    _judge(on_ranks(pass_around, ring_pass, 2))


@case("in a world of 3 each rank gets the tensor of the rank before it")
def three_ranks(ring_pass: RingPass) -> None:
    _judge(on_ranks(pass_around, ring_pass, 3))


@case("in a world of 1 the rank gets its own values and waits for nobody")
def alone(ring_pass: RingPass) -> None:
    comm.setup(0, 1, "gloo", timeout_s=5.0)
    try:
        seen = pass_around(0, 1, ring_pass)
    finally:
        comm.teardown()
    if seen["stuck"]:
        raise Wrong(
            "alone",
            f"In a world of 1 it raised: {seen['stuck']}. A rank cannot send to itself; "
            "give back a copy of its own tensor.",
        )
    _judge([seen])


def pass_around(rank: int, world_size: int, ring_pass: RingPass) -> dict[str, Any]:
    """On every rank: what came back, as the number of the rank whose tensor it is, for a small and a large tensor."""
    seen: dict[str, Any] = {"rank": rank, "world_size": world_size, "stuck": "", "passes": []}
    for make in (_small, _large):
        x = make(rank)
        try:
            got = ring_pass(x)
        except Exception as error:
            seen["stuck"] = stuck(error)
            break
        if not isinstance(got, torch.Tensor):
            return seen | {"no_tensor": repr(got)[:80]}
        whose = [other for other in range(world_size) if torch.equal(got, make(other))]
        seen["passes"].append((whose, torch.equal(x, make(rank))))
    return seen


def _small(rank: int) -> torch.Tensor:
    return torch.arange(6).reshape(2, 3) + 100 * (rank + 1)


def _large(rank: int) -> torch.Tensor:
    return torch.arange(_NUM_LARGE, dtype=torch.float32) % 1000 + 1000 * (rank + 1)


def _judge(seen: list[dict[str, Any]]) -> None:
    for one in seen:
        if "no_tensor" in one:
            sentence = f"Rank {one['rank']} returned {one['no_tensor']}; return the tensor that it received."
            raise Wrong("no_tensor", sentence)
    _judge_ends(seen)
    for one in seen:
        for whose, intact in one["passes"]:
            _judge_pass(one["rank"], one["world_size"], whose, intact)


def _judge_ends(seen: list[dict[str, Any]]) -> None:
    """A failure that is no echo of another rank's comes first."""
    failed = sorted((one for one in seen if one["stuck"]), key=lambda one: late(one["stuck"]))
    if not failed:
        return
    one, size = failed[0], seen[0]["world_size"]
    if late(one["stuck"]):
        raise Wrong(
            "deadlock",
            f"In a world of {size}, after 5 s, rank {one['rank']} was still waiting. A send waits for its receive: "
            "if every rank sends first (or receives first), nobody comes to the second line.",
        )
    raise Wrong(
        "no_such_rank" if "rank" in one["stuck"] else "raised",
        f"In a world of {size}, rank {one['rank']} raised {one['stuck']}. The ring closes: after the last rank comes "
        "rank 0, and no rank is without a neighbour; the remainder operator % does that.",
    )


def _judge_pass(rank: int, world_size: int, whose: list[int], intact: bool) -> None:
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
    raise Wrong(
        "not_received",
        f"Rank {rank} returned a tensor that nobody passed on. A receive that was started (irecv) is there only "
        "after its wait(); the tensor to receive into has the shape and the dtype of x.",
    )
