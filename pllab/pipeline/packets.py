"""The packets that travel between stages, and their names.

An action takes one packet and makes one. A packet is named by the stage that takes it, so that both ends of a wire know
its name from the schedule alone:

    batch --> [0F0] --> [1F0] --> [2F0] --> outputs, or the loss        names (stage, forward, micro-batch):
              (0,F,0)   (1,F,0)   (2,F,0)   (3,F,0)                     the upper row goes up
    (-1,B,0)  (0,B,0)   (1,B,0)   (2,B,0)                               the lower row comes down
    input  <-- [0B0] <-- [1B0] <-- [2B0] <-- gradients of the outputs

A pipe or an executor puts in the packets that enter at both ends, and takes out those that leave.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from pllab.comm.devices import event_after, is_gpu
from pllab.schedule import Action, Kind


class Packet(NamedTuple):
    """Tensors on their way, which of them need a gradient, and the event of a GPU after which they may be read."""

    tensors: Sequence[torch.Tensor | None]
    needs_grad: Sequence[bool] = ()
    ready: torch.Event | None = None


NOTHING = Packet(())


class Name(NamedTuple):
    """The name of a packet: the stage that takes it, activations (forward) or their gradients, micro-batch."""

    stage: int
    forward: bool
    microbatch: int

    def __str__(self) -> str:
        what = "activations" if self.forward else "gradients"
        return f"{what} of micro-batch {self.microbatch} for stage {self.stage}"


def taken_by(action: Action) -> Name | None:
    """The packet an action takes; None for W, whose stage kept all it needs from I.

    Example: `2F0` takes the activations for stage 2 that `1F0` makes.
    """
    return None if action.kind is Kind.W else Name(action.stage, action.kind is Kind.F, action.microbatch)


def made_by(action: Action) -> Name | None:
    """The packet an action makes; None for W.

    Example: `1B0` and `1I0` make the gradients for stage 0.
    """
    receiver = action.stage + 1 if action.kind is Kind.F else action.stage - 1
    return None if action.kind is Kind.W else Name(receiver, action.kind is Kind.F, action.microbatch)


def as_packet(tensors: Sequence[torch.Tensor], needs_grad: Sequence[bool] | None = None) -> Packet:
    """The caller's tensors as a packet: detached, with the event after which they may be read."""
    on_gpu = next((tensor for tensor in tensors if is_gpu(tensor.device)), None)
    ready = None if on_gpu is None else event_after(torch.accelerator.current_stream(on_gpu.device))
    return Packet([tensor.detach() for tensor in tensors], needs_grad or [False] * len(tensors), ready)
