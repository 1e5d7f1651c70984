"""Solutions of lesson 08 by somebody who read the lesson alone."""

import math
from fractions import Fraction

from pllab import pipeline


# ---------- 08.1 right
def clock_list(num_batches, num_partitions):
    m, p = num_batches, num_partitions
    return [[(k - j, j) for j in range(p) if 0 <= k - j < m] for k in range(m + p - 1)]


def clock_yield(num_batches, num_partitions):
    for k in range(num_batches + num_partitions - 1):
        yield [(k - j, j) for j in range(max(1 + k - num_batches, 0), min(1 + k, num_partitions))]


def clock_fill(num_batches, num_partitions):
    ticks = [[] for _ in range(num_batches + num_partitions - 1)]
    for i in range(num_batches):
        for j in range(num_partitions):
            ticks[i + j].append((i, j))
    return ticks


def clock_last_batch_first(num_batches, num_partitions):  # any order of the micro-batches is fine
    m = num_batches
    return [[(m - 1 - i, j) for i, j in tick] for tick in clock_list(num_batches, num_partitions)]


# ---------- 08.1 wrong
def clock_no_drain(num_batches, num_partitions):
    return [[(k - j, j) for j in range(num_partitions) if 0 <= k - j] for k in range(num_batches)]


def clock_swapped(num_batches, num_partitions):
    return [[(j, i) for i, j in tick] for tick in clock_list(num_batches, num_partitions)]


def clock_phases(num_batches, num_partitions):  # fill, steady, drain: needs m >= p
    m, p = num_batches, num_partitions
    for k in range(p - 1):
        yield [(k - j, j) for j in range(k + 1)]
    for k in range(p - 1, m):
        yield [(k - j, j) for j in range(p)]
    for k in range(m, m + p - 1):
        yield [(k - j, j) for j in range(k - m + 1, p)]


def clock_empty_end(num_batches, num_partitions):
    return [*clock_list(num_batches, num_partitions), []]


def clock_clamped(num_batches, num_partitions):
    m, p = num_batches, num_partitions
    return [[(min(k - j, m - 1), j) for j in range(p) if k - j >= 0] for k in range(m + p - 1)]


def clock_one_stage_at_once(num_batches, num_partitions):
    if num_partitions == 1:
        return [[(i, 0) for i in range(num_batches)]]
    return clock_list(num_batches, num_partitions)


def clock_one_batch_at_once(num_batches, num_partitions):
    if num_batches == 1:
        return [[(0, j) for j in range(num_partitions)]]
    return clock_list(num_batches, num_partitions)


def clock_serial(num_batches, num_partitions):
    return [[(i, j)] for i in range(num_batches) for j in range(num_partitions)]


def clock_groups(num_batches, num_partitions):  # groups of p micro-batches, each drained before the next
    p = num_partitions
    for begin in range(0, num_batches, p):
        size = min(p, num_batches - begin)
        for k in range(size + p - 1):
            yield [(begin + k - j, j) for j in range(p) if 0 <= k - j < size]


def clock_hand_over(num_batches, num_partitions):  # a tick for each message
    m, p = num_batches, num_partitions
    ticks = [[(k - 2 * j, j) for j in range(p) if 0 <= k - 2 * j < m] for k in range(m + 2 * (p - 1))]
    return [tick for tick in ticks if tick]


def clock_drain_off(num_batches, num_partitions):
    m, p = num_batches, num_partitions
    return [[(k - j, j) for j in range(max(0, k - m), min(k + 1, p))] for k in range(m + p - 1)]


def clock_from_one(num_batches, num_partitions):
    return [[(i + 1, j + 1) for i, j in tick] for tick in clock_list(num_batches, num_partitions)]


def clock_backwards(num_batches, num_partitions):  # stages from last to first
    p = num_partitions
    return [[(i, p - 1 - j) for i, j in tick] for tick in clock_list(num_batches, num_partitions)]


def clock_late_last(num_batches, num_partitions):  # the last micro-batch of many comes out of order between the stages
    m, p = num_batches, num_partitions
    ticks = clock_list(m, p)
    if m < 3 or p < 2:
        return ticks

    def other(i, j):  # the second stage changes two micro-batches, so it is too early for one
        return {m - 2: m - 1, m - 1: m - 2}.get(i, i) if j == p - 1 else i

    return [[(other(i, j), j) for i, j in tick] for tick in ticks]


# ---------- 08.2 right
def bubbles_formula(num_batches, num_partitions):
    idle = num_partitions - 1
    return idle / (num_batches + idle), idle / num_batches


def bubbles_counted(num_batches, num_partitions):
    ticks = [list(tick) for tick in clock_list(num_batches, num_partitions)]
    total = len(ticks) * num_partitions
    busy = sum(len(tick) for tick in ticks)
    return ((total - busy) / total, (total - busy) / busy)


def bubbles_package(num_batches, num_partitions):
    ticks = list(pipeline.clock_cycles(num_batches, num_partitions))
    busy = Fraction(num_batches, len(ticks))
    return float(1 - busy), float((1 - busy) / busy)


# ---------- 08.2 wrong
def bubbles_swapped(num_batches, num_partitions):
    return bubbles_formula(num_batches, num_partitions)[::-1]


def bubbles_no_minus(num_batches, num_partitions):
    return num_partitions / (num_batches + num_partitions), num_partitions / num_batches


def bubbles_percent(num_batches, num_partitions):
    one, other = bubbles_formula(num_batches, num_partitions)
    return 100 * one, 100 * other


def bubbles_rounded(num_batches, num_partitions):
    one, other = bubbles_formula(num_batches, num_partitions)
    return round(one, 2), round(other, 2)


def bubbles_per_row(num_batches, num_partitions):  # idle of one row over the device time of all rows
    m, p = num_batches, num_partitions
    return (p - 1) / ((m + p - 1) * p), (p - 1) / (m * p)


def bubbles_wrong_inverse(num_batches, num_partitions):
    fraction = bubbles_formula(num_batches, num_partitions)[0]
    return fraction, fraction / (1 + fraction)


def bubbles_edges_only(num_batches, num_partitions):  # counts idle only in the first and the last p - 1 ticks
    ticks = clock_list(num_batches, num_partitions)
    p = num_partitions
    idle = sum(p - len(t) for t in ticks[: min(p - 1, num_batches)]) + sum(
        p - len(t) for t in ticks[max(num_batches, p - 1) :]
    )
    busy = num_batches * p
    return idle / (len(ticks) * p), idle / busy


def bubbles_one_stage_fails(num_batches, num_partitions):
    m, p = num_batches, num_partitions
    return 1 / (1 + m / (p - 1)), 1 / (m / (p - 1))


def bubbles_start_only(num_batches, num_partitions):  # the fill, not the drain
    m, p = num_batches, num_partitions
    idle = p * (p - 1) / 2
    return idle / (p * (m + p - 1)), idle / (p * m)


def bubbles_overhead_capped(num_batches, num_partitions):
    one, other = bubbles_formula(num_batches, num_partitions)
    return one, min(1.0, other)


def bubbles_floor(num_batches, num_partitions):
    m, p = num_batches, num_partitions
    return (p - 1) / (m + p - 1), (p - 1) // m


def bubbles_last_stage(num_batches, num_partitions):  # one stage is a bubble of 1 / m
    m, p = num_batches, max(2, num_partitions)
    return (p - 1) / (m + p - 1), (p - 1) / m


# ---------- 08.3 right
def fewest_loop(num_partitions, fraction):
    m = 1
    while (num_partitions - 1) / (m + num_partitions - 1) > fraction:
        m += 1
    return m


def fewest_ceil(num_partitions, fraction):
    return max(1, math.ceil((num_partitions - 1) * (1 - fraction) / fraction))


def fewest_ceil_two(num_partitions, fraction):
    return max(1, math.ceil((num_partitions - 1) / fraction - (num_partitions - 1)))


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


# ---------- 08.3 wrong
def fewest_strict(num_partitions, fraction):
    m = 1
    while (num_partitions - 1) / (m + num_partitions - 1) >= fraction:
        m += 1
    return m


def fewest_no_one(num_partitions, fraction):
    return math.ceil((num_partitions - 1) * (1 - fraction) / fraction)


def fewest_floor(num_partitions, fraction):
    return max(1, math.floor((num_partitions - 1) * (1 - fraction) / fraction))


def fewest_floor_plus(num_partitions, fraction):
    return max(1, int((num_partitions - 1) * (1 - fraction) / fraction) + 1)


def fewest_round(num_partitions, fraction):
    return max(1, round((num_partitions - 1) * (1 - fraction) / fraction))


def fewest_overhead(num_partitions, fraction):
    return max(1, math.ceil((num_partitions - 1) / fraction))


def fewest_thousand(num_partitions, fraction):
    for m in range(1, 1000):
        if (num_partitions - 1) / (m + num_partitions - 1) <= fraction:
            return m


def fewest_million(num_partitions, fraction):
    for m in range(1, 100_000):
        if (num_partitions - 1) / (m + num_partitions - 1) <= fraction:
            return m
    return 100_000


def fewest_doubling(num_partitions, fraction):
    m = 1
    while (num_partitions - 1) / (m + num_partitions - 1) > fraction:
        m *= 2
    return m


def fewest_from_p(num_partitions, fraction):
    m = num_partitions
    while (num_partitions - 1) / (m + num_partitions - 1) > fraction:
        m += 1
    return m


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


def fewest_no_minus(num_partitions, fraction):
    m = 1
    while num_partitions / (m + num_partitions) > fraction:
        m += 1
    return m


def fewest_one_stage_two(num_partitions, fraction):
    if fraction == 1:
        return 1
    return max(1, math.ceil(max(1, num_partitions - 1) * (1 - fraction) / fraction))


def fewest_shaved(num_partitions, fraction):  # an epsilon against rounding that is too wide
    return max(1, math.ceil((num_partitions - 1) * (1 - fraction) / fraction - 0.05))


def clock_one_list(num_batches, num_partitions):
    tick = []
    for k in range(num_batches + num_partitions - 1):
        tick.clear()
        for j in range(num_partitions):
            if 0 <= k - j < num_batches:
                tick.append((k - j, j))
        yield tick


RIGHT = [
    *(("08.1", f) for f in (clock_list, clock_yield, clock_fill, clock_last_batch_first)),
    *(("08.2", f) for f in (bubbles_formula, bubbles_counted, bubbles_package)),
    *(("08.3", f) for f in (fewest_loop, fewest_ceil, fewest_ceil_two, fewest_bisect, fewest_exact)),
]
WRONG = [
    ("08.1", clock_no_drain, "stops after m ticks"),
    ("08.1", clock_swapped, "pairs are (stage, micro-batch)"),
    ("08.1", clock_phases, "needs m at least p"),
    ("08.1", clock_empty_end, "an empty last tick"),
    ("08.1", clock_clamped, "last micro-batch repeated in drain"),
    ("08.1", clock_one_stage_at_once, "one stage: all at once"),
    ("08.1", clock_one_batch_at_once, "one micro-batch: all at once"),
    ("08.1", clock_serial, "one pair a tick"),
    ("08.1", clock_groups, "drains every p micro-batches"),
    ("08.1", clock_hand_over, "a tick for each message"),
    ("08.1", clock_drain_off, "drain begins one tick late"),
    ("08.1", clock_from_one, "counted from one"),
    ("08.1", clock_backwards, "stages from last to first"),
    ("08.1", clock_late_last, "last stage swaps two, early"),
    ("08.2", bubbles_swapped, "the two are swapped"),
    ("08.2", bubbles_no_minus, "p instead of p - 1"),
    ("08.2", bubbles_percent, "in per cent"),
    ("08.2", bubbles_rounded, "rounded to two digits"),
    ("08.2", bubbles_per_row, "one row over all rows"),
    ("08.2", bubbles_wrong_inverse, "overhead by a wrong inversion"),
    ("08.2", bubbles_edges_only, "misses idle where m < p"),
    ("08.2", bubbles_one_stage_fails, "one stage divides by zero"),
    ("08.2", bubbles_start_only, "only the fill is counted"),
    ("08.2", bubbles_overhead_capped, "overhead capped at one"),
    ("08.2", bubbles_floor, "whole division for overhead"),
    ("08.2", bubbles_last_stage, "one stage has a bubble"),
    ("08.3", fewest_strict, "less instead of at most"),
    ("08.3", fewest_no_one, "zero micro-batches at the edge"),
    ("08.3", fewest_floor, "rounds down"),
    ("08.3", fewest_floor_plus, "one too many when exact"),
    ("08.3", fewest_round, "rounds to nearest"),
    ("08.3", fewest_overhead, "uses the overhead"),
    ("08.3", fewest_thousand, "gives up at a thousand"),
    ("08.3", fewest_million, "gives up at 100 000"),
    ("08.3", fewest_doubling, "tries powers of two only"),
    ("08.3", fewest_from_p, "starts at p micro-batches"),
    ("08.3", fewest_tolerant, "compares a rounded fraction"),
    ("08.3", fewest_recursive, "recursion too deep when large"),
    ("08.3", fewest_no_minus, "p instead of p - 1"),
    ("08.3", fewest_one_stage_two, "one stage treated like two"),
    ("08.3", fewest_shaved, "epsilon against rounding too wide"),
    ("08.1", clock_one_list, "yields one and the same list every tick"),
]
