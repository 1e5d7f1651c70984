"""A pipeline between ranks: a schedule on torch.distributed.pipelining, with the loss and the tied weights of ours.

PyTorch sends the packets from rank to rank. Four things are added: the loss of logits that may be split over tp, an
evaluation with forwards only, batches whose rows the micro-batches do not divide, and the timeline of a step.
It is called as a `LaneExecutor` is. On the meta device, where tensors have no values, a pipeline is only counted.
"""

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pllab import comm
from pllab.comm.collectives import in_world
from pllab.comm.devices import is_gpu
from pllab.comm.errors import translated
from pllab.comm.ledger import note_tensor
from pllab.comm.shared_memory import host_id
from pllab.data import IGNORED
from pllab.parallel import num_target_tokens
from pllab.parallel.tensor import token_losses
from pllab.pipeline.engine import ActionTimes
from pllab.pipeline.streams import GpuStream, HostStream
from pllab.pipeline.tied import Place, Tied
from pllab.pipeline.torch_schedule import forwards_of, to_torch
from pllab.schedule import Action, Kind, Schedule
from pllab.timeline import Span, Timeline

Batch = tuple[torch.Tensor, torch.Tensor]
"""Ids and labels, both (rows, time)."""
_MOST_RUNTIMES = 4  # each keeps buffers for the packets of all its micro-batches


class TorchPipeline:
    """PyTorch's executor of a schedule on this rank's stages of a GPT-2.

    Example: `TorchPipeline(schedule, mine, tied, group).step((ids, labels), labels)` adds to the gradients and returns
    the mean loss over the targets, on every rank, with a record of this rank's actions.
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
        self._runtime = lru_cache(maxsize=_MOST_RUNTIMES)(self._new_runtime)
        self._num_targets = 1
        self._stream = HostStream()
        if is_gpu(self._device):
            self._stream = GpuStream(self._device, torch.accelerator.current_stream(self._device))
        self._record = self._new_record()

    def running(self) -> Action | None:
        """The action that this rank runs now."""
        return next(iter(self._record.running()), None)

    def step(self, batch: Batch, labels: torch.Tensor) -> tuple[torch.Tensor, ActionTimes]:
        """Forward and backward of a batch that has a target: its mean loss, and a record of this rank's actions.

        A GPU may still be computing the loss.

        Raises:
            PeerError: another rank of the pipeline went away or did not come in time.
        """
        self._record = self._new_record()
        with translated("a step of the pipeline", comm.rank()), self._tied.summed():
            loss = self._run(batch[0], labels, trains=True)
        return loss, self._record

    def timelines(self, records: Sequence[ActionTimes]) -> list[Timeline]:
        """The timelines of some steps over all ranks, given this rank's records of them; all ranks call it.

        On several hosts clocks start when all ranks leave a barrier, so they differ by about the time of a message.
        """
        zero = 0.0
        if not self._is_one_host:
            comm.barrier(self._group)
            zero = time.perf_counter()
        mine = [
            [(*span[:2], span.start - zero, span.end - zero) for span in record.timeline(from_zero=False).spans]
            for record in records
        ]
        steps = zip(*comm.all_gather_object(mine, self._group), strict=True)
        spans = ([Span(*span) for part in step for span in part] for step in steps)
        return [Timeline.of(each, "real", self._schedule.num_ranks).from_zero() for each in spans]

    def evaluate(self, batch: Batch, labels: torch.Tensor) -> tuple[float, ActionTimes]:
        """The same without training.

        Raises:
            PeerError: as for `step`.
        """
        self._record = self._new_record()  # so that its actions are not taken for those of the last step
        with translated("the forwards of the pipeline", comm.rank()), torch.no_grad():
            return float(self._run(batch[0], labels, trains=False)), self._record

    def _run(self, input_ids: torch.Tensor, labels: torch.Tensor, trains: bool) -> torch.Tensor:
        self._num_targets = num_target_tokens(labels)
        missing = -len(input_ids) % self._schedule.num_microbatches  # PyTorch cuts a batch into equal parts
        input_ids, labels = (each.to(self._device) for each in filled_up(input_ids, labels, missing))
        runtime, losses = self._runtime(input_ids.shape, trains), list[torch.Tensor]()
        args = (input_ids,) if 0 in self._stages else ()
        options = {"target": labels, "losses": losses} if self._last in self._stages else {}
        (runtime.step if trains else runtime.eval)(*args, **options)
        zero = torch.zeros((), dtype=torch.float64, device=self._device)
        total = torch.stack(losses).sum().detach().double() if losses else zero
        comm.all_reduce(total, self._group)
        return total

    def _new_runtime(self, _shape: torch.Size, trains: bool) -> Any:
        """PyTorch fixes the shapes of packets at the first step, so each shape has its own; the newest are kept."""
        runtime = to_torch(self._schedule, self._stages, self._loss, group=self._group, timing=self._timed)
        return runtime if trains else forwards_of(runtime)

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """A micro-batch's part of the batch's mean; PyTorch divides by the number of micro-batches."""
        total = token_losses(self._head, logits[:, :-1], labels[:, 1:]).sum()
        return total * self._schedule.num_microbatches / self._num_targets

    def _new_record(self) -> ActionTimes:
        if isinstance(self._stream, GpuStream):
            self._stream.start_clock()
        return ActionTimes("real", self._schedule.num_ranks)

    def _timed(self, action: Action) -> Any:
        return self._record.timing(comm.rank(self._group), self._stream)(action)


def filled_up(input_ids: torch.Tensor, labels: torch.Tensor, num_rows: int) -> Batch:
    """A batch padded with this many rows, which have no targets."""
    more = 0, 0, 0, num_rows
    return functional.pad(input_ids, more), functional.pad(labels, more, value=IGNORED)


class _Recomputed(nn.Module):
    """A stage whose forward keeps only its input and is computed again in the backward."""

    def __init__(self, stage: nn.Module) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, value: torch.Tensor) -> Any:
        """The stage's outputs."""
        return checkpoint(self.stage, value, use_reentrant=False)


class CountedPipeline(TorchPipeline):
    """A rank's part of a pipelined step on the meta device: the ledger is told of its packets, and each stage runs.

    All micro-batches send the same, so one runs for all; in `running()` is the action that stands for them. PyTorch's
    runtime needs values, because its ranks vote before the first step. What stages send to each other follows from the
    schedule and the size of a packet. `packet` is like that of a micro-batch; losses are nan.
    """

    def __init__(self, *parts: Any, packet: torch.Tensor) -> None:
        super().__init__(*parts)
        self._packet, self._own = packet, comm.rank(self._group)

    def _run(self, input_ids: torch.Tensor, labels: torch.Tensor, trains: bool) -> torch.Tensor:  # noqa: ARG002
        """Run a micro-batch through this rank's stages, forward and backward."""
        rows = len(self._packet)
        for number, stage in self._stages.items():
            with self._timed(Action(number, Kind.F, 0)):
                output = stage(input_ids[:rows] if number == 0 else torch.empty_like(self._packet, requires_grad=True))
                if number == self._last:
                    output = token_losses(self._head, output[:, :-1], labels[:rows, 1:]).sum()
                self._note_packets(number)
            with self._timed(Action(number, Kind.B, 0)):
                torch.autograd.backward(output, torch.empty_like(output))
        comm.all_reduce(torch.zeros((), dtype=torch.float64, device="meta"), self._group)  # of the loss
        return torch.tensor(float("nan"))

    def _note_packets(self, number: int) -> None:
        """Tell the ledger of what a stage exchanges with other ranks: hidden states up, and their gradients down."""
        for stage in (number - 1, number + 1):
            rank = self._schedule.rank_of_stage.get(stage, self._own)
            for name in ("receive", "send") if rank != self._own else ():
                note_tensor(name, self._packet, in_world(rank, self._group), self._group)
