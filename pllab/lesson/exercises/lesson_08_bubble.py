"""The cases of exercises 08.2 and 08.3: the two bubble numbers, and the fewest micro-batches for a given fraction.

The truth is exact: fractions of the cells that the clock's grid has.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.mistakes import Mistake, compare, two_numbers

Bubbles = Callable[[int, int], Any]
Fewest = Callable[[int, float], Any]


def _share_of_all(m: int, p: int) -> Fraction:
    """Idle over all cells of the grid: p stages times m + p - 1 ticks, of which m p work."""
    return 1 - Fraction(m * p, (m + p - 1) * p)


def _share_of_busy(m: int, p: int) -> Fraction:
    return Fraction((m + p - 1) * p, m * p) - 1


# 08.2, the two numbers

# Micro-batches and stages; m above, below and equal to p, and some drawn at random. One stage has a case of its own.
_CHANCE = Random(8)
_SHAPES = [(8, 4), (4, 8), (5, 3), (3, 3), (1, 4), (12, 2), (64, 8), (1000, 2)]
_SHAPES += [(_CHANCE.randrange(1, 300), _CHANCE.randrange(2, 70)) for _ in range(6)]
_TURNED = "The two numbers are in the wrong order: the fraction comes first."
_EXTRA_STAGE = "A stage is idle in p - 1 ticks, not in p: the first stage starts at once."
_THERE_AND_BACK = "Forward and backward double the idle time, and they double the work as well."


_pair = partial(two_numbers, names="fraction and overhead")


def _mistakes(right: Callable[[int, int], Fraction], other: Callable[[int, int], Fraction]) -> list[Mistake]:
    return [
        Mistake("turned_round", _TURNED, like=other),
        Mistake("percent", "That is in per cent; leave out the 100.", like=lambda m, p: 100 * right(m, p)),
        Mistake("whole_part", "// rounds down to a whole number; / divides.", like=lambda m, p: right(m, p) // 1),
        *(
            Mistake("rounded", "Do not round.", like=lambda m, p, digits=digits: round(float(right(m, p)), digits))
            for digits in (1, 2, 3, 4)
        ),
        Mistake("extra_stage", _EXTRA_STAGE, like=lambda m, p: right(m, p) * p / max(1, p - 1)),
        Mistake("there_and_back", _THERE_AND_BACK, like=lambda m, p: 2 * right(m, p)),
    ]


_close = partial(math.isclose, rel_tol=1e-9)
_about = partial(compare, asked="m = {} and p = {}", same=_close)


@case("the first number is idle over all device time, for 14 pairs of m and p")
def fraction_everywhere(bubbles: Bubbles) -> None:
    mistakes = _mistakes(_share_of_all, _share_of_busy)
    _about(bubbles, _SHAPES, _share_of_all, mistakes, read=lambda *answer: _pair(*answer)[0])


@case("the second number is idle over busy device time, for the same pairs")
def overhead_everywhere(bubbles: Bubbles) -> None:
    mistakes = _mistakes(_share_of_busy, _share_of_all)
    _about(bubbles, _SHAPES, _share_of_busy, mistakes, read=lambda *answer: _pair(*answer)[1])


@case("one stage has no bubble")
def no_bubble(bubbles: Bubbles) -> None:
    _about(
        bubbles, [(m, 1) for m in (1, 3, 8, 200)], lambda *_: (0, 0), read=_pair, same=tuple.__eq__, hint_id="one_stage"
    )


# 08.3, the fewest micro-batches

# Stages and the largest fraction. The powers of two are met exactly by some m, without rounding; the others by none,
# so that no rounding error of a right solution decides: where the formula is close to a whole number, it is a
# hundredth above or below. Answers go from 2, fewer than the stages, to 538,455.
_LIMITS = [(4, 0.25), (3, 0.5), (8, 0.125), (4, 0.07), (2, 0.15), (8, 0.3), (5, 0.45)]
_LIMITS += [(8, 0.051), (4, 0.011), (2, 0.0013), (64, 0.031), (16, 0.9), (64, 0.97)]
_LIMITS += [(8, 0.000013), (5, 0.2855), (5, 0.2859), (3, 0.00199599), (3, 0.00199603)]
_DRAWN = [(_CHANCE.randrange(2, 65), _CHANCE.randrange(30, 900) / 1000) for _ in range(12)]
_LIMITS += [(p, limit) for p, limit in _DRAWN if abs(math.remainder((p - 1) * (1 - limit) / limit, 1)) > 1e-6]


def _first(holds: Callable[[int], bool]) -> int:
    """The first number that is enough, where all larger ones are enough too."""
    return bisect_left(range(1, 10_000_000), True, key=holds) + 1


def _fewest(p: int, limit: float) -> int:
    return _first(lambda m: _share_of_all(m, p) <= limit)


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
        like=lambda p, limit: _first(lambda m: _share_of_busy(m, p) <= limit),
    ),
    Mistake(
        "strictly_below",
        "A fraction of exactly the limit is allowed: at most means <=.",
        like=lambda p, limit: _first(lambda m: _share_of_all(m, p) < limit),
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
    Mistake("not_smallest", "One micro-batch less is enough.", like=lambda p, limit: _fewest(p, limit) + 1),
]


@case("the bubble fraction is at most the one asked for, and one micro-batch less would not be enough")
def fewest_that_are_enough(fewest: Fewest) -> None:
    compare(fewest, _LIMITS, _fewest, _NOT_THE_FEWEST, asked="p = {} and at most {:g}", read=_whole)


@case("one is enough where there is no bubble, or where a large one is allowed")
def one_is_enough(fewest: Fewest) -> None:
    generous = [(1, 0.1), (1, 0.5), (1, 0.001), (2, 0.9), (5, 1.0)]
    compare(fewest, generous, _fewest, asked="p = {} and at most {:g}", read=_whole, hint_id="one_is_enough")
