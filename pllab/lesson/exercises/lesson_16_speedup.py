"""The cases of exercise 16.1: `speedup(baseline_s, contender_s)`, a ratio that can be defended, or None."""

import math
import random
from functools import partial
from itertools import product
from statistics import mean, median
from typing import Any

from pllab.lesson.exercise import Function, case
from pllab.lesson.mistakes import Mistake, compare


def _ratios(baseline: list[float], contender: list[float]) -> list[float]:
    return [before / now for before, now in zip(baseline, contender, strict=True)]


def _speedup(baseline: list[float], contender: list[float]) -> float | None:
    ratios = _ratios(baseline, contender)
    return None if min(ratios) <= 1 <= max(ratios) else median(ratios)


def _is_same(answer: Any, right: float | None) -> bool:
    if answer is None or right is None:
        return answer is right
    return isinstance(answer, int | float) and math.isclose(answer, right, rel_tol=1e-6)


_judge = partial(compare, truth=_speedup, asked="baseline {} s and contender {} s", same=_is_same, show=repr)
_MISTAKES = [
    Mistake(
        "upside_down",
        "The baseline's time comes first in the ratio.",
        like=lambda baseline, contender: _speedup(contender, baseline),
    ),
    Mistake("mean_of_ratios", "That is the mean of the ratios.", like=lambda *times: mean(_ratios(*times))),
    Mistake(
        "ratio_of_medians",
        "That compares times of different rounds.",
        like=lambda baseline, contender: median(baseline) / median(contender),
    ),
    Mistake(
        "hides_a_loss",
        "A contender that lost every round has a result too, below 1.",
        when=lambda answer, *times: answer is None and max(_ratios(*times)) < 1,
    ),
]


@case("the median of the per-round ratios, on a machine that slows down")
def drifting(speedup: Function) -> None:
    questions = [([2.0] * 5, [1.0] * 5), ([1.1, 1.2, 1.5, 2.0, 2.6], [0.5, 0.8, 0.5, 1.6, 1.3])]
    _judge(speedup, questions, mistakes=_MISTAKES)


@case("any number of rounds, even or odd, all won or all lost")
def any_number(speedup: Function) -> None:
    questions = [([2.0, 3.0], [1.0, 1.0]), ([1.0, 1.1, 1.0], [2.0, 2.2, 2.5])]
    chance = random.Random(16)
    for count, (least, most) in product((1, 2, 4, 3, 8, 9), ((0.3, 0.9), (1.1, 3.0))):
        baseline = [round(chance.uniform(1.0, 4.0), 3) for _ in range(count)]
        questions.append((baseline, [round(time * chance.uniform(least, most), 3) for time in baseline]))
    _judge(speedup, questions, mistakes=_MISTAKES)


@case("each side wins some rounds: None")
def within_the_spread(speedup: Function) -> None:
    one, other = [1.0, 1.3, 0.9, 1.1, 1.0], [0.95, 1.35, 0.85, 1.15, 0.9]
    _judge(speedup, [(one, other), (other, one)], hint_id="within_the_spread")


@case("a drawn round has no winner: None")
def drawn_round(speedup: Function) -> None:
    one, other = [1.5, 1.2, 1.1, 1.8], [1.0, 1.2, 1.0, 1.0]
    _judge(speedup, [(one, other), (other, one), ([2.0], [2.0])], hint_id="draw_counts")


@case("a small lead is no draw")
def small_lead(speedup: Function) -> None:
    narrow, short, tiny = [1.004, 1.003], [0.0004, 0.0003], [1.0000000001, 1.0000000003]
    pairs = [(narrow, [1.0, 1.0]), (short, [0.0002, 0.0002]), (tiny, [1.0, 1.0])]
    _judge(speedup, [*pairs, *((other, one) for one, other in pairs)], hint_id="small_lead")
