"""How well the simulator predicts: calibrate on this machine, simulate a step, run it, take the ratio.

In every round the cases of a family are measured right after a calibration, so a slow moment of the machine meets both
sides.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab import comm
from pllab.arguments import whole_number
from pllab.bench.measure import Spread
from pllab.bench.workloads import Layers, PipelineWorkload, row_loss
from pllab.comm.devices import describe_machine
from pllab.pipeline import LaneExecutor, SleepStage, calibrate
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


@dataclass(frozen=True)
class FidelityBench:
    """Measured less predicted makespan as a share of the measured, round by round: above 0 the run was slower."""

    workload: PipelineWorkload
    errors: Mapping[Case, tuple[float, ...]]
    machine: Mapping[str, str | int] = field(default_factory=dict)

    def error(self, case: Case) -> Spread:
        """The signed error of a case: the median of its rounds, and the quartiles."""
        return Spread.of(self.errors[case])

    def of_engine(self, engine: Engine) -> list[float]:
        """The size of the error of each case of an engine."""
        return [abs(self.error(case).median) for case in self.errors if case.engine == engine]

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        engines = self._engines()
        return {
            "machine": dict(self.machine),
            "workload": asdict(self.workload),
            "median_error": {engine: statistics.median(self.of_engine(engine)) for engine in engines},
            "largest_error": {engine: max(self.of_engine(engine)) for engine in engines},
            "cases": [{**case._asdict(), "error": self.error(case)._asdict()} for case in self.errors],
        }

    def table(self) -> str:
        """A line per case, then median and largest error of each engine."""
        lines = ["engine    schedule      m  measured less predicted, in % of measured (quartiles)"]
        for case in self.errors:
            spread = " ".join(f"{value:+.2f}" for value in self.error(case).scaled(100))
            lines.append(f"{case.engine:8}  {case.family:11}  {case.num_microbatches:2}  {spread}")
        for engine in self._engines():
            sizes = [100 * error for error in self.of_engine(engine)]
            middle, largest = statistics.median(sizes), max(sizes)
            lines.append(f"{engine}: median error {middle:.2f} %, largest {largest:.2f} % of {len(sizes)} cases")
        return "\n".join(lines)

    def _engines(self) -> list[Engine]:
        return list(dict.fromkeys(case.engine for case in self.errors))


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
    if not microbatches:
        raise ValueError("microbatches is empty; give at least one number of micro-batches")
    for count in microbatches:
        whole_number("microbatches", count)
    asleep = Asleep(sleep_ms / 1000)
    asleep.stages(1)  # refuses a time that is negative or infinite
    # In a process of its own, because the layers compute with one thread.
    given = (workload, microbatches, repeats)
    real, machine = comm.launch(_measure_real, 1, *given, backend="gloo", timeout_s=timeout_s)[0]
    return FidelityBench(workload, {**real, **_errors(asleep, sleeping_lanes, microbatches, repeats)}, machine)


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


Errors = dict[Case, tuple[float, ...]]


def _measure_real(
    rank: int, world_size: int, workload: PipelineWorkload, microbatches: Sequence[int], repeats: int
) -> tuple[Errors, dict[str, Any]]:
    del rank, world_size
    errors = _errors(Awake(workload), _REAL_LANES, microbatches, repeats)
    return errors, {**describe_machine(), "engine": "real"}


def _errors(work: Awake | Asleep, num_lanes: int, microbatches: Sequence[int], repeats: int) -> Errors:
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
                x, y = work.batch(_CALIBRATING)
                costs = calibrate(
                    work.stages(make(num_lanes, 1).num_stages),
                    x,
                    y,
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
