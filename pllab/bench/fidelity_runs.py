"""The runs behind `bench fidelity`: calibrate, predict, measure and attribute, on lanes and on ranks, real and asleep.

In every round the cases of a family are measured right after a calibration, so that a slow moment of the machine meets
both sides.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from pllab.bench.attribute import attribute
from pllab.bench.machine import machine
from pllab.bench.pipeline import PipelineWorkload, workload_layers
from pllab.models.layers import cut
from pllab.pipeline import LaneExecutor, RankExecutor, SleepStage, balance, calibrate, calibrate_ranks
from pllab.schedule import Schedule, gpipe, interleaved, one_f_one_b, zb_h1
from pllab.schedule.sizes import check_sizes
from pllab.simulate import Costs, simulate
from pllab.timeline import Engine, Timeline

Transport = Literal["lanes", "ranks"]
_FAMILIES: Mapping[str, Callable[[int, int], Schedule]] = {
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved": interleaved,
    "ZB-H1": zb_h1,
}


class Case(NamedTuple):
    """One schedule on one transport with one engine."""

    engine: Engine
    transport: Transport
    family: str
    num_microbatches: int


class Outcome(NamedTuple):
    """One round of one case: seconds predicted and measured, and the seconds between them by cause."""

    predicted_s: float
    measured_s: float
    causes: Mapping[str, float]

    @property
    def error(self) -> float:
        """The difference as a share of the measured time; positive where the run was slower than predicted."""
        return (self.measured_s - self.predicted_s) / self.measured_s

    @property
    def shares(self) -> dict[str, float]:
        """The causes as shares of the measured time, which add up to the error."""
        return {cause: seconds / self.measured_s for cause, seconds in self.causes.items()}


class Example(NamedTuple):
    """A round to look at."""

    case: Case
    predicted: Timeline
    measured: Timeline


class Measured(NamedTuple):
    """What one transport gave: outcomes by case, one case to look at round by round, and what it all ran on."""

    outcomes: dict[Case, tuple[Outcome, ...]]
    examples: tuple[Example, ...]
    machine: dict[str, str | int]


@dataclass(frozen=True)
class Plan:
    """How many micro-batches the cases have, and how many rounds there are."""

    microbatches: tuple[int, ...]
    repeats: int

    def __post_init__(self) -> None:
        check_sizes(repeats=self.repeats)
        if not self.microbatches:
            raise ValueError("microbatches is empty; give at least one number of micro-batches")
        for count in self.microbatches:
            check_sizes(microbatches=count)

    @property
    def calibrating(self) -> int:
        """Micro-batches of the calibrating step: enough for steady work, and none of the cases."""
        return next(count for count in range(6, 1000) if count not in self.microbatches)

    def is_example(self, case: Case) -> bool:
        """Whether the timelines of a case are kept to be looked at: ZB-H1's with neither few nor many micro-batches."""
        return case[2:] == ("ZB-H1", self.microbatches[len(self.microbatches) // 2])


@dataclass(frozen=True)
class Layers:
    """GPT-2's layers cut into any number of stages, and batches of any number of micro-batches."""

    workload: PipelineWorkload
    engine: Engine = "real"
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
class Asleep:
    """Stages that sleep, and nothing for them to work on."""

    sleep_s: float
    engine: Engine = "emulated"
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


Work = Layers | Asleep
_Calibrate = Callable[[int], Costs]  # number of stages -> what they cost at the moment
_Execute = Callable[[Schedule], LaneExecutor | RankExecutor]


def on_lanes(_rank: int, _world_size: int, plan: Plan, work: Work, num_ranks: int) -> Measured:
    """All cases of a transport, in one process."""
    with ExitStack() as closing:

        def calibrated(num_stages: int) -> Costs:
            given = (*work.batch(plan.calibrating), work.loss)
            counts: Any = {"num_microbatches": plan.calibrating, "repeats": work.calibrating_steps}
            return calibrate(work.stages(num_stages), *given, num_ranks=num_ranks, **counts)

        @cache
        def executor(schedule: Schedule) -> LaneExecutor:
            return closing.enter_context(LaneExecutor(schedule, work.stages(schedule.num_stages), work.loss))

        return _rounds(plan, work, "lanes", num_ranks, calibrated, executor)


def on_ranks(rank: int, world_size: int, plan: Plan, work: Work) -> Measured:
    """All cases of a transport, this rank's part of them."""

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
    plan: Plan, work: Work, on: Transport, num_ranks: int, calibrated: _Calibrate, executor: _Execute
) -> Measured:
    """Family by family: calibrate, predict its cases, measure them; `repeats` times over."""
    outcomes: defaultdict[Case, list[Outcome]] = defaultdict(list)
    examples: list[Example] = []
    for number in range(plan.repeats + 1):
        for family, make in _FAMILIES.items():
            schedules = {Case(work.engine, on, family, m): make(num_ranks, m) for m in plan.microbatches}
            costs = calibrated(next(iter(schedules.values())).num_stages)
            for case, schedule in schedules.items():
                predicted, batch = simulate(schedule, costs), work.batch(schedule.num_microbatches)
                measured = [executor(schedule).step(*batch).timeline for _ in range(work.steps)][-1]
                if not number:  # the first round warms up
                    continue
                causes = attribute(schedule, costs, measured)
                outcomes[case].append(Outcome(predicted.makespan, measured.makespan, causes))
                if plan.is_example(case):
                    examples.append(Example(case, predicted, measured))
    return Measured({case: tuple(found) for case, found in outcomes.items()}, tuple(examples), machine(work.engine))
