"""How well the simulator predicts: calibrate on this machine, simulate a step, run it, take the ratio.

In every round the cases of a family are measured right after a calibration, so a slow moment of the machine meets both
sides.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab import comm
from pllab.arguments import require, whole_number
from pllab.bench.measure import Spread
from pllab.bench.workloads import Layers, PipelineWorkload, row_loss
from pllab.comm.machine import compute_threads, describe_machine
from pllab.pipeline import LaneExecutor, SleepStage, calibrate
from pllab.pipeline.microbatches import Loss
from pllab.schedule import Schedule, gpipe, interleaved, one_f_one_b, zb_h1
from pllab.simulate import simulate
from pllab.timeline import Engine

_WORKLOAD = PipelineWorkload(num_tokens=64)
_REAL_LANES = 2
_CALIBRATING = 6  # micro-batches of the step that calibrates: enough for a steady phase
_FAMILIES: Mapping[str, Callable[[int, int], Schedule]] = {
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved": interleaved,
    "ZB-H1": zb_h1,
}


class Case(NamedTuple):
    """One schedule with one engine."""

    engine: Engine
    family: str
    num_microbatches: int


Errors = dict[Case, tuple[float, ...]]


@dataclass(frozen=True)
class FidelityBench:
    """Measured less predicted makespan as a share of the measured, round by round: above 0 the run was slower."""

    workload: PipelineWorkload
    errors: Errors
    machine: Mapping[str, str | int]

    def of_engine(self, engine: Engine) -> list[float]:
        """The size of the error of each case of an engine, of which each is the median of its rounds."""
        return [abs(statistics.median(rounds)) for case, rounds in self.errors.items() if case.engine == engine]

    def figures(self) -> list[str]:
        """Median and largest error of each engine, in words."""
        sizes = {engine: self.of_engine(engine) for engine in dict.fromkeys(case.engine for case in self.errors)}
        return [
            f"{engine}, median error {100 * statistics.median(errors):.2f} %, largest {100 * max(errors):.2f} % of "
            f"{len(errors)} cases"
            for engine, errors in sizes.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        cases = [{**case._asdict(), "error": Spread.of(rounds)._asdict()} for case, rounds in self.errors.items()]
        about = {"machine": dict(self.machine), "workload": asdict(self.workload)}
        return {"figures": self.figures(), **about, "cases": cases}

    def table(self) -> str:
        """A line per case, then median and largest error of each engine."""
        lines = ["engine    schedule      m  measured less predicted, in % of measured (quartiles)"]
        for case, rounds in self.errors.items():
            spread = " ".join(f"{value:+.2f}" for value in Spread.of(rounds).scaled(100))
            lines.append(f"{case.engine:8}  {case.family:11}  {case.num_microbatches:2}  {spread}")
        return "\n".join([*lines, *self.figures()])


def bench_fidelity(
    workload: PipelineWorkload = _WORKLOAD,
    *,
    microbatches: tuple[int, ...] = (2, 4, 8, 16),
    repeats: int = 7,
    sleep_ms: float = 10.0,
    sleeping_lanes: int = 4,
    timeout_s: float = 900.0,
) -> FidelityBench:
    """Predict and measure GPipe, 1F1B, interleaved and ZB-H1 on lanes, real and emulated.

    Example: `print(bench_fidelity().table())` takes some minutes on two cores. Real: GPT-2's layers on two lanes.
    Emulated: sleeping stages on more lanes. Both are calibrated on 1F1B or interleaved.

    Args:
        workload: layers, and the size of a micro-batch: batch_size / num_microbatches rows.
        microbatches: numbers of micro-batches of a step; each is a case.
        repeats: rounds.
        sleep_ms: milliseconds of sleep for F and for I; W sleeps half as long.
        sleeping_lanes: lanes of the emulated cases.
        timeout_s: the most seconds the real cases may take.

    Raises:
        ValueError: a number cannot be measured; raised before anything is.
    """
    whole_number("sleeping_lanes", sleeping_lanes)
    whole_number("repeats", repeats)
    require(bool(microbatches), "microbatches is empty; give at least one number of micro-batches")
    for count in microbatches:
        whole_number("microbatches", count)
    asleep = _asleep(sleep_ms / 1000)
    # In a process of its own, because the layers compute with one thread.
    given = (workload, microbatches, repeats)
    real, machine = comm.launch(_measure_real, 1, *given, backend="gloo", timeout_s=timeout_s)[0]
    return FidelityBench(workload, {**real, **_errors(asleep, sleeping_lanes, microbatches, repeats)}, machine)


class _Work(NamedTuple):
    """What an engine runs: stages of any number, and batches with targets for any number of micro-batches."""

    engine: Engine
    stages: Callable[[int], Sequence[nn.Module]]
    batch: Callable[[int], tuple[torch.Tensor | None, torch.Tensor | None]]
    loss: Loss | None
    calibrating_steps: int
    steps: int
    """Of a case; the last counts."""


def _awake(workload: PipelineWorkload) -> _Work:
    """GPT-2's layers; the second step counts, as in a calibration: the first has to allocate its memory again."""
    layers = Layers(workload)

    def batch(num_microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = layers.batch[: workload.rows].repeat(num_microbatches, 1, 1)
        return rows, torch.zeros(len(rows))

    return _Work("real", layers.stages, batch, row_loss, calibrating_steps=3, steps=2)


def _asleep(sleep_s: float) -> _Work:
    """Stages that sleep, and need no batch; sleep is always the same, so one step will do."""
    stage = SleepStage(sleep_s, backward_input_s=sleep_s, backward_weight_s=sleep_s / 2)
    return _Work("emulated", lambda count: [stage] * count, lambda _: (None, None), None, calibrating_steps=1, steps=1)


def _measure_real(
    rank: int, world_size: int, workload: PipelineWorkload, microbatches: Sequence[int], repeats: int
) -> tuple[Errors, dict[str, Any]]:
    del rank, world_size
    with compute_threads(1):
        return _errors(_awake(workload), _REAL_LANES, microbatches, repeats), {**describe_machine(), "engine": "real"}


def _errors(work: _Work, num_lanes: int, microbatches: Sequence[int], repeats: int) -> Errors:
    """Family by family: calibrate, predict its cases, measure them; `repeats` times after a round that warms up."""
    found: defaultdict[Case, list[float]] = defaultdict(list)
    with ExitStack() as closing:
        executors: dict[Case, LaneExecutor] = {}
        for family, make in _FAMILIES.items():
            for count in microbatches:
                schedule = make(num_lanes, count)
                executor = LaneExecutor(schedule, work.stages(schedule.num_stages), work.loss)
                executors[Case(work.engine, family, count)] = closing.enter_context(executor)
        for number in range(repeats + 1):
            for family, make in _FAMILIES.items():
                costs = calibrate(
                    work.stages(make(num_lanes, 1).num_stages),
                    *work.batch(_CALIBRATING),
                    work.loss,
                    num_ranks=num_lanes,
                    num_microbatches=_CALIBRATING,
                    repeats=work.calibrating_steps,
                )
                for case, executor in executors.items():
                    if case.family == family:
                        batch = work.batch(case.num_microbatches)
                        measured = [executor.step(*batch).timeline for _ in range(work.steps)][-1]
                        if number:
                            predicted_s = simulate(executor.schedule, costs).makespan
                            found[case].append(1 - predicted_s / measured.makespan)
    return {case: tuple(rounds) for case, rounds in found.items()}
