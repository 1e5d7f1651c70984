"""How fast a schedule is made and simulated, whether the time grows with its actions, and whether theory agrees.

The aims are a tenth of what the fastest peer takes for 64 stages or ranks and 512 micro-batches on a two-core machine:
2.3 s for 1F1B, 8.4 s interleaved and 4.8 s for ZB-H1.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from pllab.bench.measure import Comparison, Spread, compare
from pllab.schedule import Schedule, interleaved, one_f_one_b, zb_h1
from pllab.show import Figure
from pllab.simulate import simulate
from pllab.simulate.judge import Row, judge

FAMILIES: dict[str, Callable[[int, int], Schedule]] = {
    "1F1B": one_f_one_b,
    "interleaved, 2 stages a rank": interleaved,
    "ZB-H1": zb_h1,
}
AIMS_S = dict(zip(FAMILIES, (0.23, 0.84, 0.48), strict=True))
AIMS_SIZE = (64, 512)
_SHARES = (4, 2, 1)


@dataclass(frozen=True)
class SimulateBench:
    """Seconds to make and simulate each family at a quarter, a half and all of the micro-batches; and the judges."""

    num_ranks: int
    num_microbatches: int
    num_actions: dict[str, int]
    comparison: Comparison
    rows: tuple[Row, ...]

    def seconds(self, family: str) -> Spread:
        """Seconds to make and simulate the whole size."""
        return self.comparison.time(_name(family, self.num_microbatches))

    def growth(self, family: str) -> Spread:
        """Per round, time per action at all micro-batches over that at a quarter of them; 1 is linear."""
        few, many = (_name(family, self.num_microbatches // share) for share in (_SHARES[0], 1))
        ratio = self.num_actions[many] / self.num_actions[few]
        return Spread(*(value / ratio for value in self.comparison.ratio(many, few)))

    def aim_s(self, family: str) -> float | None:
        """The aim in seconds, where there is one for this size."""
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
        """The result as text: the speeds, then each judge with what the simulator says."""
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
    """Measure making and simulating a schedule, and hold the simulator against theory.

    Example: `print(bench_simulate().table())` takes about half a minute on two cores.

    Args:
        num_ranks: ranks; 1F1B and ZB-H1 have as many stages, interleaved twice as many.
        num_microbatches: the largest size; a quarter and a half of it show how the time grows.
        repeats: rounds that count.
        warmup: rounds before.

    Raises:
        ValueError: too few micro-batches for a quarter of them.
    """
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
