"""Exercise 01.1: a rate over uneven batches is a total over a total."""

import math
import random
import statistics
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from pllab.lesson.exercise import Exercise, Wrong, case

Throughput = Callable[[list[int], list[float]], Any]
_UNEVEN = ([1024, 1024, 1024, 64], [2.0, 2.5, 1.5, 1.0])  # the first call is no different from the others


def _of(throughput: Throughput, tokens: Sequence[int], seconds: Sequence[float]) -> float:
    what = f"{list(tokens)} tokens in {[round(took, 3) for took in seconds]} s"
    try:
        rate = throughput(list(tokens), list(seconds))
    except ValueError as error:
        right = f"{sum(tokens) / sum(seconds):g} tokens/s"
        raise Wrong("refuses_sense", f"{what} are {right}; your function raised {error!r}.") from None
    except ZeroDivisionError:
        text = f"For {what} you divide by zero. One batch may have 0 s; divide once, by the seconds of all of them."
        raise Wrong("divides_each", text) from None
    if isinstance(rate, bool) or not isinstance(rate, Real):
        raise Wrong("no_number", f"throughput should return tokens per second, a number, and it returned {rate!r}.")
    return float(rate)


def _close(rate: float, expected: float) -> bool:
    return math.isclose(rate, expected, rel_tol=1e-9)


def _cause(rate: float, tokens: Sequence[int], seconds: Sequence[float]) -> Wrong:
    """What a wrong rate is instead."""
    total, time = sum(tokens), sum(seconds)
    rates = [count / took for count, took in zip(tokens, seconds, strict=True)]
    what = f"{list(tokens)} tokens in {[round(took, 3) for took in seconds]} s"
    known = {
        "mean_of_rates": (statistics.mean(rates), "is the mean of the rates of the batches: each counts alike there"),
        "median_of_rates": (statistics.median(rates), "is the median of the rates: it is the rate of one batch"),
        "harmonic": (
            statistics.harmonic_mean(rates),
            "is the harmonic mean of the rates, for batches of one size only",
        ),
        "inverse": (time / total, "is seconds per token"),
        "per_batch": (total / time / len(tokens), "is divided by the number of batches as well"),
        "whole_numbers": (float(total // time), "has lost what comes after the point"),
        "first_dropped": (sum(tokens[1:]) / sum(seconds[1:]), "leaves the first batch out, which belongs to the work"),
    }
    for hint_id, (value, sentence) in known.items():
        if _close(rate, value):
            return Wrong(hint_id, f"For {what} your {rate:.6g} {sentence}; {total} tokens took {time:.6g} s in all.")
    return Wrong("not_total", f"For {what} you have {rate:.6g}; {total} tokens took {time:.6g} s in all.")


def _judge(throughput: Throughput, tokens: Sequence[int], seconds: Sequence[float]) -> None:
    rate = _of(throughput, tokens, seconds)
    if not _close(rate, sum(tokens) / sum(seconds)):
        raise _cause(rate, tokens, seconds)


@case("uneven batches: all tokens over all seconds")
def uneven(throughput: Throughput) -> None:
    _judge(throughput, *_UNEVEN)


@case("batches by chance, from 2 to 200 of them")
def by_chance(throughput: Throughput) -> None:
    chance = random.Random(1)
    for number in (2, 3, 7, 50, 200):
        tokens = [chance.choice((1, 17, 512, 4096)) for _ in range(number)]
        _judge(throughput, tokens, [chance.uniform(0.001, 3.0) for _ in range(number)])


@case("one batch, a batch without tokens, and one of 0 s")
def edges(throughput: Throughput) -> None:
    for tokens, seconds in (([100], [0.3]), ([0, 300], [1.0, 1.0]), ([100, 5], [1.0, 0.0]), ([0], [2.0])):
        rate = _of(throughput, tokens, seconds)
        if not _close(rate, sum(tokens) / sum(seconds)):
            raise Wrong("edges", f"{tokens} tokens in {seconds} s are {sum(tokens) / sum(seconds):g}, not {rate:g}.")


@case("lists that do not fit, and no time at all, are a ValueError")
def refuses(throughput: Throughput) -> None:
    for tokens, seconds in (([1, 2, 3], [1.0, 2.0]), ([1], [1.0, 2.0]), ([], []), ([5, 5], [0.0, 0.0])):
        try:
            rate = throughput(list(tokens), list(seconds))
        except ValueError:
            continue
        except ZeroDivisionError:
            sentence = f"{tokens} tokens in {seconds} s divide by zero; say so with a ValueError before you divide."
            raise Wrong("divides_by_zero", sentence) from None
        raise Wrong("accepts_nonsense", f"{tokens} tokens with {seconds} s should be a ValueError, and gave {rate!r}.")


THROUGHPUT = Exercise(
    id="01.1",
    title="A rate over uneven batches",
    minutes=6,
    difficulty=1,
    cases=(uneven, by_chance, edges, refuses),
    hints=(
        "Take a batch of 1,000 tokens in 1 s and one of 10 tokens in 1 s: how many tokens did you see, in how long?",
        "Look at what you average. A rate is already a quotient, and in a mean of quotients a tiny batch weighs as "
        "much as a large one.",
        "Add up everything first, tokens with tokens and seconds with seconds, and divide once at the end. What cannot "
        "be divided, or does not fit together, is refused before.",
    ),
)
