"""The cases of exercise 01.1: `throughput(tokens, seconds)`, a rate over uneven batches."""

import math
import random
import statistics
from functools import partial
from numbers import Real
from typing import Any

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare, must_refuse


def _mean_of_rates(tokens: list[int], seconds: list[float]) -> float:
    return statistics.mean(count / took for count, took in zip(tokens, seconds, strict=True))


def _number(answer: Any, *_: Any) -> float:
    if isinstance(answer, bool) or not isinstance(answer, Real):
        raise Wrong("no_number", f"throughput should return tokens per second, a number, but it returned {answer!r}.")
    return float(answer)


_judge_rate = partial(
    compare,
    truth=lambda tokens, seconds: sum(tokens) / sum(seconds),
    mistakes=[Mistake("mean_of_rates", "That is the mean of the rates of the batches.", like=_mean_of_rates)],
    asked="{} tokens in {} s",
    read=_number,
    same=partial(math.isclose, rel_tol=1e-9),
)


@case("uneven batches, 2 to 200 of them: the rate at which all of them went together")
def uneven(throughput: Function) -> None:
    questions = [([1024, 1024, 1024, 64], [2.0, 2.5, 1.5, 1.0])]
    chance = random.Random(1)
    for number in (2, 3, 7, 50, 200):
        seconds = [round(chance.uniform(0.001, 3.0), 5) for _ in range(number)]
        questions.append(([chance.choice((1, 17, 512, 4096)) for _ in seconds], seconds))
    _judge_rate(throughput, questions)


@case("one batch, a batch without tokens, and one of 0 s")
def edges(throughput: Function) -> None:
    _judge_rate(throughput, [([100], [0.3]), ([0, 300], [1.0, 1.0]), ([100, 5], [1.0, 0.0]), ([0], [2.0])])


@case("lists of different lengths, and no time at all, raise a ValueError")
def no_rate(throughput: Function) -> None:
    for tokens, seconds in (([1, 2, 3], [1.0, 2.0]), ([1], [1.0, 2.0]), ([], []), ([5, 5], [0.0, 0.0])):
        must_refuse(partial(throughput, tokens, seconds), f"{tokens} tokens in {seconds} s", "no_value_error")
