"""The same schedule on torch.distributed.pipelining, for those who outgrow one machine."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pllab.comm import Group, all_gather_object, backend_name, own_device, rank, world_size
from pllab.comm.devices import gpu_backend
from pllab.pipeline.batches import Loss
from pllab.pipeline.engine import Timing
from pllab.pipeline.split import place_of
from pllab.schedule import Action, Kind, Schedule, check

if TYPE_CHECKING:
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import PipelineScheduleMulti


def to_torch(
    schedule: Schedule,
    stages: Mapping[int, nn.Module],
    loss: Loss,
    *,
    group: Group | None = None,
    timing: Timing | None = None,
) -> "PipelineScheduleMulti":
    """Make PyTorch's own executor of this schedule, for this rank of the process group.

    Example, under torchrun with as many ranks as the schedule has rows:

        mine = {stage: stages[stage] for stage in schedule.stages_of_rank(rank())}
        executor, losses = to_torch(schedule, mine, cross_entropy), []
        executor.step(x)                                 # on the rank of the first stage
        executor.step(target=labels, losses=losses)      # on the rank of the last stage
        executor.step(x, target=labels, losses=losses)   # on a rank that has both, as in zbv
        executor.step()                                  # on the others

    All ranks make theirs at the same time, and which parameters train is settled then. The rows go through PyTorch's
    CSV loader, which adds sends and receives; stages whose input needs no gradient get whole backwards. Each loss is
    divided by the number of micro-batches, so that `losses` add up to the loss of the batch, and the gradients are its
    gradients. (Its own `scale_grads` divides once for each stage, and so twice if two stages of a rank share a weight.)
    PyTorch needs the same number of stages on every rank and micro-batches of equal size. Gradients of weights tied
    across ranks are for the caller to sum. `timing` is a stopwatch as of `ActionTimes.timing`, for each action.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: the group, the stages or the shape of the schedule do not fit.

    Source: `_PipelineScheduleRuntime`; its loader is internal to torch 2.13, and the only one for any schedule.
    """
    # Not at the top: it is slow to import, and few need it.
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    check(schedule)
    _check_rank(schedule, stages, group)
    place = place_on_rank(stages)
    make = PipelineStage if timing is None else _timed_stage(timing)
    torch_stages = [make(stages[number], number, schedule.num_stages, place, group=group) for number in sorted(stages)]

    def share(output: Any, target: Any) -> torch.Tensor:
        return loss(output, target) / schedule.num_microbatches

    runtime = _PipelineScheduleRuntime(torch_stages, schedule.num_microbatches, loss_fn=share, scale_grads=False)
    with tempfile.TemporaryDirectory(prefix="pllab-schedule-") as folder:
        file = Path(folder, "schedule.csv")
        file.write_text(_with_whole_backwards(schedule, stages, group).to_csv())
        runtime._load_csv(str(file), format="compute_only")
    return runtime


def forwards_of(runtime: "PipelineScheduleMulti") -> "PipelineScheduleMulti":
    """Keep only the forwards and their messages of a new runtime, for `eval()`, which runs whatever rows there are.

    PyTorch's loader takes no rows without backwards, and its `eval` of a whole zbv stops inside a backward.
    """
    kept = {"FORWARD", "SEND_F", "RECV_F"}
    runtime.pipeline_order_with_comms = {  # type: ignore[attr-defined]
        rank: [action for action in row if action.computation_type.name in kept]
        for rank, row in runtime.pipeline_order_with_comms.items()  # type: ignore[attr-defined]
    }
    return runtime


def _check_rank(schedule: Schedule, stages: Mapping[int, nn.Module], group: Group | None) -> None:
    """Refuse a group of another size than the schedule, the stages of another rank, or uneven ranks."""
    if world_size(group) != schedule.num_ranks:
        raise ValueError(
            f"the schedule has {schedule.num_ranks} ranks and the group {world_size(group)}; "
            "start as many ranks as it has"
        )
    expected, actual = schedule.stages_of_rank(rank(group)), tuple(sorted(stages))
    if actual != expected:
        raise ValueError(f"rank {rank(group)} of the schedule runs stages {expected}, not {actual}; give it those")
    counts = {len(schedule.stages_of_rank(row)) for row in range(schedule.num_ranks)}
    if len(counts) > 1:
        raise ValueError(
            f"the ranks have {' or '.join(map(str, sorted(counts)))} stages, and torch.distributed.pipelining needs "
            "the same number on each; cut the model so that they do"
        )


def place_on_rank(stages: Mapping[int, nn.Module]) -> torch.device:
    """The device of this rank's stages and messages; without parameters, the device that the group's backend needs.

    Raises:
        ValueError: the group's backend carries no tensors of that device.
    """
    place, backend, needs_gpus = place_of(stages.values()), backend_name(), gpu_backend()
    if backend == needs_gpus and all(next(stage.parameters(), None) is None for stage in stages.values()):
        return own_device()
    if place.type != "cpu" and backend == "gloo" and world_size() > 1:
        raise ValueError(
            f"the stages of rank {rank()}, {sorted(stages)}, are on {place}, but gloo carries only CPU tensors; "
            f"leave them on the CPU, or start one rank for each GPU, which get {needs_gpus}"
        )
    return place


def _timed_stage(timing: Timing) -> "type[PipelineStage]":
    """PyTorch's stage with timed actions; the time of an action starts when its packet has arrived."""
    from torch.distributed.pipelining import PipelineStage

    class TimedStage(PipelineStage):
        def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **options: Any) -> Any:
            with timing(Action(self.stage_index, Kind.F, fwd_chunk_id)):
                return super().forward_one_chunk(fwd_chunk_id, *args, **options)

        def backward_one_chunk(
            self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True, last_backward: bool = False
        ) -> None:
            with timing(Action(self.stage_index, Kind.B if full_backward else Kind.I, bwd_chunk_id)):
                super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)

        def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
            with timing(Action(self.stage_index, Kind.W, bwd_chunk_id)):
                super().backward_weight_one_chunk(bwd_chunk_id, last_backward)

    return TimedStage


def _with_whole_backwards(schedule: Schedule, stages: Mapping[int, nn.Module], group: Group | None) -> Schedule:
    """The schedule with B for I and without W, up to the first stage that trains, and without pairs.

    The inputs of these stages need no gradient, and PyTorch's I finds weights only on the way to such an input; stage 0
    is its one exception. It runs the two actions of a pair one after the other, as it does without one, but its trace
    then has no names for them.
    """
    mine = [number for number, stage in stages.items() if any(p.requires_grad for p in stage.parameters())]
    first = min((number for part in all_gather_object(mine, group) for number in part), default=0)
    rows = (
        [
            action._replace(kind=Kind.B) if action.kind is Kind.I and 0 < action.stage <= first else action
            for action in row
            if not (action.kind is Kind.W and 0 < action.stage <= first)
        ]
        for row in schedule.rows
    )
    return Schedule.of(rows, schedule.name)
