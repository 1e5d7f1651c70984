"""What the exercises of lesson 13 share: a call on every rank of three worlds, and what its messages may weigh.

A rank's part of `n` numbers on `w` ranks has `n / w` of them, rounded up; zeros pad the last parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pllab import comm
from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.failures import refuse_failures, seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Plan, Program

PLAN: Plan = ((3,), (2, 1))
SIZES = (3, 2, 1)
_SLACK_BYTES = 16
_SAME = (
    "A collective that meets one of another size ends the processes: every rank has to make the same calls, with parts "
    "of the same size."
)
_BYTES = 4  # of a number in float32


@dataclass(frozen=True)
class Seen:
    """One call on one rank: how it went, what became of what it was given, and what it held at its end."""

    attempt: Attempt
    result: Any
    held: Any = None


def part_size(numel: int, world_size: int) -> int:
    """How many numbers a rank's part has, with its padding: `part_size(7, 3)` is 3."""
    return -(-numel // world_size)


def padded(flat: torch.Tensor, world_size: int) -> torch.Tensor:
    """The numbers of all parts, zeros behind: (7,) on 3 ranks -> (9,)."""
    missing = part_size(flat.numel(), world_size) * world_size - flat.numel()
    return torch.cat([flat.detach().flatten(), flat.new_zeros(missing)])


def part_of(flat: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """A rank's part of a whole, padded."""
    return padded(flat, world_size).view(world_size, -1)[rank].clone()


def without_value(one: Attempt) -> Attempt:
    """An attempt as it travels to the judge, who gets a copy of what counts."""
    return one.holding(None)


def seen_in(program: Program, solution: Callable[..., Any], size: int, name: str) -> list[Seen]:
    """What every rank of a world saw of the call of this name, after those before it went well.

    Raises:
        Wrong: a call up to this one failed on a rank, or a rank did not survive it.
        NotImplementedError: the function is the stub.
    """
    try:
        seen: list[dict[str, Seen]] = seen_in_world(program, solution, PLAN, size)
    except Wrong as wrong:
        if wrong.hint_id != "crashed":
            raise
        raise Wrong(wrong.hint_id, f"{wrong.sentence} {_SAME}") from None
    names = max((list(one) for one in seen), key=len)
    for earlier in names[: names.index(name) + 1] if name in names else names:
        reached = [one[earlier].attempt for one in seen if earlier in one]
        refuse_failures(reached, f"In a world of {size}, with {earlier}")
    if not all(name in one for one in seen):
        raise Wrong("crashed", f"In a world of {size} not every rank came to the call with {name}.")
    return [one[name] for one in seen]


def judge_weight(seen: Sequence[Seen], part: int, what: str, times: int = 1) -> None:
    """Refuse ranks that send more than `times` w - 1 parts, of so many numbers each.

    Raises:
        Wrong: they do; a sum over all numbers on all ranks weighs twice as much as a gather or a scattered sum.
    """
    most = times * (len(seen) - 1) * part * _BYTES
    for rank, one in enumerate(seen):
        sent = sum(map(_sent, one.attempt.messages))
        if sent > most + _SLACK_BYTES:
            names = ", ".join(dict.fromkeys(message.name for message in one.attempt.messages))
            raise Wrong(
                "sends_too_much",
                f"In a world of {len(seen)}, rank {rank} sent {sent:.0f} bytes ({names}), and {most} are enough "
                f"for {what}. Mind that an all_reduce is a reduce-scatter and an all-gather, one after the other.",
            )


def _sent(message: comm.Message) -> float:
    """In a ring; what is broadcast is passed on by all ranks but one."""
    passed_on = (message.num_ranks - 1) / message.num_ranks if message.name == "broadcast" else 1.0
    return float(comm.traffic(message)) * passed_on


def close(mine: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors of float32 are the same but for rounding."""
    return mine.shape == right.shape and torch.allclose(mine.double(), right.double(), rtol=1e-4, atol=1e-6)
