"""The clock of the synchronous pipeline: which stage works on which micro-batch at which tick."""

from collections.abc import Iterator


def clock_cycles(num_batches: int, num_partitions: int) -> Iterator[list[tuple[int, int]]]:
    """Yield, tick by tick, the pairs (micro-batch, partition) that run at the same time.

    Example, 3 micro-batches on 2 partitions take 3 + 2 - 1 = 4 ticks:

        tick 0   (0, 0)
        tick 1   (1, 0) (0, 1)
        tick 2   (2, 0) (1, 1)
        tick 3          (2, 1)

    Every pair comes once, and (i, j) comes one tick after (i, j - 1). Backward runs the same ticks in reverse.

    Raises:
        ValueError: there is no micro-batch or no partition.

    Source: GPipe (Huang et al. 2019), figure 2c. Lesson 08.
    """
    if num_batches < 1 or num_partitions < 1:
        raise ValueError(
            f"a clock needs at least one micro-batch and one partition, not {num_batches} and {num_partitions}"
        )
    for tick in range(num_batches + num_partitions - 1):
        first = max(0, tick - num_batches + 1)
        last = min(tick, num_partitions - 1)
        yield [(tick - partition, partition) for partition in range(first, last + 1)]
