"""Run any checked schedule on the ranks of a process group: one rank of the group per rank of the schedule.

The same interpreter as on lanes; only the wires are messages.
"""

import zlib
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from pllab.comm import one_way_groups, rank, receive_async, send_async, world_size
from pllab.pipeline.batch import Batch, Count, Loss, Score, Step, cut_batch
from pllab.pipeline.fit import check_loss, check_ranks, place_on_rank
from pllab.pipeline.host_clock import from_common_zero, is_shared
from pllab.pipeline.interpret import Work, interpret
from pllab.pipeline.rank_run import RankTransport, exchange_timelines
from pllab.pipeline.record import Record
from pllab.pipeline.sleep import SleepWork, sleeper
from pllab.pipeline.stage import Stage, as_tuple
from pllab.pipeline.stage_work import StageWork, as_sequential
from pllab.pipeline.stopwatch import timing
from pllab.pipeline.stream import Packet, stream_for
from pllab.pipeline.tied_ranks import Place, Tied
from pllab.pipeline.transport import Name
from pllab.pipeline.whole import deadline
from pllab.pipeline.wires import Headers, Inbox, Outbox, Wire, crossings
from pllab.schedule import Schedule, check
from pllab.timeline import Engine


class RankExecutor:
    """Run this rank's row of a schedule; every rank of the group makes one and calls the same steps.

    Example, on each of two ranks:

        def loss(logits, labels):    # (rows, time, vocabulary) and (rows, time); the labels are shifted already
            return cross_entropy(logits.flatten(0, 1), labels.flatten())

        stages = cut(layers_of(model), [2, 2, 1, 1])    # of all ranks; interleaved(2, 8) has four
        mine = {stage: stages[stage] for stage in schedule.stages_of_rank(rank())}
        executor = RankExecutor(schedule, mine, loss, tied=tied_weights(stages))
        value, timeline = executor.step(input_ids, labels)    # the same on every rank

    Only the ranks of the first and of the last stage look at the batch and at the targets; others may pass None.
    Loss and timeline are those of all ranks, on every rank; the clock is the host's, so that the ranks of one host
    share it. `tied` says which weights of different stages are one, as `tied_weights` finds them on the whole list of
    stages; their gradient is summed once in a step. Stages live on the CPU under gloo, and under nccl on the GPU of
    their rank. The rest is as for `LaneExecutor`.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: stages, loss or group do not fit the schedule, or the backend not the stages' device.

    Lesson 11.
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: Mapping[int, nn.Module],
        loss: Loss | None = None,
        *,
        mean_over: Count | None = None,
        tied: Sequence[Sequence[Place]] = (),
        timeout_s: float = 60.0,
    ) -> None:
        check(schedule)
        check_ranks(schedule, stages)
        self.schedule = schedule
        check_loss(loss, mean_over, stages.get(schedule.num_stages - 1))
        self.timeout_s = deadline(timeout_s)
        self._loss = loss
        self._mean_over = mean_over
        self._last = schedule.num_stages - 1
        self._modules = {number: as_sequential(stage) for number, stage in stages.items()}
        self._sleepers = {number: sleeper(stage) for number, stage in stages.items()}
        self._engine: Engine = "real" if None in self._sleepers.values() else "emulated"
        self._device = place_on_rank(self._modules)
        self._stream = stream_for(self._device)
        self._tied = Tied(tied, schedule, self._modules)
        self._inwards, self._outwards = self._wires()
        self._headers: dict[int, Headers] = {}  # by shape of the batch
        self._shares_clock = is_shared()
        self._is_cut_short = False

    def step(self, batch: Batch | None = None, targets: Batch | None = None) -> Step:
        """Run this rank's actions once; add to the parameters' `.grad`.

        Raises:
            ValueError: the batch has fewer rows than the schedule has micro-batches, or other than the targets, or
                some stages sleep, and the last one, or no batch is given.
            PeerError: another rank went away, or did not send in time.
            RuntimeError: an earlier step failed half way.
        """
        if self._is_cut_short:
            raise RuntimeError("an earlier step failed, and its messages may still be under way; start the ranks again")
        score = self._score(targets)
        here = self._first_packets(batch)
        record = Record(self._engine, self.schedule.num_ranks)
        self._is_cut_short = world_size() > 1  # until the end is reached
        shape, num_rows = self._agree_on_shape(batch)
        if not num_rows and self._engine == "real":
            awake = next(number for number, asleep in self._sleepers.items() if asleep is None)
            raise ValueError(f"stage 0 has no batch, and stage {awake} does not sleep; give it one, or let all sleep")
        if score is not None:
            score.check_rows(num_rows)
        transport = self._transport(here, self._headers.setdefault(shape, {}))
        works = self._works(score)
        self._tied.put_aside()
        self._stream.begin()
        self._stream.start_clock(None)
        try:
            with torch.enable_grad(), self._stream.running():
                interpret(self.schedule.rows[rank()], works, transport, timing(record, rank(), self._stream))
                transport.flush()
        finally:
            self._stream.end()
        self._tied.add_up()
        loss = 0.0 if score is None else score.total()
        mine = record.timeline(from_zero=False)
        mine = mine if self._shares_clock else from_common_zero(mine)
        timeline, loss = exchange_timelines(self.schedule, mine, loss, self._device)
        self._is_cut_short = False
        return Step(loss, timeline.from_zero())

    def _wires(self) -> tuple[list[Wire], list[Wire]]:
        """The wires into this rank and those out of it, one for each rank it exchanges packets with."""
        ranks = range(self.schedule.num_ranks)
        all_ways = {(a, b): tuple(crossings(self.schedule, a, b)) for a in ranks for b in ranks}
        used = [way for way, crossing in all_ways.items() if crossing]
        groups = one_way_groups(used)
        place = (self._device, self.timeout_s)
        inwards = [Wire(a, all_ways[a, b], groups[a, b], *place) for a, b in used if b == rank()]
        outwards = [Wire(b, all_ways[a, b], groups[a, b], *place) for a, b in used if a == rank()]
        return inwards, outwards

    def _transport(self, here: dict[Name, Packet], headers: Headers) -> RankTransport:
        inboxes = {wire.peer: Inbox(wire, headers) for wire in self._inwards}
        outboxes = {wire.peer: Outbox(wire, headers) for wire in self._outwards}
        return RankTransport(self.schedule, rank(), here, inboxes, outboxes)

    def _agree_on_shape(self, batch: Batch | None) -> tuple[int, int]:
        """A number for the shape of the batch, and its rows, told to all ranks by the one that has the first stage."""
        told = torch.zeros(2, dtype=torch.int64, device=self._device)
        teller = self.schedule.rank_of_stage[0]
        if rank() != teller:
            told = receive_async(told, teller).wait_for(self.timeout_s)
        elif batch is not None:
            shapes = [(tuple(tensor.shape), tensor.dtype) for tensor in as_tuple(batch, "the batch")]
            told += torch.tensor([zlib.crc32(repr(shapes).encode()), shapes[0][0][0]], device=self._device)
        if rank() == teller:
            for message in [send_async(told, other) for other in range(world_size()) if other != teller]:
                message.wait_for(self.timeout_s)
        number, num_rows = map(int, told.tolist())
        return number, num_rows

    def _first_packets(self, batch: Batch | None) -> dict[Name, Packet]:
        if 0 not in self._modules:
            return {}
        num_microbatches = self.schedule.num_microbatches
        if batch is None and self._engine == "emulated":
            return {Name(0, True, microbatch): Packet(()) for microbatch in range(num_microbatches)}
        if batch is None:
            raise ValueError("batch is None on the rank of the first stage; only sleeping stages run without one")
        parts = [
            tuple(tensor.detach().to(self._device) for tensor in part) for part in cut_batch(batch, num_microbatches)
        ]
        return {Name(0, True, index): Packet(part, [False] * len(part)) for index, part in enumerate(parts)}

    def _score(self, targets: Batch | None) -> Score | None:
        if self._last not in self._modules or self._loss is None or self._sleepers[self._last] is not None:
            return None
        if targets is None:
            raise ValueError("targets is None on the rank of the last stage, which computes the loss")
        parts = cut_batch(targets, self.schedule.num_microbatches, "targets")
        return Score(self._loss, [tuple(tensor.to(self._device) for tensor in part) for part in parts], self._mean_over)

    def _works(self, score: Score | None) -> dict[int, Work]:
        seed = int(torch.randint(2**62, ()).item())
        works: dict[int, Work] = {}
        for number, module in self._modules.items():
            stage = Stage(number, module, self._device, {})
            asleep = self._sleepers[number]
            scored = score if number == self._last else None
            works[number] = SleepWork(asleep) if asleep else StageWork(stage, seed, scored)
        return works
