"""One step of a lane executor: every lane walks its row, and the first failure ends them all."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from queue import Empty
from typing import NamedTuple

import torch

from pllab.pipeline.ambient import Ambient
from pllab.pipeline.compute import Upstream
from pllab.pipeline.interpret import Work, interpret
from pllab.pipeline.mailbox import Mailbox
from pllab.pipeline.microbatch import Tensors
from pllab.pipeline.record import Record
from pllab.pipeline.stopwatch import timing
from pllab.pipeline.stream import Base, HostStream, Packet
from pllab.pipeline.transport import NOTHING, Name, made_by, taken_by
from pllab.pipeline.worker import OutQueue, Result, Task, Workers
from pllab.schedule import Action, Schedule


class LaneTransport:
    """The wires of one lane: packets go from mailbox to mailbox by reference, between GPUs by copy."""

    def __init__(
        self,
        schedule: Schedule,
        mailbox: Mailbox,
        receivers: Mapping[int, Mailbox],
        stream: HostStream,
        device: torch.device,
    ) -> None:
        self._num_stages = schedule.num_stages
        self._mailbox = mailbox
        self._receivers = receivers
        self._stream = stream
        self._device = device

    def take(self, action: Action) -> Packet:
        """Wait for the packet in this lane's mailbox and bring it to this lane's device."""
        name = taken_by(action, self._num_stages)
        if name is None:
            self._mailbox.check()
            return NOTHING
        packet = self._mailbox.take(name)
        return Packet(self._stream.fetch(packet, self._device), packet.needs_grad)

    def give(self, action: Action, packet: Packet) -> None:
        """Leave the packet in the mailbox of the stage that takes it."""
        name = made_by(action, self._num_stages)
        if name is not None:
            self._receivers[name.stage].put(name, packet._replace(ready=self._stream.ready()))


class Lane(NamedTuple):
    """What stays from step to step: a worker, its device and its stream."""

    workers: Workers
    device: torch.device
    stream: HostStream


class LaneRun:
    """One batch through the lanes; it owns the mailboxes, and with them what is on its way."""

    def __init__(
        self, schedule: Schedule, lanes: Sequence[Lane], works: Mapping[int, Work], record: Record, timeout_s: float
    ) -> None:
        self._schedule = schedule
        self._lanes = lanes
        self._works = works
        self._record = record
        self._timeout_s = timeout_s
        self._ambient = Ambient.here()._replace(grad=True)
        self._mailboxes = [Mailbox(timeout_s) for _ in lanes]

    def run(self, micro_batches: Sequence[Tensors]) -> None:
        """Give the first stage its micro-batches, set the lanes going and wait until all have ended.

        Raises:
            TimeoutError: no lane has ended an action for `timeout_s` seconds.
            Exception: the first failure of a lane that is a cause and not a consequence.
        """
        first = self._mailboxes[self._schedule.rank_of_stage[0]]
        for microbatch, tensors in enumerate(micro_batches):
            first.put(Name(0, True, microbatch), _as_packet(tensors))
        with self._streams_open():
            for rank, lane in enumerate(self._lanes):
                lane.workers.in_queues[0].put(Task(partial(self._walk, rank)))
            outcomes = [self._outcome(lane.workers.out_queues[0]) for lane in self._lanes]
        _raise_first_cause(outcomes)

    def stop(self) -> None:
        """Let every lane end at its next packet."""
        self._fail(Upstream("the step was stopped"))

    def _walk(self, rank: int) -> None:
        lane = self._lanes[rank]
        homes = self._schedule.rank_of_stage
        receivers = {stage: self._mailboxes[home] for stage, home in homes.items()}
        transport = LaneTransport(self._schedule, self._mailboxes[rank], receivers, lane.stream, lane.device)
        try:
            with self._ambient.entered(), lane.stream.running():
                interpret(self._schedule.rows[rank], self._works, transport, timing(self._record, rank, lane.stream))
        except BaseException as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        for mailbox in self._mailboxes:
            mailbox.fail(error)

    def _outcome(self, out_queue: OutQueue) -> Result:
        while True:
            seen = len(self._record)
            try:
                return out_queue.get(timeout=self._timeout_s)
            except Empty:
                if len(self._record) == seen:
                    raise TimeoutError(
                        f"no stage has finished an action for {self._timeout_s:g} s; "
                        "give slower stages more time with timeout_s="
                    ) from None

    @contextmanager
    def _streams_open(self) -> Iterator[None]:
        """On GPUs: begin after what the caller has queued, and let the caller go on after what the lanes queue."""
        base: Base | None = None
        for lane in self._lanes:
            lane.stream.begin()
            base = lane.stream.start_clock(base)
        try:
            yield
        finally:
            for lane in self._lanes:
                lane.stream.end()


def _as_packet(tensors: Tensors) -> Packet:
    """A micro-batch as the caller made it: no gradient goes back to it."""
    ready = [torch.cuda.current_stream(tensor.device).record_event() for tensor in tensors if tensor.is_cuda]
    return Packet([tensor.detach() for tensor in tensors], [False] * len(tensors), ready[0] if ready else None)


def _raise_first_cause(outcomes: Sequence[Result]) -> None:
    failures = [value for ok, value in outcomes if not ok]
    failures.sort(key=lambda failure: isinstance(failure[1], Upstream))
    for _, error, traceback in failures:
        raise error.with_traceback(traceback)
