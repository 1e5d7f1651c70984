"""One batch through stages on lanes, in a pipe or an executor, and through the same layers as a plain chain."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pllab.pipeline import LaneExecutor, Pipe
from pllab.pipeline.batches import Batch
from pllab.schedule import Action, Schedule, needs, zb_h1
from pllab.timeline import Timeline

ENGINES = ("pipe", "lanes")
Loss = Callable[[Any, torch.Tensor], torch.Tensor]
mse = nn.functional.mse_loss


class Apply(nn.Module):
    """A layer without parameters, from a function."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def step_on(
    engine: str,
    stages: Sequence[nn.Module],
    x: Batch,
    y: torch.Tensor,
    loss: Loss = mse,
    *,
    make: Callable[[int, int], Schedule] = zb_h1,
    recompute: bool = False,
    devices: Sequence[str] | None = None,
) -> tuple[float, Timeline]:
    """Loss and timeline of a batch in three micro-batches, by default on lanes; a pipe's loss is outside."""
    if engine == "lanes":
        options = {"recompute": recompute, "devices": devices, "timeout_s": 20}
        with LaneExecutor(make(len(stages), 3), stages, loss, **options) as executor:
            return executor.step(x, y)
    places = devices or [f"cpu:{number}" for number in range(len(stages))]
    with Pipe.from_partitions(stages, places, num_microbatches=3, recompute=recompute, timeout_s=20) as pipe:
        value = loss(pipe(x), y.to(places[-1]))
        value.backward()
        return value.item(), pipe.last_timeline


def plain_step(
    stages: Sequence[nn.Module], x: Batch, y: torch.Tensor, loss: Loss = mse
) -> tuple[float, list[torch.Tensor]]:
    """Loss and gradients of a copy of the stages as one chain, in which nothing works in place."""
    plain = copy.deepcopy(nn.Sequential(*stages))
    for part in plain.modules():
        if hasattr(part, "inplace"):
            part.inplace = False
    value = loss(plain(x), y)
    value.backward()
    return value.item(), gradients_of(plain)


def gradients_of(*modules: nn.Module) -> list[torch.Tensor]:
    """The gradients of the parameters, each once, in tensors of their own."""
    return [parameter.grad.clone() for parameter in nn.ModuleList(modules).parameters()]


def assert_in_order(schedule: Schedule, timeline: Timeline, *, p2p: float = 0.0, slack: float = 1e-9) -> None:
    """Every rank ran its row, and nothing began before what it takes was there, after a message from another rank."""
    spans = {Action(*span.action): span for span in timeline.spans if span.action.kind != "R"}  # type: ignore[misc]
    for rank, row in enumerate(schedule.rows):
        assert [span.action for span in timeline.of_rank(rank) if span.action.kind != "R"] == list(row)
    for action, span in spans.items():
        for need in needs(action, schedule.num_stages, spans):
            travels = p2p if spans[need].rank != span.rank else 0.0
            assert spans[need].end + travels <= span.start + slack, f"{action} began before {need} could be there"


def assert_close(ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], **options: float) -> None:
    """As many tensors, and each pair close."""
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, **options)
