"""What data parallelism costs: one training step with different ways to average, or to shard, what ranks share.

All ways alternate within one group of ranks, so they meet the same conditions. Memory is measured apart, each way in
processes of its own, because memory that one way allocated would hide what the next one needs. It is torch's count on a
GPU and the kernel's on Linux.
"""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from pllab import accelerator, comm
from pllab.accelerator import Backend
from pllab.bench.measure import Comparison, Implausible, check_rounds, compare
from pllab.bench.workloads import Workload
from pllab.comm.devices import gpu_backend, is_gpu
from pllab.models import GPT2LMHeadModelParallel
from pllab.parallel import DataParallel, FullyShardedDataParallel, average_gradients, broadcast_parameters
from pllab.show import Figure

NO_COMMUNICATION = "no communication"
OURS = "DataParallel"
DDP = "torch DDP"
DDP_VIEWS = "torch DDP, bucket views"
SOCKETS = "DataParallel over sockets"
PER_PARAMETER = "one all-reduce per parameter"
WAYS = (NO_COMMUNICATION, OURS, DDP, DDP_VIEWS, SOCKETS, PER_PARAMETER)
SHARDED = "FullyShardedDataParallel"
FSDP2 = "torch FSDP2"
SHARDED_SOCKETS = "FullyShardedDataParallel over sockets"
ZEROS = {f"ZeRO-{zero}": zero for zero in (1, 2)}
SHARDED_WAYS = (NO_COMMUNICATION, SHARDED, FSDP2, SHARDED_SOCKETS, *ZEROS)

_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h


DEFAULT_WORKLOAD = Workload()


@dataclass(frozen=True)
class DataParallelBench:
    """Step times of all ways, their memory, and the workload and ranks they were measured with.

    `peak_bytes` is, per way, the most memory a rank held during some steps beyond the bare model (sharded ways: with
    what it holds of the model): gradients, buffers for messages, optimizer state and activations. Memory that ranks
    share is counted once, although it is resident in each. It is empty if memory was not measured. `gradient_bytes`
    are the bytes that each rank averages per step. `ours` and `theirs` are the ways whose ratio counts.
    """

    workload: Workload
    world_size: int
    reason: str
    comparison: Comparison
    peak_bytes: Mapping[str, int]
    gradient_bytes: int
    ours: str = OURS
    theirs: str = DDP

    @property
    def ratio_to_torch(self) -> float:
        """Median of our step time over that of PyTorch's class; the aim is at most 0.90 on shared cores."""
        return self.comparison.ratio(self.ours, self.theirs).median

    @property
    def ratio_to_no_communication(self) -> float:
        """Median of our step time over that of ranks without communication; the aim is at most 1.10."""
        return self.comparison.ratio(self.ours, NO_COMMUNICATION).median

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return {
            "workload": asdict(self.workload),
            "world_size": self.world_size,
            "reason": self.reason,
            "ours": self.ours,
            "theirs": self.theirs,
            "ratio_to_torch": self.ratio_to_torch,
            "ratio_to_no_communication": self.ratio_to_no_communication,
            "peak_bytes": dict(self.peak_bytes),
            "gradient_bytes": self.gradient_bytes,
            **self.comparison.to_json(),
        }

    def picture(self) -> Figure:
        """Step times as bars, with the quartiles as whiskers."""
        return self.comparison.picture("One training step, by the way ranks share gradients")

    def table(self) -> str:
        """The result as text: times and ratios, then memory, then the two figures that count."""
        return "\n".join(
            [
                self.comparison.table(),
                *(f"peak memory, {way}: {size / 2**20:.1f} MiB" for way, size in self.peak_bytes.items()),
                f"gradients: {self.gradient_bytes / 1e6:.1f} MB per rank and step",
                self.reason,
                f"{self.ours} to {self.theirs}: {self.ratio_to_torch:.3f}",
                f"{self.ours} to {NO_COMMUNICATION}: {self.ratio_to_no_communication:.3f}",
            ]
        )


def bench_data_parallel(
    workload: Workload = DEFAULT_WORKLOAD,
    *,
    world_size: int = 2,
    repeats: int = 9,
    warmup: int = 1,
    backend: Backend | None = None,
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
        ValueError: there are no rounds.
        Implausible: a check of the comparison failed, or the ways did not train the same model.
    """
    ways = tuple(way for way in WAYS if way != SOCKETS or backend != gpu_backend())
    return _bench(ways, DDP, workload, world_size, repeats, warmup, backend, with_memory, timeout_s)


def bench_fsdp(
    workload: Workload = DEFAULT_WORKLOAD,
    *,
    world_size: int = 2,
    repeats: int = 9,
    warmup: int = 1,
    backend: Backend | None = None,
    with_memory: bool = True,
    timeout_s: float = 600.0,
) -> DataParallelBench:
    """Measure one step of GPT-2 with parameters, gradients and optimizer sharded over the ranks, against FSDP2.

    Example: `print(bench_fsdp().table())` takes about a minute on two cores.

    Args:
        workload: the model and the batch per rank, by default that of `bench_data_parallel`.
        world_size: the number of ranks, each with one thread on a CPU or one GPU.
        repeats: rounds that count.
        warmup: rounds before.
        backend: "gloo" or "nccl"; by default planned from ranks and GPUs.
        with_memory: whether to measure memory too, which starts a group per way.
        timeout_s: the most seconds any one group may take.

    Raises:
        ValueError: there are no rounds.
        Implausible: a check of the comparison failed, or the ways did not train the same model.
    """
    return _bench(SHARDED_WAYS, FSDP2, workload, world_size, repeats, warmup, backend, with_memory, timeout_s)


def _bench(
    ways: tuple[str, ...],
    theirs: str,
    workload: Workload,
    world_size: int,
    repeats: int,
    warmup: int,
    backend: Backend | None,
    with_memory: bool,
    timeout_s: float,
) -> DataParallelBench:
    check_rounds(repeats, warmup)
    options: Any = {"backend": backend, "timeout_s": timeout_s}
    timed = comm.launch(_time_ways, world_size, ways, theirs, workload, repeats, warmup, **options)
    comparison, reason, gradient_bytes = timed[0]
    peaks: dict[str, int] = {}
    for way in comparison.seconds if with_memory else ():
        by_rank = comm.launch(_peak_bytes, world_size, workload, way, **options)
        if None not in by_rank:
            peaks[way] = max(by_rank)
    return DataParallelBench(workload, world_size, reason, comparison, peaks, gradient_bytes, ways[1], theirs)


class _Trainer:
    """A model that trains in one way; every way starts from the same weights and sees the same batch."""

    def __init__(self, workload: Workload, way: str) -> None:
        device = comm.own_device().type
        self.way = way
        self.inner = workload.model(device)
        generator = torch.Generator().manual_seed(comm.rank())
        shape = (workload.batch_size, workload.num_tokens)
        self.tokens = torch.randint(workload.vocab_size, shape, generator=generator).to(device)

    def wrap(self) -> None:
        """Prepare the first step; memory allocated here counts as the way's."""
        self.model: nn.Module = self.inner
        if self.way in (OURS, SOCKETS):
            self.model = DataParallel(self.inner, "flat" if self.way == SOCKETS else None)
        elif self.way in (DDP, DDP_VIEWS):
            self.model = DistributedDataParallel(self.inner, gradient_as_bucket_view=self.way == DDP_VIEWS)
        elif self.way == PER_PARAMETER:
            broadcast_parameters(self.inner)
        elif self.way == FSDP2:
            self.model = _sharded_by_torch(self.inner)
        elif self.way in (SHARDED, SHARDED_SOCKETS, *ZEROS):
            zero, shares = ZEROS.get(self.way, 3), self.way != SHARDED_SOCKETS
            self.model = FullyShardedDataParallel(self.inner, zero=zero, share_memory=shares)
        self.optimizer = torch.optim.AdamW(self.inner.parameters(), lr=1e-4)

    def step(self) -> None:
        """One step of training."""
        self.optimizer.zero_grad()
        self.loss = self.model(input_ids=self.tokens, labels=self.tokens).loss
        self.loss.backward()
        if self.way == PER_PARAMETER:
            average_gradients(self.inner)
        self.optimizer.step()


def _sharded_by_torch(model: GPT2LMHeadModelParallel) -> nn.Module:
    for block in model.transformer.h:
        fully_shard(block)
    fully_shard(model)
    return model


def _time_ways(
    rank: int, world_size: int, ways: tuple[str, ...], theirs: str, workload: Workload, repeats: int, warmup: int
) -> tuple[Comparison, str, int]:
    """Time all ways in turn, in step with the other ranks."""
    del rank
    if is_gpu(comm.own_device()):
        ways = tuple(way for way in ways if way not in (SOCKETS, SHARDED_SOCKETS))
    gradient_bytes = sum(p.numel() * p.element_size() for p in workload.model("cpu").parameters())
    trainers = {way: _Trainer(workload, way) for way in ways}
    for trainer in trainers.values():
        trainer.wrap()
    steps: dict[str, Callable[[], object]] = {way: trainer.step for way, trainer in trainers.items()}
    tokens = world_size * workload.tokens
    comparison = compare(steps, repeats, warmup, baseline=theirs, tokens=tokens, in_step=True)
    check_same_work({way: trainers[way].loss.item() for way in ways if way != NO_COMMUNICATION}, theirs)
    return comparison, str(trainers[ways[1]].model.reason), gradient_bytes


def check_same_work(losses: Mapping[str, float], reference: str = DDP, tolerance: float = 0.01) -> None:
    """Refuse losses that differ: ways that average gradients train the same model, so after as many steps they agree.

    Raises:
        Implausible: a loss is further from the reference's than the tolerance.
    """
    for way, loss in losses.items():
        if not abs(loss - losses[reference]) <= tolerance * abs(losses[reference]):
            raise Implausible(
                f"check of equal work failed: after the same steps {way} has loss {loss:.4f} and {reference} "
                f"{losses[reference]:.4f}"
            )


def _peak_bytes(rank: int, world_size: int, workload: Workload, way: str, num_steps: int = 4) -> int | None:
    """The most memory during some steps, less the memory before; None if it cannot be read.

    Before means with the bare model, or, for sharded ways, which give it away, without. On Linux it is this process's
    resident memory, whose high-water mark the kernel resets on request.
    """
    del rank, world_size
    empty = _watch_memory()
    trainer = _Trainer(workload, way)
    before = empty if way in SHARDED_WAYS[1:] else _watch_memory()
    trainer.wrap()
    if before is empty:
        _watch_memory()  # the peak of steps, not that of sharding a whole model
    for _ in range(num_steps):
        trainer.step()
    comm.barrier()  # every rank has written
    highest = _highest_memory() if before is not None else 0
    comm.barrier()  # no rank frees shared memory before all have counted it
    return None if before is None else highest - before


def _watch_memory() -> int | None:
    """Reset the high-water mark and return the bytes held now; None if the kernel keeps no such mark."""
    if is_gpu(gpu := comm.own_device()):
        accelerator.reset_peak_bytes(gpu)
        return accelerator.allocated_bytes(gpu)
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        # Tensors above 64 KiB go back to the kernel when freed, so that the mark counts them and not holes: by default
        # glibc keeps freed blocks of up to 32 MiB, which adds tens of MiB that differ from run to run.
        libc.mallopt(_M_MMAP_THRESHOLD, 2**16)
    reset.write_text("5")
    return _status_bytes("VmRSS")


def _highest_memory() -> int:
    """The most bytes held since the mark was reset, less shared memory that other ranks count."""
    if is_gpu(gpu := comm.own_device()):
        return accelerator.peak_bytes(gpu)
    return _status_bytes("VmHWM") - comm.held_for_others()


def _status_bytes(key: str) -> int:
    """A line of /proc/self/status, such as `VmHWM:  52340 kB`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))
