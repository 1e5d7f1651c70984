"""Wrong solutions of lesson 08, each with the hint that must refuse it."""

import math

from pllab.pipeline import clock_cycles
from tests.lesson.variants_08 import moves_the_front

# 08.1 clock_cycles(num_batches, num_partitions)


def empty_schedule(m, p):
    return iter(())


def hands_out_one_list(m, p):
    return moves_the_front(m, p, hand_out=lambda inside: inside)


def forgets_to_return(m, p):
    ticks = list(clock_cycles(m, p))
    ticks.sort()


def stage_first(m, p):
    for tick in clock_cycles(m, p):
        yield [(j, i) for i, j in tick]


def counts_from_one(m, p):
    return [[(i + 1, j + 1) for i, j in tick] for tick in clock_cycles(m, p)]


def no_skew(m, p):
    return [[(i, j) for j in range(p)] for i in range(m)]


def all_in_one_tick(m, p):
    return [[(i, j) for i in range(m) for j in range(p)]]


def one_after_the_other(m, p):
    return [[(i, j)] for i in range(m) for j in range(p)]


def never_stops(m, p):
    k = 0
    while True:
        yield [(k - j, j) for j in range(p) if 0 <= k - j < m]
        k += 1


def three_phases(m, p):
    """Fill, run full, drain; with m < p there is no time in which all stages work."""
    ticks = [[(k - j, j) for j in range(k + 1)] for k in range(p - 1)]
    ticks += [[(k - j, j) for j in range(p)] for k in range(p - 1, m)]
    ticks += [[(m - 1 - (j - first), j) for j in range(first, p)] for first in range(1, p)]
    return ticks


def crashes_with_few(m, p):
    filling = list(range(m))[p - 1]
    return list(clock_cycles(filling + m - p + 1, p))


def refuses_one_stage(m, p):
    if p < 2:
        raise ValueError("a pipeline has two stages")
    return clock_cycles(m, p)


def idles_with_one_stage(m, p):
    return [*clock_cycles(m, p), []] if p == 1 else clock_cycles(m, p)


def one_stage_at_once(m, p):
    return [[(i, 0) for i in range(m)]] if p == 1 else clock_cycles(m, p)


def one_batch_at_once(m, p):
    return [[(0, j) for j in range(p)]] if m == 1 else clock_cycles(m, p)


# 08.2 bubbles(num_batches, num_partitions)


def right_fraction(m, p):
    return (p - 1) / (m + p - 1)


def right_overhead(m, p):
    return (p - 1) / m


def bubbles_of(name, fraction=right_fraction, overhead=right_overhead):
    """Two numbers, of which one is wrong."""

    def bubbles(m, p):
        return fraction(m, p), overhead(m, p)

    bubbles.__name__ = name
    return bubbles


def rounded_to_cents(m, p):
    return round(right_fraction(m, p), 2), round(right_overhead(m, p), 2)


def divides_by_no_stages(m, p):
    return 1 / (1 + m / (p - 1)), 1 / (m / (p - 1))


# 08.3 fewest_batches(num_partitions, fraction)


def for_the_overhead(p, limit):
    return max(1, math.ceil((p - 1) / limit))


def does_not_round(p, limit):
    return max(1, (p - 1) * (1 - limit) / limit)


def strictly_below(p, limit):
    m = 1
    while (p - 1) / (m + p - 1) >= limit and p > 1:
        m += 1
    return m


def nothing_for_one_stage(p, limit):
    return math.ceil((p - 1) * (1 - limit) / limit)


def at_least_two(p, limit):
    return max(2, math.ceil((p - 1) * (1 - limit) / limit))


def shaved_off(p, limit):
    """An epsilon against rounding that is too wide."""
    return max(1, math.ceil((p - 1) * (1 - limit) / limit - 0.05))


def counted_up_to(most, otherwise=None):
    """Tries one number after the other, and gives up."""

    def fewest(p, limit):
        return next((m for m in range(1, most) if right_fraction(m, p) <= limit), otherwise)

    fewest.__name__ = f"counted_up_to_{most}"
    return fewest


def rounds_the_fraction(p, limit):
    return next((m for m in range(1, 10**6) if round(right_fraction(m, p), 2) <= limit), 10**6)


def recursive(p, limit, m=1):
    return m if right_fraction(m, p) <= limit else recursive(p, limit, m + 1)


WRONG = [
    ("08.1", "wrong_pairs", empty_schedule),
    ("08.1", "one_list", hands_out_one_list),
    ("08.1", "no_ticks", forgets_to_return),
    ("08.1", "swapped_pair", stage_first),
    ("08.1", "counts_from_one", counts_from_one),
    ("08.1", "wrong_order", no_skew),
    ("08.1", "two_on_one_stage", all_in_one_tick),
    ("08.1", "too_long", one_after_the_other),
    ("08.1", "endless", never_stops),
    ("08.1", "wrong_pairs", three_phases),
    ("08.1", "raised", crashes_with_few),
    ("08.1", "raised", refuses_one_stage),
    ("08.1", "too_long", idles_with_one_stage),
    ("08.1", "two_on_one_stage", one_stage_at_once),
    ("08.1", "wrong_order", one_batch_at_once),
    ("08.2", "turned_round", bubbles_of("overhead_twice", fraction=right_overhead)),
    ("08.2", "extra_stage", bubbles_of("p_over_all", fraction=lambda m, p: p / (m + p - 1))),
    ("08.2", "wrong", bubbles_of("p_over_m_first", fraction=lambda m, p: p / m)),
    ("08.2", "whole_part", bubbles_of("whole_fraction", fraction=lambda m, p: (p - 1) // (m + p - 1))),
    ("08.2", "percent", bubbles_of("in_per_cent", fraction=lambda m, p: 100 * (p - 1) / (m + p - 1))),
    ("08.2", "there_and_back", bubbles_of("doubles_the_bubble", fraction=lambda m, p: 2 * (p - 1) / (m + p - 1))),
    ("08.2", "no_pair", bubbles_of("as_a_text", fraction=lambda m, p: f"{right_fraction(m, p):.1%}")),
    ("08.2", "one_stage", bubbles_of("at_least_something", fraction=lambda m, p: right_fraction(m, p) or 0.001)),
    ("08.2", "turned_round", bubbles_of("fraction_twice", overhead=right_fraction)),
    ("08.2", "extra_stage", bubbles_of("p_over_m", overhead=lambda m, p: p / m)),
    ("08.2", "wrong", bubbles_of("m_over_idle", overhead=lambda m, p: m / (p - 1) if p > 1 else 0)),
    ("08.2", "whole_part", bubbles_of("whole_overhead", overhead=lambda m, p: (p - 1) // m)),
    ("08.2", "there_and_back", bubbles_of("doubles_the_overhead", overhead=lambda m, p: 2 * (p - 1) / m)),
    ("08.2", "rounded", rounded_to_cents),
    ("08.2", "raised", divides_by_no_stages),
    ("08.3", "rounded_fraction", rounds_the_fraction),
    ("08.3", "wrong", counted_up_to(100_000, 100_000)),
    ("08.3", "not_enough", shaved_off),
    ("08.3", "overhead_for_fraction", for_the_overhead),
    ("08.3", "not_whole", does_not_round),
    ("08.3", "strictly_below", strictly_below),
    ("08.3", "no_micro_batch", nothing_for_one_stage),
    ("08.3", "one_is_enough", at_least_two),
    ("08.3", "no_number", counted_up_to(1000)),
    ("08.3", "raised", recursive),
]


# Solutions that never come back from their first tick


def counts_no_tick(m, p):
    ticks = []
    k = 0
    while k < m + p - 1:
        if k >= m + p - 2:
            k += 1
    return ticks


HANGING = [
    ("08.1", "endless", counts_no_tick),
]
