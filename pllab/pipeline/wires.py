"""The wires between ranks, one for each direction: transfers start early and are waited for late.

Both ends know the schedule, so both know which packets cross a wire and in which order. The first batch of a shape
travels by message, each packet after a header with its shapes; later batches need no headers. Ranks of one host then
share memory: the sender writes a packet where the receiver reads it, and the message is a single byte. Packets whose
headers are given beforehand travel by message, and nothing but them.
"""

import pickle
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import torch

from pllab.comm import (
    Group,
    Travelling,
    all_gather_object,
    in_world,
    link_is_open,
    map_shared_memory,
    one_way_groups,
    rank,
    receive_async,
    send_async,
)
from pllab.pipeline.engine import Timing, Work, interpret
from pllab.pipeline.packets import NOTHING, Name, Packet, made_by, taken_by
from pllab.schedule import Action, Schedule

_AHEAD = 4  # packets a receiver makes room for before it needs them
_HEADER_BYTES = 2048
_ALIGN = 64  # bytes; tensors begin at multiples of a cache line
_MOST_SHARED = 2**28  # bytes of one rank; with more in a step, packets travel by message


class Outline(NamedTuple):
    """A tensor without its values: what a receiver must know before the tensor comes."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    needs_grad: bool

    @property
    def num_bytes(self) -> int:
        """Bytes of the values."""
        return prod(self.shape) * self.dtype.itemsize


Header = tuple[Outline | None, ...]  # None where a packet of gradients has no tensor


class Crossing(NamedTuple):
    """A packet that goes from one rank to another, and where in their rows it is made and taken."""

    name: Name
    made_at: int
    taken_at: int


class Wire(NamedTuple):
    """One way between two ranks: what crosses it in a batch, in order, and the group (nccl) it uses.

    `sender` and `receiver` count in the pipeline's group; `peer`, the other one of them, among all ranks.
    """

    sender: int
    receiver: int
    peer: int
    crossings: tuple[Crossing, ...]
    group: Any
    device: torch.device
    timeout_s: float


@dataclass
class Traffic:
    """The packets of batches of one shape: the wires they cross, their headers, and their slots in shared memory.

    Without `slots` packets travel by message.
    """

    inwards: Sequence[Wire]
    outwards: Sequence[Wire]
    headers: dict[Name, Header] = field(default_factory=dict)
    slots: Mapping[Name, Sequence[torch.Tensor]] | None = None
    has_shared: bool = False


def crossings(schedule: Schedule, sender: int, receiver: int) -> Iterator[Crossing]:
    """The packets from one rank to another, in the order in which they are made.

    Example: 1F1B on two ranks sends the activations of micro-batches 0, 1, ... for stage 1 from rank 0 to rank 1.
    """
    taken = {taken_by(action): at for at, action in enumerate(schedule.rows[receiver])}
    for at, action in enumerate(schedule.rows[sender]):
        name = made_by(action)
        if name is not None and name in taken and sender != receiver:
            yield Crossing(name, at, taken[name])


class Inbox:
    """The receiving end of a wire in one batch.

    Raises:
        PeerError: the sender went away or sent too late (from `take`).
    """

    def __init__(self, wire: Wire, traffic: Traffic) -> None:
        self._wire = wire
        self._traffic = traffic
        self._to_come = deque(crossing.name for crossing in wire.crossings)
        self._made_at = {crossing.name: crossing.made_at for crossing in wire.crossings}
        self._started: dict[Name, list[Travelling]] = {}
        self._look_ahead()

    def take(self, name: Name) -> Packet:
        """Wait for a packet; those sent before it and not yet taken stay for later."""
        while name not in self._started:
            self._start_next()
        tensors = [message.wait_for(self._wire.timeout_s) for message in self._started.pop(name)]
        self._look_ahead()
        header = self._traffic.headers[name]
        arrived = iter(tensors if self._traffic.slots is None else self._traffic.slots[name])
        values = [None if one is None else next(arrived) for one in header]
        return Packet(values, [one is not None and one.needs_grad for one in header])

    def made_at(self, name: Name) -> int:
        """How far the sender was in its row when it sent this packet."""
        return self._made_at[name]

    def _look_ahead(self) -> None:
        while self._to_come and len(self._started) < _AHEAD and self._to_come[0] in self._traffic.headers:
            self._start_next()

    def _start_next(self) -> None:
        name, wire = self._to_come.popleft(), self._wire
        if name not in self._traffic.headers:
            buffer = torch.empty(_HEADER_BYTES, dtype=torch.uint8, device=wire.device)
            message = receive_async(buffer, wire.peer, wire.group).wait_for(wire.timeout_s)
            self._traffic.headers[name] = pickle.loads(message.cpu().numpy().tobytes())  # from a rank of this group
        self._started[name] = [receive_async(tensor, wire.peer, wire.group) for tensor in self._buffers(name)]

    def _buffers(self, name: Name) -> list[torch.Tensor]:
        if self._traffic.slots is not None:
            return [torch.empty(1, dtype=torch.uint8)]
        outlines = [one for one in self._traffic.headers[name] if one is not None]
        return [torch.empty(one.shape, dtype=one.dtype, device=self._wire.device) for one in outlines]


class Outbox:
    """The sending end of a wire in one batch; it keeps what it sent until that has arrived."""

    def __init__(self, wire: Wire, traffic: Traffic) -> None:
        self._wire = wire
        self._traffic = traffic
        self._taken_at = {crossing.name: crossing.taken_at for crossing in wire.crossings}
        self._sent: list[tuple[int, Travelling]] = []

    def send(self, name: Name, packet: Packet) -> None:
        """Start to send a packet.

        Raises:
            RuntimeError: it has another shape than in an earlier step with a batch of this shape.
        """
        header = _header_of(packet)
        if name not in self._traffic.headers:
            self._traffic.headers[name] = header
            self._start(name, _packed(header, self._wire.device))
        if self._traffic.headers[name] != header:
            earlier = self._traffic.headers[name]
            raise RuntimeError(f"the {name} are {header} and were {earlier}; make a new RankExecutor")
        tensors = [tensor for tensor in packet.tensors if tensor is not None]
        if self._traffic.slots is None:
            for tensor in tensors:
                self._start(name, tensor.contiguous())
            return
        for slot, tensor in zip(self._traffic.slots[name], tensors, strict=True):
            slot.copy_(tensor)
        self._start(name, torch.zeros(1, dtype=torch.uint8))

    def forget(self, reached: int) -> None:
        """Release the messages that the peer has taken by the time it has reached this place in its row."""
        self._finish([message for taken_at, message in self._sent if taken_at < reached])
        self._sent = [(taken_at, message) for taken_at, message in self._sent if taken_at >= reached]

    def flush(self) -> None:
        """Wait until everything has arrived."""
        self._finish([message for _, message in self._sent])
        self._sent.clear()

    def _start(self, name: Name, tensor: torch.Tensor) -> None:
        message = send_async(tensor, self._wire.peer, self._wire.group)
        self._sent.append((self._taken_at[name], message))

    def _finish(self, messages: list[Travelling]) -> None:
        for message in messages:
            message.wait_for(self._wire.timeout_s)


class RankTransport:
    """Packets for this rank's stages stay local, as do those that enter or leave; the others go out on a wire."""

    def __init__(
        self,
        own: int,
        homes: Mapping[int, int],
        local: dict[Name, Packet],
        inboxes: Mapping[int, Inbox],
        outboxes: Mapping[int, Outbox],
    ) -> None:
        self._own = own
        self._homes = homes
        self._local = local
        self._inboxes = inboxes
        self._outboxes = outboxes

    def take(self, action: Action) -> Packet:
        """The packet from this rank, or from the wire of the rank that makes it."""
        name = taken_by(action)
        if name is None:
            return NOTHING
        if name in self._local:
            return self._local.pop(name)
        maker = self._homes[name.stage - 1 if name.forward else name.stage + 1]
        packet = self._inboxes[maker].take(name)
        if maker in self._outboxes and any(tensor is not None for tensor in packet.tensors):
            self._outboxes[maker].forget(self._inboxes[maker].made_at(name))
        return packet

    def give(self, action: Action, packet: Packet) -> None:
        """Keep the packet, or start to send it."""
        name = made_by(action)
        if name is None:
            return
        taker = self._homes.get(name.stage, self._own)
        if taker == self._own:
            self._local[name] = packet
        else:
            self._outboxes[taker].send(name, packet)


class Wires:
    """All wires of this rank for a schedule and its parts; every rank of the group makes them and runs the same."""

    def __init__(
        self,
        schedule: Schedule,
        device: torch.device,
        timeout_s: float,
        group: Group | None = None,
        headers: Mapping[Name, Header] | None = None,
    ) -> None:
        self._group, self._own, self._headers = group, rank(group), headers or {}
        self._device = device
        self._timeout_s = timeout_s
        self._homes = schedule.rank_of_stage
        ranks = range(schedule.num_ranks)
        used = [(a, b) for a in ranks for b in ranks if next(crossings(schedule, a, b), None) is not None]
        worldwide = {(a, b): (in_world(a, group), in_world(b, group)) for a, b in used}
        one_way = one_way_groups(list(worldwide.values()))
        self._groups = {pair: one_way[there] for pair, there in worldwide.items()}
        self._traffic: dict[tuple[int, int, bool], Traffic] = {}

    def run(
        self,
        schedule: Schedule,
        shape: int,
        works: Mapping[int, Work],
        entering: Mapping[Name, Packet],
        timing: Timing,
    ) -> dict[Name, Packet]:
        """Interpret this rank's row and wait until all that it sent has arrived.

        Args:
            schedule: the whole schedule, or the F's of it.
            shape: a number that is the same for batches of the same shape.
            works: the work of this rank's stages.
            entering: the packets that come to this rank from outside the pipeline.
            timing: a context manager for each action.

        Returns:
            The packets that leave the pipeline from this rank.

        Raises:
            PeerError: another rank went away or sent too late.
        """
        key = schedule.num_actions, shape, link_is_open()  # ranks behind slow links share no memory
        if key not in self._traffic:
            wires = self._inward_wires(schedule), self._outward_wires(schedule)
            self._traffic[key] = Traffic(*wires, dict(self._headers), has_shared=bool(self._headers))
        traffic = self._traffic[key]
        if traffic.headers and not traffic.has_shared:
            self._share_memory(traffic)
        local = dict(entering)
        inboxes = {wire.sender: Inbox(wire, traffic) for wire in traffic.inwards}
        outboxes = {wire.receiver: Outbox(wire, traffic) for wire in traffic.outwards}
        transport = RankTransport(self._own, self._homes, local, inboxes, outboxes)
        interpret(schedule.rows[self._own], works, transport, timing)
        for outbox in outboxes.values():
            outbox.flush()
        return local

    def _inward_wires(self, schedule: Schedule) -> list[Wire]:
        return [self._wire(schedule, a, b, peer=a) for a, b in self._groups if b == self._own]

    def _outward_wires(self, schedule: Schedule) -> list[Wire]:
        return [self._wire(schedule, a, b, peer=b) for a, b in self._groups if a == self._own]

    def _wire(self, schedule: Schedule, sender: int, receiver: int, peer: int) -> Wire:
        crossing = tuple(crossings(schedule, sender, receiver))
        group, there = self._groups[sender, receiver], in_world(peer, self._group)
        return Wire(sender, receiver, there, crossing, group, self._device, self._timeout_s)

    def _share_memory(self, traffic: Traffic) -> None:
        """Place the packets of a shape in memory that all ranks share, if they can; every rank must call it."""
        traffic.has_shared = True
        sent = [crossing.name for wire in traffic.outwards for crossing in wire.crossings]
        places, num_bytes = _layout({name: traffic.headers[name] for name in sent})
        fits = self._device.type == "cpu" and num_bytes <= _MOST_SHARED
        everywhere = all_gather_object((places, fits), self._group)
        memory = map_shared_memory(num_bytes, self._group) if all(fits for _, fits in everywhere) else None
        if memory is not None:
            traffic.slots = {
                name: _views(memory[sender], place, traffic.headers[name])
                for sender, (places, _) in enumerate(everywhere)
                for name, place in places.items()
                if name in traffic.headers
            }


def _layout(headers: Mapping[Name, Header]) -> tuple[dict[Name, int], int]:
    """Where each packet begins, one after the other, and the bytes of all."""
    places, end = {}, 0
    for name, header in headers.items():
        places[name] = end
        end += sum(_aligned_bytes(one) for one in header if one is not None)
    return places, end


def _views(memory: torch.Tensor, start: int, header: Header) -> list[torch.Tensor]:
    """The tensors of a packet that begins at byte `start` of a flat memory."""
    views = []
    for one in header:
        if one is not None:
            views.append(memory[start : start + one.num_bytes].view(one.dtype).view(one.shape))
            start += _aligned_bytes(one)
    return views


def _aligned_bytes(outline: Outline) -> int:
    return -(-outline.num_bytes // _ALIGN) * _ALIGN


def _header_of(packet: Packet) -> Header:
    flags = packet.needs_grad or [False] * len(packet.tensors)
    pairs = zip(packet.tensors, flags, strict=True)
    return tuple(None if tensor is None else Outline(tuple(tensor.shape), tensor.dtype, flag) for tensor, flag in pairs)


def _packed(header: Header, device: torch.device) -> torch.Tensor:
    """A header as a message of fixed size."""
    packed = pickle.dumps(header)
    if len(packed) > _HEADER_BYTES:
        raise ValueError(f"a stage passes on {len(header)} tensors, too many to describe; pass on fewer")
    return torch.frombuffer(bytearray(packed.ljust(_HEADER_BYTES, b"\0")), dtype=torch.uint8).to(device)
