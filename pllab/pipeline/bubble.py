"""The bubble in numbers: how much of a pipeline's device time is idle, before anything runs.

A stage works in m of the m + p - 1 ticks of the clock and is idle in p - 1 of them, at the start or at the end.
The two numbers below divide the same idle time by different things; always say which one you mean.
"""

from itertools import count


def bubble_fraction(num_batches: int, num_partitions: int) -> float:
    """The share of all device time that is idle: (p - 1) / (m + p - 1).

    Example: 8 micro-batches on 4 partitions are idle in 3 of 11 ticks, 27.3 %. A backward that takes twice as long
    as the forward stretches the ticks and changes no share.

    Raises:
        ValueError: there is no micro-batch or no partition.

    Source: GPipe (Huang et al. 2019), section 2.3. Lesson 08.
    """
    num_ticks = _checked(num_batches, num_partitions)
    return (num_partitions - 1) / num_ticks


def bubble_overhead(num_batches: int, num_partitions: int) -> float:
    """Idle time for each second of work: (p - 1) / m.

    Example: 8 micro-batches on 4 partitions work for 8 ticks and idle for 3, an overhead of 37.5 %. It is the time
    lost against a pipeline that is always full, and is 1 or more when there are fewer micro-batches than partitions.

    Raises:
        ValueError: there is no micro-batch or no partition.

    Source: Megatron-LM (Narayanan et al. 2021), section 2.2.1. Lesson 08.
    """
    _checked(num_batches, num_partitions)
    return (num_partitions - 1) / num_batches


def fewest_batches(num_partitions: int, fraction: float) -> int:
    """The smallest number of micro-batches whose bubble fraction is at most `fraction`.

    Example: 4 partitions need 27 micro-batches for a bubble fraction of at most 0.1, because 3/30 is 0.1.

    Raises:
        ValueError: the fraction is not above 0 and at most 1, or there is no partition.

    Lesson 08.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"a bubble fraction lies above 0 and is at most 1, not {fraction:g}; write 10 % as 0.1")
    return next(m for m in count(1) if bubble_fraction(m, num_partitions) <= fraction)


def _checked(num_batches: int, num_partitions: int) -> int:
    """The number of ticks, once it is sure that there is something to clock."""
    if num_batches < 1 or num_partitions < 1:
        raise ValueError(
            f"a clock needs at least one micro-batch and one partition, not {num_batches} and {num_partitions}"
        )
    return num_batches + num_partitions - 1
