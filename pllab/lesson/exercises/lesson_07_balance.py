"""The cases of exercise 07.2: `balance(costs, num_stages)` against every possible cut."""

import math
import random
from collections.abc import Callable, Sequence
from itertools import accumulate, combinations, pairwise
from typing import Any, NamedTuple

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare, must_refuse, retold, whole

Question = tuple[list[float], int]

# The lesson's own example, and two traps for a greedy filling.
_KNOWN: list[Question] = [([1, 1, 1, 1, 4], 2), ([1, 1, 1, 1, 1, 1, 1, 4], 2), ([2, 3, 4, 5, 1], 2)]
# Zeros at the ends and between, and sums that float32 cannot hold.
_EDGES: list[Question] = [([3, 1, 2], 1), ([3, 1, 2], 3), ([5], 1), ([0, 0, 0, 7], 2), ([0, 0], 2), ([1, 0, 0], 3)]
_EDGES += [([0, 2, 0, 0, 1], 4), ([2**24 - 1, 1, 2**24], 2)]


def _drawn() -> list[Question]:
    """Costs drawn at random: small, large, broken."""
    draw = random.Random(7)
    sizes = [(num_layers, num_stages) for num_layers in range(2, 9) for num_stages in range(2, num_layers)]
    small = [([float(draw.randint(1, 9)) for _ in range(n)], p) for n, p in sizes for _ in range(3)]
    # Sixteenths add up exactly; up to 2, and up to 500.
    broken = [([draw.randint(0, most) / 16 for _ in range(n)], p) for n, p in sizes for most in (32, 8000)]
    return small + broken


class Cut(NamedTuple):
    """The number of layers of each stage, and what each stage costs."""

    sizes: list[int]
    costs: list[float]

    def __str__(self) -> str:
        return f"{self.sizes} with a slowest stage of {max(self.costs):g}"


def _cut(costs: Sequence[float], sizes: list[int]) -> Cut:
    return Cut(sizes, [sum(costs[a:b]) for a, b in pairwise([0, *accumulate(sizes)])])


def _best(costs: Sequence[float], num_stages: int, measure: Callable[[list[float]], float] = max) -> Cut:
    """Of all cuts into so many stages, the first with the smallest measure."""
    places = ([0, *inner, len(costs)] for inner in combinations(range(1, len(costs)), num_stages - 1))
    cuts = (_cut(costs, [b - a for a, b in pairwise(ends)]) for ends in places)
    return min(cuts, key=lambda cut: measure(cut.costs))


def _read(answer: Any, costs: Sequence[float], num_stages: int) -> Cut:
    """The answer as whole numbers that describe a cut at all."""
    try:
        sizes = [whole(size) for size in answer]
    except (TypeError, ValueError):
        sizes = []
    if min(sizes, default=0) < 1 or len(sizes) != num_stages or sum(sizes) != len(costs):
        told = f"For costs {costs} and num_stages={num_stages} your function gave {answer!r}"
        right = f"whole numbers of at least 1 that add up to {len(costs)}"
        raise Wrong("no_cut", f"{told}; return the number of layers of each stage, {right}.")
    return _cut(costs, sizes)


def _has_equal_counts(cut: Cut, costs: Sequence[float], num_stages: int) -> bool:
    """Whether the layers are dealt out evenly, with the rest one by one or all in the last stage."""
    share = len(costs) // num_stages
    return max(cut.sizes) - min(cut.sizes) <= 1 or cut.sizes[:-1] == [share] * (num_stages - 1)


def _greedy(costs: Sequence[float], num_stages: int, over: bool) -> list[int]:
    """Fill each stage until it has at least the fair share (over), or as long as it stays within it."""
    share, sizes, filled = sum(costs) / num_stages, [0], 0.0
    for number, cost in enumerate(costs):
        to_open = num_stages - len(sizes)
        full = filled >= share if over else filled + cost > share
        if sizes[-1] and to_open and (full or len(costs) - number == to_open):
            sizes.append(0)
            filled = 0.0
        sizes[-1] += 1
        filled += cost
    return sizes


def _is_alike(cut: Cut, costs: Sequence[float], num_stages: int, measure: Callable[[list[float]], float]) -> bool:
    """Whether no cut has less of the measure, but for rounding."""
    return measure(cut.costs) <= (1 + 1e-9) * measure(_best(costs, num_stages, measure).costs)


_MISTAKES = (
    *(
        Mistake(
            "alike",
            "You made the stages as equal as possible; only the slowest one counts.",
            when=lambda cut, costs, num_stages, measure=measure: _is_alike(cut, costs, num_stages, measure),
        )
        for measure in (lambda stages: sum(cost**2 for cost in stages), lambda stages: max(stages) - min(stages))
    ),
    *(
        Mistake(
            "greedy",
            "Filling a stage up to its fair share decides too early: the rest may not fit.",
            when=lambda cut, costs, num_stages, over=over: cut.sizes == _greedy(costs, num_stages, over),
        )
        for over in (True, False)
    ),
    Mistake(
        "whole_costs",
        "You cut whole-number costs correctly, but these are not whole: is a cost or a limit rounded somewhere?",
        when=lambda _cut, costs, _num_stages: any(cost != int(cost) for cost in costs),
    ),
    Mistake("equal_counts", "Equal numbers of layers are not equal costs.", when=_has_equal_counts),
)


def _judge(balance: Function, questions: Sequence[Question], mistakes: Sequence[Mistake] = ()) -> None:
    with retold("refused", "There are enough layers for that.", of="raised", known_by="raised ValueError"):
        compare(
            balance,
            questions,
            _best,
            mistakes,
            asked="costs {} and num_stages={}",
            read=_read,
            same=lambda cut, best: math.isclose(max(cut.costs), max(best.costs), rel_tol=1e-9),
        )


@case("each stage has a layer, each layer has a stage, and the slowest stage is as fast as it can be (all cuts tried)")
def optimal(balance: Function) -> None:
    _judge(balance, _KNOWN + _drawn(), _MISTAKES)


@case("costs in millionths, or a billion times as large, are cut just as well")
def any_unit(balance: Function) -> None:
    factors = (1e-12, 1e-6, 1e9)
    with retold("unit", "The same cut was right in another unit: look for a fixed limit or tolerance."):
        _judge(balance, [([cost * factor for cost in costs], p) for costs, p in _KNOWN for factor in factors])


@case("one stage, as many stages as layers, and costs of zero")
def edges(balance: Function) -> None:
    _judge(balance, [([float(cost) for cost in costs], p) for costs, p in _EDGES])


@case("more stages than layers raise a ValueError")
def too_many(balance: Function) -> None:
    must_refuse(lambda: balance([1.0, 2.0], 3), "2 layers and 3 stages", "too_many")
