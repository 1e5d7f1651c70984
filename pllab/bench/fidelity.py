"""How well the simulator predicts: calibrate on this machine, simulate a step, run it, take the ratio.

In every round the cases of a family are measured right after a calibration, so a slow moment of the machine hits both
sides.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from pllab import comm
from pllab.arguments import whole_number
from pllab.bench.measure import Spread
from pllab.bench.workloads import Layers, PipelineWorkload, row_loss
from pllab.comm.devices import describe_machine
from pllab.pipeline import LaneExecutor, calibrate
from pllab.schedule import FAMILIES
from pllab.simulate import simulate

_WORKLOAD = PipelineWorkload(num_tokens=64)
_LANES = 2
_CALIBRATING = 6  # micro-batches of the step that calibrates: enough for a steady phase
_SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb_h1")


@dataclass(frozen=True)
class FidelityBench:
    """Measured minus predicted makespan as a share of the measured, round by round: above 0 the run was slower.

    A case is a family of schedules with the number of micro-batches of a step, `"zb_h1, m=4"`.
    """

    workload: PipelineWorkload
    errors: Mapping[str, tuple[float, ...]]
    machine: Mapping[str, str | int]

    @property
    def about(self) -> str:
        """What was measured, and the size of the error; each case counts with the median of its rounds."""
        sizes = [100 * abs(statistics.median(rounds)) for rounds in self.errors.values()]
        return (
            f"a step of a pipeline of two lanes, predicted from costs calibrated on the machine, against the step as "
            f"it ran: median error {statistics.median(sizes):.2f} %, largest {max(sizes):.2f} % of {len(sizes)} cases."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`: the errors of every round, from which the sentence follows."""
        return {"about": self.about, **asdict(self)}

    def table(self) -> str:
        """A line per case, then the sentence."""
        lines = ["schedule         measured less predicted, in % of measured (quartiles)"]
        for case, rounds in self.errors.items():
            lines.append(f"{case:15}  " + " ".join(f"{value:+.2f}" for value in Spread.of(rounds).scaled(100)))
        return "\n".join([*lines, self.about])


def bench_fidelity(
    workload: PipelineWorkload = _WORKLOAD, microbatches: tuple[int, ...] = (2, 4, 8, 16), repeats: int = 7
) -> FidelityBench:
    """Predict and measure GPipe, 1F1B, interleaved and ZB-H1 with GPT-2's layers on two lanes.

    Example: `print(bench_fidelity().table())` takes some minutes on two cores. Costs are calibrated on 1F1B, those of
    the interleaved schedule on itself.

    Args:
        workload: layers, and the size of a micro-batch: batch_size / num_microbatches rows.
        microbatches: numbers of micro-batches of a step; each is a case.
        repeats: rounds.

    Raises:
        RankError: a number cannot be measured, or all of it takes more than 30 minutes.
    """
    # In a process of its own, because the layers compute with one thread.
    whole_number("repeats", repeats)
    return comm.launch(_measure, 1, workload, microbatches, repeats, backend="gloo", timeout_s=1800.0)[0]


def _measure(
    _rank: int, _world_size: int, workload: PipelineWorkload, microbatches: tuple[int, ...], repeats: int
) -> FidelityBench:
    """Family by family: calibrate, predict its cases, measure them; `repeats` times after a round that warms up."""
    layers, errors = Layers(workload), defaultdict[str, tuple[float, ...]](tuple)
    for number in range(repeats + 1):
        for name in _SCHEDULES:
            make = FAMILIES[name].make
            stages = layers.stages(make(_LANES, 1).num_stages)
            batch = _batch(layers, _CALIBRATING)
            costs = calibrate(stages, *batch, row_loss, num_ranks=_LANES, num_microbatches=_CALIBRATING)
            for count in microbatches:
                schedule = make(_LANES, count)
                with LaneExecutor(schedule, stages, row_loss) as executor:
                    # The second step counts, as in a calibration: the first has to allocate its memory again.
                    _, step = (executor.step(*_batch(layers, count)) for _ in range(2))
                if number:
                    error = 1 - simulate(schedule, costs).makespan / step.timeline.makespan
                    errors[f"{name}, m={count}"] += (error,)
    return FidelityBench(workload, dict(errors), {**describe_machine(), "engine": "real"})


def _batch(layers: Layers, num_microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As many micro-batches of the workload's size, and targets that the loss does not read."""
    batch = layers.parts[0].repeat(num_microbatches, 1, 1)
    return batch, torch.zeros(len(batch))
