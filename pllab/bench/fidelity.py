"""How well the simulator predicts: calibrate on this machine, predict a step, run it, compare.

In every round the cases of a family are measured right after a calibration, so that a slow moment of the machine meets
both sides. Where prediction and measurement differ, the difference is attributed: to the work itself (imbalance of what
should be equal), to waiting for other ranks, to messages, and to starts.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
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
        return statistics.median(self._errors(engine))

    def _errors(self, engine: str) -> list[float]:
        return [abs(self.error(case).median) for case in self.outcomes if case.engine == engine]

    def gap(self, case: Case) -> dict[str, float]:
        """Median share of the measured device time by which each cause exceeded its prediction."""
        rounds = self.outcomes[case]
        return {name: statistics.median(one.causes[name] / one.measured_s for one in rounds) for name in _CAUSES}

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
            if errors := self._errors(engine):
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
    real, asleep = _Layers(workload), _Asleep(sleep_ms / 1000)
    plan = _Plan(microbatches, repeats)
    real_lanes, example = comm.launch(_on_lanes, 1, plan, real, _REAL_RANKS, backend="gloo", timeout_s=timeout_s)[0]
    real_ranks, _ = comm.launch(_on_ranks, _REAL_RANKS, plan, real, backend="gloo", timeout_s=timeout_s)[0]
    sleeping_lanes, _ = _on_lanes(0, 1, plan, asleep, sleeping_ranks)
    sleeping, _ = comm.launch(_on_ranks, sleeping_ranks, plan, asleep, backend="gloo", timeout_s=timeout_s)[0]
    return FidelityBench(workload, real_lanes | real_ranks | sleeping_lanes | sleeping, example, machine("real"))


@dataclass(frozen=True)
class _Plan:
    microbatches: tuple[int, ...]
    repeats: int

    @property
    def calibrating(self) -> int:
        """Micro-batches of the calibrating step: enough for steady work, and none of the cases."""
        return next(count for count in range(6, 1000) if count not in self.microbatches)


@dataclass(frozen=True)
class _Layers:
    """GPT-2's layers cut into any number of stages, and batches of any number of micro-batches."""

    workload: PipelineWorkload
    engine = "real"
    calibrating_steps = 3
    steps = 2  # the second counts, as in a calibration: the first finds its memory taken away

    def stages(self, count: int) -> Sequence[nn.Module]:
        """The layers in so many stages, in balance."""
        _, layers, costs = self._made
        return cut(layers, balance(costs, count))

    def batch(self, num_microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch and its targets."""
        (batch, *_), _, _ = self._made
        num_rows = self.workload.batch_size // self.workload.num_microbatches * num_microbatches
        return torch.cat([batch] * -(-num_rows // len(batch)))[:num_rows], torch.zeros(num_rows)

    def loss(self, output: torch.Tensor, _targets: torch.Tensor) -> torch.Tensor:
        """A mean over the rows."""
        return output.float().square().mean()

    @cached_property
    def _made(self) -> Any:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        return workload_layers(self.workload, "cpu")


@dataclass(frozen=True)
class _Asleep:
    """Stages that sleep, and nothing for them to work on."""

    sleep_s: float
    engine = "emulated"
    calibrating_steps = 1  # calibrations are many, and sleep is always the same
    steps = 1
    loss = None

    def stages(self, count: int) -> Sequence[nn.Module]:
        """So many sleepers."""
        times = {"backward_input_s": self.sleep_s, "backward_weight_s": self.sleep_s / 2}
        return [SleepStage(self.sleep_s, **times) for _ in range(count)]

    def batch(self, _: int) -> tuple[None, None]:
        """No batch and no targets."""
        return None, None


_Work = _Layers | _Asleep
_Calibrate = Callable[[int], Costs]  # number of stages -> what they cost at the moment
_Execute = Callable[[Schedule], LaneExecutor | RankExecutor]
_Result = tuple[dict[Case, tuple[Outcome, ...]], tuple[Timeline, Timeline]]


def _on_lanes(_rank: int, _world_size: int, plan: _Plan, work: _Work, num_ranks: int) -> _Result:
    with ExitStack() as closing:

        def calibrated(num_stages: int) -> Costs:
            given = (*work.batch(plan.calibrating), work.loss)
            counts: Any = {"num_microbatches": plan.calibrating, "repeats": work.calibrating_steps}
            return calibrate(work.stages(num_stages), *given, num_ranks=num_ranks, **counts)

        @cache
        def executor(schedule: Schedule) -> LaneExecutor:
            return closing.enter_context(LaneExecutor(schedule, work.stages(schedule.num_stages), work.loss))

        return _rounds(plan, work, "lanes", num_ranks, calibrated, executor)


def _on_ranks(rank: int, world_size: int, plan: _Plan, work: _Work) -> _Result:
    def mine(num_stages: int) -> dict[int, nn.Module]:
        return dict(list(enumerate(work.stages(num_stages)))[rank::world_size])

    def calibrated(num_stages: int) -> Costs:
        given = (*work.batch(plan.calibrating), work.loss)
        counts: Any = {"num_microbatches": plan.calibrating, "repeats": work.calibrating_steps}
        return calibrate_ranks(mine(num_stages), num_stages, *given, num_ranks=world_size, **counts)

    @cache
    def executor(schedule: Schedule) -> RankExecutor:
        return RankExecutor(schedule, mine(schedule.num_stages), work.loss)

    return _rounds(plan, work, "ranks", world_size, calibrated, executor)


def _rounds(
    plan: _Plan, work: _Work, on: Transport, num_ranks: int, calibrated: _Calibrate, executor: _Execute
) -> _Result:
    """Family by family: calibrate, predict its cases, measure them; `repeats` times over."""
    outcomes: defaultdict[Case, list[Outcome]] = defaultdict(list)
    for number in range(plan.repeats + 1):
        for family, make in _FAMILIES.items():
            schedules = {Case(work.engine, on, family, m): make(num_ranks, m) for m in plan.microbatches}
            costs = calibrated(next(iter(schedules.values())).num_stages)
            for case, schedule in schedules.items():
                predicted, batch = simulate(schedule, costs), work.batch(schedule.num_microbatches)
                measured = [executor(schedule).step(*batch).timeline for _ in range(work.steps)][-1]
                if number:  # the first round warms up
                    outcomes[case].append(_outcome(schedule, predicted, measured))
    return {case: tuple(found) for case, found in outcomes.items()}, (predicted, measured)


def _outcome(schedule: Schedule, predicted: Timeline, measured: Timeline) -> Outcome:
    before, after = _by_cause(schedule, predicted), _by_cause(schedule, measured)
    causes = {cause: (after[cause] - before[cause]) / schedule.num_ranks for cause in _CAUSES}
    return Outcome(predicted.makespan, measured.makespan, causes)


def _by_cause(schedule: Schedule, timeline: Timeline) -> dict[str, float]:
    """Device-seconds of a run: those of work, and the idle ones by what they waited for."""
    found = dict.fromkeys(_CAUSES, 0.0) | {"work": timeline.busy}
    for gap in gaps(schedule, timeline):
        found[gap.cause if gap.cause in ("message", "launch") else "wait"] += gap.duration
    return found
