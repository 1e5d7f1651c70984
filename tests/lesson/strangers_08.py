"""Solutions of lesson 08 by somebody who read the lesson alone."""

import math
from fractions import Fraction

from pllab import pipeline
from tests.lesson.variants_08 import two_formulas


# ---------- 08.1
def clock_list(num_batches, num_partitions):
    m, p = num_batches, num_partitions
    return [[(k - j, j) for j in range(p) if 0 <= k - j < m] for k in range(m + p - 1)]


def clock_last_batch_first(num_batches, num_partitions):  # any order of the micro-batches is fine
    m = num_batches
    return [[(m - 1 - i, j) for i, j in tick] for tick in clock_list(num_batches, num_partitions)]


def clock_one_stage_at_once(num_batches, num_partitions):
    if num_partitions == 1:
        return [[(i, 0) for i in range(num_batches)]]
    return clock_list(num_batches, num_partitions)


def clock_one_batch_at_once(num_batches, num_partitions):
    if num_batches == 1:
        return [[(0, j) for j in range(num_partitions)]]
    return clock_list(num_batches, num_partitions)


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


def bubbles_rounded(num_batches, num_partitions):
    one, other = two_formulas(num_batches, num_partitions)
    return round(one, 2), round(other, 2)


def bubbles_one_stage_fails(num_batches, num_partitions):
    m, p = num_batches, num_partitions
    return 1 / (1 + m / (p - 1)), 1 / (m / (p - 1))


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


def fewest_thousand(num_partitions, fraction):
    for m in range(1, 1000):
        if (num_partitions - 1) / (m + num_partitions - 1) <= fraction:
            return m


def fewest_million(num_partitions, fraction):
    for m in range(1, 100_000):
        if (num_partitions - 1) / (m + num_partitions - 1) <= fraction:
            return m
    return 100_000


def fewest_tolerant(num_partitions, fraction):
    m = 1
    while round((num_partitions - 1) / (m + num_partitions - 1), 2) > fraction:
        m += 1
        if m > 10**6:
            return m
    return m


def fewest_recursive(num_partitions, fraction, m=1):
    if (num_partitions - 1) / (m + num_partitions - 1) <= fraction:
        return m
    return fewest_recursive(num_partitions, fraction, m + 1)


def fewest_shaved(num_partitions, fraction):  # an epsilon against rounding that is too wide
    return max(1, math.ceil((num_partitions - 1) * (1 - fraction) / fraction - 0.05))


RIGHT = {
    "08.1": [clock_list, clock_last_batch_first],
    "08.2": [bubbles_counted, bubbles_package],
    "08.3": [fewest_bisect, fewest_exact],
}
WRONG = [
    ("08.1", clock_one_stage_at_once, "one stage: all at once"),
    ("08.1", clock_one_batch_at_once, "one micro-batch: all at once"),
    ("08.2", bubbles_one_stage_fails, "one stage divides by zero"),
    ("08.3", fewest_thousand, "gives up at a thousand"),
    ("08.3", fewest_recursive, "recursion too deep when large"),
]
