"""How well the simulator predicts: calibrate on this machine, predict a step, run it, compare.

In every round the cases of a family are measured right after a calibration, so that a slow moment of the machine meets
both sides. Where prediction and measurement differ, the difference is attributed: to the work itself (imbalance of what
should be equal), to waiting for other ranks, to messages, and to starts.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from pllab import comm
from pllab.bench.machine import machine
from pllab.bench.measure import Spread
from pllab.bench.pipeline import PipelineWorkload, workload_layers
from pllab.models.layers import cut
from pllab.pipeline import LaneExecutor, RankExecutor, SleepStage, balance, calibrate, calibrate_ranks
from pllab.schedule import Schedule, gpipe, interleaved, one_f_one_b, zb_h1
from pllab.show import Figure, draw_timeline
from pllab.simulate import Costs, gaps, simulate
from pllab.timeline import Timeline

Transport = Literal["lanes", "ranks"]
_FAMILIES: Mapping[str, Callable[[int, int], Schedule]] = {
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved": interleaved,
    "ZB-H1": zb_h1,
}
_REAL_RANKS = 2
_CAUSES = ("work", "wait", "message", "launch")


class Case(NamedTuple):
    """One schedule on one transport with one engine."""

    engine: str
    transport: Transport
    family: str
    num_microbatches: int


class Outcome(NamedTuple):
    """One round of one case: seconds predicted and measured, and device-seconds by cause, measured less predicted."""

    predicted_s: float
    measured_s: float
    causes: Mapping[str, float]

    @property
    def error(self) -> float:
        """The difference as a share of the measured time; positive where the run was slower than predicted."""
        return (self.measured_s - self.predicted_s) / self.measured_s


@dataclass(frozen=True)
class FidelityBench:
    """The outcomes of all cases, round by round, and one predicted and measured pair to look at."""

    workload: PipelineWorkload
    outcomes: Mapping[Case, tuple[Outcome, ...]]
    example: tuple[Timeline, Timeline]
    machine: Mapping[str, str | int] = field(default_factory=dict)

    def error(self, case: Case) -> Spread:
        """The signed error of one case over its rounds."""
        return Spread.of([outcome.error for outcome in self.outcomes[case]])

    def median_error(self, engine: str) -> float:
        """The median over all cases of an engine of how far their median error is from zero."""
        return statistics.median(abs(self.error(case).median) for case in self.outcomes if case.engine == engine)

    def gap(self, case: Case) -> dict[str, float]:
        """Median share of the measured device time by which each cause exceeded its prediction."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        for outcome in self.outcomes[case]:
            for cause in _CAUSES:
                found[cause].append(outcome.causes[cause] / outcome.measured_s)
        return {cause: statistics.median(values) for cause, values in found.items()}

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return {
            "machine": dict(self.machine),
            "workload": asdict(self.workload),
            "median_error": {engine: self.median_error(engine) for engine in ("real", "emulated")},
            "cases": [
                {**case._asdict(), "error": self.error(case)._asdict(), "gap": self.gap(case)} for case in self.outcomes
            ],
        }

    def picture(self) -> Figure:
        """One case, predicted above measured."""
        return draw_timeline(*self.example, titles=["predicted", "measured"])

    def table(self) -> str:
        """One line per case, then the figure that counts for each engine."""
        lines = [
            "engine    on     schedule      m   predicted   measured   error (quartiles)            "
            + "  ".join(f"{cause:>7}" for cause in _CAUSES)
        ]
        lines += map(self._line, self.outcomes)
        lines.append("causes: how much of the measured device time each exceeded its prediction by")
        for engine in ("real", "emulated"):
            errors = [abs(self.error(case).median) for case in self.outcomes if case.engine == engine]
            if errors:
                middle, largest = 100 * statistics.median(errors), 100 * max(errors)
                lines.append(f"{engine}: median error {middle:.2f} %, largest {largest:.2f} % of {len(errors)} cases")
        return "\n".join(lines)

    def _line(self, case: Case) -> str:
        error, gap = self.error(case), self.gap(case)
        predicted = statistics.median(outcome.predicted_s for outcome in self.outcomes[case])
        measured = statistics.median(outcome.measured_s for outcome in self.outcomes[case])
        spread = f"{100 * error.median:+6.2f} % ({100 * error.low:+6.2f} to {100 * error.high:+6.2f})"
        name = f"{case.engine:8}  {case.transport}  {case.family:11}  {case.num_microbatches:2}"
        causes = "  ".join(f"{100 * gap[cause]:+6.2f}%" for cause in _CAUSES)
        return f"{name}   {predicted:8.4f}s   {measured:7.4f}s   {spread}   {causes}"


DEFAULT_WORKLOAD = PipelineWorkload(num_tokens=64)


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
    """
    plan = _Plan(workload, microbatches, repeats, sleep_ms / 1000)
    found: dict[Case, tuple[Outcome, ...]] = {}
    examples: list[tuple[Timeline, Timeline]] = []
    for program, world_size in ((_real_lanes, 1), (_real_ranks, _REAL_RANKS)):
        outcomes, example = comm.launch(program, world_size, plan, backend="gloo", timeout_s=timeout_s)[0]
        found |= outcomes
        examples.append(example)
    outcomes, _ = _sleeping_lanes(plan, sleeping_ranks)
    found |= outcomes
    outcomes, _ = comm.launch(_sleeping_ranks, sleeping_ranks, plan, backend="gloo", timeout_s=timeout_s)[0]
    return FidelityBench(workload, found | outcomes, examples[0], machine("real"))


@dataclass(frozen=True)
class _Plan:
    workload: PipelineWorkload
    microbatches: tuple[int, ...]
    repeats: int
    sleep_s: float

    def calibration(self, repeats: int = 1) -> dict[str, Any]:
        """How a calibration is made: short, for there are many; sleeping stages need no more than one step."""
        return {"num_microbatches": self.calibrating, "repeats": repeats}

    def asleep(self) -> SleepStage:
        """A sleeping stage."""
        return SleepStage(self.sleep_s, backward_input_s=self.sleep_s, backward_weight_s=self.sleep_s / 2)

    @property
    def calibrating(self) -> int:
        """Micro-batches of the calibrating step: enough for steady work, and none of the cases."""
        return next(count for count in range(6, 1000) if count not in self.microbatches)


_Calibrate = Callable[[int], Costs]  # number of stages -> what they cost at the moment
_Run = Callable[[Schedule], Timeline]
_Result = tuple[dict[Case, tuple[Outcome, ...]], tuple[Timeline, Timeline]]


def _rounds(plan: _Plan, engine: str, on: Transport, num_ranks: int, calibrated: _Calibrate, run: _Run) -> _Result:
    """Family by family: calibrate, predict its cases, measure them; `repeats` times over."""
    outcomes: defaultdict[Case, list[Outcome]] = defaultdict(list)
    for number in range(plan.repeats + 1):
        for family, make in _FAMILIES.items():
            schedules = {Case(engine, on, family, m): make(num_ranks, m) for m in plan.microbatches}
            costs = calibrated(next(iter(schedules.values())).num_stages)
            for case, schedule in schedules.items():
                predicted, measured = simulate(schedule, costs), run(schedule)
                if number:  # the first round warms up
                    outcomes[case].append(_outcome(schedule, predicted, measured))
    return {case: tuple(found) for case, found in outcomes.items()}, (predicted, measured)


def _outcome(schedule: Schedule, predicted: Timeline, measured: Timeline) -> Outcome:
    before, after = _by_cause(schedule, predicted), _by_cause(schedule, measured)
    num_ranks = schedule.num_ranks
    return Outcome(
        predicted.makespan,
        measured.makespan,
        {cause: (after[cause] - before[cause]) / num_ranks for cause in _CAUSES},
    )


def _by_cause(schedule: Schedule, timeline: Timeline) -> dict[str, float]:
    """Device-seconds of a run: those of work, and the idle ones by what they waited for."""
    kinds = {"message": "message", "launch": "launch"}
    found = dict.fromkeys(_CAUSES, 0.0) | {"work": timeline.busy}
    for gap in gaps(schedule, timeline):
        found[kinds.get(gap.cause, "wait")] += gap.duration
    return found


class _Layers:
    """GPT-2's layers cut for one and for two stages per rank, and batches of any number of micro-batches."""

    def __init__(self, work: PipelineWorkload) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.rows = work.batch_size // work.num_microbatches
        (self.batch, *_), self.layers, costs = workload_layers(work, "cpu")
        self.cuts = {count: cut(self.layers, balance(costs, count)) for count in (_REAL_RANKS, 2 * _REAL_RANKS)}

    def of(self, num_microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch and its targets."""
        num_rows = self.rows * num_microbatches
        repeats = -(-num_rows // len(self.batch))
        return torch.cat([self.batch] * repeats)[:num_rows], torch.zeros(num_rows)


def _second(executor: LaneExecutor | RankExecutor, batch: torch.Tensor, targets: torch.Tensor) -> Timeline:
    """A step right after another, as the steps of a calibration are: the first finds its memory taken away."""
    executor.step(batch, targets)
    return executor.step(batch, targets).timeline


def _loss(output: torch.Tensor, _targets: torch.Tensor) -> torch.Tensor:
    return output.float().square().mean()


def _real_lanes(_rank: int, _world_size: int, plan: _Plan) -> _Result:
    layers = _Layers(plan.workload)
    executors: dict[Schedule, LaneExecutor] = {}

    def calibrated(num_stages: int) -> Costs:
        stages, (batch, targets) = layers.cuts[num_stages], layers.of(plan.calibrating)
        return calibrate(stages, batch, targets, _loss, num_ranks=_REAL_RANKS, **plan.calibration(3))

    def run(schedule: Schedule) -> Timeline:
        if schedule not in executors:
            executors[schedule] = LaneExecutor(schedule, layers.cuts[schedule.num_stages], _loss)
        return _second(executors[schedule], *layers.of(schedule.num_microbatches))

    try:
        return _rounds(plan, "real", "lanes", _REAL_RANKS, calibrated, run)
    finally:
        for executor in executors.values():
            executor.close()


def _real_ranks(rank: int, world_size: int, plan: _Plan) -> _Result:
    layers = _Layers(plan.workload)
    executors: dict[Schedule, RankExecutor] = {}

    def mine(schedule: Schedule) -> dict[int, nn.Module]:
        stages = layers.cuts[schedule.num_stages]
        return {number: stages[number] for number in schedule.stages_of_rank(rank)}

    def calibrated(num_stages: int) -> Costs:
        stages, (batch, targets) = layers.cuts[num_stages], layers.of(plan.calibrating)
        mine = {number: stages[number] for number in range(rank, num_stages, world_size)}
        return calibrate_ranks(mine, num_stages, batch, targets, _loss, num_ranks=world_size, **plan.calibration(3))

    def run(schedule: Schedule) -> Timeline:
        if schedule not in executors:
            executors[schedule] = RankExecutor(schedule, mine(schedule), _loss)
        return _second(executors[schedule], *layers.of(schedule.num_microbatches))

    return _rounds(plan, "real", "ranks", world_size, calibrated, run)


def _sleeping_lanes(plan: _Plan, num_ranks: int) -> _Result:
    def calibrated(num_stages: int) -> Costs:
        return calibrate([plan.asleep() for _ in range(num_stages)], num_ranks=num_ranks, **plan.calibration())

    def run(schedule: Schedule) -> Timeline:
        with LaneExecutor(schedule, [plan.asleep() for _ in range(schedule.num_stages)]) as executor:
            return executor.step().timeline

    return _rounds(plan, "emulated", "lanes", num_ranks, calibrated, run)


def _sleeping_ranks(rank: int, world_size: int, plan: _Plan) -> _Result:
    executors: dict[Schedule, RankExecutor] = {}

    def calibrated(num_stages: int) -> Costs:
        mine = {number: plan.asleep() for number in range(rank, num_stages, world_size)}
        return calibrate_ranks(mine, num_stages, num_ranks=world_size, **plan.calibration())

    def run(schedule: Schedule) -> Timeline:
        if schedule not in executors:
            mine = {number: plan.asleep() for number in schedule.stages_of_rank(rank)}
            executors[schedule] = RankExecutor(schedule, mine)
        return executors[schedule].step().timeline

    return _rounds(plan, "emulated", "ranks", world_size, calibrated, run)
