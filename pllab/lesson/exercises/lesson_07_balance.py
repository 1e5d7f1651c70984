"""The cases of exercise 07.2: `balance(costs, num_stages)` against every possible cut.

A wrong answer is named by what it has in common with the usual short cuts, over all inputs: equal numbers of layers, a
greedy filling, the smallest sum of squares or spread, whole costs only, a cut one layer off. An answer that describes
no cut may be the right one in other words: costs or places in place of numbers of layers.
"""

import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, combinations, pairwise
from typing import Any

from pllab.lesson.exercise import Wrong, case

Balance = Callable[[list[float], int], Any]
Question = tuple[list[float], int]


@case("there are as many stages as asked for, none empty, and every layer is in one")
def well_formed(balance: Balance) -> None:
    for costs, num_stages in _questions():
        _sizes(balance, costs, num_stages)


@case("no other cut has a faster slowest stage (all cuts tried, up to 8 layers)")
def optimal(balance: Balance) -> None:
    questions = _questions()
    answers = [_sizes(balance, costs, num_stages) for costs, num_stages in questions]
    wrong = [
        (question, sizes)
        for question, sizes in zip(questions, answers, strict=True)
        if not _is_least(_slowest, question[0], sizes)
    ]
    if not wrong:
        return
    (costs, num_stages), sizes = wrong[0]
    raise Wrong(*_named(questions, answers, wrong, _said(costs, num_stages, sizes)))


@case("costs in millionths, or a billion times as large, are cut just as well")
def any_unit(balance: Balance) -> None:
    for costs, num_stages in _KNOWN:
        _judge(balance, costs, num_stages)
        for factor in (1e-12, 1e-6, 1e9):
            try:
                _judge(balance, [cost * factor for cost in costs], num_stages)
            except Wrong as wrong:
                raise Wrong(
                    "unit",
                    f"Right for costs {costs} and {num_stages} stages, but not for {factor:g} times these costs. "
                    f"{wrong.sentence} No cost is too large or too small: look for a fixed limit or tolerance.",
                ) from None


@case("one stage, as many stages as layers, and costs of zero")
def edges(balance: Balance) -> None:
    for costs, num_stages in _EDGES:
        _judge(balance, [float(cost) for cost in costs], num_stages)


@case("more stages than layers are a ValueError")
def too_many(balance: Balance) -> None:
    try:
        answer = balance([1.0, 2.0], 3)
    except ValueError:
        return
    except NotImplementedError:
        raise
    except Exception as error:
        raise Wrong(
            "too_many_crash",
            f"3 stages for 2 layers made your function raise {type(error).__name__}; say what is wrong with a "
            "ValueError before you start.",
        ) from None
    raise Wrong(
        "too_many_accepted",
        f"2 layers cannot fill 3 stages, and your function returned {answer!r}; raise a ValueError that says so.",
    )


# The lesson's own example, and the classic trap for a greedy filling.
# Zeros at the ends and between, and sums that float32 cannot hold.
_EDGES: list[Question] = [([3, 1, 2], 1), ([3, 1, 2], 3), ([5], 1), ([0, 0, 0, 7], 2), ([0, 0], 2), ([1, 0, 0], 3)]
_EDGES += [([0, 2, 0, 0, 1], 4), ([2**24 - 1, 1, 2**24], 2)]
_KNOWN: list[Question] = [([1, 1, 1, 1, 4], 2), ([1, 1, 1, 1, 1, 1, 1, 4], 2), ([2, 3, 4, 5, 1], 2)]


def _questions() -> list[Question]:
    """The known ones, and costs by chance: small, large, broken."""
    draw = random.Random(7)
    sizes = [(num_layers, num_stages) for num_layers in range(2, 9) for num_stages in range(2, min(5, num_layers))]
    small = [([float(draw.randint(1, 9)) for _ in range(n)], p) for n, p in sizes for _ in range(3)]
    # Sixteenths add up exactly; up to 2, and up to 500.
    broken = [([draw.randint(0, most) / 16 for _ in range(n)], p) for n, p in sizes for most in (32, 8000)]
    return _KNOWN + small + broken


def _judge(balance: Balance, costs: list[float], num_stages: int) -> None:
    """One question by itself, where no class of bug can be told."""
    sizes = _sizes(balance, costs, num_stages)
    if not _is_least(_slowest, costs, sizes):
        raise Wrong("not_optimal", f"{_said(costs, num_stages, sizes)} {_ANOTHER}")


def _said(costs: list[float], num_stages: int, sizes: list[int]) -> str:
    optimum = min(_every_cut(len(costs), num_stages), key=lambda other: _slowest(costs, other))
    return (
        f"For costs {costs} and {num_stages} stages you cut {sizes}: the slowest stage costs "
        f"{_slowest(costs, sizes):g}. The cut {optimum} has a slowest stage of {_best(costs, num_stages):g}."
    )


_ANOTHER = "Have you tried every choice of places, and kept the one whose largest stage cost is smallest?"


def _sizes(balance: Balance, costs: list[float], num_stages: int) -> list[int]:
    """The answer as a list of whole numbers that describe a cut at all."""
    asked = f"for costs {costs} and {num_stages} stage{'s' * (num_stages > 1)}"
    answer = _answer(balance, costs, num_stages, asked)
    try:
        numbers = [float(size) for size in answer]
    except (TypeError, ValueError):
        raise Wrong(
            "no_list",
            f"balance returns the number of layers of each stage, such as [4, 1], and it returned {answer!r} {asked}.",
        ) from None
    said = f"You returned {[int(one) if one.is_integer() else one for one in numbers]} {asked}"
    if numbers and sum(numbers) != len(costs) and math.isclose(sum(numbers), sum(costs), rel_tol=1e-6):
        raise Wrong(
            "costs_for_sizes",
            f"{said}. These add up to {sum(costs):g}, the sum of all costs: they are the costs of your stages. Return "
            "how many layers each stage has.",
        )
    if len(numbers) != num_stages:
        raise Wrong("wrong_number", f"{said}, which is {len(numbers)} number(s) of layers.")
    if not all(one.is_integer() for one in numbers):
        raise Wrong("no_list", f"{said}; a stage has a whole number of layers.")
    if num_stages > 1 and numbers[-1] == len(costs) and numbers == sorted(set(numbers)) and numbers[0] > 0:
        raise Wrong(
            "places_for_sizes",
            f"{said}. These are the places where your stages end; return how many layers each has, which is the "
            "difference of two neighbours.",
        )
    if min(numbers) < 1:
        raise Wrong("empty_stage", f"{said}; every stage needs at least one layer.")
    if sum(numbers) != len(costs):
        raise Wrong(
            "off_by_one",
            f"{said}: these are {sum(numbers):g} layers. Look at where the last stage begins and where it ends.",
        )
    return [int(one) for one in numbers]


def _answer(balance: Balance, costs: list[float], num_stages: int, asked: str) -> Any:
    try:
        return balance(list(costs), num_stages)
    except ValueError as error:
        raise Wrong(
            "refused",
            f"Your function raised ValueError({', '.join(map(repr, error.args))}) {asked}. {len(costs)} "
            "layers are enough for that: return the best cut.",
        ) from None


def _named(
    questions: Sequence[Question], answers: Sequence[list[int]], wrong: Sequence[tuple[Question, list[int]]], said: str
) -> tuple[str, str]:
    """The class of the bug and its sentence."""

    def always(rule: Callable[[list[float], int], list[int]]) -> bool:
        return all(rule(*question) == sizes for question, sizes in zip(questions, answers, strict=True))

    if always(_even_first) or always(_even_last):
        return "equal_counts", f"{said} Equal numbers of layers are not equal costs."
    if always(partial(_greedy, over=True)) or always(partial(_greedy, over=False)):
        return "greedy", f"{said} Filling a stage up to its fair share decides too early: the rest may not fit."
    if all(sizes in _first_and_last(len(costs), p) for (costs, p), sizes in zip(questions, answers, strict=True)):
        return "sum_not_max", f"{said} The sum over the stages is the same for every cut; make the largest one small."
    for holds, hint_id, sentence in _OTHER_AIMS:
        if all(holds(costs, sizes) for (costs, _), sizes in wrong):
            return hint_id, f"{said} {sentence}"
    if all(_near(costs, sizes) for (costs, _), sizes in wrong):
        return "off_by_one", f"{said} One layer more or less would be right: look at the ends of your ranges."
    return "not_optimal", f"{said} {_ANOTHER}"


def _every_cut(num_layers: int, num_stages: int) -> list[list[int]]:
    inner = combinations(range(1, num_layers), num_stages - 1)
    return [[b - a for a, b in pairwise([0, *cut, num_layers])] for cut in inner]


def _stage_costs(costs: Sequence[float], sizes: Sequence[int]) -> list[float]:
    return [sum(costs[a:b]) for a, b in pairwise([0, *accumulate(sizes)])]


def _slowest(costs: Sequence[float], sizes: Sequence[int]) -> float:
    return max(_stage_costs(costs, sizes))


def _best(costs: Sequence[float], num_stages: int) -> float:
    return min(_slowest(costs, sizes) for sizes in _every_cut(len(costs), num_stages))


def _is_least(
    measure: Callable[[Sequence[float], Sequence[int]], float], costs: Sequence[float], sizes: list[int]
) -> bool:
    """Whether no cut into as many stages has less of it, but for rounding."""
    return measure(costs, sizes) <= (1 + 1e-9) * min(measure(costs, cut) for cut in _every_cut(len(costs), len(sizes)))


def _squares(costs: Sequence[float], sizes: Sequence[int]) -> float:
    return sum(cost**2 for cost in _stage_costs(costs, sizes))


def _spread(costs: Sequence[float], sizes: Sequence[int]) -> float:
    stages = _stage_costs(costs, sizes)
    return max(stages) - min(stages)


def _not_whole(costs: Sequence[float], _sizes: Sequence[int]) -> bool:
    return any(cost != int(cost) for cost in costs)


_OTHER_AIMS: tuple[tuple[Callable[[Sequence[float], list[int]], bool], str, str], ...] = (
    (
        partial(_is_least, _squares),
        "sum_not_max",
        "You made the stages alike on average; only the slowest one counts.",
    ),
    (
        partial(_is_least, _spread),
        "spread_not_max",
        "You brought the slowest and the fastest stage together; only the slowest counts.",
    ),
    (
        _not_whole,
        "whole_costs",
        "Whole costs you cut right, and these are not whole: is a cost or a limit rounded somewhere?",
    ),
)


def _even_first(costs: Sequence[float], num_stages: int) -> list[int]:
    """Equal counts, the rest on the first stages."""
    share, rest = divmod(len(costs), num_stages)
    return [share + (stage < rest) for stage in range(num_stages)]


def _even_last(costs: Sequence[float], num_stages: int) -> list[int]:
    """Equal counts, the whole rest on the last stage."""
    share, rest = divmod(len(costs), num_stages)
    return [*[share] * (num_stages - 1), share + rest]


def _first_and_last(num_layers: int, num_stages: int) -> list[list[int]]:
    """The first and the last cut that an enumeration meets."""
    rest = num_layers - num_stages + 1
    return [[*[1] * (num_stages - 1), rest], [rest, *[1] * (num_stages - 1)]]


def _greedy(costs: Sequence[float], num_stages: int, over: bool) -> list[int]:
    """Fill each stage until it has at least the fair share (over), or as long as it stays within it."""
    share, sizes, filled = sum(costs) / num_stages, [0], 0.0
    for number, cost in enumerate(costs):
        to_open = num_stages - len(sizes)
        must = len(costs) - number == to_open
        full = filled >= share if over else filled + cost > share
        if sizes[-1] and to_open and (must or full):
            sizes.append(0)
            filled = 0.0
        sizes[-1] += 1
        filled += cost
    return sizes


def _near(costs: Sequence[float], sizes: list[int]) -> bool:
    """Whether moving one cut by one layer gives the optimum."""
    for stage in range(len(sizes) - 1):
        for step in (-1, 1):
            moved = list(sizes)
            moved[stage] += step
            moved[stage + 1] -= step
            if min(moved) > 0 and _is_least(_slowest, costs, moved):
                return True
    return False
