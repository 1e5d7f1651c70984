"""The memory staircase: how many micro-batches a rank holds, over time."""

from pllab.schedule import Held
from pllab.timeline import Timeline


def held_over_time(timeline: Timeline, rank: int, held: Held | None = None) -> list[tuple[float, float]]:
    """What one rank holds from when on: a forward counts from its start, what a backward releases from its end.

    Example, rank 0 of `simulate(one_f_one_b(2, 2))`, which runs F0 F1, then B0 from 4 to 6 and B1 from 7 to 9:

        [(0.0, 1.0), (1.0, 2.0), (6.0, 1.0), (9.0, 0.0)]

    Args:
        timeline: of any engine.
        rank: whose memory.
        held: which part of a micro-batch I releases; a half by default.

    Returns:
        Seconds and micro-batches, in order of time; several changes at one instant are several steps.
    """
    return timeline.held_over_time(rank, (held or Held()).input_share)
