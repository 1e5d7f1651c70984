"""Right solutions of lesson 08 that look different."""

import math
from fractions import Fraction
from itertools import count

from pllab import pipeline

# 08.1


def filters_the_stages(num_batches, num_partitions):
    for k in range(num_batches + num_partitions - 1):
        yield [(k - j, j) for j in range(num_partitions) if 0 <= k - j < num_batches]


def bounds_the_range(num_batches, num_partitions):
    for k in range(num_batches + num_partitions - 1):
        yield [(k - j, j) for j in range(max(1 + k - num_batches, 0), min(1 + k, num_partitions))]


def sorts_the_cells_into_a_list(num_batches, num_partitions):
    ticks = [[] for _ in range(num_batches + num_partitions - 1)]
    for i in range(num_batches):
        for j in range(num_partitions):
            ticks[i + j].append((i, j))
    return ticks


def sets_of_lists(num_batches, num_partitions):
    ticks = {}
    for j in range(num_partitions):
        for i in range(num_batches):
            ticks.setdefault(i + j, set()).add((i, j))
    return tuple(ticks[k] for k in sorted(ticks))


def moves_the_front(num_batches, num_partitions, hand_out=list):
    """Keep one list of what is in the pipe, and hand out a copy."""
    inside, waiting = [], iter(range(num_batches))
    while True:
        inside[:] = [(i, j + 1) for i, j in inside if j + 1 < num_partitions]
        if (i := next(waiting, None)) is not None:
            inside.append((i, 0))
        if not inside:
            return
        yield hand_out(inside)


def ticks_that_are_generators(num_batches, num_partitions):
    for k in range(num_batches + num_partitions - 1):
        yield ([k - j, j] for j in reversed(range(num_partitions)) if k - j in range(num_batches))


# 08.2


def two_formulas(num_batches, num_partitions):
    idle = num_partitions - 1
    return idle / (num_batches + idle), idle / num_batches


def one_minus_busy(num_batches, num_partitions):
    busy = num_batches / (num_batches + num_partitions - 1)
    return [1 - busy, 1 / busy - 1]


def counts_the_cells(num_batches, num_partitions):
    ticks = list(filters_the_stages(num_batches, num_partitions))
    busy = sum(map(len, ticks))
    idle = len(ticks) * num_partitions - busy
    return idle / (idle + busy), idle / busy


def exactly(num_batches, num_partitions):
    fraction = Fraction(num_partitions - 1, num_batches + num_partitions - 1)
    return fraction, fraction / (1 - fraction)


# 08.3


def counts_up(num_partitions, fraction):
    m = 1
    while (num_partitions - 1) / (m + num_partitions - 1) > fraction:
        m += 1
    return m


def solves_for_m(num_partitions, fraction):
    return max(1, math.ceil((num_partitions - 1) * (1 - fraction) / fraction))


def solves_the_other_way(num_partitions, fraction):
    return max(math.ceil((num_partitions - 1) / fraction - (num_partitions - 1)), 1)


def takes_the_first(num_partitions, fraction):
    return next(m for m in count(1) if two_formulas(m, num_partitions)[0] <= fraction)


# By somebody who read the lesson alone.


# 08.1
def clock_list(num_batches, num_partitions):
    m, p = num_batches, num_partitions
    return [[(k - j, j) for j in range(p) if 0 <= k - j < m] for k in range(m + p - 1)]


def clock_last_batch_first(num_batches, num_partitions):  # any order of the micro-batches is fine
    m = num_batches
    return [[(m - 1 - i, j) for i, j in tick] for tick in clock_list(num_batches, num_partitions)]


# 08.2
def bubbles_counted(num_batches, num_partitions):
    ticks = [list(tick) for tick in clock_list(num_batches, num_partitions)]
    total = len(ticks) * num_partitions
    busy = sum(len(tick) for tick in ticks)
    return ((total - busy) / total, (total - busy) / busy)


def bubbles_package(num_batches, num_partitions):
    ticks = list(pipeline.clock_cycles(num_batches, num_partitions))
    busy = Fraction(num_batches, len(ticks))
    return float(1 - busy), float((1 - busy) / busy)


# 08.3


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
    "08.1": [
        filters_the_stages,
        bounds_the_range,
        sorts_the_cells_into_a_list,
        sets_of_lists,
        moves_the_front,
        ticks_that_are_generators,
        clock_list,
        clock_last_batch_first,
    ],
    "08.2": [two_formulas, one_minus_busy, counts_the_cells, exactly, bubbles_counted, bubbles_package],
    "08.3": [counts_up, solves_for_m, solves_the_other_way, takes_the_first, fewest_bisect, fewest_exact],
}
