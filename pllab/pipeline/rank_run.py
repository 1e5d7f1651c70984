"""The wires of one rank in one step, and the timeline of all ranks after it."""

from collections.abc import Mapping

import torch

from pllab.comm import all_reduce
from pllab.pipeline.stream import Packet
from pllab.pipeline.transport import NOTHING, Name, made_by, taken_by
from pllab.pipeline.wires import Inbox, Outbox
from pllab.schedule import Action, Schedule
from pllab.timeline import Span, Timeline


class RankTransport:
    """Packets for the own stages stay here; the others go out on a wire, by message."""

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        here: dict[Name, Packet],
        inboxes: Mapping[int, Inbox],
        outboxes: Mapping[int, Outbox],
    ) -> None:
        self._schedule = schedule
        self._rank = rank
        self._here = here
        self._inboxes = inboxes
        self._outboxes = outboxes

    def take(self, action: Action) -> Packet:
        """The packet from this rank, or from the wire of the rank that makes it."""
        name = taken_by(action, self._schedule.num_stages)
        if name is None:
            return NOTHING
        if name in self._here:
            return self._here.pop(name)
        maker = self._schedule.rank_of_stage[name.stage - 1 if name.forward else name.stage + 1]
        packet = self._inboxes[maker].take(name)
        if maker in self._outboxes and any(tensor is not None for tensor in packet.tensors):
            self._outboxes[maker].forget(self._inboxes[maker].made_at(name))
        return packet

    def give(self, action: Action, packet: Packet) -> None:
        """Keep the packet, or start to send it."""
        name = made_by(action, self._schedule.num_stages)
        if name is None:
            return
        taker = self._schedule.rank_of_stage[name.stage]
        if taker == self._rank:
            self._here[name] = packet
        else:
            self._outboxes[taker].send(name, packet)

    def flush(self) -> None:
        """Wait until all that was sent has arrived."""
        for outbox in self._outboxes.values():
            outbox.flush()


def exchange_timelines(schedule: Schedule, mine: Timeline, loss: float, device: torch.device) -> tuple[Timeline, float]:
    """The timeline of all ranks and the loss, which the last stage's rank has, in one sum over the ranks.

    All ranks know all actions, so only times travel: each rank fills in its own and leaves zeros for the others. A
    timeline is emulated where all ranks' are.
    """
    order = [(rank, action) for rank, row in enumerate(schedule.rows) for action in row]
    place = {action: index for index, (_, action) in enumerate(order)}
    times = torch.zeros(len(order) + 1, 2, dtype=torch.float64)
    times[-1, 0], times[-1, 1] = loss, mine.engine == "real"
    for span in mine.spans:
        assert isinstance(span.action, Action)
        times[place[span.action], 0], times[place[span.action], 1] = span.start, span.end
    times = times.to(device)
    all_reduce(times)
    *pairs, (total, num_real) = times.tolist()
    spans = [Span(rank, action, *pair) for (rank, action), pair in zip(order, pairs, strict=True)]
    return Timeline.of(spans, "real" if num_real else "emulated", schedule.num_ranks), total
