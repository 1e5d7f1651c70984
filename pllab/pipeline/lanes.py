"""A schedule on worker threads, one for each of its ranks: CPU lanes, or GPUs."""

from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import nn

from pllab.pipeline.engine import Record
from pllab.pipeline.executor import Executor, Step
from pllab.pipeline.fit import check_lanes, lanes_of
from pllab.pipeline.loss import Count, Loss
from pllab.pipeline.mailboxes import Lanes
from pllab.pipeline.microbatches import Batch, as_tuple
from pllab.pipeline.split import checked_device
from pllab.pipeline.tied import Shadows, shared_parameters
from pllab.schedule import Schedule, check


class LaneExecutor(Executor):
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
        check_lanes(schedule, stages, devices)
        numbered = dict(enumerate(stages))
        self._lanes = Lanes([*map(checked_device, devices or lanes_of(schedule, numbered))])
        homes = {stage: self._lanes.devices[rank] for stage, rank in schedule.rank_of_stage.items()}
        super().__init__(schedule, numbered, homes, loss, mean_over, recompute, timeout_s)
        if self._is_asleep(schedule.num_stages - 1) and self.engine == "real":
            awake = next(stage for stage in numbered if not self._is_asleep(stage))
            raise ValueError(f"the last stage sleeps and stage {awake} does not; let all sleep, or the last one not")
        self._shared = shared_parameters([self._stages[stage].module for stage in numbered])
        for stage in reversed(numbered):  # a shared parameter ends up on the device of its first stage
            self._stages[stage].module.to(self._stages[stage].device)

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
            for name, value in (("batch", batch), ("targets", targets)):
                if value is None:
                    raise ValueError(
                        f"{name} is None; give step(batch, targets), only sleeping stages run without them"
                    )
        count = schedule.num_microbatches
        micro_batches, score = self._cut(batch, count, "batch"), self._score(targets, count)
        if score is not None:
            self._check_rows(len(as_tuple(batch, "batch")[0]), targets)
        shadows = Shadows(self._shared, self._stages.values())
        record = Record(self.engine, schedule.num_ranks)
        works, entering = self._works(score, shadows.of_stage), self._entering(micro_batches, score, count)
        leaving = self._lanes.run(schedule, works, entering, record, self.timeout_s)
        shadows.add_gradients()
        return Step(self._total(score, leaving), record.timeline())
