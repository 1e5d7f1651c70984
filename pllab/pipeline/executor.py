"""What the executors on lanes and on ranks share: cut the batch, weight the loss, give stages their work."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import nn

from pllab.arguments import deadline
from pllab.pipeline.engine import Work
from pllab.pipeline.loss import Count, Loss, Score, check_loss
from pllab.pipeline.microbatches import Batch, Tensors, as_tuple, num_rows, scatter_evenly
from pllab.pipeline.packets import NOTHING, Name, Packet, as_packet
from pllab.pipeline.randomness import draw_seed
from pllab.pipeline.sleep import SleepWork, sleeper
from pllab.pipeline.stage import Stage, StageWork
from pllab.schedule import Schedule
from pllab.timeline import Engine, Timeline


class Step(NamedTuple):
    """What a step returns: the loss of the batch, and the timeline."""

    loss: float
    timeline: Timeline


class Executor:
    """A checked schedule with the stages of this process: all of them on lanes, one rank's on ranks."""

    def __init__(
        self,
        schedule: Schedule,
        stages: Mapping[int, nn.Module],
        homes: Mapping[int, torch.device],
        loss: Loss | None,
        mean_over: Count | None,
        recompute: bool,
        timeout_s: float,
    ) -> None:
        check_loss(loss, mean_over)
        self.schedule = schedule
        self.timeout_s = deadline(timeout_s)
        self._last = schedule.num_stages - 1
        self._sleepers = {number: sleeper(stage) for number, stage in stages.items()}
        if loss is None and self._last in stages and not self._is_asleep(self._last):
            raise ValueError("loss is None; give a function of output and target, or stages that all sleep")
        self.engine: Engine = "real" if None in self._sleepers.values() else "emulated"
        self._stages = {number: Stage(number, stage, homes[number]) for number, stage in stages.items()}
        self._loss = loss
        self._mean_over = mean_over
        self._recompute = recompute

    def _is_asleep(self, stage: int) -> bool:
        return self._sleepers.get(stage) is not None

    def _cut(self, batch: Batch | None, num_microbatches: int, where: str) -> list[Tensors]:
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

    def _score(self, targets: Batch | None, num_microbatches: int) -> Score | None:
        """The loss of this batch, if this process has the last stage and that stage computes one."""
        if self._last not in self._stages or self._is_asleep(self._last) or self._loss is None:
            return None
        parts = self._cut(targets, num_microbatches, "targets")
        return Score(self._loss, parts, self._mean_over, self._stages[self._last].device)

    def _check_rows(self, rows: int, targets: Batch | None) -> None:
        """Refuse targets with another number of rows: a loss might broadcast the shorter one."""
        num_targets = num_rows(as_tuple(targets, "targets"))
        if rows != num_targets:
            raise ValueError(f"the batch has {rows} rows and the targets {num_targets}; give one for each row")

    def _works(self, score: Score | None, shadows: Mapping[int, Mapping[str, torch.Tensor]]) -> dict[int, Work]:
        seed, works = draw_seed(), dict[int, Work]()
        for number, stage in self._stages.items():
            sleep_stage = self._sleepers[number]
            works[number] = (
                SleepWork(sleep_stage)
                if sleep_stage
                else StageWork(
                    stage,
                    seed,
                    score=score if number == self._last else None,
                    shadows=shadows.get(number),
                    recompute=self._recompute,
                )
            )
        return works

    def _entering(
        self, micro_batches: Sequence[Tensors], score: Score | None, num_microbatches: int
    ) -> dict[Name, Packet]:
        """The packets from outside: micro-batches for the first stage, the weights of their losses for the last."""
        entering: dict[Name, Packet] = {}
        for number in range(num_microbatches):
            if 0 in self._stages:
                entering[Name(0, True, number)] = as_packet(micro_batches[number])
            if self._last in self._stages:
                # The gradient of the loss is made where the last stage is: a copy from the CPU would wait for a GPU.
                weights = (
                    []
                    if score is None
                    else [torch.full((), score.weights[number], device=self._stages[self._last].device)]
                )
                entering[Name(self._last, False, number)] = as_packet(weights) if weights else NOTHING
        return entering

    def _weight(self, weight: float) -> torch.Tensor:
        """The gradient of a loss, made where the last stage is: a copy from the CPU would wait for a GPU."""
        return torch.full((), weight, device=self._stages[self._last].device)

    def _total(self, score: Score | None, leaving: Mapping[Name, Packet]) -> float:
        """The loss of the batch, from the packets that leave the last stage."""
        if score is None:
            return 0.0
        losses = {name.microbatch: packet.tensors[0] for name, packet in leaving.items() if name.forward}
        return score.total({number: loss for number, loss in losses.items() if loss is not None})
