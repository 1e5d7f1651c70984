"""What a pipeline gains: one forward and backward of the same layers on one lane, on two, and in PyTorch's pipeline.

All ways alternate in one run. On CPU lanes two ranks are started, because PyTorch's pipeline needs them; while rank 0
measures a way that runs in one process, rank 1 waits. The yardstick is what the machine allows: both lanes run their
halves at the same time without waiting, and the time is multiplied by (m + p - 1) / m for the clock's bubble.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from typing import Literal

import torch
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from pllab import accelerator, comm
from pllab.arguments import require
from pllab.bench.measure import Comparison, Implausible, check_rounds, compare
from pllab.bench.rivals import Rivals
from pllab.bench.workloads import Layers, PipelineWorkload, Step, row_loss
from pllab.comm.devices import compute_threads, num_cores, num_gpus, synchronize
from pllab.pipeline import Pipe

SEQUENTIAL = "sequential micro-batches, one device"
PIPE = "Pipe"
FREE = "both stages, nobody waits"
PLAIN = "plain model, all cores"
TORCH = "torch GPipe, 2 ranks"

_WORKLOAD = PipelineWorkload()


def bench_pipeline(
    workload: PipelineWorkload = _WORKLOAD,
    *,
    device: Literal["cpu", "cuda"] | None = None,
    repeats: int = 9,
    warmup: int = 1,
    timeout_s: float = 600.0,
) -> Rivals:
    """Measure one forward and backward of the layers in every way.

    Example: `print(bench_pipeline().table())` takes about a minute on two cores. On a GPU both stages share it and run
    in turn, and PyTorch's pipeline, which needs two, is left out.

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
    is_on_gpu = device != "cpu" and num_gpus() > 0
    require(
        device != "cuda" or is_on_gpu, "device is 'cuda', and there is no GPU that torch can use here; leave it out"
    )
    if is_on_gpu:
        comparison = _measure(0, 1, workload, accelerator.KIND, repeats, warmup)
    else:
        given = (workload, "cpu", repeats, warmup)
        comparison = comm.launch(_measure, 2, *given, backend="gloo", timeout_s=timeout_s)[0]
    return rivals(workload, comparison)


def rivals(workload: PipelineWorkload, comparison: Comparison) -> Rivals:
    """The result, with what follows from the seconds: the share of what the machine allows, and the speed-up."""
    m = workload.num_microbatches
    allowed = comparison.ratio(FREE, PIPE).scaled((m + 1) / m)
    about = (
        f"forward and backward of {workload.num_layers} GPT-2 blocks of width {workload.width}, "
        f"{workload.batch_size} x {workload.num_tokens} tokens in {m} micro-batches, two stages. "
        f"What the machine allows ({FREE}, times {m + 1}/{m}) over {PIPE}: {allowed.text(3)}. "
        f"One lane over {PIPE}: {comparison.ratio(SEQUENTIAL, PIPE).text(3)}."
    )
    theirs = TORCH if TORCH in comparison.seconds else PLAIN
    return Rivals(about, workload, PIPE, theirs, comparison)


def _measure(rank: int, world_size: int, work: PipelineWorkload, kind: str, repeats: int, warmup: int) -> Comparison:
    """Run all ways on rank 0, and on rank 1 only its part of PyTorch's pipeline."""
    with closing(TwoStages(work, kind)) as bench:
        return _alternate(bench, rank, world_size, repeats, warmup)


def _alternate(bench: "TwoStages", rank: int, world_size: int, repeats: int, warmup: int) -> Comparison:
    ways: dict[str, Step] = {
        SEQUENTIAL: bench.sequential,
        PIPE: bench.piped,
        FREE: bench.free,
        PLAIN: bench.plain,
    }
    if rank:
        ways = dict.fromkeys(ways, lambda: None)  # it waits while rank 0 measures alone
    else:
        bench.check()
    if world_size > 1:
        ways[TORCH] = bench.torch_step(rank)
    # On one GPU a larger kernel may fill it better than any number of small ones.
    lanes = 2 if bench.kind == "cpu" else None
    return compare(ways, repeats, warmup, num_devices=lanes, tokens=bench.work.tokens, in_step=world_size > 1)


class TwoStages:
    """The layers on two devices of one process, and a method for each way to take one step."""

    def __init__(self, work: PipelineWorkload, kind: str) -> None:
        self.work, self.kind = work, kind
        self.layers = Layers(work, kind)
        self.stages = self.layers.stages(2)
        devices = ["cpu:0", "cpu:1"] if kind == "cpu" else [f"{kind}:0", f"{kind}:0"]
        self.pipe = Pipe.from_partitions(self.stages, devices, num_microbatches=work.num_microbatches)
        # One for each stage, for good: a new stream has no memory of its own yet, and would ask for it in timed rounds.
        self.streams = [torch.Stream(kind) if kind != "cpu" else nullcontext() for _ in self.stages]
        self.pool = ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,))
        with torch.no_grad():
            self.middle = [self.stages[0](part) for part in self.layers.parts]

    def sequential(self) -> None:
        """One micro-batch after the other: the memory of a pipeline without its second device."""
        for part in self.layers.parts:
            (row_loss(self.layers.whole(part)) / len(self.layers.parts)).backward()

    def piped(self) -> None:
        """The batch through the pipe."""
        row_loss(self.pipe(self.layers.batch)).backward()

    def free(self) -> None:
        """Each stage runs all its micro-batches on inputs computed in advance."""
        list(self.pool.map(self._alone, (0, 1)))

    def plain(self) -> None:
        """The whole batch at once, with every core."""
        with compute_threads(num_cores() if self.kind == "cpu" else torch.get_num_threads()):
            row_loss(self.layers.whole(self.layers.batch)).backward()

    def torch_step(self, rank: int) -> Step:
        """PyTorch's GPipe, with one stage on each of two ranks."""
        stage = PipelineStage(self.stages[rank], rank, 2, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, self.work.num_microbatches, row_loss)
        if rank:
            return partial(schedule.step, target=torch.zeros(self.work.batch_size))
        return partial(schedule.step, self.layers.batch)

    def check(self) -> None:
        """Refuse to time ways that do not compute the same gradients (`FREE` feeds stage 1 other gradients).

        Raises:
            Implausible: the norm of a gradient differs.
        """
        tolerance = 1e-4 if self.work.dtype == "float32" else 5e-2
        right = self._gradient_norms(self.sequential)
        for name, step in {PIPE: self.piped, PLAIN: self.plain}.items():
            if not torch.allclose(self._gradient_norms(step), right, rtol=tolerance, atol=tolerance):
                raise Implausible(f"check of the gradients failed: {name} and {SEQUENTIAL} did not compute the same")

    def close(self) -> None:
        """End the workers."""
        self.pipe.close()
        self.pool.shutdown()

    def _alone(self, stage: int) -> None:
        """All forwards, then all backwards, as a lane does in GPipe; on a GPU, on a stream of its own."""
        with self.streams[stage]:
            inputs = [part.detach().requires_grad_() for part in (self.middle if stage else self.layers.parts)]
            for output in reversed([self.stages[stage](value) for value in inputs]):
                (row_loss(output) if stage else output).backward(None if stage else torch.ones_like(output))
        synchronize()

    def _gradient_norms(self, step: Step) -> torch.Tensor:
        """The norm of every gradient after a step."""
        self.layers.whole.zero_grad()
        step()
        synchronize()
        gradients = [parameter.grad for parameter in self.layers.whole.parameters()]
        return torch.stack([torch.tensor(0.0) if g is None else g.float().norm().cpu() for g in gradients])
