"""Stages that sleep instead of computing: the emulated engine.

A sleeping stage needs no core, so eight real stages with real threads, queues and messages run on two cores and
show the true bubble.
"""

import math
import time
from typing import Any, NoReturn

import torch
from torch import nn

from pllab.pipeline.engine import Packet
from pllab.schedule import Action, Kind


class SleepStage(nn.Module):
    """A stage of a `LaneExecutor` whose forward takes `forward_s` seconds and whose backward takes `backward_s`.

    Example: `LaneExecutor(one_f_one_b(8, 16), [SleepStage(0.01, 0.02)] * 8).step().timeline` is that of an eight-stage
    pipeline on any laptop.

    A split backward takes `backward_input_s` and then `backward_weight_s`, by default half of `backward_s` each. If
    only these two are given, `backward_s` is their sum.

    Raises:
        ValueError: a time is negative or infinite, or the time of a backward is missing.
    """

    def __init__(
        self,
        forward_s: float,
        backward_s: float | None = None,
        *,
        backward_input_s: float | None = None,
        backward_weight_s: float | None = None,
    ) -> None:
        super().__init__()
        if backward_s is None and backward_input_s is not None and backward_weight_s is not None:
            backward_s = backward_input_s + backward_weight_s
        if backward_s is None or (backward_input_s is None) != (backward_weight_s is None):
            raise ValueError(
                f"backward_s={backward_s}, backward_input_s={backward_input_s} and backward_weight_s="
                f"{backward_weight_s} do not say how long a backward takes; give backward_s, or the other two"
            )
        self.forward_s = forward_s
        self.backward_s = backward_s
        self.backward_input_s = backward_s / 2 if backward_input_s is None else backward_input_s
        self.backward_weight_s = backward_s / 2 if backward_weight_s is None else backward_weight_s
        for seconds in (self.forward_s, self.backward_input_s, self.backward_weight_s, self.backward_s):
            if not 0 <= seconds < math.inf:
                raise ValueError(f"a stage cannot sleep {seconds} s; give finite times of at least 0")

    def forward(self, *_: Any) -> NoReturn:
        """Refuse to run: who sleeps computes nothing, so there is nothing to differentiate.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "a SleepStage passes nothing on; run it as a whole stage of a LaneExecutor, or a schedule with run_emulated"
        )


class SleepWork:
    """What F, B, I and W do to a sleeping stage: take their time.

    A sleeper wakes late, by 0.05 to 0.1 ms on Linux. What one sleep overran is taken off the next, so that a row of
    many short actions takes as long as their sum.
    """

    def __init__(self, stage: SleepStage) -> None:
        self._seconds = {
            Kind.F: stage.forward_s,
            Kind.B: stage.backward_s,
            Kind.I: stage.backward_input_s,
            Kind.W: stage.backward_weight_s,
        }
        self._overslept_s = 0.0
        self._token = Packet((torch.zeros(1),), (False,))

    def parts(self, action: Action) -> tuple[Action, ...]:
        """The action itself: a sleeper recomputes nothing."""
        return (action,)

    def perform(self, action: Action, packet: Packet) -> Packet:
        """Sleep as long as the action takes, then pass on what came, or a token, so that a message goes out."""
        start = time.perf_counter()
        wanted_s = self._seconds[action.kind] - self._overslept_s
        time.sleep(max(0.0, wanted_s))
        self._overslept_s = time.perf_counter() - start - wanted_s
        return packet if packet.tensors else self._token


def sleeper(module: nn.Module) -> SleepStage | None:
    """The sleeping stage a module is, bare or inside containers of one; None if it is a real stage."""
    inside = [part for part in module.modules() if next(part.children(), None) is None]
    alone = inside[0] if len(inside) == 1 else None
    return alone if isinstance(alone, SleepStage) else None
