"""What the exercises of lesson 13 share: a rank's part of a flat tensor, and what its messages may weigh.

A rank's part of `n` numbers on `w` ranks has `n / w` of them, rounded up; zeros pad the last parts.
"""

from collections.abc import Sequence

import torch

from pllab import comm
from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.ranks import Attempt

SLACK_BYTES = 16
BYTES = 4  # of a number in float32


def part_size(numel: int, world_size: int) -> int:
    """How many numbers a rank's part has, with its padding: `part_size(7, 3)` is 3."""
    return -(-numel // world_size)


def part_of(flat: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """A rank's part of a whole, padded: the last of (7,) on 3 ranks is one number and two zeros."""
    size = part_size(flat.numel(), world_size)
    part = flat.new_zeros(size)
    mine = flat.detach()[rank * size : (rank + 1) * size]
    part[: len(mine)] = mine
    return part


def judge_weight(attempts: Sequence[Attempt], part: int, what: str, times: int = 1) -> None:
    """Refuse ranks that send more than `times` w - 1 parts, of so many numbers each.

    Raises:
        Wrong: they do; a sum over all numbers on all ranks weighs twice as much as a gather or a scattered sum.
    """
    most = times * (len(attempts) - 1) * part * BYTES
    for rank, one in enumerate(attempts):
        sent = sum(map(_sent, one.messages))
        if sent > most + SLACK_BYTES:
            names = ", ".join(dict.fromkeys(message.name for message in one.messages))
            told = f"In a world of {len(attempts)}, rank {rank} sent {sent:.0f} bytes ({names})"
            told += f", and {most} are enough for {what}"
            raise Wrong("sends_too_much", f"{told}. Mind that an all_reduce is a reduce-scatter and an all-gather.")


def _sent(message: comm.Message) -> float:
    """In a ring; what is broadcast is passed on by all ranks but one."""
    passed_on = (message.num_ranks - 1) / message.num_ranks if message.name == "broadcast" else 1.0
    return float(comm.traffic(message)) * passed_on
