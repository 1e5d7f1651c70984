"""A schedule on the worker threads of this process: cut the batch, weight the losses, run the rows, sum up.

`calibrate` reads the costs of the stages off the timelines of two schedules. They are measured while all of them work,
because neighbours share caches and memory.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from pllab.arguments import deadline, require
from pllab.pipeline.batches import Batch, Count, Loss, Score, Tensors, as_tuple, num_rows, scatter_evenly
from pllab.pipeline.engine import ActionTimes, Name, as_packet
from pllab.pipeline.lanes import Lanes, RunsOnLanes
from pllab.pipeline.randomness import draw_seed
from pllab.pipeline.split import checked_device, place_of
from pllab.pipeline.stage import StageWork, stages_on
from pllab.schedule import Schedule, check, interleaved, split_backwards
from pllab.simulate import Costs, estimate
from pllab.timeline import Timeline


class Step(NamedTuple):
    """What a step returns: the loss of the batch, and the timeline."""

    loss: float
    timeline: Timeline


class LaneExecutor(RunsOnLanes):
    """Run any checked schedule in this process, on one worker thread per rank of the schedule.

    Example, four stages on two lanes:

        with LaneExecutor(interleaved(2, 8), stages, cross_entropy) as executor:
            loss, timeline = executor.step(x, y)    # both with the same number of rows, at least 8
            optimizer.step()                         # the gradients are in .grad, as after a plain backward

    `stages[s]` is stage s; `devices[r]` is the device of rank r, by default the GPU of its stages, else `cpu:r`.
    `loss(output, target)` is a mean over its rows, as PyTorch's losses are. For a mean over tokens, give
    `mean_over=num_target_tokens` or another count of the targets. Stages may share parameters. With `recompute` a
    stage keeps only its inputs and runs forward again before its backward. The batch gets no gradient.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: the schedule has another number of stages, or a device is not there.

    Lesson 11.
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: Sequence[nn.Module],
        loss: Loss,
        *,
        mean_over: Count | None = None,
        recompute: bool = False,
        devices: Sequence[torch.device | str] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        check(schedule)
        wanted = schedule.num_stages
        require(len(stages) == wanted, f"the schedule has {wanted} stages, not {len(stages)}; give one module for each")
        self.schedule = schedule
        self.timeout_s = deadline(timeout_s)
        self._loss = loss
        self._mean_over = mean_over
        self._recompute = recompute
        self._lanes = Lanes([*map(checked_device, devices or _devices_of(schedule, stages))])
        homes = schedule.rank_of_stage
        self._stages = stages_on(stages, [self._lanes.devices[homes[number]] for number in range(len(stages))])
        for stage in reversed(self._stages):  # a shared parameter ends up on the device of its first stage
            stage.module.to(stage.device)

    def step(self, batch: Batch, targets: Batch) -> Step:
        """Run every action of the schedule once; add to the parameters' `.grad`.

        Raises:
            ValueError: the batch has fewer rows than the schedule has micro-batches, or not as many as the targets.
            TimeoutError: no stage finished an action for `timeout_s` seconds.
            RuntimeError: another thread runs a step of this executor.
            Exception: the first exception of a stage, with a note that names its action.
        """
        with torch.enable_grad():
            return self._run(self.schedule, batch, targets)

    def evaluate(self, batch: Batch, targets: Batch) -> Step:
        """Run only the forwards, and save nothing for a backward; a short batch gets one micro-batch per row.

        Raises:
            ValueError: batch and targets differ in their number of rows.
        """
        rows = num_rows(as_tuple(batch, "batch"))
        with torch.no_grad():
            return self._run(self.schedule.only("F", min(rows, self.schedule.num_microbatches)), batch, targets)

    def _run(self, schedule: Schedule, batch: Batch, targets: Batch) -> Step:
        micro_batches, score = self._cut(schedule.num_microbatches, batch, targets)
        last, seed = self._stages[-1], draw_seed()
        works = {
            stage.number: StageWork(stage, seed, score=score if stage is last else None, recompute=self._recompute)
            for stage in self._stages
        }
        entering = {Name(0, True, number): as_packet(part) for number, part in enumerate(micro_batches)}
        for number, weight in enumerate(score.weights):
            # The gradient of the loss is made where the last stage is: a copy from the CPU would wait for a GPU.
            exact = torch.full((), weight, dtype=torch.float64, device=last.device)
            entering[Name(last.number, False, number)] = as_packet([exact])
        record = ActionTimes("real", len(self._lanes.devices))
        leaving = self._lanes.run(schedule, works, entering, record, self.timeout_s)
        for shared in (one for stage in self._stages for one in stage.shared):
            parameter = shared.parameter
            if (gradient := works[shared.stage].gradient_of(shared)) is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        packets = (leaving[Name(last.number + 1, True, number)] for number in range(len(micro_batches)))
        losses = [loss for packet in packets for loss in packet.tensors if loss is not None]
        return Step(score.total(losses), record.timeline())

    def _cut(self, num_microbatches: int, batch: Batch, targets: Batch) -> tuple[list[Tensors], Score]:
        """The micro-batches, and the loss of each from its targets."""
        both = {"batch": as_tuple(batch, "batch"), "targets": as_tuple(targets, "targets")}
        rows, num_targets = map(num_rows, both.values())
        if rows != num_targets:  # a loss might broadcast the shorter one
            raise ValueError(f"the batch has {rows} rows and the targets {num_targets}; give one for each row")
        if rows < num_microbatches:
            raise ValueError(
                f"{rows} rows cannot be cut into the schedule's {num_microbatches} micro-batches; "
                "give a larger batch or make a schedule of fewer micro-batches"
            )
        micro_batches, parts = (scatter_evenly(each, num_microbatches) for each in both.values())
        return micro_batches, Score(self._loss, parts, self._mean_over, self._stages[-1].device)


def calibrate(
    stages: Sequence[nn.Module],
    batch: Batch,
    targets: Batch,
    loss: Loss,
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
        ValueError: `LaneExecutor` refuses the stages.

    Lesson 11.
    """
    num_ranks = len(stages) if num_ranks is None else num_ranks
    schedule = interleaved(num_ranks, num_microbatches, len(stages) // num_ranks)
    runs: list[tuple[Schedule, Timeline]] = []
    modules = nn.ModuleList(stages)
    before = [(parameter, parameter.grad) for parameter in modules.parameters()]
    modules.zero_grad()
    try:
        for variant in (schedule, split_backwards(schedule)):
            with LaneExecutor(variant, stages, loss, devices=devices, timeout_s=timeout_s) as executor:
                timelines = [executor.step(batch, targets).timeline for _ in range(1 + repeats)]
            runs += [(variant, timeline) for timeline in timelines[1:]]
    finally:
        for parameter, gradient in before:
            parameter.grad = None if gradient is None else gradient.to(parameter.device)
    return estimate(runs)


def _devices_of(schedule: Schedule, stages: Sequence[nn.Module]) -> list[torch.device]:
    """A device for each rank: the GPU its stages are on, or a separate CPU lane."""
    ranks = range(schedule.num_ranks)
    places = [place_of(stages[stage] for stage in schedule.stages_of_rank(rank)) for rank in ranks]
    return [torch.device("cpu", rank) if place.type == "cpu" else place for rank, place in enumerate(places)]
