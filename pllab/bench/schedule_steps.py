"""Our executor against PyTorch's pipeline runtime: the same schedules, stages and micro-batches on two ranks.

All ways alternate in one run and compute the same gradients, which is checked first. The baseline is one rank that
runs all micro-batches one after the other. PyTorch's classes order the actions of their schedules themselves; our
executor runs the `Schedule` of the same family. The cost of a split backward is measured for both runtimes too.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.pipelining import _backward as torch_split  # private, and the only way to time its split

from pllab import comm
from pllab.bench.measure import Comparison, Spread, check_rounds, check_same_gradients, compare
from pllab.bench.pipeline_steps import DEFAULT_WORKLOAD
from pllab.bench.workloads import Layers, PipelineWorkload, Step, row_loss
from pllab.comm.machine import compute_threads
from pllab.pipeline import RankExecutor, backward_input, backward_weight
from pllab.schedule import Schedule, gpipe, interleaved, one_f_one_b, zbv
from pllab.show import Figure, draw_timeline
from pllab.timeline import Timeline

ONE_LANE = "micro-batches in turn, one rank"
ROUND_BY_ROUND = (
    "All ratios are taken round by round, and each column shows its own median (and quartiles): the quotient of two "
    "medians is another number than the median of the quotients."
)
_NUM_RANKS = 2


class _Family(NamedTuple):
    """One family on both sides: our function, and the name of PyTorch's class."""

    make: Callable[[int, int], Schedule]
    torch_name: str


_FAMILIES = {
    "GPipe": _Family(gpipe, "ScheduleGPipe"),
    "1F1B": _Family(one_f_one_b, "Schedule1F1B"),
    "interleaved": _Family(interleaved, "ScheduleInterleaved1F1B"),
    "ZBV": _Family(zbv, "ScheduleZBVZeroBubble"),
}


@dataclass(frozen=True)
class SchedulesBench:
    """Step times of every family on both runtimes, our measured timelines, and three ways to run a backward."""

    workload: PipelineWorkload
    comparison: Comparison
    timelines: dict[str, Timeline]
    split: Comparison

    def ratio(self, family: str) -> Spread:
        """Per round, our step's time over PyTorch's; at most 1 is the aim."""
        return self.comparison.ratio(_pllab_way(family), _torch_way(family))

    def speedup(self, name: str) -> Spread:
        """Per round, one rank's time over this way's."""
        return self.comparison.ratio(ONE_LANE, name)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`; spans in seconds."""
        return {
            "workload": asdict(self.workload),
            "ours_over_torch": {family: self.ratio(family)._asdict() for family in _FAMILIES},
            "timelines": {family: timeline.to_rows() for family, timeline in self.timelines.items()},
            "split": self.split.to_json(),
            **self.comparison.to_json(),
        }

    def picture(self) -> Figure:
        """Our measured steps above each other."""
        return draw_timeline(*self.timelines.values(), titles=list(self.timelines))

    def table(self) -> str:
        """One line per family: the speed-up over one rank of both runtimes, and their ratio."""
        lines = [self.comparison.table(), "", f"{'family':11}  {'pllab':17}  {'torch':17}  time of pllab over torch"]
        for family in _FAMILIES:
            names = _pllab_way(family), _torch_way(family)
            by_pllab, by_torch = (self.speedup(name).text(2, "x") for name in names)
            bubble = f"bubble fraction {self.timelines[family].bubble_fraction:.3f} (real)"
            lines.append(f"{family:11}  {by_pllab:17}  {by_torch:17}  {self.ratio(family).text(3):20}  {bubble}")
        lines += [ROUND_BY_ROUND, "", "one micro-batch back through the second half of the layers, one thread"]
        return "\n".join([*lines, self.split.table()])


def bench_schedules(
    workload: PipelineWorkload = DEFAULT_WORKLOAD, *, repeats: int = 9, warmup: int = 2, timeout_s: float = 600.0
) -> SchedulesBench:
    """Measure one forward and backward of GPT-2's layers under four schedules, on our executor and on PyTorch's.

    Example: `print(bench_schedules().table())` takes about a minute on two cores.

    Args:
        workload: layers and batch; by default 8 blocks of 256, 16 x 128 tokens in 8 micro-batches.
        repeats: rounds that count.
        warmup: rounds before.
        timeout_s: the most seconds the measurement may take.

    Raises:
        ValueError: there are no rounds, or a whole model was asked for.
        Implausible: a check of the comparison failed, or the ways did not compute the same gradients.
    """
    check_rounds(repeats, warmup)
    if workload.whole_model:
        raise ValueError(
            "whole_model is True; embedding and head share a weight whose gradient PyTorch's runtime does not sum over "
            "ranks, so leave it out"
        )
    results = comm.launch(_measure, _NUM_RANKS, workload, repeats, warmup, backend="gloo", timeout_s=timeout_s)
    comparison, timelines = results[0]
    layers = Layers(workload)
    split = compare_splits(layers.stages(_NUM_RANKS)[-1], layers.batch[0][: workload.rows], 2 * repeats)
    return SchedulesBench(workload, comparison, timelines, split)


def _measure(
    rank: int, world_size: int, work: PipelineWorkload, repeats: int, warmup: int
) -> tuple[Comparison, dict[str, Timeline]]:
    """Run this rank's part of all ways; each is run twice in a row, and the second run is timed.

    The first run pays for its memory: a step that needs more than the step before it has to allocate it.
    """
    layers, timelines = Layers(work), dict[str, Timeline]()
    ways: dict[str, Step] = {ONE_LANE: (lambda: None) if rank else layers.sequential}
    for name, family in _FAMILIES.items():
        schedule = family.make(_NUM_RANKS, work.num_microbatches)
        stages = dict(enumerate(layers.stages(schedule.num_stages)))
        mine: dict[int, nn.Module] = {number: stages[number] for number in schedule.stages_of_rank(rank)}
        ways[_pllab_way(name)] = partial(_step, RankExecutor(schedule, mine, row_loss), layers, timelines, name)
        ways[_torch_way(name)] = layers.torch_step(family.torch_name, mine, schedule.num_stages)
    check_same_gradients({name: _norms(layers, way) for name, way in ways.items()}, ONE_LANE, rtol=1e-4, atol=1e-6)
    options: dict[str, Any] = {"num_devices": world_size, "tokens": work.tokens, "in_step": True}
    return compare(ways, repeats, warmup, before=ways, **options), timelines


def _step(executor: RankExecutor, layers: Layers, timelines: dict[str, Timeline], name: str) -> None:
    timelines[name] = executor.step(layers.batch[0], torch.zeros(layers.work.batch_size)).timeline


def _norms(layers: Layers, way: Step) -> torch.Tensor:
    """The norm of every gradient after one step, of all ranks."""
    return torch.stack(comm.all_gather_object(layers.gradient_norms(way))).sum(0)


def compare_splits(stage: nn.Module, batch: torch.Tensor, repeats: int = 9, warmup: int = 2) -> Comparison:
    """Time three backwards of a stage, on one thread: B, our I and W, and torch.distributed.pipelining's I and W.

    Example: `compare_splits(stage, x).ratio("pllab I + W", to="torch I + W")` is about 1. The forward before each is
    not timed.
    """
    data: dict[str, torch.Tensor] = {}

    def forward() -> None:
        data["x"] = batch.detach().requires_grad_()
        data["y"] = stage(data["x"])
        data["gradient"] = torch.ones_like(data["y"])

    def run_pllab() -> None:
        backward_weight(backward_input([data["y"]], [data["gradient"]], [data["x"]]))

    def run_torch() -> None:
        _, groups = torch_split.stage_backward_input([data["y"]], [data["gradient"]], [data["x"]], stage.parameters())
        torch_split.stage_backward_weight(stage.parameters(), groups)

    ways: Mapping[str, Step] = {
        "B": lambda: data["y"].backward(data["gradient"]),
        "pllab I + W": run_pllab,
        "torch I + W": run_torch,
    }
    try:
        with compute_threads(1):
            return compare(ways, repeats, warmup, before=dict.fromkeys(ways, forward))
    finally:
        stage.zero_grad(set_to_none=True)


def _pllab_way(family: str) -> str:
    return f"pllab {family}"


def _torch_way(family: str) -> str:
    return f"torch {family}"
