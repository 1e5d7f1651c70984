"""A schedule on the ranks of a process group: one rank of the group per rank of the schedule.

The same engine as on lanes; only the wires are messages.
"""

import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import nn

from pllab.comm import (
    Group,
    all_gather_object,
    all_reduce,
    barrier,
    host_id,
    in_world,
    rank,
    receive_async,
    send_async,
    world_size,
)
from pllab.pipeline.engine import Record
from pllab.pipeline.executor import Executor, Step
from pllab.pipeline.fit import check_ranks, place_on_rank
from pllab.pipeline.loss import Count, Loss
from pllab.pipeline.microbatches import Batch, as_tuple, num_rows
from pllab.pipeline.packets import Name
from pllab.pipeline.stage import parts_of
from pllab.pipeline.streams import stream_for
from pllab.pipeline.tied import Place, Tied
from pllab.pipeline.wires import Header, Wires
from pllab.schedule import Action, Schedule, check
from pllab.timeline import Span, Timeline


class RankExecutor(Executor):
    """Run this rank's row of any checked schedule; every rank of the group makes one and calls the same steps.

    Example, on each of two ranks:

        def loss(logits, labels):    # (rows, time, vocabulary) and (rows, time); the labels are shifted already
            return cross_entropy(logits.flatten(0, 1), labels.flatten())

        stages = cut(layers_of(model), [2, 2, 1, 1])    # of all ranks; interleaved(2, 8) has four
        mine = {stage: stages[stage] for stage in schedule.stages_of_rank(rank())}
        executor = RankExecutor(schedule, mine, loss, tied=tied_weights(stages))
        value, timeline = executor.step(input_ids, labels)    # the same on every rank

    Only the rank of the first stage needs the batch, and only the rank of the last stage needs the targets; others may
    pass None. Every rank gets the loss of the batch and the timeline of all ranks, on the clock that the ranks of a
    host share. `tied` lists the weights that stages share, as `tied_weights(stages)` gives them for all stages; their
    gradients are summed once in a step. `group` is this pipeline's, by default all ranks; other groups may run theirs
    beside it, and all ranks make their executors at the same time. `headers` has the shapes of all packets, if they are
    known and always the same: then no message tells them, and packets travel by message alone. Stages are on the CPU
    under gloo, and on their rank's GPU under nccl. The rest is as for `LaneExecutor`.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: stages, loss or group do not fit the schedule, or the backend does not fit the stages' device.

    Lesson 11.
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: Mapping[int, nn.Module],
        loss: Loss | None = None,
        *,
        mean_over: Count | None = None,
        recompute: bool = False,
        tied: Sequence[Sequence[Place]] = (),
        group: Group | None = None,
        headers: Mapping[Name, Header] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        check(schedule)
        check_ranks(schedule, stages, group)
        self._group, self._own, self._num_ranks = group, rank(group), world_size(group)
        self._device = place_on_rank(stages)
        # What is read: the meta device has no values.
        self._read_on = torch.device("cpu") if self._device.type == "meta" else self._device
        homes = dict.fromkeys(stages, self._device)
        super().__init__(schedule, stages, homes, loss, mean_over, recompute, timeout_s)
        self._stream = stream_for(self._device)
        self._tied = Tied(tied, schedule, {number: stage.module for number, stage in self._stages.items()}, group)
        self._wires = Wires(schedule, self._device, self.timeout_s, group, headers)
        self._shares_clock = self._num_ranks == 1 or len(set(all_gather_object(host_id(), group))) == 1
        self._is_cut_short = False
        self._record = Record(self.engine, schedule.num_ranks)

    def running(self) -> Action | None:
        """The action that this rank runs now."""
        return next(iter(self._record.running()), None)

    def step(self, batch: Batch | None = None, targets: Batch | None = None) -> Step:
        """Run this rank's actions once; add to the parameters' `.grad`.

        Raises:
            ValueError: the batch is missing, has fewer rows than the schedule has micro-batches or not as many as the
                targets, or the last stage sleeps and another does not.
            PeerError: another rank went away, or did not send in time.
            RuntimeError: an earlier step failed half way.
        """
        with torch.enable_grad():
            return self._run(batch, targets, forward_only=False)

    def evaluate(self, batch: Batch | None = None, targets: Batch | None = None) -> Step:
        """Run only the forwards, and save nothing for a backward; a short batch gets one micro-batch per row.

        Raises:
            ValueError: batch and targets differ in their number of rows.
            PeerError: another rank went away, or did not send in time.
        """
        with torch.no_grad():
            return self._run(batch, targets, forward_only=True)

    def _run(self, batch: Batch | None, targets: Batch | None, forward_only: bool) -> Step:
        if self._is_cut_short:
            raise RuntimeError("an earlier step failed, and its messages may still be under way; start the ranks again")
        self._check_inputs(batch, targets)
        self._is_cut_short = self._num_ranks > 1  # until the step has ended
        shape, rows = self._agree_on_shape(batch)
        if not rows and self.engine == "real":
            awake = next(number for number in self._stages if not self._is_asleep(number))
            raise ValueError(f"stage 0 has no batch, and stage {awake} does not sleep; give it one, or let all sleep")
        schedule, count = self.schedule, self.schedule.num_microbatches
        if forward_only:
            count = min(rows, count)
            schedule = schedule.only("F", count)
        on_device = None if batch is None else tuple(part.to(self._device) for part in as_tuple(batch, "the batch"))
        micro_batches = self._cut(on_device, count, "the batch") if 0 in self._stages else []
        score = self._score(targets, count)
        if score is not None:
            self._check_rows(rows, targets)
        self._record = record = Record(self.engine, schedule.num_ranks)
        entering = self._entering(micro_batches, score, count)
        with nullcontext() if forward_only else self._tied.summed(), self._stream_open():
            timing = record.timing(self._own, self._stream)
            leaving = self._wires.run(schedule, shape, self._works(score, {}), entering, timing)
        mine = record.timeline(from_zero=False)
        mine = mine if self._shares_clock else _from_common_zero(mine, self._group)
        timeline, loss = self._exchange(schedule, mine, self._total(score, leaving))
        self._is_cut_short = False
        return Step(loss, timeline.from_zero())

    @contextmanager
    def _stream_open(self) -> Iterator[None]:
        """On a GPU: run on this rank's stream, after the caller's earlier work and before its later work."""
        self._stream.begin()
        self._stream.start_clock(None)
        try:
            with self._stream.running():
                yield
        finally:
            self._stream.end()

    def _check_inputs(self, batch: Batch | None, targets: Batch | None) -> None:
        """Refuse a missing batch for a first stage that computes, and missing targets for a last stage that does."""
        if 0 in self._stages and batch is None and self.engine == "real":
            raise ValueError("batch is None on the rank of the first stage; only sleeping stages run without one")
        computes_loss = self._last in self._stages and not self._is_asleep(self._last) and self._loss is not None
        if computes_loss and targets is None:
            raise ValueError("targets is None on the rank of the last stage, which computes the loss")

    def _agree_on_shape(self, batch: Batch | None) -> tuple[int, int]:
        """A checksum of the batch's shape, and its rows; the first stage's rank sends both to all ranks."""
        message = torch.zeros(2, dtype=torch.int64, device=self._read_on)
        sender = self.schedule.rank_of_stage[0]
        if batch is not None:
            tensors = as_tuple(batch, "the batch")
            shapes = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
            message += torch.tensor([zlib.crc32(repr(shapes).encode()), num_rows(tensors)], device=self._read_on)
        if self._own != sender:
            message = receive_async(message, in_world(sender, self._group)).wait_for(self.timeout_s)
        if self._own == sender:
            others = [in_world(other, self._group) for other in range(self._num_ranks) if other != sender]
            for sending in [send_async(message, other) for other in others]:
                sending.wait_for(self.timeout_s)
        shape, rows = map(int, message.tolist())
        return shape, rows

    def _exchange(self, schedule: Schedule, mine: Timeline, loss: float) -> tuple[Timeline, float]:
        """The timeline of all ranks and the loss of the last stage's rank, by one sum over the ranks.

        All ranks know all actions, so only times travel: each rank fills in its own and leaves zeros for the others.
        The timeline is emulated if no rank's is real.
        """
        rows = enumerate(schedule.rows)
        order = [(number, part) for number, row in rows for one in row for part in parts_of(one, self._recompute)]
        place = {action: index for index, (_, action) in enumerate(order)}
        times = torch.zeros(len(order) + 1, 2, dtype=torch.float64)
        times[-1, 0], times[-1, 1] = loss, mine.engine == "real"
        for span in mine.spans:
            assert isinstance(span.action, Action)
            times[place[span.action], 0], times[place[span.action], 1] = span.start, span.end
        times = times.to(self._read_on)
        all_reduce(times, self._group)
        *pairs, (total, num_real) = times.tolist()
        spans = [Span(number, action, *pair) for (number, action), pair in zip(order, pairs, strict=True) if any(pair)]
        return Timeline.of(spans, "real" if num_real else "emulated", schedule.num_ranks), total


def _from_common_zero(timeline: Timeline, group: Group | None) -> Timeline:
    """This rank's spans on a clock that starts when all ranks leave a barrier; every rank must call it.

    Ranks leave the barrier within about the time of one message, and so much may the clocks of two hosts differ.
    """
    barrier(group)
    zero = time.perf_counter()
    spans = (Span(span.rank, span.action, span.start - zero, span.end - zero) for span in timeline.spans)
    return Timeline.of(spans, timeline.engine, timeline.num_ranks)
