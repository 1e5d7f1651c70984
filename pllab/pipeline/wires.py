"""Wires between two ranks, one each way: messages are started early and waited for late.

Both ends know the schedule, so both know which packets cross a wire and in which order. The receiver makes room a
few packets ahead, and a sender that computes is not held up by a receiver that does too.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from pllab.comm import Travelling, receive_async, send_async
from pllab.pipeline.header import (
    Header,
    empty_header,
    empty_tensors,
    filled,
    header_of,
    pack_header,
    unpack_header,
)
from pllab.pipeline.stream import Packet
from pllab.pipeline.transport import Name, made_by, taken_by
from pllab.schedule import Schedule

_AHEAD = 4  # packets a receiver makes room for before it needs them
Headers = dict[Name, Header]  # what crosses a wire, known after the first batch of a shape


class Crossing(NamedTuple):
    """A packet that goes from one rank to another, and where in their rows it is made and taken."""

    name: Name
    made_at: int
    taken_at: int


class Wire(NamedTuple):
    """One way between this rank and a peer: what crosses it in a step, in order, and the group (nccl) it uses."""

    peer: int
    crossings: tuple[Crossing, ...]
    group: Any
    device: torch.device
    timeout_s: float


def crossings(schedule: Schedule, sender: int, receiver: int) -> Iterator[Crossing]:
    """The packets from one rank to another, in the order in which they are made.

    Example: 1F1B on two ranks sends the activations of micro-batches 0, 1, ... for stage 1 from rank 0 to rank 1.
    """
    taken = {taken_by(action, schedule.num_stages): at for at, action in enumerate(schedule.rows[receiver])}
    for at, action in enumerate(schedule.rows[sender]):
        name = made_by(action, schedule.num_stages)
        if name is not None and name in taken and sender != receiver:
            yield Crossing(name, at, taken[name])


class Inbox:
    """The receiving end of a wire in one step.

    Raises:
        PeerError: the sender went away or did not come in time (from `take`).
    """

    def __init__(self, wire: Wire, headers: Headers) -> None:
        self._wire = wire
        self._headers = headers
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
        return filled(self._headers[name], tensors)

    def made_at(self, name: Name) -> int:
        """How far the sender was in its row when it sent this packet."""
        return self._made_at[name]

    def _look_ahead(self) -> None:
        while self._to_come and len(self._started) < _AHEAD and self._to_come[0] in self._headers:
            self._start_next()

    def _start_next(self) -> None:
        name, wire = self._to_come.popleft(), self._wire
        if name not in self._headers:
            message = receive_async(empty_header(wire.device), wire.peer, wire.group)
            self._headers[name] = unpack_header(message.wait_for(wire.timeout_s))
        room = empty_tensors(self._headers[name], wire.device)
        self._started[name] = [receive_async(tensor, wire.peer, wire.group) for tensor in room]


class Outbox:
    """The sending end of a wire in one step; it keeps what it sent until that has arrived."""

    def __init__(self, wire: Wire, headers: Headers) -> None:
        self._wire = wire
        self._headers = headers
        self._taken_at = {crossing.name: crossing.taken_at for crossing in wire.crossings}
        self._sent: list[tuple[int, Travelling]] = []

    def send(self, name: Name, packet: Packet) -> None:
        """Start to send a packet.

        Raises:
            RuntimeError: it is not of the shape it had in an earlier step with a batch of this shape.
        """
        header = header_of(packet)
        if name not in self._headers:
            self._headers[name] = header
            self._start(name, pack_header(header, self._wire.device))
        if self._headers[name] != header:
            raise RuntimeError(f"the {name} are {header} and were {self._headers[name]}; make a new RankExecutor")
        for tensor in packet.tensors:
            if tensor is not None:
                self._start(name, tensor.contiguous())

    def forget(self, reached: int) -> None:
        """Let go of what the peer has taken, known from how far it is in its row."""
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
