"""What data parallelism costs: one training step with different ways to average the gradients.

All ways alternate within one group of ranks, so they share the machine's weather. Memory is measured apart,
each way in processes of its own, because what one way allocated would hide what the next one needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pllab import comm
from pllab.bench import memory
from pllab.bench.measure import Comparison, Implausible, compare
from pllab.models import GPT2LMHeadModelParallel, gpt2_config
from pllab.parallel import DataParallel, average_gradients, broadcast_parameters
from pllab.show import Figure

NO_COMMUNICATION = "no communication"
OURS = "DataParallel"
DDP = "torch DDP"
DDP_VIEWS = "torch DDP, bucket views"
SOCKETS = "DataParallel over sockets"
PER_PARAMETER = "one all-reduce per parameter"
WAYS = (NO_COMMUNICATION, OURS, DDP, DDP_VIEWS, SOCKETS, PER_PARAMETER)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A GPT-2 and the batch of one rank: `Workload(num_layers=12, width=768, num_heads=12)` is GPT-2 124M."""

    num_layers: int = 6
    width: int = 256
    num_heads: int = 4
    vocab_size: int = 2048
    batch_size: int = 1
    num_tokens: int = 192
    dtype: str = "float32"


DEFAULT_WORKLOAD = Workload()


@dataclass(frozen=True)
class DataParallelBench:
    """Step times of all ways, their memory, and the workload and ranks they were measured with.

    `peak_bytes` is, per way, the most memory a rank held during some steps beyond the bare model: gradients,
    buffers for messages, optimizer state and activations. Memory that ranks share is counted once, although
    it is resident in each: over all ranks it is what its owners reserved. It is empty where it was not
    measured. `gradient_bytes` is what each rank has to have averaged per step.
    """

    workload: Workload
    world_size: int
    reason: str
    comparison: Comparison
    peak_bytes: Mapping[str, int]
    gradient_bytes: int

    @property
    def ratio_to_ddp(self) -> float:
        """Median of our step time over DDP's; the aim is at most 0.90 on shared cores."""
        return self.comparison.ratio(OURS, DDP).median

    @property
    def ratio_to_no_communication(self) -> float:
        """Median of our step time over that of ranks which do not talk; the aim is at most 1.10."""
        return self.comparison.ratio(OURS, NO_COMMUNICATION).median

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return {
            "workload": asdict(self.workload),
            "world_size": self.world_size,
            "reason": self.reason,
            "ratio_to_ddp": self.ratio_to_ddp,
            "ratio_to_no_communication": self.ratio_to_no_communication,
            "peak_bytes": dict(self.peak_bytes),
            "gradient_bytes": self.gradient_bytes,
            **self.comparison.to_json(),
        }

    def picture(self) -> Figure:
        """Step times as bars, with the quartiles as whiskers."""
        return self.comparison.picture("One training step, by the way gradients are averaged")

    def table(self) -> str:
        """The result as text: times and ratios, then memory, then the two figures that count."""
        memory = [f"peak memory, {way}: {size / 2**20:.1f} MiB" for way, size in self.peak_bytes.items()]
        return "\n".join(
            [
                self.comparison.table(),
                *memory,
                f"gradients: {self.gradient_bytes / 1e6:.1f} MB per rank and step",
                self.reason,
                f"{OURS} to {DDP}: {self.ratio_to_ddp:.3f}",
                f"{OURS} to {NO_COMMUNICATION}: {self.ratio_to_no_communication:.3f}",
            ]
        )


def bench_data_parallel(
    workload: Workload = DEFAULT_WORKLOAD,
    *,
    world_size: int = 2,
    repeats: int = 9,
    warmup: int = 1,
    backend: str | None = None,
    with_memory: bool = True,
    timeout_s: float = 600.0,
) -> DataParallelBench:
    """Measure one step (forward, backward, average, AdamW) of GPT-2 in every way.

    Example: `print(bench_data_parallel().table())` takes about a minute on two cores.

    Args:
        workload: the model and the batch per rank; by default 6 layers of 256, 1 x 192 tokens, which is
            little to compute for 21 MB of gradients, so that sending them shows.
        world_size: the number of ranks, each with one thread on a CPU or one GPU.
        repeats: rounds that count.
        warmup: rounds before.
        backend: "gloo" or "nccl"; by default planned from ranks and GPUs.
        with_memory: whether to measure memory too, which starts a group per way.
        timeout_s: the most seconds any one group may take.

    Raises:
        Implausible: a check of the comparison failed, or the ways did not train the same model.
    """
    results = comm.launch(_time_ways, world_size, workload, repeats, warmup, backend=backend, timeout_s=timeout_s)
    comparison, reason, gradient_bytes = results[0]
    peaks: dict[str, int] = {}
    for way in comparison.seconds if with_memory else ():
        by_rank = comm.launch(_peak_bytes, world_size, workload, way, backend=backend, timeout_s=timeout_s)
        if None not in by_rank:
            peaks[way] = max(by_rank)
    return DataParallelBench(workload, world_size, reason, comparison, peaks, gradient_bytes)


class _Trainer:
    """A model that trains in one way; every way starts from the same weights and sees the same batch."""

    def __init__(self, workload: Workload, way: str) -> None:
        device = "cuda" if comm.backend_name() == "nccl" else "cpu"
        self.way = way
        self.inner = _gpt2(workload).to(device, getattr(torch, workload.dtype))
        generator = torch.Generator().manual_seed(comm.rank())
        shape = (workload.batch_size, workload.num_tokens)
        self.tokens = torch.randint(workload.vocab_size, shape, generator=generator).to(device)

    def wrap(self) -> None:
        """Make ready for the first step; what this allocates counts as the way's memory."""
        self.model = _wrap(self.inner, self.way)
        self.optimizer = torch.optim.AdamW(self.inner.parameters(), lr=1e-4)

    def step(self) -> None:
        """One step of training."""
        self.optimizer.zero_grad()
        self.loss = self.model(input_ids=self.tokens, labels=self.tokens).loss
        self.loss.backward()
        if self.way == PER_PARAMETER:
            average_gradients(self.inner)
        self.optimizer.step()


def _wrap(model: nn.Module, way: str) -> nn.Module:
    """The model as this way trains it."""
    if way in (OURS, SOCKETS):
        return DataParallel(model, "flat" if way == SOCKETS else None)
    if way in (DDP, DDP_VIEWS):
        return DistributedDataParallel(model, gradient_as_bucket_view=way == DDP_VIEWS)
    if way == PER_PARAMETER:
        broadcast_parameters(model)
    return model


def _time_ways(
    rank: int, world_size: int, workload: Workload, repeats: int, warmup: int
) -> tuple[Comparison, str, int]:
    """What each rank runs: all ways in turn, in step with the other ranks."""
    del rank
    ways = [way for way in WAYS if way != SOCKETS or comm.backend_name() == "gloo"]
    trainers = {way: _Trainer(workload, way) for way in ways}
    for trainer in trainers.values():
        trainer.wrap()
    steps: dict[str, Callable[[], object]] = {way: trainer.step for way, trainer in trainers.items()}
    tokens = world_size * workload.batch_size * workload.num_tokens
    comparison = compare(steps, repeats, warmup, baseline=DDP, tokens=tokens, in_step=True)
    check_same_work({way: trainers[way].loss.item() for way in ways if way != NO_COMMUNICATION})
    gradient_bytes = sum(p.numel() * p.element_size() for p in trainers[OURS].inner.parameters())
    return comparison, str(trainers[OURS].model.reason), gradient_bytes


def check_same_work(losses: Mapping[str, float], tolerance: float = 0.01) -> None:
    """Ways that average gradients train the same model, so after equally many steps their losses agree.

    Raises:
        Implausible: a loss is further from DDP's than the tolerance.
    """
    for way, loss in losses.items():
        if not abs(loss - losses[DDP]) <= tolerance * abs(losses[DDP]):
            raise Implausible(
                f"check of equal work failed: after the same steps {way} has loss {loss:.4f} and {DDP} "
                f"{losses[DDP]:.4f}"
            )


def _peak_bytes(rank: int, world_size: int, workload: Workload, way: str, num_steps: int = 4) -> int | None:
    """The most memory during some steps, less what the bare model held before; None where it cannot be read.

    On a GPU it is what torch allocated. On Linux it is this process's resident memory as the kernel counts it,
    with the high-water mark reset before the way allocates anything, and with shared memory counted once.
    """
    del rank, world_size
    trainer = _Trainer(workload, way)
    before = memory.watch()
    trainer.wrap()
    for _ in range(num_steps):
        trainer.step()
    comm.barrier()  # the last to write has written
    highest = memory.highest() if before is not None else 0
    comm.barrier()  # nobody gives back what is shared before all have counted it
    return None if before is None else highest - before


def _gpt2(workload: Workload) -> nn.Module:
    """A GPT-2 with the same random weights in every process, without dropout."""
    torch.manual_seed(0)
    sizes = {"n_layer": workload.num_layers, "n_embd": workload.width, "n_head": workload.num_heads}
    config = gpt2_config("tiny", workload.vocab_size, n_positions=workload.num_tokens, use_cache=False, **sizes)
    return GPT2LMHeadModelParallel(config)
