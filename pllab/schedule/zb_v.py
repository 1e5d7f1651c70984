"""ZB-V: two stages a rank, placed in a V, and weight gradients in every hole."""

from pllab.schedule.action import Action
from pllab.schedule.fill import fill
from pllab.schedule.pause import collector_paused
from pllab.schedule.schedule import Schedule
from pllab.schedule.sizes import check_sizes
from pllab.schedule.v_letters import read_letters


@collector_paused()
def zbv(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank `r` of `p` has the stages `r` and `2p - 1 - r`: zero bubble in 1F1B's memory, when F, I and W are equal.

    The last rank turns every micro-batch around at once, and rank 0 has the loss. Two ranks, three micro-batches:

        rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 0I1 3W2 0I2 0W1 0W2  .
        rank 1   .  1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2

    Between its first and its last action no rank idles from `m = 2p - 1` on. Every rank holds `2p` activations of its
    half-size stages at most, which is 1F1B's memory on rank 0.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024; arXiv 2401.10241), section 6.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    order = [_order(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]
    return fill(order, memory_limit=2 * num_ranks, name="ZB-V")


def _order(rank: int, num_ranks: int, num_microbatches: int) -> list[Action]:
    """F and I of one rank; for fewer than `2p - 1` micro-batches the order of `2p - 1`, less those not there."""
    inside = num_ranks - rank
    num_steady = max(num_microbatches, 2 * num_ranks - 1) - (2 * num_ranks - 1 - rank)
    warm_up = "f" * (2 * inside - 1) + "Ff" * rank + "FI" * inside  # then the first gradient is on its way down
    drain = "iFI" * (inside - 1) + "iI" * rank + "i" * inside
    return read_letters(warm_up + "fiFI" * num_steady + drain, rank, num_ranks, num_microbatches)
