"""The cases of exercise 03.3: `fit_alpha_beta(sizes, times)` -> (alpha, beta), medians and relative errors."""

import random
import statistics
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import torch

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.mistakes import Mistake, Question, compare, must_refuse, numbers_close, two_numbers

Rounds = list[list[float]]
Line = tuple[float, float]


def _line(sizes: list[int], times: Rounds, power: float = 1, middle: Callable[..., float] = statistics.median) -> Line:
    """The line that makes the sum of (error / time ** power) ** 2 least."""
    time = torch.tensor([middle(rounds) for rounds in times], dtype=torch.float64)
    rows = torch.stack((torch.ones_like(time), torch.tensor(sizes, dtype=torch.float64)), 1)
    alpha, beta = torch.linalg.lstsq(rows / time[:, None] ** power, time[:, None] ** (1 - power)).solution.flatten()
    return float(alpha), float(beta)


def _pooled(sizes: list[int], times: Rounds) -> Line:
    """The line through one point for each size, the median of all its rounds."""
    rounds: dict[int, list[float]] = {}
    for size, each in zip(sizes, times, strict=True):
        rounds.setdefault(size, []).extend(each)
    return _line(list(rounds), list(rounds.values()))


_LOWER = "For an even number of rounds the median is the mean of the middle two."
_DOUBLE = "numpy's polyfit squares its weights: give it 1 / time."
_HALF = "You divide squared errors by the time, not by its square: polyfit squares its weights, other functions do not."
_MISTAKES = [
    Mistake("swapped", "Return alpha first, then beta.", like=lambda *question: _line(*question)[::-1]),
    Mistake("absolute", "With absolute errors the largest messages decide.", like=partial(_line, power=0)),
    Mistake("double_weight", _DOUBLE, like=partial(_line, power=2)),
    Mistake("half_weight", _HALF, like=partial(_line, power=0.5)),
    Mistake("lower_median", _LOWER, like=partial(_line, middle=statistics.median_low)),
    Mistake("counts_once", "Two entries of one size are two points; yours counts them as one.", like=_pooled),
]


_is_close = partial(numbers_close, rel_tol=1e-4, abs_tol=1e-15)  # four digits, which float32 has; mistakes differ more


def _judge(fit: Function, *questions: Question) -> None:
    def leaving_the_lists(sizes: list[int], times: Rounds) -> Any:
        kept = deepcopy((sizes, times))
        answer = fit(sizes, times)
        if (sizes, times) != kept:
            raise Wrong("changed", "The call changed sizes or times; work on copies.")
        return answer

    asked, show = "sizes {} and times {}", "({0[0]:.4g}, {0[1]:.4g})".format
    read = partial(two_numbers, names="alpha and beta", hint_id="wrong")
    compare(leaving_the_lists, questions, _line, _MISTAKES, asked=asked, read=read, same=_is_close, show=show)


@case("times on a line give back the line, even unsorted or with only two sizes")
def on_a_line(fit: Function) -> None:
    three = [4_000_000, 256, 65_536]
    _judge(fit, (three, [[round(4e-4 + 1e-9 * size, 9)] for size in three]), ([0, 1000], [[1.0], [3.0]]))


@case("off the line, small messages count as much as large ones: the relative errors are squared")
def relative(fit: Function) -> None:
    some = random.Random(3)
    drawn = [[2**power for power in some.sample(range(6, 24), 8)] for _ in range(4)]
    off = [(sizes, [[round((3e-4 + 1e-9 * size) * some.uniform(0.7, 1.4), 7)] for size in sizes]) for sizes in drawn]
    _judge(fit, *off, ([1000, 2000, 4000], [[1e-5], [4e-5], [1e-4]]))  # the last alpha is below 0


@case("one slow round among an odd or an even number changes little: the median counts")
def outliers(fit: Function) -> None:
    some, sizes, slow = random.Random(5), [1000, 30_000, 2_000_000, 500_000], {(0, 1): 50, (2, 0): 20}

    def seconds(k: int, at: int) -> float:
        return round((2e-4 + 2e-9 * sizes[k]) * some.uniform(0.9, 1.2) * slow.get((k, at), 1), 7)

    many = ((5, 5, 5, 5), (4, 4, 4, 4), (2, 3, 4, 5))
    _judge(fit, *((sizes, [[seconds(k, at) for at in range(m)] for k, m in enumerate(rounds)]) for rounds in many))


@case("a size that was measured twice counts twice")
def duplicates(fit: Function) -> None:
    _judge(fit, ([100, 100, 1_000_000, 20_000], [[3e-4], [5e-4], [1.9e-3], [4.2e-4]]))


@case("a single size, the same size twice, and no size at all raise a ValueError")
def no_line(fit: Function) -> None:
    none: list[int] = []
    for sizes in ([4096], [4096, 4096], none):
        must_refuse(partial(fit, sizes, [[1e-3] for _ in sizes]), f"the sizes {sizes}, which fix no line,", "no_line")
