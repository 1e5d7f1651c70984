"""The exercises of lesson 16: a rate and a ratio that can be defended."""

from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import Any

from pllab.lesson.exercise import Exercise, Wrong, case

Rate = Callable[[list[float], list[float]], Any]

# Seconds per round, alternating; the machine slows down from round to round, and once it was disturbed.
_BASELINE = [1.1, 1.2, 1.5, 2.0, 2.6]
_CONTENDER = [0.5, 0.8, 0.5, 1.6, 1.3]
_NOISY = ([1.0, 1.3, 0.9, 1.1, 1.0], [0.95, 1.35, 0.85, 1.15, 0.9])


@case("one batch: tokens over seconds")
def one_batch(throughput: Rate) -> None:
    got = throughput([1000.0], [2.0])
    if not _is_close(got, 500.0):
        raise Wrong("wrong_unit", f"1000 tokens in 2 s are 500 tokens/s, and your function says {got!r}.")


@case("uneven batches: all tokens over all seconds")
def uneven_batches(throughput: Rate) -> None:
    """A small fast batch must not count as much as a large slow one."""
    tokens, seconds = [1000.0, 10.0, 400.0, 300.0], [4.0, 0.001, 1.0, 2.0]
    got, right = throughput(tokens, seconds), 1710.0 / 7.001
    rates = [count / time for count, time in zip(tokens, seconds, strict=True)]
    if _is_close(got, right):
        return
    if _is_close(got, mean(rates)):
        raise Wrong(
            "mean_of_rates",
            f"You averaged the rates: 10 tokens in a millisecond count as much as 1000 in 4 s, and {got:.0f} tokens/s "
            f"come out where {right:.0f} were made.",
        )
    if _is_close(got, median(rates)):
        raise Wrong("median_of_rates", "You took the median of the rates; the total time still passes in all batches.")
    if any(_is_close(got, rate) for rate in rates):
        raise Wrong("one_batch_only", "Your answer is the rate of a single batch; count all tokens and all seconds.")
    raise Wrong("wrong_rate", f"1710 tokens in 7.001 s are {right:.1f} tokens/s, and your function says {got!r}.")


@case("twice as fast in every round is 2")
def steady(speedup: Rate) -> None:
    got = speedup([2.0] * 5, [1.0] * 5)
    if _is_close(got, 0.5):
        raise Wrong(
            "upside_down", "2 s before and 1 s now is a speed-up of 2, not 0.5: the baseline's time comes first."
        )
    if not _is_close(got, 2.0):
        raise Wrong("wrong_ratio", f"2 s before and 1 s now is a speed-up of 2, and your function says {got!r}.")


@case("on a machine that slows down: the median of the per-round ratios")
def drifting(speedup: Rate) -> None:
    """The machine slows down; only rounds that lie next to each other can be compared."""
    got = speedup(list(_BASELINE), list(_CONTENDER))
    ratios = _ratios(_BASELINE, _CONTENDER)
    if _is_close(got, median(ratios)):
        return
    known = {
        "mean_of_ratios": (mean(ratios), "the mean of the ratios, and one disturbed round pulls it up"),
        "ratio_of_totals": (sum(_BASELINE) / sum(_CONTENDER), "total over total, and the slow rounds decide alone"),
        "ratio_of_medians": (median(_BASELINE) / median(_CONTENDER), "two medians from different rounds"),
        "best_of": (min(_BASELINE) / min(_CONTENDER), "each side's luckiest round"),
        "best_ratio": (max(ratios), "the luckiest round"),
        "mean_of_rates": (
            mean(1 / time for time in _CONTENDER) / mean(1 / time for time in _BASELINE),
            "a mean of rates, and the fastest rounds count most",
        ),
    }
    for hint_id, (value, what) in known.items():
        if _is_close(got, value):
            raise Wrong(hint_id, f"{got:.3g} is {what}; the median of the per-round ratios is {median(ratios):.3g}.")
    raise Wrong(
        "wrong_ratio", f"The per-round ratios are {_listed(ratios)}; their median is {median(ratios):.3g}, not {got!r}."
    )


@case("each side wins some rounds: None")
def within_the_spread(speedup: Rate) -> None:
    ratios = _ratios(*_NOISY)
    for baseline, contender in (_NOISY, _NOISY[::-1]):
        got = speedup(list(baseline), list(contender))
        if got is not None:
            raise Wrong(
                "within_the_spread",
                f"The per-round ratios are {_listed(ratios)}: each side won some rounds, so return None, not {got!r}.",
            )


@case("a contender that always loses gets its number below 1")
def slower_is_a_result(speedup: Rate) -> None:
    got = speedup([1.0, 1.1, 1.0], [2.0, 2.2, 2.5])
    if got is None:
        raise Wrong("hides_a_loss", "The contender lost every round: that is a result as well, a speed-up of 0.5.")
    if not _is_close(got, 0.5):
        raise Wrong("wrong_ratio", f"The per-round ratios are 0.5, 0.5, 0.4; their median is 0.5, not {got!r}.")


def _ratios(baseline: Sequence[float], contender: Sequence[float]) -> list[float]:
    return [before / now for before, now in zip(baseline, contender, strict=True)]


def _is_close(got: Any, right: float) -> bool:
    return isinstance(got, int | float) and abs(got - right) <= 1e-6 * abs(right)


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)


EXERCISES = (
    Exercise(
        id="16.1",
        title="A throughput you can defend",
        minutes=5,
        difficulty=1,
        cases=(one_batch, uneven_batches),
        hints=(
            "Try it on a batch of 10 tokens that took a millisecond, beside one of 1000 tokens that took 4 s.",
            "A rate is a fraction. Averages of fractions with different denominators mean nothing you can spend.",
            "sum(tokens) / sum(seconds).",
        ),
    ),
    Exercise(
        id="16.2",
        title="A speed-up you can defend",
        minutes=10,
        difficulty=2,
        cases=(steady, drifting, within_the_spread, slower_is_a_result),
        hints=(
            "Which numbers were measured under the same conditions? Only those of one round.",
            "One ratio per round, baseline over contender. Then one number that a single odd round cannot move.",
            "ratios = [b / c for b, c in zip(baseline_s, contender_s)]; None if min(ratios) <= 1 <= max(ratios), else "
            "statistics.median(ratios).",
        ),
    ),
)
