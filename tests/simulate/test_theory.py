"""The simulator against formulas and published numbers."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pllab.schedule import (
    Schedule,
    eager_one_f_one_b,
    gpipe,
    interleaved,
    one_f_one_b,
    v_half,
    v_min,
    zb_h1,
    zb_h2,
    zbv,
    zero_bubble,
)
from pllab.simulate import Costs, simulate
from tests.simulate import formulas

PAPER_COSTS = Costs(18.522, 18.086, 9.337, p2p=0.601)
"""Milliseconds per stage of the 1.5B model on 8 GPUs that the Zero Bubble paper profiled (Qi et al. 2024)."""

_PAPER = "Zero Bubble, 1.5B, p = 8, m = 24"
_GRID = [(p, m) for p in (1, 2, 3, 4, 8) for m in (1, 2, 5, 8, 24)]
_FULL = [(p, m) for p in (2, 4, 8) for m in (2 * p, 3 * p, 8 * p)]
_SHORT_W = Costs(3.0, 4.0, 2.0)
_EQUAL = (Costs(), Costs(2.0, 3.0, 1.0), Costs(3.0, 2.0, 4.0, p2p=1.0), Costs(1.0, 1.0, 1.0, p2p=5.0))


class Row(NamedTuple):
    """A number from a formula or a paper, and the simulator's.

    A row for a grid of sizes and costs shows the pair that differs most (the largest if all agree).
    """

    name: str
    source: str
    known: float
    simulated: float
    at_most: bool = False

    @property
    def holds(self) -> bool:
        """Whether both are equal up to rounding; with `at_most`, whether the simulator's is as good or better."""
        if self.at_most:
            return self.simulated <= self.known + 1e-12
        return abs(self.simulated - self.known) <= 1e-12 * max(1.0, abs(self.known))


def test_theory_and_print_agree_with_the_simulator() -> None:
    rows = (*_makespans(), *_bubbles(), *_memory(), *_published())
    assert [row for row in rows if not row.holds] == []
    assert len({row.name for row in rows}) == len(rows) >= 14


def test_a_row_holds_when_equal_or_where_a_bound_is_kept() -> None:
    assert Row("n", "s", 1 / 3, 0.3333333333333333).holds and not Row("n", "s", 0.5, 0.5 + 1e-9).holds
    assert Row("n", "s", 0.5, 0.4, at_most=True).holds and not Row("n", "s", 0.5, 0.6, at_most=True).holds


def _makespans() -> Iterator[Row]:
    grid = [(p, m, _uneven(p)) for p, m in _GRID]
    pairs = ((formulas.gpipe_makespan(*it), simulate(gpipe(*it[:2]), it[2]).makespan) for it in grid)
    yield _worst("GPipe makespan, unequal stages and messages", "GPipe 2.3; flow shop", pairs)
    equal = [(p, m, costs) for p, m in _GRID for costs in _EQUAL]
    pairs = ((formulas.one_f_one_b_makespan(*it), simulate(one_f_one_b(*it[:2]), it[2]).makespan) for it in equal)
    yield _worst("1F1B makespan, equal stages and messages", "Megatron-LM 2.2.1; longest path", pairs)


def _bubbles() -> Iterator[Row]:
    pairs = (
        (formulas.interleaved_overhead(p, m, v), simulate(interleaved(p, m, v)).bubble_overhead)
        for p, m in _FULL
        for v in (2, 3)
    )
    yield _worst("interleaved bubble overhead, (p - 1) / (v m)", "Megatron-LM 2.2.2", pairs)
    pairs = ((1 / 3, _idle(zb_h1(p, m)) / formulas.one_f_one_b_bubble(p, Costs())) for p, m in _FULL)
    yield _worst("ZB-H1 bubble over 1F1B's, F = I = W", "Zero Bubble, table 2", pairs)
    pairs = ((formulas.zb_h1_bubble(p, _SHORT_W), _idle(zb_h1(p, m), _SHORT_W)) for p, m in _FULL)
    yield _worst("ZB-H1 bubble, (p - 1)(F + I - W)", "Zero Bubble, table 2", pairs)
    pairs = ((formulas.zb_h2_bubble(p, _SHORT_W), _idle(zb_h2(p, m), _SHORT_W)) for p, m in _FULL)
    yield _worst("ZB-H2 bubble, (p - 1)(F + I - 2 W)", "Zero Bubble, table 2", pairs)


def _idle(schedule: Schedule, costs: Costs | None = None) -> float:
    """Seconds without work of the stage that takes longest, from its first start to its last end."""
    timeline = simulate(schedule, costs)
    work = max(timeline.busy_of_ranks)
    return work / (1 - formulas.bubble_rate(timeline)) - work


def _memory() -> Iterator[Row]:
    families: dict[str, tuple[Callable[[int, int], Schedule], Callable[[int, int], Iterable[int]]]] = {
        "GPipe: m": (gpipe, formulas.gpipe_peak),
        "1F1B: min(m, p - s)": (one_f_one_b, formulas.one_f_one_b_peak),
        "eager 1F1B: min(m, 2 (p - s) - 1)": (eager_one_f_one_b, formulas.eager_one_f_one_b_peak),
    }
    for name, (make, known) in families.items():
        pairs = [pair for p, m in _GRID for pair in zip(known(p, m), simulate(make(p, m)).peak_in_flight, strict=True)]
        yield _worst(f"memory of {name}", "the same papers", pairs)
    pairs = [(formulas.zb_h2_peak(p, m), max(simulate(zb_h2(p, m)).peak_in_flight)) for p, m in _FULL]
    yield _worst("memory of ZB-H2: 2 p - 1", "Zero Bubble, table 2", pairs)
    shapes: dict[str, tuple[Callable[[int, int], Schedule], Callable[[int], int]]] = {
        "ZB-V: 2 p half stages": (zbv, formulas.zbv_peak),
        "V-half: p or p + 2 half stages": (v_half, formulas.v_half_peak),
        "V-min: 2 p / 3 and a little": (v_min, formulas.v_min_peak),
    }
    for name, (bend, most) in shapes.items():
        highest = max(simulate(bend(12, 48)).peak_in_flight)
        yield Row(f"memory of {name}, p = 12", "Controllable Memory", most(12), highest, at_most=True)


def _published() -> Iterator[Row]:
    yield Row("1F1B bubble rate", _PAPER, 0.2431, _printed(one_f_one_b(8, 24)))
    for limit, known in ((8, 0.1585), (16, 0.0433)):
        rate = _printed(zero_bubble(8, 24, PAPER_COSTS, limit))
        yield Row(f"zero_bubble at memory limit {limit}, bubble rate", _PAPER, known, rate, at_most=True)


def _printed(schedule: Schedule) -> float:
    """The bubble rate with the four digits that the paper prints."""
    return round(formulas.bubble_rate(simulate(schedule, PAPER_COSTS)), 4)


def _uneven(num_stages: int) -> Costs:
    """Whole numbers that differ from stage to stage, so that sums are exact."""
    stages = range(num_stages)
    return Costs(
        forward=[1.0 + stage * 5 % 4 for stage in stages],
        backward_input=[2.0 + stage * 3 % 5 for stage in stages],
        backward_weight=[1.0 + stage * 7 % 3 for stage in stages],
        p2p=1.0,
    )


def _worst(name: str, source: str, pairs: Iterable[tuple[float, float]]) -> Row:
    """The pair of known and simulated that differs most; the largest if all agree."""
    known, simulated = max(pairs, key=lambda pair: (abs(pair[0] - pair[1]), pair[0]))
    return Row(name, source, known, simulated)
