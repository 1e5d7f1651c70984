"""The pipe: an `nn.Sequential` in, a drop-in module out that runs its stages at the same time.

`loss(pipe(x)).backward()` runs the clock cycles forward on the workers and, when autograd reaches the pipe, the
same cycles in reverse on the same workers. Two small autograd functions join the pipe to the caller's graph:

    x ----> [Reverse] --token--> [Attach] ----> y           forward: both pass values on
    dx <--- [Reverse] <--token-- [Attach] <---- dy          backward: Attach keeps dy, Reverse runs the stages

The token is a CPU scalar. Autograd has one thread per GPU; a node whose gradient is on the GPU would block that
thread while the workers need it. A node whose gradient is a CPU scalar runs on the caller's thread.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pllab.pipeline.microbatch import Tensors, gather, scatter, split_size_for
from pllab.pipeline.record import Record
from pllab.pipeline.run import Plan, Run
from pllab.pipeline.shared import Shared, shared_parameters
from pllab.pipeline.sleep import SleepStage
from pllab.pipeline.split import checked_device, split_module
from pllab.pipeline.stage import Stage, as_tuple
from pllab.pipeline.stream import Packet, stream_for
from pllab.pipeline.whole import deadline, whole
from pllab.pipeline.worker import Workers, create_workers
from pllab.timeline import Engine, Timeline


class Pipe(nn.Module):
    """Run an `nn.Sequential` whose layers live on several devices as a pipeline of micro-batches.

    Example, 8 rows on two lanes in micro-batches of 2 rows:

        layers = nn.Sequential(WithDevice(first, "cpu:0"), WithDevice(second, "cpu:1"))
        with Pipe(layers, split_size=2) as pipe:
            loss(pipe(x)).backward()        # x (8, ...) -> output (8, ...) on the last device
            pipe.last_timeline              # when each stage did what

    `split_size` is the number of rows of a micro-batch, `num_microbatches` their number; give one of them. The
    last micro-batch may be smaller. Input and output are a tensor or a tuple of tensors with the same number of
    rows. With `recompute`, a stage keeps only its inputs and runs forward again before its backward. Dropout
    follows `torch.manual_seed`. What a stage returns must not mix rows: each row's result depends on that row.

    Raises:
        ValueError: split_size or num_microbatches below 1, or both given; what `split_module` refuses.

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
        partitions, devices = split_module(sequential)
        self._set_up(partitions, devices, split_size, num_microbatches, recompute, timeout_s)

    @classmethod
    def from_partitions(
        cls,
        partitions: Sequence[nn.Sequential],
        devices: Sequence[torch.device | str],
        split_size: int | None = None,
        *,
        num_microbatches: int | None = None,
        recompute: bool = False,
        timeout_s: float = 300.0,
    ) -> Self:
        """Make a pipe of given partitions; a device may come twice, for several stages on one GPU.

        Raises:
            ValueError: the numbers of partitions and devices differ.
        """
        if len(partitions) != len(devices):
            raise ValueError(f"{len(partitions)} partitions need as many devices, not {len(devices)}")
        pipe = cls.__new__(cls)
        nn.Module.__init__(pipe)
        checked = [checked_device(device) for device in devices]
        pipe._set_up(list(partitions), checked, split_size, num_microbatches, recompute, timeout_s)
        return pipe

    def _set_up(
        self,
        partitions: list[nn.Sequential],
        devices: list[torch.device],
        split_size: int | None,
        num_microbatches: int | None,
        recompute: bool,
        timeout_s: float,
    ) -> None:
        self.split_size, self.num_microbatches = _checked_split(split_size, num_microbatches)
        self._partitions = partitions
        self.partitions = nn.ModuleList(partitions)
        self.devices = devices
        self.recompute = recompute
        self.timeout_s = deadline(timeout_s)
        self._shared = shared_parameters(partitions)
        self._streams = [stream_for(device) for device in devices]
        rows = list(dict.fromkeys(devices))
        self._ranks = [rows.index(device) for device in devices]
        self._engine: Engine = "emulated" if any(isinstance(m, SleepStage) for m in self.modules()) else "real"
        self._record = Record(self._engine, len(rows))
        self._workers: Workers | None = None

    def forward(self, x: torch.Tensor | Tensors) -> torch.Tensor | Tensors:
        """Run the batch through the stages; the output is on the last device."""
        batch = as_tuple(x, "the input of the pipe")
        rows = batch[0].shape[0] if batch[0].dim() else 0
        split_size = self.split_size or split_size_for(rows, self.num_microbatches or 1)
        micro_batches = scatter(batch, split_size)
        sizes = [part[0].shape[0] for part in micro_batches]
        shadows = [shared.shadow(self.devices[shared.stage]) for shared in self._shared]
        run = Run(self._plan(shadows))
        packets = self._guarded(run, lambda: run.forward(micro_batches))
        outputs = self._gathered(packets)
        if torch.is_grad_enabled() and any(packets[0].needs_grad):
            outputs = self._joined(run, sizes, batch, shadows, outputs, packets[0].needs_grad)
        return outputs[0] if len(outputs) == 1 else outputs

    @property
    def last_timeline(self) -> Timeline:
        """What ran when in the last batch, forward and, if there was one, backward."""
        return self._record.timeline()

    def close(self) -> None:
        """End the workers; the next batch starts new ones."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> Workers:
        if self._workers is None:
            self._workers = create_workers(self.devices)
            weakref.finalize(self, self._workers.close)
        return self._workers

    def _plan(self, shadows: Sequence[torch.Tensor]) -> Plan:
        named: list[dict[str, torch.Tensor]] = [{} for _ in self.devices]
        for shared, shadow in zip(self._shared, shadows, strict=True):
            named[shared.stage][shared.name] = shadow
        stages = [
            Stage(index, partition, device, names)
            for index, (partition, device, names) in enumerate(zip(self._partitions, self.devices, named, strict=True))
        ]
        self._record = Record(self._engine, len(set(self.devices)))
        seed = int(torch.randint(2**62, ()).item())
        return Plan(
            stages,
            self._streams,
            self._ranks,
            self._started(),
            self._record,
            self.recompute,
            seed,
            self.timeout_s,
        )

    def _guarded(self, run: Run, sweep: Callable[[], list[Packet]]) -> list[Packet]:
        """Run a sweep; if it was given up half way, let the workers go, because they still hold its tasks."""
        try:
            return sweep()
        except (KeyboardInterrupt, TimeoutError):
            run.stop()
            workers, self._workers = self._workers, None
            if workers is not None:
                workers.close(timeout_s=0.1)
            raise

    def _gathered(self, packets: Sequence[Packet]) -> Tensors:
        for packet in packets:
            for tensor in packet.tensors:
                if tensor is not None and tensor.is_cuda:
                    tensor.record_stream(torch.cuda.current_stream(tensor.device))
        outputs = [as_tuple(tuple(packet.tensors), "the last stage") for packet in packets]
        _check_rows(outputs)
        return gather(outputs)

    def _joined(
        self,
        run: Run,
        sizes: Sequence[int],
        batch: Tensors,
        shadows: Sequence[torch.Tensor],
        outputs: Tensors,
        needs_grad: Sequence[bool],
    ) -> Tensors:
        joint = _Joint(self, run, sizes, shadows, needs_grad, [tensor.device for tensor in batch])
        parameters = [shared.parameter for shared in self._shared]
        token = _Reverse.apply(joint, torch.zeros((), requires_grad=True), *batch, *parameters)
        attached = _Attach.apply(joint, token, *outputs)
        return attached if isinstance(attached, tuple) else (attached,)


class _Joint:
    """What the two autograd functions of one batch have in common."""

    def __init__(
        self,
        pipe: Pipe,
        run: Run,
        sizes: Sequence[int],
        shadows: Sequence[torch.Tensor],
        needs_grad: Sequence[bool],
        homes: Sequence[torch.device],
    ) -> None:
        self.pipe = pipe
        self.homes = homes
        self.run = run
        self.sizes = sizes
        self.shadows = shadows
        self.needs_grad = needs_grad
        self.grads: Sequence[torch.Tensor | None] = ()
        self.ready: torch.cuda.Event | None = None

    def backward(self) -> tuple[list[torch.Tensor | None], list[torch.Tensor | None]]:
        """Run the stages in reverse; return the gradients of the inputs and of the shared parameters."""
        self.run.check_open(self.pipe._workers)
        rows = [[None] * len(self.sizes) if grad is None else grad.split(self.sizes) for grad in self.grads]
        packets = [Packet(row, (), self.ready) for row in zip(*rows, strict=True)]
        self.grads = ()
        finished = self.pipe._guarded(self.run, lambda: self.run.backward(packets))
        columns = list(zip(*(packet.tensors for packet in finished), strict=True))
        # A gradient belongs where its tensor is; the first stage may be elsewhere.
        inputs = [_together(column, home) for column, home in zip(columns, self.homes, strict=True)]
        owners: list[Shared] = self.pipe._shared
        shared = [
            None if shadow.grad is None else shadow.grad.to(owner.parameter.device)
            for owner, shadow in zip(owners, self.shadows, strict=True)
        ]
        return inputs, shared


class _Attach(torch.autograd.Function):
    """Give the outputs a place in the caller's graph; in backward, keep their gradients for `_Reverse`."""

    @staticmethod
    def forward(ctx: Any, joint: _Joint, token: torch.Tensor, *outputs: torch.Tensor) -> Tensors:  # noqa: ARG004
        ctx.joint = joint
        ctx.set_materialize_grads(False)
        fixed = [out for out, flag in zip(outputs, joint.needs_grad, strict=True) if not flag]
        ctx.mark_non_differentiable(*fixed)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        joint: _Joint = ctx.joint
        joint.grads = grads
        for grad in grads:
            if grad is not None and grad.is_cuda:
                joint.ready = torch.cuda.current_stream(grad.device).record_event()
        return None, torch.zeros(()), *(None for _ in grads)


class _Reverse(torch.autograd.Function):
    """Stand for the stages in the caller's graph; in backward, run them."""

    @staticmethod
    def forward(ctx: Any, joint: _Joint, token: torch.Tensor, *leaves: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        ctx.joint = joint
        return token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, shared = ctx.joint.backward()
        return None, None, *inputs, *shared


def _together(column: Sequence[torch.Tensor | None], home: torch.device) -> torch.Tensor | None:
    parts = [part for part in column if part is not None]
    return torch.cat(parts).to(home) if parts else None


def _checked_split(split_size: int | None, num_microbatches: int | None) -> tuple[int | None, int | None]:
    if split_size is not None and num_microbatches is not None:
        raise ValueError(
            f"split_size={split_size} (rows of a micro-batch) and num_microbatches={num_microbatches} (their number) "
            "say the same thing twice; give one of them"
        )
    if num_microbatches is not None:
        return None, whole("num_microbatches", num_microbatches)
    return (1 if split_size is None else whole("split_size", split_size)), None


def _check_rows(outputs: Sequence[Tensors]) -> None:
    for part in outputs:
        for tensor in part:
            if tensor.dim() == 0:
                raise ValueError(
                    "the last stage returned a scalar for a micro-batch; return one value per row, so that the "
                    "micro-batches can be put together"
                )
