"""The one interpreter of a row: whatever the schedule, the stages and the wires between them.

A schedule is data. What GPipe, 1F1B, ZB-H1 and the rest do differently is in their rows; what it takes to run a row
is here, once, for lanes and for ranks, for real and for sleeping stages.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from pllab.pipeline.stream import Packet
from pllab.pipeline.transport import Transport
from pllab.schedule import Action


class Work(Protocol):
    """What a stage does with an action: see `stage_work.py` and `sleep.py`."""

    def perform(self, action: Action, packet: Packet) -> Packet:
        """Run the action on what it took; return what it made."""


Timing = Callable[[Action], AbstractContextManager[None]]


def interpret(row: Iterable[Action], works: Mapping[int, Work], transport: Transport, timing: Timing) -> None:
    """Run one rank's actions in order: take, perform, give.

    Nothing here keeps ranks in step. An action waits for the one packet it takes, as long as that takes, and the
    clock only runs while it performs. A checked schedule has no circle of such waits, so every row ends.

    Source: `_step_microbatches` of torch.distributed.pipelining's schedules; lesson 11.
    """
    for action in row:
        packet = transport.take(action)
        with timing(action):
            made = works[action.stage].perform(action, packet)
        transport.give(action, made)
