"""The cases of exercise 08.2: `bubbles(num_batches, num_partitions)`, the bubble's fraction and overhead.

The truth is exact: fractions of the cells that the clock's grid has.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from random import Random

from pllab.lesson.exercise import Function, case
from pllab.lesson.mistakes import Mistake, compare, two_numbers


def share_of_all(m: int, p: int) -> Fraction:
    """Idle over all cells of the grid: p stages times m + p - 1 ticks, of which m p work."""
    return 1 - Fraction(m * p, (m + p - 1) * p)


def share_of_busy(m: int, p: int) -> Fraction:
    """Idle over the cells that work."""
    return Fraction((m + p - 1) * p, m * p) - 1


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


_about = partial(compare, asked="m = {} and p = {}", same=partial(math.isclose, rel_tol=1e-9))


@case("the first number is idle over all device time, for 14 pairs of m and p")
def fraction_everywhere(bubbles: Function) -> None:
    mistakes = _mistakes(share_of_all, share_of_busy)
    _about(bubbles, _SHAPES, share_of_all, mistakes, read=lambda *answer: _pair(*answer)[0])


@case("the second number is idle over busy device time, for the same pairs")
def overhead_everywhere(bubbles: Function) -> None:
    mistakes = _mistakes(share_of_busy, share_of_all)
    _about(bubbles, _SHAPES, share_of_busy, mistakes, read=lambda *answer: _pair(*answer)[1])


@case("one stage has no bubble")
def no_bubble(bubbles: Function) -> None:
    shapes = [(m, 1) for m in (1, 3, 8, 200)]
    _about(bubbles, shapes, lambda *_: (0, 0), read=_pair, same=tuple.__eq__, hint_id="one_stage")
