"""The cases of exercise 08.3: `fewest_batches(num_partitions, fraction)`, micro-batches enough for a bubble."""

import math
from bisect import bisect_left
from collections.abc import Callable
from random import Random
from typing import Any

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.lesson_08_bubble import share_of_all, share_of_busy
from pllab.lesson.mistakes import Mistake, compare

# Stages and the largest fraction. The powers of two are met exactly by some m, without rounding; the others by none,
# so that no rounding error of a right solution decides: where the formula is close to a whole number, it is a
# hundredth above or below. Answers go from 2, fewer than the stages, to 538,455.
_LIMITS = [(4, 0.25), (3, 0.5), (8, 0.125), (4, 0.07), (2, 0.15), (8, 0.3), (5, 0.45)]
_LIMITS += [(8, 0.051), (4, 0.011), (2, 0.0013), (64, 0.031), (16, 0.9), (64, 0.97)]
_LIMITS += [(8, 0.000013), (5, 0.2855), (5, 0.2859), (3, 0.00199599), (3, 0.00199603)]
_CHANCE = Random(8)
_DRAWN = [(_CHANCE.randrange(2, 65), _CHANCE.randrange(30, 900) / 1000) for _ in range(12)]
_LIMITS += [(p, limit) for p, limit in _DRAWN if abs(math.remainder((p - 1) * (1 - limit) / limit, 1)) > 1e-6]


def _first(holds: Callable[[int], bool]) -> int:
    """The first number that is enough, where all larger ones are enough too."""
    return bisect_left(range(1, 10_000_000), True, key=holds) + 1


def _fewest(p: int, limit: float) -> int:
    return _first(lambda m: share_of_all(m, p) <= limit)


def _whole(answer: Any, p: int, limit: float) -> int:
    """The answer as a whole number of at least 1."""
    asked = f"For p = {p} and at most {limit:g} your function gave {answer!r}"
    if answer is None or isinstance(answer, str | bool) or not hasattr(answer, "__float__"):
        raise Wrong("no_number", f"{asked}; return a number.")
    if answer != int(answer):
        raise Wrong("not_whole", f"{asked}; micro-batches come in whole numbers. Round up.")
    if answer < 1:
        raise Wrong("no_micro_batch", f"{asked}; without a micro-batch nothing runs, so the smallest number is 1.")
    return int(answer)


_NOT_THE_FEWEST = [
    Mistake(
        "overhead_for_fraction",
        "You limited the bubble overhead, idle over busy time; the bubble fraction is idle over all time.",
        like=lambda p, limit: _first(lambda m: share_of_busy(m, p) <= limit),
    ),
    Mistake(
        "strictly_below",
        "A fraction of exactly the limit is allowed: at most means <=.",
        like=lambda p, limit: _first(lambda m: share_of_all(m, p) < limit),
    ),
    *(
        Mistake(
            "rounded_fraction",
            f"You compared the fraction rounded to {digits} digits.",
            like=lambda p, limit, digits=digits: _first(lambda m: round((p - 1) / (m + p - 1), digits) <= limit),
        )
        for digits in (1, 2, 3, 4)
    ),
    Mistake("not_enough", "One micro-batch more is enough: round up.", like=lambda p, limit: _fewest(p, limit) - 1),
]


@case("the bubble fraction is at most the one asked for, and one micro-batch less would not be enough")
def fewest_that_are_enough(fewest: Function) -> None:
    compare(fewest, _LIMITS, _fewest, _NOT_THE_FEWEST, asked="p = {} and at most {:g}", read=_whole)


@case("one is enough where there is no bubble, or where a large one is allowed")
def one_is_enough(fewest: Function) -> None:
    generous = [(1, 0.1), (1, 0.5), (1, 0.001), (2, 0.9), (5, 1.0)]
    compare(fewest, generous, _fewest, asked="p = {} and at most {:g}", read=_whole, hint_id="one_is_enough")
