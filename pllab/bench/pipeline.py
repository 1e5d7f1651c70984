"""What a pipeline gains: one forward and backward of the same layers on one lane, on two, and in PyTorch's pipeline.

All ways alternate in one run. On CPU lanes two ranks are started, because PyTorch's pipeline needs them; while
rank 0 measures a way that lives in one process, rank 1 waits. The yardstick is what the machine allows: both lanes
do their halves at the same time and nobody waits, stretched by (m + p - 1) / m for the clock's bubble.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from pllab import comm
from pllab.bench.measure import Comparison, Spread, check_same_gradients, compare, machine
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layer_costs, layers_of
from pllab.models.layers import cut
from pllab.pipeline import Pipe, Task, balance, create_workers, scatter
from pllab.schedule.sizes import check_sizes
from pllab.show import Figure, draw_timeline
from pllab.timeline import Timeline

SEQUENTIAL = "sequential micro-batches, one device"
PIPE = "Pipe"
FREE = "both stages, nobody waits"
PLAIN = "plain model, all cores"
TORCH = "torch GPipe, 2 ranks"


@dataclass(frozen=True, kw_only=True)
class PipelineWorkload:
    """Layers and a batch: 8 GPT-2 blocks, or with `whole_model` embedding and head too.

    Example: `PipelineWorkload(whole_model=True, num_layers=12, width=768, num_heads=12, vocab_size=50257,
    dtype="bfloat16")` is a step of GPT-2 124M.

    Raises:
        ValueError: a size is below 1, or the batch cannot be cut into micro-batches of one size.
    """

    whole_model: bool = False
    num_layers: int = 8
    width: int = 256
    num_heads: int = 4
    vocab_size: int = 2048
    batch_size: int = 16
    num_tokens: int = 128
    num_microbatches: int = 8
    dtype: str = "float32"

    def __post_init__(self) -> None:
        sizes = ("num_layers", "width", "num_heads", "vocab_size", "batch_size", "num_tokens", "num_microbatches")
        check_sizes(**{name: getattr(self, name) for name in sizes})
        if self.batch_size % self.num_microbatches:
            raise ValueError(
                f"batch_size is {self.batch_size} and cannot be cut into {self.num_microbatches} micro-batches of one "
                "size; give a multiple of num_microbatches"
            )


DEFAULT_WORKLOAD = PipelineWorkload()


@dataclass(frozen=True)
class PipelineBench:
    """Step times of all ways, and the timeline of one pipelined step."""

    workload: PipelineWorkload
    comparison: Comparison
    timeline: Timeline

    @property
    def share_of_allowed(self) -> Spread:
        """Per round, the time the machine allows over the pipe's; 1 is all there is, the aim is 0.97."""
        m = self.workload.num_microbatches
        return Spread(*(share * (m + 1) / m for share in self.comparison.ratio(FREE, PIPE)))

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
        share, speedup = self.share_of_allowed, self.speedup
        return "\n".join(
            [
                self.comparison.table(),
                f"Pipe reaches {share.median:.3f} ({share.low:.3f}-{share.high:.3f}) of what the machine allows "
                f"({FREE}, times (m + 1) / m)",
                f"Pipe is {speedup.median:.2f}x ({speedup.low:.2f}-{speedup.high:.2f}) as fast as {SEQUENTIAL}",
                f"bubble fraction measured {self.timeline.bubble_fraction:.3f} (real), "
                f"(p - 1) / (m + p - 1) = {1 / (self.workload.num_microbatches + 1):.3f}",
            ]
        )


def bench_pipeline(
    workload: PipelineWorkload = DEFAULT_WORKLOAD,
    *,
    device: str | None = None,
    repeats: int = 9,
    warmup: int = 1,
    timeout_s: float = 600.0,
) -> PipelineBench:
    """Measure one forward and backward of the layers in every way.

    Example: `print(bench_pipeline().table())` takes about a minute on two cores. On a GPU both stages share it,
    each on a stream, and PyTorch's two-rank pipeline is left out.

    Args:
        workload: layers and batch; by default 8 blocks of 256, 16 x 128 tokens in 8 micro-batches.
        device: "cpu" or "cuda"; by default the GPU if there is one.
        repeats: rounds that count.
        warmup: rounds before.
        timeout_s: the most seconds the measurement may take.

    Raises:
        Implausible: a check of the comparison failed, or the ways did not compute the same gradients.
    """
    if (device or ("cuda" if torch.cuda.is_available() else "cpu")) == "cuda":
        comparison, timeline = _measure(0, 1, workload, "cuda", repeats, warmup)
    else:
        comparison, timeline = comm.launch(
            _measure, 2, workload, "cpu", repeats, warmup, backend="gloo", timeout_s=timeout_s
        )[0]
    return PipelineBench(workload, comparison, timeline)


def _measure(
    rank: int, world_size: int, work: PipelineWorkload, kind: str, repeats: int, warmup: int
) -> tuple[Comparison, Timeline]:
    """All ways on rank 0; on rank 1 its part of PyTorch's pipeline, and nothing for the others."""
    bench = _Bench(work, kind)
    ways: dict[str, Callable[[], object]] = {
        SEQUENTIAL: bench.sequential,
        PIPE: bench.piped,
        FREE: bench.free,
        PLAIN: bench.plain,
    }
    if rank:
        ways = dict.fromkeys(ways, lambda: None)  # it waits while rank 0 measures alone
    else:
        bench.check(ways)
    if world_size > 1:
        ways[TORCH] = bench.torch_pipeline(rank)
    tokens = work.batch_size * work.num_tokens
    lanes = 2 if kind == "cpu" else None  # on one GPU a larger kernel may fill it better than any number of small ones
    comparison = compare(
        ways, repeats, warmup, baseline=SEQUENTIAL, num_devices=lanes, tokens=tokens, in_step=world_size > 1
    )
    timeline = bench.pipe.last_timeline
    bench.close()
    return comparison, timeline


class _Bench:
    """The layers, the batch, and a method for each way to take one step."""

    def __init__(self, work: PipelineWorkload, kind: str) -> None:
        torch.manual_seed(0)
        self.work = work
        self.kind = kind
        self.batch, layers, costs = workload_layers(work, kind)
        self.stages = cut(layers, balance(costs, 2))
        self.layers = nn.Sequential(*layers)
        self.devices = ["cpu:0", "cpu:1"] if kind == "cpu" else ["cuda:0", "cuda:0"]
        self.pipe = Pipe.from_partitions(self.stages, self.devices, num_microbatches=work.num_microbatches)
        self.workers = create_workers(self.devices)
        self.micro_batches = scatter(self.batch, work.batch_size // work.num_microbatches)
        with torch.no_grad():
            self.middle = [self.stages[0](_value(part)) for part in self.micro_batches]

    def loss(self, output: torch.Tensor) -> torch.Tensor:
        """A sum over rows, so that the losses of micro-batches add up to that of the batch."""
        return output.float().square().sum() / self.work.batch_size

    def sequential(self) -> None:
        """One micro-batch after the other: the memory of a pipeline without its second device."""
        for part in self.micro_batches:
            self.loss(self.layers(_value(part))).backward()

    def piped(self) -> None:
        """The same through the pipe."""
        self.loss(self.pipe(_value(self.batch))).backward()

    def free(self) -> None:
        """Each stage does all its micro-batches on inputs that are there already."""
        in_queues, out_queues = self.workers.in_queues, self.workers.out_queues
        for stage in (0, 1):
            in_queues[stage].put(Task(partial(self._alone, stage)))
        for stage in (0, 1):
            ok, result = out_queues[stage].get(timeout=300)
            if not ok:
                raise result[1]

    def plain(self) -> None:
        """The whole batch at once, with every core."""
        threads = torch.get_num_threads()
        cores = machine()["cores"]
        torch.set_num_threads(int(cores) if self.kind == "cpu" else threads)
        try:
            self.loss(self.layers(_value(self.batch))).backward()
        finally:
            torch.set_num_threads(threads)

    def torch_pipeline(self, rank: int) -> Callable[[], object]:
        """PyTorch's own GPipe over gloo, this rank's stage of it."""
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        stage = PipelineStage(self.stages[rank], rank, 2, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, self.work.num_microbatches, lambda out, _: self.loss(out), scale_grads=False)
        target = torch.zeros(self.work.batch_size)
        x = _value(self.batch)
        return partial(schedule.step, x) if rank == 0 else partial(schedule.step, target=target)

    def check(self, ways: dict[str, Callable[[], object]]) -> None:
        """Refuse to time ways that do not compute the same gradients (`FREE` feeds stage 1 other gradients)."""
        sums = {}
        for name in (SEQUENTIAL, PIPE, PLAIN):
            self.layers.zero_grad()
            ways[name]()
            self.pipe.last_timeline  # noqa: B018 - on a GPU this waits for the step
            sums[name] = torch.stack([p.grad.float().norm() for p in self.layers.parameters() if p.grad is not None])
        tolerance = 1e-4 if self.work.dtype == "float32" else 5e-2
        check_same_gradients(sums, SEQUENTIAL, tolerance, tolerance)

    def close(self) -> None:
        """End the workers."""
        self.pipe.close()
        self.workers.close()

    def _alone(self, stage: int) -> None:
        """All forwards, then all backwards, as a lane does in GPipe; on a GPU, on a stream of its own."""
        stream = torch.cuda.Stream() if self.kind == "cuda" else None
        with torch.cuda.stream(stream):
            parts = [_value(part) for part in self.micro_batches] if stage == 0 else self.middle
            inputs = [_leaf(part) for part in parts]
            outputs = [self.stages[stage](value) for value in inputs]
            for output in reversed(outputs):
                first = output[0] if isinstance(output, tuple) else output
                (self.loss(first) if stage else first).backward(None if stage else torch.ones_like(first))
        if stream is not None:
            torch.cuda.current_stream().wait_stream(stream)
            stream.synchronize()


def workload_layers(work: PipelineWorkload, kind: str) -> tuple[tuple[torch.Tensor, ...], list[nn.Module], list[float]]:
    """The batch (a tuple, as a pipe's input), the layers in order, and what each is expected to cost."""
    config = gpt2_config("tiny", work.vocab_size, n_layer=work.num_layers, n_embd=work.width, n_head=work.num_heads)
    dtype: torch.dtype = getattr(torch, work.dtype)
    model = GPT2LMHeadModelParallel(config)
    nn.Module.to(model, kind, dtype)
    layers, costs = layers_of(model), layer_costs(config, work.num_tokens)
    shape = (work.batch_size, work.num_tokens)
    if work.whole_model:
        ids = torch.randint(work.vocab_size, shape, device=kind)
        return (ids, ids.clone()), layers, costs
    return (torch.randn(*shape, work.width, device=kind, dtype=dtype),), layers[1:-1], costs[1:-1]


def _value(part: tuple[torch.Tensor, ...]) -> Any:
    return part[0] if len(part) == 1 else part


def _leaf(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_leaf(part) for part in value)
    return value.detach().requires_grad_(value.is_floating_point())
