"""How well the simulator predicts: calibrate on this machine, predict a step, run it, compare.

In every round the cases of a family are measured right after a calibration, so a slow moment of the machine meets both
sides. The difference between prediction and measurement is split into causes. For each case one round is shown, that
of the median error, so that its causes add up.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from pllab import comm
from pllab.arguments import whole_number
from pllab.bench.attribute import CAUSES, attribute
from pllab.bench.measure import Spread
from pllab.bench.workloads import Layers, PipelineWorkload, row_loss
from pllab.comm.machine import describe_machine
from pllab.pipeline import LaneExecutor, RankExecutor, SleepStage, calibrate, calibrate_ranks
from pllab.schedule import Schedule, gpipe, interleaved, one_f_one_b, zb_h1
from pllab.show import Figure
from pllab.simulate import Costs, simulate
from pllab.timeline import Engine, Timeline

DEFAULT_WORKLOAD = PipelineWorkload(num_tokens=64)
_REAL_RANKS = 2
_FAMILIES: Mapping[str, Callable[[int, int], Schedule]] = {
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved": interleaved,
    "ZB-H1": zb_h1,
}
Transport = Literal["lanes", "ranks"]


class Case(NamedTuple):
    """One schedule on one transport with one engine."""

    engine: Engine
    transport: Transport
    family: str
    num_microbatches: int


class Outcome(NamedTuple):
    """One round of one case: seconds predicted and measured, and their difference by cause."""

    predicted_s: float
    measured_s: float
    causes: Mapping[str, float]
    timelines: tuple[Timeline, ...] = ()
    """The predicted and the measured one."""

    @property
    def error(self) -> float:
        """The difference as a share of the measured time; positive if the run was slower than predicted."""
        return (self.measured_s - self.predicted_s) / self.measured_s

    @property
    def shares(self) -> dict[str, float]:
        """The causes as shares of the measured time, which add up to the error."""
        return {cause: seconds / self.measured_s for cause, seconds in self.causes.items()}


Outcomes = Mapping[Case, tuple[Outcome, ...]]


@dataclass(frozen=True)
class FidelityBench:
    """The outcomes of all cases, round by round."""

    workload: PipelineWorkload
    outcomes: Outcomes
    machine: Mapping[str, str | int] = field(default_factory=dict)

    def shown(self, case: Case) -> Outcome:
        """The round of the median error (the lower of two), because its causes add up and medians would not."""
        rounds = sorted(self.outcomes[case], key=lambda outcome: outcome.error)
        return rounds[(len(rounds) - 1) // 2]

    def error(self, case: Case) -> Spread:
        """The signed error of the shown round of a case, and the quartiles of all its rounds."""
        errors = [outcome.error for outcome in self.outcomes[case]]
        return Spread.of(errors)._replace(median=self.shown(case).error)

    def errors(self, engine: str) -> list[float]:
        """The absolute error of each case of an engine."""
        return [abs(self.shown(case).error) for case in self.outcomes if case.engine == engine]

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`; of each case `causes` add up to the median in `error`."""
        engines = self._engines()
        return {
            "machine": dict(self.machine),
            "workload": asdict(self.workload),
            "median_error": {engine: statistics.median(self.errors(engine)) for engine in engines},
            "largest_error": {engine: max(self.errors(engine)) for engine in engines},
            "cases": [self._record(case, self.shown(case)) for case in self.outcomes],
        }

    def _engines(self) -> list[str]:
        return list(dict.fromkeys(case.engine for case in self.outcomes))

    def _record(self, case: Case, shown: Outcome) -> dict[str, Any]:
        seconds = {"predicted_s": shown.predicted_s, "measured_s": shown.measured_s}
        return {**case._asdict(), **seconds, "error": self.error(case)._asdict(), "causes": shown.shares}

    def picture(self) -> Figure:
        """One case, predicted above measured, and below it the causes of every real case as bars."""
        from pllab.bench.fidelity_picture import draw_fidelity

        return draw_fidelity({case: self.shown(case) for case in self.outcomes})

    def table(self) -> str:
        """One line per case, then median and largest error of each engine."""
        lines = [
            f"{'engine':8}  {'on':5}  {'schedule':11}   m  predicted   measured    error (quartiles)            = "
            + " + ".join(f"{cause:>9}" for cause in CAUSES)
        ]
        lines += [self._line(case, self.shown(case)) for case in self.outcomes]
        lines.append("of each case the round whose error is the median; errors and causes in % of its measured time")
        for engine in self._engines():
            errors = self.errors(engine)
            middle, largest = 100 * statistics.median(errors), 100 * max(errors)
            lines.append(f"{engine}: median error {middle:.2f} %, largest {largest:.2f} % of {len(errors)} cases")
        return "\n".join(lines)

    def _line(self, case: Case, shown: Outcome) -> str:
        error = self.error(case).scaled(100)
        spread = f"{error.median:+7.2f} ({error.low:+7.2f} to {error.high:+7.2f})"
        name = f"{case.engine:8}  {case.transport}  {case.family:11}  {case.num_microbatches:2}"
        causes = "   ".join(f"{100 * shown.shares[cause]:+9.2f}" for cause in CAUSES)
        return f"{name}  {shown.predicted_s:8.4f}s  {shown.measured_s:8.4f}s  {spread}     {causes}"


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
    on two gloo ranks. Emulated: sleeping stages on more lanes and ranks. Both are calibrated on 1F1B or interleaved,
    with a number of micro-batches that no case has.

    Args:
        workload: layers, and the size of a micro-batch: batch_size / num_microbatches rows.
        microbatches: numbers of micro-batches of a step; each is a case.
        repeats: rounds.
        sleep_ms: milliseconds of sleep for F and for I; W sleeps half as long.
        sleeping_ranks: lanes and ranks of the emulated cases.
        timeout_s: the most seconds the measurement of one transport may take.

    Raises:
        ValueError: a number cannot be measured; raised before anything is.
    """
    whole_number("sleeping_ranks", sleeping_ranks)
    plan, sleep_s = Plan(microbatches, repeats), sleep_ms / 1000
    Asleep(sleep_s).stages(1)  # refuses a time that is negative or infinite

    def on(num_processes: int, *arguments: Any) -> tuple[Outcomes, dict[str, Any]]:
        return comm.launch(_measure, num_processes, plan, *arguments, backend="gloo", timeout_s=timeout_s)[0]

    lanes, machine = on(1, workload, _REAL_RANKS)
    ranks, _ = on(_REAL_RANKS, workload)
    sleeping_lanes, _ = _measure(0, 1, plan, sleep_s, sleeping_ranks)
    sleeping, _ = on(sleeping_ranks, sleep_s)
    return FidelityBench(workload, {**lanes, **ranks, **sleeping_lanes, **sleeping}, machine)


@dataclass(frozen=True)
class Plan:
    """How many micro-batches the cases have, and how many rounds there are."""

    microbatches: tuple[int, ...]
    repeats: int

    def __post_init__(self) -> None:
        whole_number("repeats", self.repeats)
        if not self.microbatches:
            raise ValueError("microbatches is empty; give at least one number of micro-batches")
        for count in self.microbatches:
            whole_number("microbatches", count)

    @property
    def calibrating(self) -> int:
        """Micro-batches of the calibrating step: enough for a steady phase, and a number that no case has."""
        return next(count for count in range(6, 1000) if count not in self.microbatches)


class Awake:
    """GPT-2's layers in any number of stages, and batches of any number of micro-batches."""

    engine: Engine = "real"
    calibrating_steps = 3
    steps = 2  # the second counts, as in a calibration: the first has to allocate its memory again
    loss = staticmethod(row_loss)

    def __init__(self, workload: PipelineWorkload) -> None:
        torch.set_num_threads(1)
        self.layers = Layers(workload)
        self.stages = self.layers.stages

    def batch(self, num_microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch and its targets."""
        rows, num_rows = self.layers.batch[0], self.layers.work.rows * num_microbatches
        return torch.cat([rows] * -(-num_rows // len(rows)))[:num_rows], torch.zeros(num_rows)


class Asleep:
    """Stages that sleep, and need no batch."""

    engine: Engine = "emulated"
    calibrating_steps = 1  # calibrations are many, and sleep is always the same
    steps = 1
    loss = None

    def __init__(self, sleep_s: float) -> None:
        self.sleep_s = sleep_s

    def stages(self, count: int) -> Sequence[nn.Module]:
        """A sleeper for each stage."""
        times = {"backward_input_s": self.sleep_s, "backward_weight_s": self.sleep_s / 2}
        return [SleepStage(self.sleep_s, **times) for _ in range(count)]

    def batch(self, _: int) -> tuple[None, None]:
        """No batch and no targets."""
        return None, None


def _measure(
    rank: int, world_size: int, plan: Plan, task: PipelineWorkload | float, num_lanes: int = 0
) -> tuple[Outcomes, dict[str, Any]]:
    """All cases on the lanes of this process, or this rank's part of them, and a description of the machine.

    Family by family: calibrate, predict its cases, measure them; `repeats` times over. A number as `task` is the
    seconds that stages sleep.
    """
    on: Transport = "lanes" if num_lanes else "ranks"
    num_ranks = num_lanes or world_size
    work = Awake(task) if isinstance(task, PipelineWorkload) else Asleep(task)
    outcomes: defaultdict[Case, list[Outcome]] = defaultdict(list)
    with ExitStack() as closing:

        @cache
        def executor(schedule: Schedule) -> LaneExecutor | RankExecutor:
            if on == "lanes":
                return closing.enter_context(LaneExecutor(schedule, work.stages(schedule.num_stages), work.loss))
            return RankExecutor(schedule, _mine(work, rank, schedule), work.loss)

        for number in range(plan.repeats + 1):
            for family, make in _FAMILIES.items():
                schedules = {Case(work.engine, on, family, m): make(num_ranks, m) for m in plan.microbatches}
                costs = _costs(plan, work, on, rank, next(iter(schedules.values())))
                for case, schedule in schedules.items():
                    predicted, batch = simulate(schedule, costs), work.batch(schedule.num_microbatches)
                    measured = [executor(schedule).step(*batch).timeline for _ in range(work.steps)][-1]
                    if number:  # the first round warms up
                        causes, seconds = attribute(schedule, costs, measured), (predicted.makespan, measured.makespan)
                        outcomes[case].append(Outcome(*seconds, causes, (predicted, measured)))
    about = {**describe_machine(), "engine": work.engine}
    return {case: tuple(rounds) for case, rounds in outcomes.items()}, about


def _costs(plan: Plan, work: Awake | Asleep, on: Transport, rank: int, schedule: Schedule) -> Costs:
    """Measure the present costs of a schedule's stages on a transport."""
    x, y = work.batch(plan.calibrating)
    counts = {"num_ranks": schedule.num_ranks, "num_microbatches": plan.calibrating, "repeats": work.calibrating_steps}
    about: Any = {"batch": x, "targets": y, "loss": work.loss, **counts}
    if on == "lanes":
        return calibrate(work.stages(schedule.num_stages), **about)
    return calibrate_ranks(_mine(work, rank, schedule), schedule.num_stages, **about)


def _mine(work: Awake | Asleep, rank: int, schedule: Schedule) -> dict[int, nn.Module]:
    """The stages of this rank, by number."""
    stages = work.stages(schedule.num_stages)
    return {number: stages[number] for number in schedule.stages_of_rank(rank)}
