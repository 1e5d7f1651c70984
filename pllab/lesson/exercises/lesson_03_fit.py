"""The cases of exercise 03.3: `fit_alpha_beta(sizes, times)` -> (alpha, beta), medians and relative errors."""

import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from pllab.lesson.exercise import Wrong, case

Fit = Callable[[list[int], list[list[float]]], Any]
Rounds = list[list[float]]


@case("times on a line give the line back, also unsorted and with two sizes alone")
def on_a_line(fit: Fit) -> None:
    _judge(fit, [4_000_000, 256, 65_536], _line([4_000_000, 256, 65_536], 4e-4, 8e-10))
    _judge(fit, [0, 1000], _line([0, 1000], 1.0, 0.002))


@case("off the line, small messages count as much as large ones: the relative errors are squared")
def relative(fit: Fit) -> None:
    some = random.Random(3)
    for _ in range(4):
        sizes = [2**power for power in some.sample(range(6, 24), 8)]
        times = [[(3e-4 + 1e-9 * size) * some.uniform(0.7, 1.4)] for size in sizes]
        _judge(fit, sizes, times)
    _judge(fit, [1000, 2000, 4000], [[1e-5], [4e-5], [1e-4]])  # its alpha is below 0


@case("one slow round in an odd or an even number of them changes little: the median counts")
def outliers(fit: Fit) -> None:
    some = random.Random(5)
    for num_rounds in (5, 4):
        sizes = [1000, 30_000, 2_000_000, 500_000]
        times = [[(2e-4 + 2e-9 * n) * some.uniform(0.9, 1.2) for _ in range(num_rounds)] for n in sizes]
        times[0][1] *= 50
        times[2][0] *= 20
        _judge(fit, sizes, times)
    _judge(fit, sizes, [each[: 2 + number] for number, each in enumerate(times)])


@case("a size that was measured twice counts twice")
def duplicates(fit: Fit) -> None:
    _judge(fit, [100, 100, 1_000_000, 20_000], [[3e-4], [5e-4], [1.9e-3], [4.2e-4]])


@case("a single size, the same one twice, or none at all is a ValueError")
def no_line(fit: Fit) -> None:
    none: list[int] = []
    for sizes in ([4096], [4096, 4096], none):
        try:
            found = f"returned {fit(sizes, [[1e-3] for _ in sizes])!r}"
        except (ValueError, NotImplementedError) as error:
            if isinstance(error, NotImplementedError):
                raise
            continue
        except Exception as error:
            found = f"raised {type(error).__name__}"
        raise Wrong("no_line", f"The sizes {sizes} fix no line, and it {found}; raise a ValueError.")


def _line(sizes: Sequence[int], alpha: float, beta: float) -> Rounds:
    return [[alpha + beta * size] for size in sizes]


def _fitted(sizes: Sequence[int], times: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """The line with the least sum of weight times squared error; exact, so that no rounding hides a mistake."""
    w, n, t = ([Fraction(each) for each in row] for row in (weights, sizes, times))
    sum_w, sum_n, sum_t = sum(w), sum(map(_times, w, n)), sum(map(_times, w, t))
    sum_nn, sum_nt = sum(map(_times, map(_times, w, n), n)), sum(map(_times, map(_times, w, n), t))
    beta = (sum_w * sum_nt - sum_n * sum_t) / (sum_w * sum_nn - sum_n * sum_n)
    return float((sum_t - beta * sum_n) / sum_w), float(beta)


def _times(left: Fraction, right: Fraction) -> Fraction:
    return left * right


def _judge(fit: Fit, sizes: list[int], times: Rounds) -> None:
    given, kept = list(sizes), [list(each) for each in times]
    got = fit(given, kept)
    try:
        alpha, beta = (float(number) for number in got)
    except (TypeError, ValueError):
        raise Wrong("no_pair", f"It returned {got!r}; return two numbers, alpha and beta.") from None
    if (given, kept) != (sizes, times):
        raise Wrong("changed", "After the call, sizes or times are other lists than before; work on copies.")
    middle = [statistics.median(each) for each in times]
    right = _fitted(sizes, middle, _relative(middle))
    if not _is_close((alpha, beta), right):
        raise _mistaken((alpha, beta), right, sizes, times)


def _relative(times: Sequence[float]) -> list[float]:
    return [1 / time**2 for time in times]


def _is_close(got: tuple[float, float], right: tuple[float, float]) -> bool:
    """To four digits, which float32 has; mistakes differ by more."""
    return all(abs(mine - theirs) <= 1e-4 * abs(theirs) + 1e-15 for mine, theirs in zip(got, right, strict=True))


def _mistaken(got: tuple[float, float], right: tuple[float, float], sizes: Sequence[int], times: Rounds) -> Wrong:
    """Try the usual mistakes, and name the one that gives these numbers."""
    told = f"For sizes {list(sizes)} it gave {got[0]:.4g} and {got[1]:.4g}, not {right[0]:.4g} and {right[1]:.4g}."
    middle = [statistics.median(each) for each in times]
    if _is_close(got[::-1], right):
        return Wrong("swapped", f"{told} First alpha, then beta; numpy's polyfit has the highest power first.")
    if _is_close(got, _fitted(sizes, middle, [1.0] * len(sizes))):
        return Wrong("absolute", f"{told} These are the least absolute errors, in which the largest messages decide.")
    if _is_close(got, _fitted(sizes, middle, [1 / time for time in middle])):
        return Wrong(
            "half_weight",
            f"{told} An error divided by its time and then squared is divided by the squared time; numpy's polyfit "
            "multiplies its weights before it squares, other functions after.",
        )
    if _is_close(got, _fitted(sizes, middle, [1 / time**4 for time in middle])):
        return Wrong("double_weight", f"{told} numpy's polyfit squares its weights itself: give it 1 / time.")
    return (
        _other_points(told, got, sizes, times)
        or _other_line(told, got, right, sizes, times)
        or Wrong("other_line", f"{told} Least squares of the errors of the medians, each divided by its median.")
    )


def _other_points(told: str, got: tuple[float, float], sizes: Sequence[int], times: Rounds) -> Wrong | None:
    """Something else than the median of each size was fitted."""
    several = {
        "mean": [statistics.fmean(each) for each in times],
        "minimum": [min(each) for each in times],
        "lower_median": [statistics.median_low(each) for each in times],
        "first_round": [each[0] for each in times],
    }
    for kind, taken in several.items():
        if _is_close(got, _fitted(sizes, taken, _relative(taken))):
            return Wrong(
                kind,
                f"{told} Of the rounds of a size it took the {kind.replace('_', ' ')}; take the median, which of four "
                "rounds is the mean of the two in the middle.",
            )
    flat = [time for each in times for time in each]
    every = [size for size, each in zip(sizes, times, strict=True) for _ in each]
    if _is_close(got, _fitted(every, flat, _relative(flat))):
        return Wrong("all_rounds", f"{told} One slow round counts here; take the median of each size first.")
    return None


def _other_line(
    told: str, got: tuple[float, float], right: tuple[float, float], sizes: Sequence[int], times: Rounds
) -> Wrong | None:
    if min(right) < 0 and _is_close(got, (max(right[0], 0.0), max(right[1], 0.0))):
        return Wrong("clipped", f"{told} The line with the least errors may begin below 0; return it as it comes out.")
    if len(set(sizes)) < len(sizes) and any(_is_close(got, line) for line in _each_size_once(sizes, times)):
        return Wrong(
            "counts_once", f"{told} A size that comes twice has two medians and counts twice; here it did once."
        )
    return None


def _each_size_once(sizes: Sequence[int], times: Rounds) -> Iterator[tuple[float, float]]:
    """The lines through one point of each size: the last, the first, and all its rounds together."""
    pooled: dict[int, list[float]] = {}
    for size, each in zip(sizes, times, strict=True):
        pooled.setdefault(size, []).extend(each)
    last, first = dict(zip(sizes, times, strict=True)), dict(zip(sizes[::-1], times[::-1], strict=True))
    for kept in (last, first, pooled):
        middle = [statistics.median(each) for each in kept.values()]
        yield _fitted(list(kept), middle, _relative(middle))
