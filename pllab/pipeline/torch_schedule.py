"""The same schedule on torch.distributed.pipelining, for those who outgrow one machine."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pllab.comm import backend_name
from pllab.pipeline.fit import check_ranks, place_on_rank
from pllab.pipeline.loss import Loss, check_loss
from pllab.schedule import Schedule, check

if TYPE_CHECKING:
    from torch.distributed.pipelining.schedules import PipelineScheduleMulti


def to_torch(
    schedule: Schedule,
    stages: Mapping[int, nn.Module],
    loss: Loss,
    *,
    device: torch.device | str | None = None,
) -> "PipelineScheduleMulti":
    """Make PyTorch's own executor of this schedule, for this rank of a ready process group.

    Example, under torchrun with as many ranks as the schedule has rows:

        mine = {stage: stages[stage] for stage in schedule.stages_of_rank(rank())}
        theirs, losses = to_torch(schedule, mine, cross_entropy), []
        theirs.step(x)                                   # on the rank of the first stage
        theirs.step(target=labels, losses=losses)        # on the rank of the last stage
        theirs.step(x, target=labels, losses=losses)     # on a rank with both, as of one rank or of zbv
        theirs.step()                                    # on the others

    The rows go through PyTorch's CSV loader as they are; it adds sends and receives. Each loss is divided by the
    number of micro-batches, so that `losses` add up to the loss of the batch, and the gradients are its gradients.
    (Its own `scale_grads` divides once for each stage, and so twice where two stages of a rank share a weight.) What
    its runtime asks for: the same number of stages on every rank, micro-batches of the same number of rows, and
    weights tied across ranks summed by the caller.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: the group, the stages or the shape of the schedule do not fit.

    Source: `_PipelineScheduleRuntime`, whose loader is internal to torch 2.13 and is the one way in for any schedule.
    """
    # Not at the top: the rest of the room should not pay for an import that few need.
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    check(schedule)
    check_ranks(schedule, stages)
    check_loss(loss, None)
    if backend_name() is None:
        raise ValueError("there is no process group; call pllab.comm.setup(rank, world_size) first")
    _check_even(schedule)
    place = place_on_rank(stages) if device is None else torch.device(device)
    made = [PipelineStage(stages[number], number, schedule.num_stages, place) for number in sorted(stages)]
    share = partial(_share_of, loss, schedule.num_microbatches)
    runtime = _PipelineScheduleRuntime(made, schedule.num_microbatches, loss_fn=share, scale_grads=False)
    with tempfile.TemporaryDirectory(prefix="pllab-schedule-") as folder:
        file = Path(folder, "schedule.csv")
        file.write_text(schedule.to_csv())
        runtime._load_csv(str(file), format="compute_only")
    return runtime


def _share_of(loss: Loss, num_microbatches: int, output: Any, target: Any) -> torch.Tensor:
    return loss(output, target) / num_microbatches


def _check_even(schedule: Schedule) -> None:
    counts = {len(schedule.stages_of_rank(row)) for row in range(schedule.num_ranks)}
    if len(counts) > 1:
        raise ValueError(
            f"the ranks have {' or '.join(map(str, sorted(counts)))} stages, and torch.distributed.pipelining needs "
            "the same number on each; cut the model so that they do"
        )
