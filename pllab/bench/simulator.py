"""The simulator: how fast it is, whether its time grows linearly, and whether it agrees with theory and papers.

The aims are a tenth of the time of the fastest other program for 64 stages or ranks and 512 micro-batches on a two-core
machine: 2.3 s for 1F1B, 8.4 s interleaved and 4.8 s for ZB-H1. The judges are formulas and published numbers. A test
asserts every row, and `python -m pllab bench simulate` prints them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from pllab.arguments import whole_number
from pllab.bench.measure import Comparison, Spread, compare
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
from pllab.show import Figure
from pllab.simulate import Costs, formulas, simulate

FAMILIES: dict[str, Callable[[int, int], Schedule]] = {
    "1F1B": one_f_one_b,
    "interleaved, 2 stages a rank": interleaved,
    "ZB-H1": zb_h1,
}
AIMS_S = dict(zip(FAMILIES, (0.23, 0.84, 0.48), strict=True))
AIMS_SIZE = (64, 512)
_SHARES = (4, 2, 1)
PAPER_COSTS = Costs(18.522, 18.086, 9.337, p2p=0.601)
"""Milliseconds per stage of the 1.5B model on 8 GPUs that the Zero Bubble paper profiled (Qi et al. 2024)."""

_PAPER = "Zero Bubble, 1.5B, p = 8, m = 24"
_GRID = [(p, m) for p in (1, 2, 3, 4, 8) for m in (1, 2, 5, 8, 24)]
_FULL = [(p, m) for p in (2, 4, 8) for m in (2 * p, 3 * p, 8 * p)]
_SHORT_W = Costs(3.0, 4.0, 2.0)
_EQUAL = (Costs(), Costs(2.0, 3.0, 1.0), Costs(3.0, 2.0, 4.0, p2p=1.0), Costs(1.0, 1.0, 1.0, p2p=5.0))


@dataclass(frozen=True)
class Row:
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


@dataclass(frozen=True)
class SimulateBench:
    """Seconds to make and simulate each family at a quarter, a half and all of the micro-batches; and all rows."""

    num_ranks: int
    num_microbatches: int
    num_actions: dict[str, int]
    comparison: Comparison
    rows: tuple[Row, ...]

    def seconds(self, family: str) -> Spread:
        """Seconds to make and simulate all micro-batches."""
        return self.comparison.time(_name(family, self.num_microbatches))

    def growth(self, family: str) -> Spread:
        """Per round, time per action at all micro-batches over that at a quarter of them; 1 is linear."""
        few, many = (_name(family, self.num_microbatches // share) for share in (_SHARES[0], 1))
        ratio = self.num_actions[many] / self.num_actions[few]
        return self.comparison.ratio(many, few).scaled(1 / ratio)

    def aim_s(self, family: str) -> float | None:
        """The aim in seconds, if there is one for this size."""
        return AIMS_S[family] if (self.num_ranks, self.num_microbatches) == AIMS_SIZE else None

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        families = {
            family: {
                "seconds": self.seconds(family)._asdict(),
                "aim_s": self.aim_s(family),
                "growth": self.growth(family)._asdict(),
                "num_actions": self.num_actions[_name(family, self.num_microbatches)],
            }
            for family in FAMILIES
        }
        return {
            "num_ranks": self.num_ranks,
            "num_microbatches": self.num_microbatches,
            "families": families,
            "judges": [{**asdict(row), "holds": row.holds} for row in self.rows],
            **self.comparison.to_json(),
        }

    def picture(self) -> Figure:
        """The seconds as bars."""
        return self.comparison.picture(f"Made and simulated, {self.num_ranks} ranks")

    def table(self) -> str:
        """The result as text: the speeds, then each judge with the simulator's number."""
        lines = [f"{'made and simulated':38}  median s  quartiles      aim s  us/action  growth with m (1: linear)"]
        for family in FAMILIES:
            took, growth, aim = self.seconds(family), self.growth(family), self.aim_s(family)
            name = _name(family, self.num_microbatches)
            lines.append(
                f"{name:38}  {took.median:8.4f}  {took.low:.4f}-{took.high:.4f}  {aim or '-':>5}  "
                f"{took.median / self.num_actions[name] * 1e6:9.2f}  {growth.median:.2f} "
                f"({growth.low:.2f}-{growth.high:.2f})"
            )
        lines += ["", f"{'judged by':48}  {'known':>10}    simulated  holds  source"]
        for row in self.rows:
            known = f"{'<= ' if row.at_most else ''}{row.known:.6g}"
            holds = "yes" if row.holds else "NO"
            lines.append(f"{row.name:48}  {known:>10}  {row.simulated:11.6g}  {holds:5}  {row.source}")
        return "\n".join(lines)


def bench_simulate(
    *, num_ranks: int = 64, num_microbatches: int = 512, repeats: int = 15, warmup: int = 2
) -> SimulateBench:
    """Measure making and simulating a schedule, and compare the simulator with theory.

    Example: `print(bench_simulate().table())` takes about half a minute on two cores.

    Args:
        num_ranks: ranks; 1F1B and ZB-H1 have as many stages, interleaved twice as many.
        num_microbatches: the largest size; a quarter and a half of it show how the time grows.
        repeats: rounds that count.
        warmup: rounds before.

    Raises:
        ValueError: there are too few micro-batches for a quarter of them.
    """
    whole_number("num_ranks", num_ranks)
    if num_microbatches < _SHARES[0]:
        raise ValueError(f"num_microbatches is {num_microbatches}; a quarter is measured too, so give at least 4")
    runs, num_actions = {}, {}
    for family, make in FAMILIES.items():
        for m in (num_microbatches // share for share in _SHARES):
            runs[_name(family, m)] = partial(_make_and_simulate, make, num_ranks, m)
            num_actions[_name(family, m)] = make(num_ranks, m).num_actions
    comparison = compare(runs, repeats, warmup, engine="simulated")
    return SimulateBench(num_ranks, num_microbatches, num_actions, comparison, judge())


def _make_and_simulate(make: Callable[[int, int], Schedule], num_ranks: int, num_microbatches: int) -> None:
    simulate(make(num_ranks, num_microbatches))


def _name(family: str, num_microbatches: int) -> str:
    return f"{family}, m = {num_microbatches}"


def judge() -> tuple[Row, ...]:
    """All rows, in about a second.

    Example: `[row.name for row in judge() if not row.holds]` is empty.
    """
    return (*_makespans(), *_bubbles(), *_memory(), *_published())


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
        bandwidth=0.5,
        activation_bytes=[float(stage % 3) for stage in stages],
    )


def _worst(name: str, source: str, pairs: Iterable[tuple[float, float]]) -> Row:
    """The pair of known and simulated that differs most; the largest if all agree."""
    known, simulated = max(pairs, key=lambda pair: (abs(pair[0] - pair[1]), pair[0]))
    return Row(name, source, known, simulated)
