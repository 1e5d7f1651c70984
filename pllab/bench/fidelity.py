"""How well the simulator predicts: calibrate on this machine, predict a step, run it, compare.

Where prediction and measurement differ, the difference is attributed, and what is shown adds up: of each case the
round whose error is the median, with that round's own causes.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pllab import comm
from pllab.bench.attribute import CAUSES
from pllab.bench.fidelity_picture import draw_fidelity
from pllab.bench.fidelity_runs import Asleep, Case, Example, Layers, Outcome, Plan, on_lanes, on_ranks
from pllab.bench.measure import Spread
from pllab.bench.pipeline import PipelineWorkload
from pllab.schedule.sizes import check_sizes
from pllab.show import Figure

__all__ = ["DEFAULT_WORKLOAD", "Case", "Example", "FidelityBench", "Outcome", "bench_fidelity", "representative"]

DEFAULT_WORKLOAD = PipelineWorkload(num_tokens=64)
_REAL_RANKS = 2


@dataclass(frozen=True)
class FidelityBench:
    """The outcomes of all cases, round by round, and one predicted and measured pair to look at."""

    workload: PipelineWorkload
    outcomes: Mapping[Case, tuple[Outcome, ...]]
    example: Example
    machine: Mapping[str, str | int] = field(default_factory=dict)

    def shown(self, case: Case) -> Outcome:
        """The round that stands for a case: its causes add up to its error, as medians of causes would not."""
        return self.outcomes[case][representative(self.outcomes[case])]

    def error(self, case: Case) -> Spread:
        """The signed error of the round that stands for a case, between the quartiles of all its rounds."""
        errors = [outcome.error for outcome in self.outcomes[case]]
        return Spread.of(errors)._replace(median=self.shown(case).error)

    def median_error(self, engine: str) -> float:
        """The median over all cases of an engine of how far their error is from zero."""
        return statistics.median(self._errors(engine))

    def _errors(self, engine: str) -> list[float]:
        return [abs(self.shown(case).error) for case in self.outcomes if case.engine == engine]

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`; of each case `causes` add up to the median in `error`."""
        return {
            "machine": dict(self.machine),
            "workload": asdict(self.workload),
            "median_error": {engine: self.median_error(engine) for engine in self._engines()},
            "largest_error": {engine: max(self._errors(engine)) for engine in self._engines()},
            "cases": [self._record(case) for case in self.outcomes],
        }

    def _engines(self) -> list[str]:
        return list(dict.fromkeys(case.engine for case in self.outcomes))

    def _record(self, case: Case) -> dict[str, Any]:
        shown = self.shown(case)
        seconds = {"predicted_s": shown.predicted_s, "measured_s": shown.measured_s}
        return {**case._asdict(), **seconds, "error": self.error(case)._asdict(), "causes": shown.shares}

    def picture(self) -> Figure:
        """One case, predicted above measured, and below it the causes of every real case as bars."""
        return draw_fidelity(self.example, {case: self.shown(case) for case in self.outcomes})

    def table(self) -> str:
        """One line per case, then the figure that counts for each engine."""
        lines = [
            f"{'engine':8}  {'on':5}  {'schedule':11}   m  predicted   measured    error (quartiles)            = "
            + " + ".join(f"{cause:>9}" for cause in CAUSES)
        ]
        lines += map(self._line, self.outcomes)
        lines.append("of each case the round whose error is the median; errors and causes in % of its measured time")
        for engine in self._engines():
            errors = self._errors(engine)
            middle, largest = 100 * statistics.median(errors), 100 * max(errors)
            lines.append(f"{engine}: median error {middle:.2f} %, largest {largest:.2f} % of {len(errors)} cases")
        return "\n".join(lines)

    def _line(self, case: Case) -> str:
        error, shown = self.error(case), self.shown(case)
        spread = f"{100 * error.median:+7.2f} ({100 * error.low:+7.2f} to {100 * error.high:+7.2f})"
        name = f"{case.engine:8}  {case.transport}  {case.family:11}  {case.num_microbatches:2}"
        causes = "   ".join(f"{100 * shown.shares[cause]:+9.2f}" for cause in CAUSES)
        return f"{name}  {shown.predicted_s:8.4f}s  {shown.measured_s:8.4f}s  {spread}     {causes}"


def representative(rounds: Sequence[Outcome]) -> int:
    """The number of the round whose error is the median, of an even number of rounds the lower one."""
    by_error = sorted(range(len(rounds)), key=lambda number: rounds[number].error)
    return by_error[(len(rounds) - 1) // 2]


def bench_fidelity(
    workload: PipelineWorkload = DEFAULT_WORKLOAD,
    *,
    microbatches: tuple[int, ...] = (2, 4, 8, 16),
    repeats: int = 7,
    sleep_ms: float = 10.0,
    sleeping_ranks: int = 4,
    timeout_s: float = 900.0,
) -> FidelityBench:
    """Predict and measure GPipe, 1F1B, interleaved and ZB-H1 on lanes and on ranks, real and emulated.

    Example: `print(bench_fidelity().table())` takes some minutes on two cores. Real: GPT-2's layers on two lanes and
    on two gloo ranks. Emulated: sleeping stages on more of them. Both are calibrated, on 1F1B or interleaved with a
    number of micro-batches that is none of the cases.

    Args:
        workload: layers, and the size of a micro-batch: batch_size / num_microbatches rows.
        microbatches: how many micro-batches a step has; each is a case.
        repeats: rounds.
        sleep_ms: how long a sleeping stage sleeps for F; for I the same, for W half of it.
        sleeping_ranks: lanes and ranks of the emulated cases.
        timeout_s: the most seconds the measurement of one transport may take.

    Raises:
        ValueError: a number is none that could be measured; said before anything is.
    """
    check_sizes(sleeping_ranks=sleeping_ranks)
    real, asleep, plan = Layers(workload), Asleep(sleep_ms / 1000), Plan(microbatches, repeats)
    asleep.stages(1)  # refuses a time that nobody can sleep
    lanes = comm.launch(on_lanes, 1, plan, real, _REAL_RANKS, backend="gloo", timeout_s=timeout_s)[0]
    ranks = comm.launch(on_ranks, _REAL_RANKS, plan, real, backend="gloo", timeout_s=timeout_s)[0]
    sleeping_lanes = on_lanes(0, 1, plan, asleep, sleeping_ranks)
    sleeping = comm.launch(on_ranks, sleeping_ranks, plan, asleep, backend="gloo", timeout_s=timeout_s)[0]
    outcomes = lanes.outcomes | ranks.outcomes | sleeping_lanes.outcomes | sleeping.outcomes
    example = lanes.examples[representative(lanes.outcomes[lanes.examples[0].case])]
    return FidelityBench(workload, outcomes, example, lanes.machine)
