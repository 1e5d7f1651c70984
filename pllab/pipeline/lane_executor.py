"""Run any checked schedule in this process: one worker thread per rank of the schedule.

Each worker interprets its row. Nobody keeps them in step: a packet waits in its receiver's mailbox until it is taken.
"""

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import torch
from torch import nn

from pllab.pipeline.batch import Batch, Count, Loss, Score, Step, cut_batch
from pllab.pipeline.fit import check_lanes, check_loss, lanes_of
from pllab.pipeline.interpret import Work
from pllab.pipeline.lane_run import Lane, LaneRun
from pllab.pipeline.microbatch import Tensors
from pllab.pipeline.record import Record
from pllab.pipeline.shared import shared_parameters
from pllab.pipeline.sleep import SleepWork, sleeper
from pllab.pipeline.split import checked_device
from pllab.pipeline.stage import Stage
from pllab.pipeline.stage_work import StageWork, as_sequential
from pllab.pipeline.stream import stream_for
from pllab.pipeline.whole import deadline
from pllab.pipeline.worker import create_workers
from pllab.schedule import Schedule, check
from pllab.timeline import Engine


class LaneExecutor:
    """Run a schedule's rows on worker threads: CPU lanes, or GPUs.

    Example, four stages on two lanes:

        with LaneExecutor(interleaved(2, 8), stages, cross_entropy) as executor:
            loss, timeline = executor.step(x, y)    # both with the same number of rows, at least 8
            optimizer.step()                         # the gradients are in .grad, as the plain model leaves them

    `stages[s]` is stage s; `devices[r]` is where rank r runs: the GPU of its stages, else `cpu:r`, by default.
    `loss(output, target)` is the mean over the rows it is given, as PyTorch's losses are; micro-batches are weighed
    by their rows, so that loss and gradients are those of the whole batch at once. A mean over tokens is weighed by
    them with `mean_over=num_target_tokens`, or any other count of the targets. Stages may share parameters.
    No gradient goes back to the batch. With `SleepStage` stages the engine is `emulated`; then loss, batch and
    targets may be left out.

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
        devices: Sequence[torch.device | str] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        check(schedule)
        check_lanes(schedule, stages, devices)
        self.schedule = schedule
        check_loss(loss, mean_over, stages[-1])
        self.timeout_s = deadline(timeout_s)
        self._loss = loss
        self._mean_over = mean_over
        self._modules = [as_sequential(stage) for stage in stages]
        self._sleepers = [sleeper(stage) for stage in stages]
        if self._sleepers[-1] is not None and None in self._sleepers:
            awake = self._sleepers.index(None)
            raise ValueError(f"the last stage sleeps and stage {awake} does not; let all sleep, or the last one not")
        self._engine: Engine = "real" if None in self._sleepers else "emulated"
        self.devices = [*map(checked_device, devices or lanes_of(schedule, dict(enumerate(self._modules))))]
        self._shared = shared_parameters(self._modules)
        for stage in reversed(range(schedule.num_stages)):  # a shared parameter ends up where its first stage is
            self._modules[stage].to(self._device(stage))
        self._lanes: list[Lane] = []
        self._in_step = threading.Lock()
        self._close_at_end = weakref.finalize(self, _close, [])

    def step(self, batch: Batch | None = None, targets: Batch | None = None) -> Step:
        """Run every action of the schedule once; add to the parameters' `.grad`.

        Raises:
            ValueError: the batch has fewer rows than the schedule has micro-batches, or other than the targets.
            TimeoutError: a stage waited, or worked, longer than `timeout_s`.
            RuntimeError: another thread is in a step of this executor.
            Exception: the first exception of a stage, with a note that names its action.
        """
        with self._alone():
            return self._step(batch, targets)

    def _step(self, batch: Batch | None, targets: Batch | None) -> Step:
        micro_batches, score = self._cut(batch, "batch"), None
        if self._loss is not None and self._sleepers[-1] is None:
            score = Score(self._loss, self._cut(targets, "targets", self._device(-1)), self._mean_over)
            score.check_rows(sum(len(part[0]) for part in micro_batches))
        shadows = [shared.shadow(self._device(shared.stage)) for shared in self._shared]
        record = Record(self._engine, self.schedule.num_ranks)
        works = self._works(score, shadows)
        run = LaneRun(self.schedule, self._started(), works, record, self.timeout_s)
        try:
            run.run(micro_batches)
        except (KeyboardInterrupt, TimeoutError):
            run.stop()
            self._let_go()
            raise
        for shared, shadow in zip(self._shared, shadows, strict=True):
            _add_gradient(shared.parameter, shadow)
        return Step(0.0 if score is None else score.total(), record.timeline())

    def close(self) -> None:
        """End the workers; the next step starts new ones."""
        self._close_at_end.detach()
        lanes, self._lanes = self._lanes, []
        _close(lanes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The lanes have one queue each: what two steps ask of them would come back mixed."""
        if not self._in_step.acquire(blocking=False):
            raise RuntimeError("this executor is in a step on another thread; make an executor for each thread")
        try:
            yield
        finally:
            self._in_step.release()

    def _started(self) -> list[Lane]:
        if not self._lanes:
            # One worker per rank, so that two ranks on one GPU have two.
            self._lanes += [Lane(create_workers([device]), device, stream_for(device)) for device in self.devices]
            self._close_at_end = weakref.finalize(self, _close, list(self._lanes))
        return self._lanes

    def _let_go(self) -> None:
        """After a step that was given up half way the workers still have its rows; they end on their own."""
        self._close_at_end.detach()
        lanes, self._lanes = self._lanes, []
        _close(lanes, timeout_s=0.1)

    def _device(self, stage: int) -> torch.device:
        """The device of a stage as torch knows it; -1 is the last stage's."""
        device = self.devices[self.schedule.rank_of_stage[stage % self.schedule.num_stages]]
        return torch.device("cpu") if device.type == "cpu" else device

    def _cut(self, batch: Batch | None, name: str, device: torch.device | None = None) -> list[Tensors]:
        if batch is None:
            if self._engine == "emulated":
                return [()] * self.schedule.num_microbatches
            raise ValueError(f"{name} is None; give step(batch, targets), only sleeping stages run without them")
        parts = cut_batch(batch, self.schedule.num_microbatches, name)
        return [tuple(tensor.to(device) for tensor in part) for part in parts] if device is not None else parts

    def _works(self, score: Score | None, shadows: Sequence[torch.Tensor]) -> dict[int, Work]:
        seed = int(torch.randint(2**62, ()).item())
        named: list[dict[str, torch.Tensor]] = [{} for _ in self._modules]
        for shared, shadow in zip(self._shared, shadows, strict=True):
            named[shared.stage][shared.name] = shadow
        last = self.schedule.num_stages - 1
        works: dict[int, Work] = {}
        for number, (module, asleep) in enumerate(zip(self._modules, self._sleepers, strict=True)):
            stage = Stage(number, module, self._device(number), named[number])
            works[number] = SleepWork(asleep) if asleep else StageWork(stage, seed, score if number == last else None)
        return works


def _add_gradient(parameter: nn.Parameter, shadow: torch.Tensor) -> None:
    if shadow.grad is not None:
        grad = shadow.grad.to(parameter.device)
        parameter.grad = grad if parameter.grad is None else parameter.grad + grad


def _close(lanes: Sequence[Lane], timeout_s: float = 10.0) -> None:
    for lane in lanes:
        lane.workers.close(timeout_s)
