"""What a pipeline gains: one forward and backward of the same layers on one lane, on two, and in PyTorch's pipeline.

All ways alternate in one run. On CPU lanes two ranks are started, because PyTorch's pipeline needs them; while rank 0
measures a way that runs in one process, rank 1 waits. The yardstick is what the machine allows: both lanes run their
halves at the same time without waiting, and the time is multiplied by (m + p - 1) / m for the clock's bubble.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from pllab import accelerator, comm
from pllab.bench.measure import Comparison, Spread, check_rounds, check_same_gradients, compare
from pllab.bench.workloads import Layers, PipelineWorkload, Step, row_loss
from pllab.comm.devices import num_gpus, synchronize
from pllab.comm.machine import compute_threads, num_cores
from pllab.pipeline import Pipe
from pllab.pipeline.microbatches import single
from pllab.show import Figure, draw_timeline
from pllab.timeline import Timeline

SEQUENTIAL = "sequential micro-batches, one device"
PIPE = "Pipe"
FREE = "both stages, nobody waits"
PLAIN = "plain model, all cores"
TORCH = "torch GPipe, 2 ranks"


DEFAULT_WORKLOAD = PipelineWorkload()


@dataclass(frozen=True)
class PipelineBench:
    """Step times of all ways, and the timeline of one pipelined step."""

    workload: PipelineWorkload
    comparison: Comparison
    timeline: Timeline

    @property
    def share_of_allowed(self) -> Spread:
        """Per round, the time the machine allows over the pipe's; 1 is the limit, the aim is 0.97."""
        m = self.workload.num_microbatches
        return self.comparison.ratio(FREE, PIPE).scaled((m + 1) / m)

    @property
    def speedup(self) -> Spread:
        """Per round, sequential micro-batches on one device over the pipe; the aim on two lanes is 1.45."""
        return self.comparison.ratio(SEQUENTIAL, PIPE)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`; spans in seconds."""
        return {
            "workload": asdict(self.workload),
            "share_of_allowed": self.share_of_allowed._asdict(),
            "speedup_over_sequential": self.speedup._asdict(),
            "bubble_fraction": self.timeline.bubble_fraction,
            "timeline": {"engine": self.timeline.engine, "spans": self.timeline.to_rows()},
            **self.comparison.to_json(),
        }

    def picture(self) -> Figure:
        """The measured timeline of one pipelined step."""
        return draw_timeline(self.timeline, titles=["Pipe, two stages"])

    def table(self) -> str:
        """The result as text: times and ratios, then the figures that count."""
        return "\n".join(
            [
                self.comparison.table(),
                f"Pipe reaches {self.share_of_allowed.text(3)} of what the machine allows ({FREE}, times (m + 1) / m)",
                f"Pipe is {self.speedup.text(2, 'x')} as fast as {SEQUENTIAL}",
                f"bubble fraction measured {self.timeline.bubble_fraction:.3f} (real), "
                f"(p - 1) / (m + p - 1) = {1 / (self.workload.num_microbatches + 1):.3f}",
            ]
        )


def bench_pipeline(
    workload: PipelineWorkload = DEFAULT_WORKLOAD,
    *,
    device: Literal["cpu", "cuda"] | None = None,
    repeats: int = 9,
    warmup: int = 1,
    timeout_s: float = 600.0,
) -> PipelineBench:
    """Measure one forward and backward of the layers in every way.

    Example: `print(bench_pipeline().table())` takes about a minute on two cores. On a GPU both stages share it and run
    in turn. There, and for a whole model, PyTorch's pipeline is left out: labels have to travel with the activations.

    Args:
        workload: layers and batch; by default 8 blocks of 256, 16 x 128 tokens in 8 micro-batches.
        device: "cpu" or "cuda"; by default the GPU if there is one.
        repeats: rounds that count.
        warmup: rounds before.
        timeout_s: the most seconds the measurement may take.

    Raises:
        ValueError: there are no rounds, or `device` is "cuda" and there is no GPU.
        Implausible: a check of the comparison failed, or the ways did not compute the same gradients.
    """
    check_rounds(repeats, warmup)
    if device == "cuda" and not num_gpus():
        raise ValueError("device is 'cuda', and there is no GPU that torch can use here; leave it out")
    if device != "cpu" and num_gpus():
        comparison, timeline = _measure(0, 1, workload, accelerator.KIND, repeats, warmup)
    else:
        arguments, num_ranks = (workload, "cpu", repeats, warmup), 1 if workload.whole_model else 2
        comparison, timeline = comm.launch(_measure, num_ranks, *arguments, backend="gloo", timeout_s=timeout_s)[0]
    return PipelineBench(workload, comparison, timeline)


def _measure(
    rank: int, world_size: int, work: PipelineWorkload, kind: str, repeats: int, warmup: int
) -> tuple[Comparison, Timeline]:
    """Run all ways on rank 0, and on rank 1 only its part of PyTorch's pipeline."""
    bench = _TwoStages(work, kind)
    ways: dict[str, Step] = {
        SEQUENTIAL: bench.layers.sequential,
        PIPE: bench.piped,
        FREE: bench.free,
        PLAIN: bench.plain,
    }
    if rank:
        ways = dict.fromkeys(ways, lambda: None)  # it waits while rank 0 measures alone
    else:
        bench.check(ways)
    if world_size > 1:
        ways[TORCH] = bench.layers.torch_step("ScheduleGPipe", {rank: bench.stages[rank]}, 2)
    lanes = 2 if kind == "cpu" else None  # on one GPU a larger kernel may fill it better than any number of small ones
    comparison = compare(ways, repeats, warmup, num_devices=lanes, tokens=work.tokens, in_step=world_size > 1)
    timeline = bench.pipe.last_timeline
    bench.close()
    return comparison, timeline


class _TwoStages:
    """The layers on two devices of one process, and a method for each way to take one step."""

    def __init__(self, work: PipelineWorkload, kind: str) -> None:
        self.kind = kind
        self.layers = Layers(work, kind)
        self.stages = self.layers.stages(2)
        devices = ["cpu:0", "cpu:1"] if kind == "cpu" else [f"{kind}:0", f"{kind}:0"]
        self.pipe = Pipe.from_partitions(self.stages, devices, num_microbatches=work.num_microbatches)
        # One for each stage, for good: a new stream has no memory of its own yet, and would ask for it in timed rounds.
        self.streams = [torch.Stream(kind) if kind != "cpu" else nullcontext() for _ in self.stages]
        self.pool = ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,))
        with torch.no_grad():
            self.middle = [self.stages[0](part) for part in self.layers.parts]

    def piped(self) -> None:
        """The batch through the pipe."""
        row_loss(self.pipe(single(self.layers.batch))).backward()

    def free(self) -> None:
        """Each stage runs all its micro-batches on inputs computed in advance."""
        list(self.pool.map(self._alone, (0, 1)))

    def plain(self) -> None:
        """The whole batch at once, with every core."""
        with compute_threads(num_cores() if self.kind == "cpu" else torch.get_num_threads()):
            row_loss(self.layers.whole(single(self.layers.batch))).backward()

    def check(self, ways: Mapping[str, Step]) -> None:
        """Refuse to time ways that do not compute the same gradients (`FREE` feeds stage 1 other gradients)."""
        names = (SEQUENTIAL, PIPE, PLAIN)
        norms = {name: self.layers.gradient_norms(ways[name]) for name in names}
        tolerance = 1e-4 if self.layers.work.dtype == "float32" else 5e-2
        check_same_gradients(norms, SEQUENTIAL, tolerance, tolerance)

    def close(self) -> None:
        """End the workers."""
        self.pipe.close()
        self.pool.shutdown()

    def _alone(self, stage: int) -> None:
        """All forwards, then all backwards, as a lane does in GPipe; on a GPU, on a stream of its own."""
        with self.streams[stage]:
            inputs = [_leaf(part) for part in (self.middle if stage else self.layers.parts)]
            for output in reversed([self.stages[stage](value) for value in inputs]):
                first = output[0] if isinstance(output, tuple) else output
                (row_loss(first) if stage else first).backward(None if stage else torch.ones_like(first))
        synchronize()


def _leaf(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_leaf(part) for part in value)
    return value.detach().requires_grad_(value.is_floating_point())
