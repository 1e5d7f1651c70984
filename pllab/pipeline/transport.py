"""Which packet an action takes and which it makes: all that an interpreter and the wires between stages agree on.

A packet is named by who takes it, so that both ends of a wire know its name from the schedule alone.
"""

from typing import NamedTuple, Protocol

from pllab.pipeline.stream import Packet
from pllab.schedule import Action, Kind

NOTHING = Packet(())


class Name(NamedTuple):
    """A packet by its receiver: stage, activations (forward) or their gradients (not forward), micro-batch."""

    stage: int
    forward: bool
    microbatch: int

    def __str__(self) -> str:
        what = "activations" if self.forward else "gradients"
        return f"{what} of micro-batch {self.microbatch} for stage {self.stage}"


class Transport(Protocol):
    """Brings an action what it takes, and carries away what it made."""

    def take(self, action: Action) -> Packet:
        """Wait for the packet this action takes; `NOTHING` where it takes none."""

    def give(self, action: Action, packet: Packet) -> None:
        """Pass the packet this action made to whoever takes it; never waits."""


def taken_by(action: Action, num_stages: int) -> Name | None:
    """The packet an action takes; None for W, and for a backward of the last stage, which starts from the loss.

    Example: `2F0` takes the activations for stage 2 that `1F0` makes; `0F0` takes a part of the batch.
    """
    stage, kind, microbatch = action
    if kind is Kind.W or (kind is not Kind.F and stage == num_stages - 1):
        return None
    return Name(stage, kind is Kind.F, microbatch)


def made_by(action: Action, num_stages: int) -> Name | None:
    """The packet an action makes; None for W, for the last stage's F and for a backward of the first stage.

    Example: with three stages, `1B0` and `1I0` make the gradients for stage 0, `2F0` makes nothing but a loss.
    """
    stage, kind, microbatch = action
    receiver = stage + 1 if kind is Kind.F else stage - 1
    if kind is Kind.W or not 0 <= receiver < num_stages:
        return None
    return Name(receiver, kind is Kind.F, microbatch)
