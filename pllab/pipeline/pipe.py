"""The pipe: an `nn.Sequential` in, a drop-in module out that runs its stages at the same time.

Its loss is outside, so it goes through all F's of its schedule, and later, when autograd comes back to it, through all
B's. Both times it does what lesson 09 does:

    cut       `scatter` the batch into micro-batches, as `x.split(split_size)`
    rows      give each worker a task: not one cell of the clock, but its whole row, `0F0 0F1 0F2` for stage 0
    a worker  `interpret`: take the packet of each action, let the stage perform it, give the result on
    join      `gather` the outputs of the micro-batches, and of a backward the gradients of the inputs

There is no barrier: a worker waits for the packet of its next action and for nothing else. What a stage
does with F and B is in `stage.py`. Two small autograd functions join the pipe to the caller's graph:

    x ----> [Reverse] --token--> [Attach] ----> y           forward: both pass values on
    dx <--- [Reverse] <--token-- [Attach] <---- dy          backward: Attach keeps dy, Reverse runs the stages

The token is a CPU scalar. Autograd has one thread per GPU; a node whose gradient is on the GPU would block that
thread while the workers need it. A node whose gradient is a CPU scalar runs on the caller's thread.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pllab.arguments import deadline, require, whole_number
from pllab.pipeline.batches import Batch, Tensors, as_tuple, gather, scatter, scatter_evenly, single
from pllab.pipeline.engine import ActionTimes, Name, Packet, as_packet, queued
from pllab.pipeline.lanes import Lanes, RunsOnLanes, ambient_here
from pllab.pipeline.randomness import draw_seed
from pllab.pipeline.split import checked_device, split_module
from pllab.pipeline.stage import StageWork, stages_on
from pllab.schedule import breadth_first
from pllab.timeline import Timeline


class Pipe(RunsOnLanes, nn.Module):
    """Run an `nn.Sequential` whose layers live on several devices as a pipeline of micro-batches.

    Example, 8 rows on two lanes in micro-batches of 2 rows:

        layers = nn.Sequential(WithDevice(first, "cpu:0"), WithDevice(second, "cpu:1"))
        with Pipe(layers, split_size=2) as pipe:
            loss(pipe(x)).backward()        # x (8, ...) -> output (8, ...) on the last device
            print(pipe.schedule)            # gpipe(2, 4): what ran
            pipe.last_timeline              # and when

    Give `split_size`, the number of rows of a micro-batch, of which the last may be smaller; or `num_microbatches`,
    whose sizes differ by one row at most, and a shorter batch gets one per row. The schedule is GPipe, or breadth-first
    if a device has several stages. Input and output are a tensor or a tuple of tensors with the same number of rows,
    and each row's result must depend on that row alone. With `recompute`, a stage keeps only its inputs and runs
    forward again before its backward. Random numbers in stages follow `torch.manual_seed`. Only one thread at a time
    may use a pipe.

    Raises:
        ValueError: both split_size and num_microbatches, one that is no count, or layers that `split_module` refuses.

    Source: GPipe (Huang et al. 2019), torchgpipe (Kim et al. 2020). Lesson 09.
    """

    def __init__(
        self,
        sequential: nn.Sequential,
        split_size: int | None = None,
        *,
        num_microbatches: int | None = None,
        recompute: bool = False,
        timeout_s: float = 300.0,
    ) -> None:
        super().__init__()
        partitions, devices = sequential.cut if isinstance(sequential, _Cut) else split_module(sequential)
        is_one_given = split_size is None or num_microbatches is None
        told = f"split_size {split_size} is rows of a micro-batch and num_microbatches {num_microbatches} their count"
        require(is_one_given, f"{told}; give one of them")
        size = whole_number("split_size", 1 if split_size is None else split_size)
        count = whole_number("num_microbatches", 1 if num_microbatches is None else num_microbatches)
        self._scatter = partial(scatter, split_size=size)
        if num_microbatches is not None:
            self._scatter = partial(scatter_evenly, num_microbatches=count)
        self.partitions = nn.ModuleList(partitions)
        self.devices = devices
        self.recompute = recompute
        self.timeout_s = deadline(timeout_s)
        self._lanes = Lanes(list(dict.fromkeys(devices)))
        self._stages = stages_on(partitions, devices)
        self._shared = [shared for stage in self._stages for shared in stage.shared]
        self._make_rows(count)
        self._record = ActionTimes("real", len(self._lanes.devices))

    @classmethod
    def from_partitions(
        cls,
        partitions: Sequence[nn.Sequential],
        devices: Sequence[torch.device | str],
        split_size: int | None = None,
        **options: Any,
    ) -> Self:
        """Make a pipe from partitions and their devices; a device named twice has two stages.

        The options are those of `Pipe`.
        """
        return cls(_Cut(partitions, devices), split_size, **options)

    @property
    def last_timeline(self) -> Timeline:
        """The timeline of the last batch: its forward and, if there was one, its backward."""
        return self._record.timeline()

    def forward(self, x: Batch) -> Batch:
        """Run the batch through the stages; the output is on the last device.

        Raises:
            ValueError: the batch has no rows, or a stage does not return one value per row.
            TimeoutError: no stage finished an action for `timeout_s` seconds.
            RuntimeError: another thread uses this pipe.
            Exception: the first exception of a stage, with a note that names its action.
        """
        batch = as_tuple(x, "the input of the pipe")
        micro_batches = self._scatter(batch)
        if len(micro_batches) != self.schedule.num_microbatches:
            self._make_rows(len(micro_batches))
        run = _Run(self, batch, [len(part[0]) for part in micro_batches])
        outputs, needs_grad = run.forward(micro_batches)
        if torch.is_grad_enabled() and any(needs_grad):
            parameters = [shared.parameter for shared in self._shared]
            token = Reverse.apply(run, torch.zeros((), requires_grad=True), *batch, *parameters)
            outputs = Attach.apply(run, needs_grad, token, *outputs)
        return single(outputs)

    def _make_rows(self, num_microbatches: int) -> None:
        """The row of each worker, forward and backward, until a batch has another number of micro-batches."""
        self.schedule = breadth_first([*map(self._lanes.devices.index, self.devices)], num_microbatches)
        self._forwards, self._backwards = self.schedule.only("F"), self.schedule.only("B")


class _Cut(nn.Sequential):
    """Layers that have already been cut into partitions."""

    def __init__(self, partitions: Sequence[nn.Sequential], devices: Sequence[torch.device | str]) -> None:
        super().__init__(*partitions)
        self.cut = list(partitions), [checked_device(device) for device in devices]


class _Run:
    """One batch through a pipe: what its two autograd functions share, and what is kept from forward to backward."""

    def __init__(self, pipe: Pipe, batch: Tensors, sizes: Sequence[int]) -> None:
        self._pipe = pipe
        self._backwards = pipe._backwards  # the next batch may have other rows
        self._sizes = sizes
        self._flags = [tensor.requires_grad for tensor in batch]
        self._homes = [tensor.device for tensor in batch]
        record = pipe._record = ActionTimes("real", len(pipe._lanes.devices))
        self._run_rows = partial(pipe._lanes.run, record=record, timeout_s=pipe.timeout_s, ambient=ambient_here())
        seed = draw_seed()
        self._works = {stage.number: StageWork(stage, seed, recompute=pipe.recompute) for stage in pipe._stages}
        self.grads: Sequence[torch.Tensor | None] = ()
        self.ready: torch.Event | None = None

    def forward(self, micro_batches: Sequence[Tensors]) -> tuple[Tensors, Sequence[bool]]:
        """Run the F's; return the outputs of the whole batch, and which of them need a gradient."""
        entering = {Name(0, True, i): as_packet(part, self._flags) for i, part in enumerate(micro_batches)}
        leaving = self._run_rows(self._pipe._forwards, self._works, entering)
        packets = [leaving[Name(len(self._works), True, i)] for i in range(len(micro_batches))]
        outputs = [tuple(tensor for tensor in packet.tensors if tensor is not None) for packet in packets]
        _check_rows(outputs, self._sizes)
        return gather(outputs), packets[0].needs_grad

    def backward(self) -> tuple[list[torch.Tensor | None], list[torch.Tensor | None]]:
        """Run the B's; return the gradients of the inputs and of the shared parameters."""
        if not self._works:
            raise RuntimeError(
                "this batch went backward before and its activations are gone; call the pipe again for a new graph"
            )
        if not torch.autograd._is_checkpoint_valid():  # as in torch's own checkpoint: asked for some gradients alone
            raise RuntimeError(
                "a pipe adds to the gradients of all its parameters; call loss.backward() and read .grad"
            )
        rows = [[None] * len(self._sizes) if grad is None else grad.split(self._sizes) for grad in self.grads]
        last = len(self._works) - 1
        entering = {Name(last, False, i): Packet(row, (), self.ready) for i, row in enumerate(zip(*rows, strict=True))}
        works, self._works, self.grads = self._works, {}, ()
        leaving = self._run_rows(self._backwards, works, entering)
        columns = zip(*(leaving[Name(-1, False, i)].tensors for i in range(len(self._sizes))), strict=True)
        parts = ([grad for grad in column if grad is not None] for column in columns)
        # A gradient must be on its tensor's device, which may not be the first stage's.
        inputs = [torch.cat(part).to(home) if part else None for part, home in zip(parts, self._homes, strict=True)]
        return inputs, [works[shared.stage].gradient_of(shared) for shared in self._pipe._shared]


class Attach(torch.autograd.Function):
    """Give the outputs a place in the caller's graph, after the token; in backward, keep their gradients."""

    @staticmethod
    def forward(ctx: Any, run: _Run, needs_grad: Sequence[bool], _: torch.Tensor, *outputs: torch.Tensor) -> Tensors:
        """Return the outputs as they are."""
        ctx.run = run
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(out for out, flag in zip(outputs, needs_grad, strict=True) if not flag))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Note the gradients of the outputs; they go to the stages, not to the token."""
        run: _Run = ctx.run
        run.grads, run.ready = grads, queued(grads)
        return None, None, torch.zeros(()), *(None for _ in grads)


class Reverse(torch.autograd.Function):
    """Stand for the stages in the caller's graph; in backward, run them."""

    @staticmethod
    def forward(ctx: Any, run: _Run, token: torch.Tensor, *leaves: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        """Return a copy of the token; the leaves are here so that autograd asks for their gradients."""
        ctx.run = run
        return token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Run the backward rows on the workers; the gradients of the inputs and of shared weights."""
        inputs, shared = ctx.run.backward()
        return None, None, *inputs, *shared


def _check_rows(outputs: Sequence[Tensors], sizes: Sequence[int]) -> None:
    for tensor, size in ((tensor, size) for part, size in zip(outputs, sizes, strict=True) for tensor in part):
        if tensor.dim() == 0 or len(tensor) != size:
            raise ValueError(
                f"the last stage made a tensor of shape {tuple(tensor.shape)} from {size} rows; return one value per "
                "row, so that the micro-batches can be put together"
            )
