"""What the stages cost on this machine: run two schedules, read the costs off their timelines.

Stages are measured while all of them work, because neighbours share caches and memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from pllab.arguments import whole_number
from pllab.pipeline.executor import LaneExecutor
from pllab.pipeline.microbatches import Batch, Loss
from pllab.pipeline.split import check_stages
from pllab.schedule import Schedule, interleaved, split_backwards
from pllab.simulate import Costs, estimate
from pllab.timeline import Timeline


def calibrate(
    stages: Sequence[nn.Module],
    batch: Batch | None = None,
    targets: Batch | None = None,
    loss: Loss | None = None,
    *,
    num_microbatches: int,
    num_ranks: int | None = None,
    devices: Sequence[torch.device | str] | None = None,
    repeats: int = 3,
    timeout_s: float = 60.0,
) -> Costs:
    """Measure what F, B, I, W and a message of these stages cost on lanes of this machine, in seconds.

    Example: `simulate(gpipe(2, 16), calibrate(stages, x, y, loss, num_microbatches=6))` predicts a step of 16
    micro-batches of the same size.

    It runs 1F1B (interleaved if a rank has several stages), with whole and then with split backwards. Afterwards the
    parameters have the gradients they had before.

    Args:
        stages: all stages; with `num_ranks` fewer than them, rank `r` has stages r, r + num_ranks and so on.
        batch: `num_microbatches` times as many rows as the micro-batch you ask about.
        targets: the targets of that batch.
        loss: as `LaneExecutor` takes it.
        num_microbatches: how many the batch is cut into; at least twice the ranks, for a steady phase.
        num_ranks: number of lanes; one per stage by default.
        devices: one per rank, as `LaneExecutor` takes them.
        repeats: measured steps of each schedule, after one step to warm up.
        timeout_s: the longest wait within a step.

    Raises:
        ValueError: the stages cannot be dealt evenly to the ranks, or `LaneExecutor` refuses them.

    Lesson 11.
    """
    check_stages(stages)
    num_ranks = len(stages) if num_ranks is None else num_ranks
    if num_ranks < 1 or len(stages) % num_ranks:
        raise ValueError(f"{len(stages)} stages cannot be dealt evenly to {num_ranks} ranks; give a multiple of them")
    schedule = interleaved(num_ranks, num_microbatches, len(stages) // num_ranks)
    num_steps = 1 + whole_number("repeats", repeats)
    runs: list[tuple[Schedule, Timeline]] = []
    with _gradients_kept(nn.ModuleList(stages)):
        for variant in (schedule, split_backwards(schedule)):
            with LaneExecutor(variant, stages, loss, devices=devices, timeout_s=timeout_s) as executor:
                timelines = [executor.step(batch, targets).timeline for _ in range(num_steps)]
            runs += [(variant, timeline) for timeline in timelines[1:]]
    return estimate(runs)


@contextmanager
def _gradients_kept(modules: nn.Module) -> Iterator[None]:
    before = [(parameter, parameter.grad) for parameter in modules.parameters()]
    modules.zero_grad(set_to_none=True)
    try:
        yield
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient
