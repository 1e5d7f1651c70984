"""A schedule on the worker threads of this process: cut the batch, weight the losses, run the rows, sum up."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import torch
from torch import nn

from pllab.arguments import deadline
from pllab.pipeline.engine import Name, Packet, Record, Work, as_packet
from pllab.pipeline.lanes import Lanes
from pllab.pipeline.microbatches import (
    Batch,
    Count,
    Loss,
    Score,
    Tensors,
    as_tuple,
    check_loss,
    num_rows,
    scatter_evenly,
)
from pllab.pipeline.randomness import draw_seed
from pllab.pipeline.sleep import SleepStage, SleepWork, sleeper
from pllab.pipeline.split import as_sequential, check_stages, checked_device, place_of
from pllab.pipeline.stage import Stage, StageWork
from pllab.pipeline.tied import shared_parameters
from pllab.schedule import Schedule, check
from pllab.timeline import Engine, Timeline


class Step(NamedTuple):
    """What a step returns: the loss of the batch, and the timeline."""

    loss: float
    timeline: Timeline


class LaneExecutor:
    """Run any checked schedule in this process, on one worker thread per rank of the schedule.

    Example, four stages on two lanes:

        with LaneExecutor(interleaved(2, 8), stages, cross_entropy) as executor:
            loss, timeline = executor.step(x, y)    # both with the same number of rows, at least 8
            optimizer.step()                         # the gradients are in .grad, as after a plain backward

    `stages[s]` is stage s; `devices[r]` is the device of rank r, by default the GPU of its stages, else `cpu:r`.
    `loss(output, target)` is a mean over its rows, as PyTorch's losses are. For a mean over tokens, give
    `mean_over=num_target_tokens` or another count of the targets. Stages may share parameters. With `recompute` a
    stage keeps only its inputs and runs forward again before its backward. The batch gets no gradient. With
    `SleepStage` stages the engine is `emulated`; then loss, batch and targets may be left out.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: stages, loss or devices do not fit the schedule.

    Lesson 11.
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: Sequence[nn.Module],
        loss: Loss | None = None,
        *,
        mean_over: Count | None = None,
        recompute: bool = False,
        devices: Sequence[torch.device | str] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        check(schedule)
        _check_lanes(schedule, stages, devices)
        check_loss(loss, mean_over)
        self.schedule = schedule
        self.timeout_s = deadline(timeout_s)
        self._sleepers = [sleeper(stage) for stage in stages]
        self.engine: Engine = "real" if None in self._sleepers else "emulated"
        _check_sleepers(self._sleepers, loss)
        self._loss = None if self._sleepers[-1] else loss
        self._mean_over = mean_over
        self._recompute = recompute
        self._lanes = Lanes([*map(checked_device, devices or _devices_of(schedule, stages))])
        homes = schedule.rank_of_stage
        self._shared = shared_parameters([as_sequential(stage) for stage in stages])
        self._stages = [
            Stage(number, stage, self._lanes.devices[homes[number]], self._shared)
            for number, stage in enumerate(stages)
        ]
        for stage in reversed(self._stages):  # a shared parameter ends up on the device of its first stage
            stage.module.to(stage.device)

    @property
    def devices(self) -> list[torch.device]:
        """Where each rank runs."""
        return self._lanes.devices

    def step(self, batch: Batch | None = None, targets: Batch | None = None) -> Step:
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
        rows = len(as_tuple(batch, "batch")[0])
        with torch.no_grad():
            return self._run(self.schedule.only("F", min(rows, self.schedule.num_microbatches)), batch, targets)

    def on_each_lane(self, work: Callable[[int], object]) -> None:
        """Call `work(rank)` on the worker of every rank at the same time, for example an optimizer of its stages.

        Raises:
            TimeoutError: a lane took longer than `timeout_s`.
            RuntimeError: another thread runs a step of this executor.
            Exception: the first exception of a lane.
        """
        self._lanes.each(work, self.timeout_s)

    def close(self) -> None:
        """End the workers; the next step starts new ones."""
        self._lanes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, schedule: Schedule, batch: Batch | None, targets: Batch | None) -> Step:
        if self.engine == "real":
            _check_given(batch, targets)
        micro_batches = _cut(batch, schedule.num_microbatches, "batch")
        score = self._score(batch, targets, schedule.num_microbatches)
        record, works = Record(self.engine, schedule.num_ranks), self._works(score)
        leaving = self._lanes.run(schedule, works, self._entering(micro_batches, score), record, self.timeout_s)
        for shared in self._shared:
            work, parameter = works[shared.stage], shared.parameter
            assert isinstance(work, StageWork), "who sleeps has no parameters"
            if (gradient := work.gradient_of(shared)) is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        losses = {name.microbatch: packet.tensors[0] for name, packet in leaving.items() if name.forward}
        total = 0.0 if score is None else score.total({i: loss for i, loss in losses.items() if loss is not None})
        return Step(total, record.timeline())

    def _score(self, batch: Batch | None, targets: Batch | None, num_microbatches: int) -> Score | None:
        """The loss of this batch, if the last stage computes one."""
        if self._loss is None:
            return None
        parts = _cut(targets, num_microbatches, "targets")
        rows, num_targets = (num_rows(as_tuple(*each)) for each in ((batch, "batch"), (targets, "targets")))
        if rows != num_targets:  # a loss might broadcast the shorter one
            raise ValueError(f"the batch has {rows} rows and the targets {num_targets}; give one for each row")
        return Score(self._loss, parts, self._mean_over, self._stages[-1].device)

    def _works(self, score: Score | None) -> dict[int, Work]:
        seed, works = draw_seed(), dict[int, Work]()
        for stage, sleep_stage in zip(self._stages, self._sleepers, strict=True):
            ends = score if stage is self._stages[-1] else None
            works[stage.number] = (
                SleepWork(sleep_stage) if sleep_stage else StageWork(stage, seed, score=ends, recompute=self._recompute)
            )
        return works

    def _entering(self, micro_batches: Sequence[Tensors], score: Score | None) -> dict[Name, Packet]:
        """The packets from outside: micro-batches for the first stage, the weights of their losses for the last."""
        last, entering = self._stages[-1], dict[Name, Packet]()
        for number, tensors in enumerate(micro_batches):
            entering[Name(0, True, number)] = as_packet(tensors)
            # The gradient of the loss is made where the last stage is: a copy from the CPU would wait for a GPU.
            weight = () if score is None else (torch.full((), score.weights[number], device=last.device),)
            entering[Name(last.number, False, number)] = as_packet(weight)
        return entering


def _cut(batch: Batch | None, num_microbatches: int, where: str) -> list[Tensors]:
    """Cut a batch into exactly this many micro-batches; without a batch they are empty."""
    if batch is None:
        return [()] * num_microbatches
    tensors = as_tuple(batch, where)
    if (rows := num_rows(tensors)) < num_microbatches:
        raise ValueError(
            f"{rows} rows cannot be cut into the schedule's {num_microbatches} micro-batches; "
            "give a larger batch or make a schedule of fewer micro-batches"
        )
    return scatter_evenly(tensors, num_microbatches)


def _check_given(batch: Batch | None, targets: Batch | None) -> None:
    for name, value in (("batch", batch), ("targets", targets)):
        if value is None:
            raise ValueError(f"{name} is None; give step(batch, targets), only sleeping stages run without them")


def _check_sleepers(sleepers: Sequence[SleepStage | None], loss: Loss | None) -> None:
    """Refuse stages with nothing to compute the loss from, and real ones whose gradients would come from a sleeper."""
    if loss is None and sleepers[-1] is None:
        raise ValueError("loss is None; give a function of output and target, or stages that all sleep")
    if sleepers[-1] is not None and None in sleepers:
        awake = sleepers.index(None)
        raise ValueError(f"the last stage sleeps and stage {awake} does not; let all sleep, or the last one not")


def _check_lanes(schedule: Schedule, stages: Sequence[nn.Module], devices: Sequence[torch.device | str] | None) -> None:
    """Refuse another number of stages or devices than the schedule has.

    Raises:
        ValueError: the numbers differ, or a stage is not a module.
    """
    check_stages(stages)
    if len(stages) != schedule.num_stages:
        raise ValueError(f"the schedule has {schedule.num_stages} stages, not {len(stages)}; give one module for each")
    if devices is not None and len(devices) != schedule.num_ranks:
        raise ValueError(f"the schedule has {schedule.num_ranks} ranks, not {len(devices)}; give one device for each")


def _devices_of(schedule: Schedule, stages: Sequence[nn.Module]) -> list[torch.device]:
    """A device for each rank: the GPU its stages are on, or a CPU lane of its own."""
    ranks = range(schedule.num_ranks)
    places = [place_of(stages[stage] for stage in schedule.stages_of_rank(rank)) for rank in ranks]
    return [torch.device("cpu", rank) if place.type == "cpu" else place for rank, place in enumerate(places)]
