"""Solutions of lesson 08 by somebody who read the lesson alone."""

import math
from fractions import Fraction

from pllab import pipeline


# ---------- 08.1
def clock_list(num_batches, num_partitions):
    m, p = num_batches, num_partitions
    return [[(k - j, j) for j in range(p) if 0 <= k - j < m] for k in range(m + p - 1)]


def clock_last_batch_first(num_batches, num_partitions):  # any order of the micro-batches is fine
    m = num_batches
    return [[(m - 1 - i, j) for i, j in tick] for tick in clock_list(num_batches, num_partitions)]


# ---------- 08.2
def bubbles_counted(num_batches, num_partitions):
    ticks = [list(tick) for tick in clock_list(num_batches, num_partitions)]
    total = len(ticks) * num_partitions
    busy = sum(len(tick) for tick in ticks)
    return ((total - busy) / total, (total - busy) / busy)


def bubbles_package(num_batches, num_partitions):
    ticks = list(pipeline.clock_cycles(num_batches, num_partitions))
    busy = Fraction(num_batches, len(ticks))
    return float(1 - busy), float((1 - busy) / busy)


# ---------- 08.3


def fewest_bisect(num_partitions, fraction):
    def enough(m):
        return num_partitions - 1 <= fraction * (m + num_partitions - 1)

    high = 1
    while not enough(high):
        high *= 2
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def fewest_exact(num_partitions, fraction):
    exact = Fraction(fraction)
    return max(1, math.ceil((num_partitions - 1) * (1 - exact) / exact))


RIGHT = {
    "08.1": [clock_list, clock_last_batch_first],
    "08.2": [bubbles_counted, bubbles_package],
    "08.3": [fewest_bisect, fewest_exact],
}
