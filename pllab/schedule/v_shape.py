"""V-half and V-min: a building block of six units that is repeated and squeezed; its length decides the memory.

A micro-batch comes down the V (f), goes up (F), its gradient comes down (I) and goes up (i). The block says when, on
every rank; the next micro-batch does the same six units later, which leaves two of the six for the weight gradients.
An activation is held from its forward to its backward, so a steep block holds few and a flat one many.
"""

from dataclasses import dataclass

from pllab.schedule.action import Action, Kind
from pllab.schedule.fill import fill
from pllab.schedule.pause import collector_paused
from pllab.schedule.schedule import Schedule
from pllab.schedule.sizes import check_sizes
from pllab.schedule.v_letters import stages_in_v

_INTERVAL = 6  # F, I and W of two stages, one unit each


@collector_paused()
def v_half(num_ranks: int, num_microbatches: int) -> Schedule:
    """ZB-V's placement with about half of 1F1B's memory and, when F, I and W are equal, about half of its bubble.

    Rank `r` of `p` has the stages `r` and `2p - 1 - r`. Two ranks, three micro-batches:

        rank 0  0F0 0F1  .  3F0 3I0 0F2 3W0 0I0 3F1 3I1 0W0 3W1 0I1 3F2 3I2 0W1 3W2 0I2 0W2  .
        rank 1   .  1F0 2F0 1F1  .  2I0 1I0 2F1 1F2 2W0 2I1 1I1 2F2 1W0 2W1 2I2 1I2 1W1 2W2 1W2

    A rank holds `p + 1` activations of its half-size stages for odd `p` and `p + 2` for even `p`, where 1F1B holds
    `2p`. With F, I and W equal and `m > p` a rank idles `3p - 4` units for odd `p` and `3p - 6` for even `p` (2 for two
    ranks), where 1F1B idles `6(p - 1)`. Where F, I and W differ much, the block idles in the steady state too, and with
    many micro-batches that costs more than it saves: with the Zero Bubble paper's profile of its 1.5B model (p = 8,
    m = 32) the bubble fraction is 0.215, and 1F1B's 0.198.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Pipeline Parallelism with Controllable Memory (2024), V-Half.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    pauses = (0, 0, 1) if num_ranks % 2 else (4, 0, 0)
    block = _Block(slopes=(2, 1, 2, 1), pauses=pauses, memory=2 * ((num_ranks + 2) // 2))
    return _repeat(block, num_ranks, num_microbatches, "V-half")


@collector_paused()
def v_min(num_ranks: int, num_microbatches: int) -> Schedule:
    """ZB-V's placement with about a third of 1F1B's memory, the least that a V needs, and two thirds of its bubble.

    Rank `r` of `p` has the stages `r` and `2p - 1 - r`. Two ranks, three micro-batches:

        rank 0  0F0  .   .  3F0 3I0 0F1 3W0 0I0 0W0 3F1 3I1 0F2 3W1 0I1 0W1 3F2 3I2 3W2  .  0I2 0W2
        rank 1   .  1F0 2F0  .   .  2I0 1I0 1F1 2F1 2W0 1W0 2I1 1I1 1F2 2F2 2W1 1W1 2I2 1I2 2W2 1W2

    A rank holds at most `2 floor((p + 4) / 3)` activations of its half-size stages, where 1F1B holds `2p`. With F, I
    and W equal it idles `4p - 5` units, for any number of micro-batches, where 1F1B idles `6(p - 1)`. Where F, I and W
    differ much, the steep block idles in the steady state too, and V-half does better.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Pipeline Parallelism with Controllable Memory (2024), V-Min.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    pauses = (0, 0, 0) if num_ranks % 3 else (2, 0, 2)
    block = _Block(slopes=(1, 1, 1, 1), pauses=pauses, memory=2 * ((num_ranks + 4) // 3))
    return _repeat(block, num_ranks, num_microbatches, "V-min")


@dataclass(frozen=True)
class _Block:
    """Units from rank to rank of f, F, I and i; the pauses between them, so that no two meet on a rank; memory."""

    slopes: tuple[int, int, int, int]
    pauses: tuple[int, int, int]
    memory: int

    def starts(self, rank: int, num_ranks: int) -> tuple[int, int, int, int]:
        """When one rank runs f, F, I and i of micro-batch 0; F follows f on the last rank, I follows F on rank 0."""
        (f, up, down, i), (turn, loss, back) = self.slopes, self.pauses
        last, above = num_ranks - 1, num_ranks - 1 - rank
        up_starts = f * last + 1 + turn
        down_starts = up_starts + up * last + 1 + loss
        end_starts = down_starts + down * last + 1 + back
        return f * rank, up_starts + up * above, down_starts + down * rank, end_starts + i * above


def _repeat(block: _Block, num_ranks: int, num_microbatches: int, name: str) -> Schedule:
    order = [_order(block, rank, num_ranks, num_microbatches) for rank in range(num_ranks)]
    return fill(order, block.memory, name)


def _order(block: _Block, rank: int, num_ranks: int, num_microbatches: int) -> list[Action]:
    """F and I of one rank in the order of their starts, one block after every interval."""
    down, up = stages_in_v(rank, num_ranks)
    starts = block.starts(rank, num_ranks)
    assert len({start % _INTERVAL for start in starts}) == len(starts), "two blocks meet on a rank"
    work = list(zip(starts, (down, up, up, down), (Kind.F, Kind.F, Kind.I, Kind.I), strict=True))
    repeats = range(num_microbatches)
    timed = ((start + _INTERVAL * m, Action(stage, kind, m)) for m in repeats for start, stage, kind in work)
    return [action for _, action in sorted(timed)]
