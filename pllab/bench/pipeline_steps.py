"""What a pipeline gains: one forward and backward of the same layers on one lane, on two, and in PyTorch's pipeline.

All ways alternate in one run on two ranks, because PyTorch's pipeline needs two; while rank 0 measures a way that runs
in one process, rank 1 waits. The yardstick is what the machine allows: both lanes run their halves at the same time
without waiting, and the time is multiplied by (m + p - 1) / m for the clock's bubble.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from pllab import comm
from pllab.bench.measure import Comparison, Implausible, Run, check_rounds, compare
from pllab.bench.rivals import Rivals
from pllab.bench.workloads import Layers, PipelineWorkload, row_loss
from pllab.comm.devices import compute_threads, num_cores
from pllab.pipeline import Pipe

SEQUENTIAL = "sequential micro-batches, one device"
PIPE = "Pipe"
FREE = "both stages, nobody waits"
PLAIN = "plain model, all cores"
TORCH = "torch GPipe, 2 ranks"

_WORKLOAD = PipelineWorkload()


def bench_pipeline(workload: PipelineWorkload = _WORKLOAD, *, repeats: int = 9, timeout_s: float = 600.0) -> Rivals:
    """Measure one forward and backward of the layers in every way.

    Example: `print(bench_pipeline().table())` takes about a minute on two cores.

    Args:
        workload: layers and batch; by default 8 blocks of 256, 16 x 128 tokens in 8 micro-batches.
        repeats: rounds that count.
        timeout_s: the most seconds the measurement may take.

    Raises:
        ValueError: there are no rounds.
        RankError: a check of the comparison failed, the ways had other gradients, or it took too long.
    """
    check_rounds(repeats, 1)
    comparison = comm.launch(_alternate, 2, workload, repeats, backend="gloo", timeout_s=timeout_s)[0]
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
    return Rivals(about, workload, PIPE, TORCH, comparison)


def _alternate(rank: int, world_size: int, work: PipelineWorkload, repeats: int) -> Comparison:
    """Time all ways on rank 0; rank 1 takes part only in PyTorch's pipeline, and waits otherwise."""
    layers, lanes = Layers(work), ["cpu:0", "cpu:1"]
    stages = layers.stages(world_size)
    with (
        ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        Pipe.from_partitions(stages, lanes, num_microbatches=work.num_microbatches) as pipe,
    ):
        with torch.no_grad():
            middle = [stages[0](part) for part in layers.parts]
        ways: dict[str, Run] = {
            SEQUENTIAL: partial(_in_turn, layers),
            PIPE: lambda: row_loss(pipe(layers.batch)).backward(),
            FREE: lambda: list(pool.map(_alone, stages, (layers.parts, middle), (torch.sum, row_loss))),
            PLAIN: partial(_at_once, layers),
        }
        if rank == 0:
            _check_gradients(layers.whole, {name: ways[name] for name in (SEQUENTIAL, PIPE, PLAIN)})
        else:
            ways = dict.fromkeys(ways, lambda: None)
        ways[TORCH] = _by_pytorch(rank, stages, layers)
        return compare(ways, repeats, num_devices=world_size, tokens=work.tokens, in_step=True)


def _in_turn(layers: Layers) -> None:
    """One micro-batch after another: the memory of a pipeline without its second device."""
    for part in layers.parts:
        (row_loss(layers.whole(part)) / len(layers.parts)).backward()


def _alone(stage: nn.Module, parts: Sequence[torch.Tensor], loss: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """All forwards of a stage, then all its backwards, as a lane does in GPipe, on inputs computed in advance."""
    for output in reversed([stage(part.detach().requires_grad_()) for part in parts]):
        loss(output).backward()


def _at_once(layers: Layers) -> None:
    """The whole batch, with every core."""
    with compute_threads(num_cores()):
        row_loss(layers.whole(layers.batch)).backward()


def _by_pytorch(rank: int, stages: Sequence[nn.Module], layers: Layers) -> Run:
    """PyTorch's GPipe, with one stage on each rank."""
    stage = PipelineStage(stages[rank], rank, len(stages), torch.device("cpu"))
    schedule = ScheduleGPipe(stage, len(layers.parts), row_loss)
    if rank == 0:
        return partial(schedule.step, layers.batch)
    return partial(schedule.step, target=torch.zeros(len(layers.batch)))


def _check_gradients(model: nn.Module, ways: Mapping[str, Run]) -> None:
    """Refuse to time ways whose gradients differ from those of the first.

    Raises:
        Implausible: the norm of a gradient differs.
    """
    norms = {}
    for name, step in ways.items():
        model.zero_grad(set_to_none=False)  # a gradient that a way leaves out is zero
        step()
        norms[name] = torch.stack([grad.norm() for p in model.parameters() if (grad := p.grad) is not None])
    first, *others = norms
    for name in others:
        if not torch.allclose(norms[name], norms[first], rtol=1e-4, atol=1e-4):
            raise Implausible(f"check of the gradients failed: {name} and {first} computed different gradients")
