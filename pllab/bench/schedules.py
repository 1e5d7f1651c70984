"""Our executor against PyTorch's pipeline runtime: the same schedules, stages and micro-batches on two ranks.

All ways alternate in one run and compute the same gradients, which is checked first. The baseline is one rank that
runs all micro-batches one after the other. PyTorch's own classes order the actions of their schedules themselves;
ours run the `Schedule` of the same family.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import schedules as torch_schedules

from pllab import comm
from pllab.bench.measure import Comparison, Spread, check_same_gradients, compare, write_spread
from pllab.bench.pipeline import DEFAULT_WORKLOAD, PipelineWorkload, workload_layers
from pllab.bench.split import compare_splits
from pllab.models.layers import cut
from pllab.pipeline import RankExecutor, balance, scatter
from pllab.schedule import Schedule, gpipe, interleaved, one_f_one_b, zbv
from pllab.show import Figure, draw_timeline
from pllab.timeline import Timeline

ONE_LANE = "micro-batches in turn, one rank"
ROUND_BY_ROUND = (
    "All ratios are taken round by round, and each column shows its own median (and quartiles): the quotient of two "
    "medians is another number than the median of the quotients."
)
_NUM_RANKS = 2


@dataclass(frozen=True)
class _Family:
    """One family as both sides know it: our generator, PyTorch's class and how many stages a rank has."""

    make: Callable[[int, int], Schedule]
    torch_name: str
    stages_per_rank: int


_FAMILIES = {
    "GPipe": _Family(gpipe, "ScheduleGPipe", 1),
    "1F1B": _Family(one_f_one_b, "Schedule1F1B", 1),
    "interleaved": _Family(interleaved, "ScheduleInterleaved1F1B", 2),
    "ZBV": _Family(zbv, "ScheduleZBVZeroBubble", 2),
}


@dataclass(frozen=True)
class SchedulesBench:
    """Step times of every family on both runtimes, and our measured timelines."""

    workload: PipelineWorkload
    comparison: Comparison
    timelines: dict[str, Timeline]
    split: Comparison

    def ratio(self, family: str) -> Spread:
        """Per round, our step's time over PyTorch's; at most 1 is the aim."""
        return self.comparison.ratio(_ours(family), _theirs(family))

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
            ours, theirs = (write_spread(self.speedup(name), 2, "x") for name in (_ours(family), _theirs(family)))
            bubble = f"bubble fraction {self.timelines[family].bubble_fraction:.3f} (real)"
            lines.append(f"{family:11}  {ours:17}  {theirs:17}  {write_spread(self.ratio(family), 3):20}  {bubble}")
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
        Implausible: a check of the comparison failed, or the ways did not compute the same gradients.
    """
    results = comm.launch(_measure, _NUM_RANKS, workload, repeats, warmup, backend="gloo", timeout_s=timeout_s)
    comparison, timelines = results[0]
    return SchedulesBench(workload, comparison, timelines, _split(workload, 2 * repeats))


def _split(work: PipelineWorkload, repeats: int) -> Comparison:
    """What it costs to split the backward of the last of two stages."""
    (batch, *_), layers, costs = workload_layers(work, "cpu")
    stage = cut(layers, balance(costs, _NUM_RANKS))[-1]
    return compare_splits(stage, batch[: work.batch_size // work.num_microbatches], repeats)


def _measure(
    rank: int, world_size: int, work: PipelineWorkload, repeats: int, warmup: int
) -> tuple[Comparison, dict[str, Timeline]]:
    """All ways, on each rank its part of them."""
    bench = _Bench(rank, work)
    ways: dict[str, Callable[[], object]] = {ONE_LANE: bench.alone}
    for family in _FAMILIES:
        ways |= {_ours(family): partial(bench.ours, family), _theirs(family): bench.theirs(family)}
    bench.check(ways)
    tokens = work.batch_size * work.num_tokens
    comparison = compare(ways, repeats, warmup, num_devices=world_size, tokens=tokens, in_step=True, settle=True)
    return comparison, bench.timelines


class _Bench:
    """This rank's stages of every family, the batch, and a method for each way to take one step."""

    def __init__(self, rank: int, work: PipelineWorkload) -> None:
        torch.manual_seed(0)
        self.rank, self.work = rank, work
        self.batch, self.layers, costs = workload_layers(work, "cpu")
        self.targets = torch.zeros(work.batch_size)
        self.stages = {n: cut(self.layers, balance(costs, n * _NUM_RANKS)) for n in (1, 2)}
        self.schedules = {name: family.make(_NUM_RANKS, work.num_microbatches) for name, family in _FAMILIES.items()}
        self.executors = {name: RankExecutor(s, self.mine(name), _loss) for name, s in self.schedules.items()}
        self.timelines: dict[str, Timeline] = {}

    def mine(self, name: str) -> dict[int, nn.Module]:
        """This rank's stages, by number."""
        stages = self.stages[_FAMILIES[name].stages_per_rank]
        return {number: stages[number] for number in self.schedules[name].stages_of_rank(self.rank)}

    def alone(self) -> None:
        """Rank 0 runs everything; the other waits."""
        if self.rank == 0:
            whole = nn.Sequential(*self.layers)
            for part in scatter(self.batch, self.work.batch_size // self.work.num_microbatches):
                (_loss(whole(part[0]), self.targets) / self.work.num_microbatches).backward()

    def ours(self, name: str) -> None:
        """One step of our executor."""
        self.timelines[name] = self.executors[name].step(self.batch[0], self.targets).timeline

    def theirs(self, name: str) -> Callable[[], object]:
        """PyTorch's own class of the family, over the same modules."""
        family, mine = _FAMILIES[name], self.mine(name)
        last = family.stages_per_rank * _NUM_RANKS - 1
        device = torch.device("cpu")
        stages = [PipelineStage(module, number, last + 1, device) for number, module in mine.items()]
        given = stages[0] if family.stages_per_rank == 1 else stages
        schedule = getattr(torch_schedules, family.torch_name)(given, self.work.num_microbatches, _loss)
        inputs = (self.batch[0],) if 0 in mine else ()
        return partial(schedule.step, *inputs, target=self.targets) if last in mine else partial(schedule.step, *inputs)

    def check(self, ways: dict[str, Callable[[], object]]) -> None:
        """Refuse to time ways that do not compute the same gradients."""
        found = {name: self._gradients(way) for name, way in ways.items()}
        check_same_gradients(found, ONE_LANE, rtol=1e-4, atol=1e-6)

    def _gradients(self, way: Callable[[], object]) -> torch.Tensor:
        """The norm of every gradient after one step, of all ranks."""
        whole = nn.Sequential(*self.layers)
        whole.zero_grad()
        way()
        norms = [parameter.grad.norm() if parameter.grad is not None else 0.0 for parameter in whole.parameters()]
        return torch.stack(comm.all_gather_object(torch.tensor(norms))).sum(0)


def _loss(output: torch.Tensor, _targets: torch.Tensor) -> torch.Tensor:
    """A mean over the rows, as every way here expects."""
    return output.float().square().mean()


def _ours(family: str) -> str:
    return f"pllab {family}"


def _theirs(family: str) -> str:
    return f"torch {family}"
