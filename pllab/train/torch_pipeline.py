"""A pipeline between ranks: a schedule on torch.distributed.pipelining, with the loss and the tied weights of ours.

PyTorch brings the packets from rank to rank. Four things are added: the loss of logits that may be split over tp, an
evaluation that has forwards alone, batches whose rows the micro-batches do not divide, and the timeline of a step.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pllab import comm
from pllab.comm.devices import is_gpu
from pllab.comm.errors import translated
from pllab.comm.shared_memory import host_id
from pllab.data import IGNORED
from pllab.parallel.tensor import token_losses
from pllab.pipeline.engine import ActionTimes
from pllab.pipeline.streams import GpuStream, HostStream
from pllab.pipeline.tied import Place, Tied
from pllab.pipeline.torch_schedule import forwards_of, to_torch
from pllab.schedule import Action, Schedule
from pllab.timeline import Span, Timeline
from pllab.train.metrics import DeviceTime

_MOST_RUNTIMES = 4  # each keeps buffers for the packets of all its micro-batches


class TorchPipeline:
    """PyTorch's executor of a schedule on this rank's stages of a GPT-2.

    Example: `TorchPipeline(schedule, mine, tied, group).step(input_ids, labels, num_targets)` adds to the gradients and
    returns the mean loss over the targets, on every rank, with a record of this rank's actions.
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: Mapping[int, nn.Sequential],
        tied: Sequence[Sequence[Place]],
        group: comm.Group | None,
        *,
        recompute: bool = False,
    ) -> None:
        self._schedule, self._group, self._device = schedule, group, comm.own_device()
        self._stages: dict[int, nn.Module] = {n: _Recomputed(s) if recompute else s for n, s in stages.items()}
        self._last = schedule.num_stages - 1
        self._head: Any = stages[self._last][-1].lm_head if self._last in stages else None
        self._tied = Tied(tied, schedule, stages, group)
        self._is_one_host = len(set(comm.all_gather_object(host_id(), group))) == 1
        self._runtimes: dict[tuple[torch.Size, bool], Any] = {}
        self._num_targets = 1
        self._record = self._new_record()

    on_each_lane = None
    """A rank updates its stages itself."""

    def close(self) -> None:
        """Nothing: what a rank runs ends with it."""

    def running(self) -> Action | None:
        """The action that this rank runs now."""
        return next(iter(self._record.running()), None)

    def step(self, input_ids: torch.Tensor, labels: torch.Tensor, num_targets: int) -> tuple[torch.Tensor, ActionTimes]:
        """Forward and backward of a batch, (rows, time) both: its mean loss, and a record of this rank's actions.

        A GPU may still be computing the loss.

        Raises:
            PeerError: another rank of the pipeline went away or did not come in time.
        """
        self._record = self._new_record()
        with translated("a step of the pipeline", comm.rank()), self._tied.summed():
            loss = self._run(input_ids, labels, num_targets, trains=True)
        return loss, self._record

    def timelines(self, records: Sequence[ActionTimes]) -> list[Timeline]:
        """The timelines of some steps over all ranks, given this rank's records of them; all ranks call it.

        On several hosts clocks start when all ranks leave a barrier, so they differ by about the time of a message.
        """
        zero = 0.0
        if not self._is_one_host:
            comm.barrier(self._group)
            zero = time.perf_counter()
        mine = [[(*span[:2], span.start - zero, span.end - zero) for span in _spans(record)] for record in records]
        steps = zip(*comm.all_gather_object(mine, self._group), strict=True)
        spans = ([Span(*span) for part in step for span in part] for step in steps)
        return [Timeline.of(each, "real", self._schedule.num_ranks).from_zero() for each in spans]

    def device_times(self, timings: Sequence[Any]) -> list[DeviceTime]:
        """The time of all ranks in some steps, given this rank's records of them; all ranks call it."""
        return [DeviceTime.of(timeline) for timeline in self.timelines(timings)]

    def evaluate(self, input_ids: torch.Tensor, labels: torch.Tensor, num_targets: int) -> float:
        """The mean loss over the targets of a batch, without training.

        Raises:
            PeerError: as for `step`.
        """
        self._record = self._new_record()  # so that its actions are not taken for those of the last step
        with translated("the forwards of the pipeline", comm.rank()), torch.no_grad():
            return float(self._run(input_ids, labels, num_targets, trains=False))

    def _run(self, input_ids: torch.Tensor, labels: torch.Tensor, num_targets: int, trains: bool) -> torch.Tensor:
        missing = -len(input_ids) % self._schedule.num_microbatches  # PyTorch cuts a batch into equal parts
        input_ids = functional.pad(input_ids, (0, 0, 0, missing)).to(self._device)
        labels = functional.pad(labels, (0, 0, 0, missing), value=IGNORED).to(self._device)
        self._num_targets = num_targets
        runtime, losses = self._runtime(input_ids.shape, trains), list[torch.Tensor]()
        args = (input_ids,) if 0 in self._stages else ()
        options = {"target": labels, "losses": losses} if self._last in self._stages else {}
        (runtime.step if trains else runtime.eval)(*args, **options)
        zero = torch.zeros((), dtype=torch.float64, device=self._device)
        total = torch.stack(losses).sum().detach().double() if losses else zero
        comm.all_reduce(total, self._group)
        return total

    def _runtime(self, shape: torch.Size, trains: bool) -> Any:
        """PyTorch fixes the shapes of packets at the first step, so each shape has its own; the newest are kept."""
        runtime = self._runtimes.pop((shape, trains), None)
        if runtime is None:
            runtime = to_torch(self._schedule, self._stages, self._loss, group=self._group, timing=self._timed)
            runtime = runtime if trains else forwards_of(runtime)
        self._runtimes[shape, trains] = runtime
        for oldest in list(self._runtimes)[:-_MOST_RUNTIMES]:
            del self._runtimes[oldest]
        return runtime

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """A micro-batch's part of the batch's mean; PyTorch divides by the number of micro-batches."""
        total = token_losses(self._head, logits[:, :-1], labels[:, 1:]).sum()
        return total * self._schedule.num_microbatches / self._num_targets

    def _new_record(self) -> ActionTimes:
        self._stream = HostStream()
        if is_gpu(self._device):
            self._stream = gpu = GpuStream(self._device, torch.accelerator.current_stream(self._device))
            gpu.start_clock(None)
        return ActionTimes("real", self._schedule.num_ranks)

    def _timed(self, action: Action) -> Any:
        return self._record.timing(comm.rank(self._group), self._stream)(action)


def _spans(record: ActionTimes) -> Sequence[Span]:
    return record.timeline(from_zero=False).spans


class _Recomputed(nn.Module):
    """A stage whose forward keeps its input alone and is computed again in the backward."""

    def __init__(self, stage: nn.Module) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, value: torch.Tensor) -> Any:
        """The stage's outputs."""
        return checkpoint(self.stage, value, use_reentrant=False)
