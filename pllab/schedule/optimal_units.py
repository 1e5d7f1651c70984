"""Costs as whole numbers, which is what OR-tools' CP-SAT counts with."""

from dataclasses import replace
from fractions import Fraction
from math import floor, lcm

from pllab.schedule.optimal_work import Choice

SLACK = Fraction(1, 10**6)  # of a unit: a float of 18.522 is a little less than 18522 thousandths
_MOST_UNITS = 10**6  # the largest common denominator of costs that counts as exact
_FINEST = 10**7  # else, the parts of all work


def in_units(work: Choice, units: Fraction) -> Choice:
    """The same work with whole numbers for costs, rounded down where they are none."""

    def whole(costs: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(floor(Fraction(cost) * units + SLACK) for cost in costs)

    forward, backward, weight, up, down, undivided = map(whole, _costs(work))
    split = replace(work.split, forward=forward, backward=backward, weight=weight, up=up, down=down)
    return Choice(split, undivided)


def units_per_second(work: Choice) -> Fraction:
    """How many integer units of the solver make one unit of the costs.

    Example: costs of 18.522 and 0.5 are computed in thousandths.
    """
    costs = {cost for part in _costs(work) for cost in part}
    parts = [Fraction(cost).limit_denominator(_MOST_UNITS) for cost in costs]
    common = lcm(*(part.denominator for part in parts))
    same = all(abs(float(part) - cost) <= 1e-15 * cost for part, cost in zip(parts, costs, strict=True))
    if same and common <= _MOST_UNITS:
        return Fraction(common)
    return Fraction(_FINEST) / Fraction(work.split.everything)


def _costs(work: Choice) -> tuple[tuple[float, ...], ...]:
    """All that takes time; of whole backwards only those that may stay whole, and the halves for the others."""
    split = work.split
    whole = tuple(
        work.whole[stage] if work.is_shorter_whole(stage) else split.backward[stage] + split.weight[stage]
        for stage in range(split.num_stages)
    )
    return split.forward, split.backward, split.weight, split.up, split.down, whole
