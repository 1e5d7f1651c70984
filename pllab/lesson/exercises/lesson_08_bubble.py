"""The cases of exercises 08.2 and 08.3: the two bubble numbers, and the fewest micro-batches for a given fraction.

The truth is counted: idle and busy cells of the clock's grid. A wrong answer is compared with the formulas that
people take for the right one, so that the hint can name the mix-up.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

from pllab.lesson.exercise import Wrong, case

Bubbles = Callable[[int, int], Any]
Fewest = Callable[[int, float], Any]

# Micro-batches and stages; m above, below and equal to p, and some by chance. One stage has a case of its own.
_CHANCE = Random(8)
_SHAPES = [(8, 4), (4, 8), (5, 3), (3, 3), (1, 4), (12, 2), (64, 8), (1000, 2)]
_SHAPES += [(_CHANCE.randrange(1, 300), _CHANCE.randrange(2, 70)) for _ in range(6)]


@case("the first number is idle over all device time, counted on the grids of 14 clocks")
def fraction_everywhere(bubbles: Bubbles) -> None:
    _judge_numbers(bubbles, 0, _share_of_all, _NOT_THE_FRACTION)


@case("the second number is idle over busy device time, counted on the same grids")
def overhead_everywhere(bubbles: Bubbles) -> None:
    _judge_numbers(bubbles, 1, _share_of_busy, _NOT_THE_OVERHEAD)


@case("one stage has no bubble")
def no_bubble(bubbles: Bubbles) -> None:
    for m in (1, 3, 8, 200):
        if any(number != 0 for number in _both(bubbles, m, 1)):
            raise Wrong("one_stage", f"A single stage never waits, so for m = {m} and p = 1 both numbers are 0.")


@case("the bubble fraction is at most the one asked for")
def enough(fewest: Fewest) -> None:
    for p, limit in _LIMITS:
        m = _number_of_batches(fewest, p, limit)
        if _share_of_all(m, p) > limit:
            _name_the_mistake(fewest)
            why = "One more is enough: a part of a micro-batch does not exist, so the number is rounded up."
            if _share_of_all(m + 1, p) > limit:
                why = "That is more than allowed, and one micro-batch more would not do either."
            raise Wrong(
                "not_enough",
                f"For p = {p} and at most {limit:g} you answered m = {m}, whose bubble fraction is "
                f"{float(_share_of_all(m, p)):.4g}. {why}",
            )


@case("one micro-batch less would not be enough")
def no_more_than_enough(fewest: Fewest) -> None:
    for p, limit in _LIMITS:
        m = _number_of_batches(fewest, p, limit)
        if m > 1 and _share_of_all(m - 1, p) <= limit:
            _name_the_mistake(fewest)
            raise Wrong(
                "not_smallest",
                f"For p = {p} and at most {limit:g} you answered m = {m}, and m = {m - 1} is enough: its bubble "
                f"fraction is {float(_share_of_all(m - 1, p)):.4f}.",
            )


@case("one is enough where there is no bubble, or much is allowed")
def one_is_enough(fewest: Fewest) -> None:
    for p, limit in ((1, 0.1), (1, 0.5), (1, 0.001), (2, 0.9), (5, 1.0)):
        m = _number_of_batches(fewest, p, limit)
        if m != 1:
            raise Wrong("one_is_enough", f"For p = {p} and at most {limit:g} one micro-batch is enough, not {m}.")


# Stages and the largest fraction. The powers of two are met exactly by some m, without rounding; the others by none,
# so that no rounding error of a right solution decides: where the formula is close to a whole number, it is a
# hundredth above or below. Answers go from 2, fewer than the stages, to 538,455.
_LIMITS = [(4, 0.25), (3, 0.5), (8, 0.125), (4, 0.07), (2, 0.15), (8, 0.3), (5, 0.45)]
_LIMITS += [(8, 0.051), (4, 0.011), (2, 0.0013), (64, 0.031), (16, 0.9), (64, 0.97)]
_LIMITS += [(8, 0.000013), (5, 0.2855), (5, 0.2859), (3, 0.00199599), (3, 0.00199603)]
_DRAWN = [(_CHANCE.randrange(2, 65), _CHANCE.randrange(30, 900) / 1000) for _ in range(12)]
_LIMITS += [(p, limit) for p, limit in _DRAWN if abs(math.remainder((p - 1) * (1 - limit) / limit, 1)) > 1e-6]


def _cells(m: int, p: int) -> tuple[int, int]:
    """Idle and busy cells of the clock's grid: p stages times m + p - 1 ticks, of which m p work."""
    busy = m * p
    return (m + p - 1) * p - busy, busy


def _share_of_all(m: int, p: int) -> Fraction:
    idle, busy = _cells(m, p)
    return Fraction(idle, idle + busy)


def _share_of_busy(m: int, p: int) -> Fraction:
    idle, busy = _cells(m, p)
    return Fraction(idle, busy)


_Suspect = tuple[str, Callable[[int, int], float], str]

_BOTH: list[_Suspect] = [
    ("whole_part", lambda m, p: (p - 1) // (m + p - 1), "The answer is cut to a whole number: / divides, // cuts."),
    ("whole_part", lambda m, p: (p - 1) // m, "The answer is cut to a whole number: / divides, // cuts."),
    (
        "extra_stage",
        lambda m, p: p / m,
        "You divided p by m. The first stage never waits for another to begin: p stages make p - 1 idle ticks.",
    ),
    (
        "extra_stage",
        lambda m, p: p / (m + p - 1),
        "You counted p idle ticks. A stage is idle in p - 1 ticks: the first stage starts at once.",
    ),
    (
        "extra_tick",
        lambda m, p: (p - 1) / (m + p),
        "You counted m + p ticks. The clock ticks m + p - 1 times: the last stage works on its first micro-batch "
        "while others are still at work.",
    ),
    (
        "busy_for_idle",
        lambda m, p: m / (m + p - 1),
        "That is the share of time in which the devices work. The bubble is the rest.",
    ),
    (
        "there_and_back",
        lambda m, p: 2 * (p - 1) / m,
        "You counted the bubble of forward and backward, and the work of one of them. The work doubles as well.",
    ),
    (
        "there_and_back",
        lambda m, p: 2 * (p - 1) / (m + p - 1),
        "You counted the bubble of forward and backward, and the time of one of them. The time doubles as well.",
    ),
    ("upside_down", lambda m, p: (m + p - 1) / max(1, p - 1), "That is total over idle time; turn it around."),
    ("upside_down", lambda m, p: m / max(1, p - 1), "That is busy over idle time; turn it around."),
]

_NOT_THE_FRACTION: list[_Suspect] = [
    (
        "overhead_for_fraction",
        lambda m, p: (p - 1) / m,
        "That is the bubble overhead, idle over busy time. The bubble fraction divides by all device time.",
    ),
    (
        "swapped_arguments",
        lambda m, p: (m - 1) / (m + p - 1),
        "The number of micro-batches comes first, then the number of stages; you took them the other way round.",
    ),
    ("percent", lambda m, p: 100 * (p - 1) / (m + p - 1), "That is the fraction in per cent; leave out the 100."),
    *_BOTH,
]

_NOT_THE_OVERHEAD: list[_Suspect] = [
    (
        "fraction_for_overhead",
        lambda m, p: (p - 1) / (m + p - 1),
        "That is the bubble fraction, idle over all device time. The bubble overhead divides by busy time.",
    ),
    (
        "swapped_arguments",
        lambda m, p: (m - 1) / p,
        "The number of micro-batches comes first, then the number of stages; you took them the other way round.",
    ),
    ("percent", lambda m, p: 100 * (p - 1) / m, "That is the overhead in per cent; leave out the 100."),
    *_BOTH,
]


def _judge_numbers(
    bubbles: Bubbles, place: int, right: Callable[[int, int], Fraction], suspects: list[_Suspect]
) -> None:
    both = {(m, p): _both(bubbles, m, p) for m, p in _SHAPES}
    got = {shape: numbers[place] for shape, numbers in both.items()}
    off = [(m, p) for m, p in _SHAPES if not math.isclose(got[m, p], right(m, p), rel_tol=1e-9)]
    if not off:
        return
    if all(_is_turned(numbers, m, p) for (m, p), numbers in both.items()):
        raise Wrong("turned_round", "Your two numbers are right and stand the wrong way round: the fraction is first.")
    for digits in (1, 2, 3, 4):
        if all(got[shape] == round(float(right(*shape)), digits) for shape in _SHAPES):
            which = ("first", "second")[place]
            raise Wrong("rounded", f"The {which} number: It is rounded to {digits} digits; do not round.")
    for hint_id, formula, sentence in suspects:
        if all(math.isclose(got[m, p], formula(m, p), rel_tol=1e-9) for m, p in _SHAPES):
            raise Wrong(hint_id, f"The {('first', 'second')[place]} number: {sentence}")
    m, p = off[0]
    idle, busy = _cells(m, p)
    raise Wrong(
        "wrong_number",
        f"For m = {m} and p = {p} your {('first', 'second')[place]} number is {got[m, p]:.4g}, and the grid of the "
        f"clock has {idle} idle cells, {busy} busy ones and {idle + busy} in all.",
    )


def _is_turned(numbers: tuple[float, float], m: int, p: int) -> bool:
    right = (_share_of_busy(m, p), _share_of_all(m, p))
    return all(math.isclose(number, other, rel_tol=1e-9) for number, other in zip(numbers, right, strict=True))


def _both(bubbles: Bubbles, m: int, p: int) -> tuple[float, float]:
    answer = bubbles(m, p)
    if answer is None:
        raise Wrong("nothing", "Your function returned None; return the two numbers.")
    try:
        fraction, overhead = answer
    except (TypeError, ValueError):
        raise Wrong(
            "no_pair", f"Your function should return two numbers, fraction and overhead, and it returned {answer!r}."
        ) from None
    return _judge_type(fraction), _judge_type(overhead)


def _judge_type(answer: Any) -> float:
    if answer is None:
        raise Wrong("nothing", "Your function returned None; return the number.")
    if isinstance(answer, str | bool) or not hasattr(answer, "__float__"):
        raise Wrong("no_number", f"Your function gave {answer!r} where a number was expected.")
    return float(answer)


def _number_of_batches(fewest: Fewest, p: int, limit: float) -> int:
    """The answer as a whole number of at least 1."""
    number = fewest(p, limit)
    if number is None:
        raise Wrong("nothing", f"For p = {p} and at most {limit:g} your function returned None; return the number.")
    answer = _judge_type(number)
    asked = f"For p = {p} and at most {limit:g} you answered {answer:,.10g}"
    if answer != int(answer):
        raise Wrong("not_whole", f"{asked}; micro-batches come in whole numbers. Round up.")
    if answer < 1:
        raise Wrong("no_micro_batch", f"{asked}; without a micro-batch nothing runs. The smallest number is 1.")
    return int(answer)


def _name_the_mistake(fewest: Fewest) -> None:
    """Raise the hint of a well-known mistake, if it explains the answers to all questions."""
    answers = [_number_of_batches(fewest, p, limit) for p, limit in _LIMITS]
    for hint_id, formula, sentence in _NOT_THE_FEWEST:
        if answers == [formula(p, limit) for p, limit in _LIMITS]:
            raise Wrong(hint_id, sentence)
    if answers == [min(_fewest(p, limit), max(answers)) for p, limit in _LIMITS]:
        raise Wrong(
            "upper_limit",
            f"Where more than {max(answers):,} micro-batches are needed, you answered {max(answers):,}: the number has "
            "no upper limit.",
        )


def _fewest(p: int, limit: float) -> int:
    return _first(lambda m: _share_of_all(m, p) <= limit)


def _first(holds: Callable[[int], bool]) -> int:
    """The first number that is enough, where all larger ones are enough too."""
    return bisect_left(range(1, 10_000_000), True, key=holds) + 1


_NOT_THE_FEWEST: list[tuple[str, Callable[[int, float], int], str]] = [
    (
        "overhead_for_fraction",
        lambda p, limit: _first(lambda m: _share_of_busy(m, p) <= limit),
        "Your answers are right for the bubble overhead, idle over busy time. The question is about the bubble "
        "fraction, idle over all time.",
    ),
    (
        "strictly_below",
        lambda p, limit: _first(lambda m: _share_of_all(m, p) < limit),
        "A fraction of exactly the limit is allowed: at most 0.25 means <=, and 4 stages with 9 micro-batches have "
        "exactly 0.25.",
    ),
    *(
        (
            "rounded_fraction",
            lambda p, limit, digits=digits: _first(lambda m: round((p - 1) / (m + p - 1), digits) <= limit),
            f"Your answers are right for bubble fractions rounded to {digits} digits. Compare the fraction itself.",
        )
        for digits in (1, 2, 3, 4)
    ),
]
