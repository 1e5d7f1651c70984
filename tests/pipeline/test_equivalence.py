"""The contract of the engine: one GPT-2, tied weights, unequal rows and targets, the same numbers everywhere.

Without dropout they are those of the plain model; with it, every way of the same cut draws the same numbers.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pytest
import torch
from torch import nn

from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of
from pllab.models.layers import cut
from pllab.parallel import num_target_tokens
from pllab.pipeline import LaneExecutor, Pipe, balance
from pllab.schedule import FAMILIES, Schedule, zero_bubble
from pllab.simulate import Costs
from pllab.timeline import Timeline

MOST = 1e-5


def schedules(num_ranks: int, num_microbatches: int) -> dict[str, Schedule]:
    """One schedule of every family, and the result of a search."""
    families = {name: family.make(num_ranks, num_microbatches) for name, family in FAMILIES.items()}
    searched = zero_bubble(num_ranks, num_microbatches, Costs(1.0, 1.2, 0.7, 0.1), memory_limit=num_ranks)
    return {**families, "zero_bubble": searched}


@dataclass(frozen=True)
class Task:
    """A GPT-2 of four blocks and a batch of rows with different numbers of targets."""

    num_rows: int = 9
    num_tokens: int = 12
    dropout: float = 0.0
    seed: int = 0

    def model(self) -> GPT2LMHeadModelParallel:
        """The model, with the same weights at every call."""
        torch.manual_seed(self.seed)
        return GPT2LMHeadModelParallel(gpt2_config("tiny", vocab_size=64, dropout=self.dropout, n_positions=16))

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and labels, both (rows, time); row r has r targets fewer than the first."""
        generator = torch.Generator().manual_seed(self.seed)
        ids = torch.randint(64, (self.num_rows, self.num_tokens), generator=generator)
        places = torch.arange(self.num_tokens)
        return ids, ids.where(places[None] < self.num_tokens - places[: self.num_rows, None], -100)


class Outcome(NamedTuple):
    """The result of one backward: the loss, the gradients by parameter name, and the row that each rank ran."""

    loss: float
    gradients: Mapping[str, torch.Tensor]
    rows: tuple[tuple[str, ...], ...] = ()


def plain(task: Task) -> Outcome:
    """Transformers' own model on the whole batch."""
    model = task.model()
    ids, labels = task.batch()
    loss = model(ids, labels=labels).loss
    loss.backward()
    return _outcome(float(loss.detach()), model)


def through_the_pipe(task: Task, schedule: Schedule) -> Outcome:
    """One forward and backward of a `Pipe` with as many micro-batches, which decide its schedule."""
    model, (ids, labels) = task.model(), task.batch()
    devices = [f"cpu:{schedule.rank_of_stage[stage]}" for stage in range(schedule.num_stages)]
    count = schedule.num_microbatches
    with Pipe.from_partitions(_stages(model, schedule), devices, num_microbatches=count) as pipe:
        torch.manual_seed(1)
        loss = pipe((ids, labels)).sum() / num_target_tokens(labels)
        loss.backward()
        return _outcome(float(loss.detach()), model, pipe.last_timeline)


def on_lanes(task: Task, schedule: Schedule) -> Outcome:
    """One step of a `LaneExecutor`."""
    model, (ids, labels) = task.model(), task.batch()
    with LaneExecutor(schedule, _stages(model, schedule), _loss, mean_over=num_target_tokens) as executor:
        torch.manual_seed(1)
        step = executor.step((ids, labels), labels)
    return _outcome(step.loss, model, step.timeline)


def deviation(outcome: Outcome, reference: Outcome) -> tuple[float, float]:
    """How far loss and gradients are from the reference's; infinite if a gradient is missing."""
    worst = 0.0
    for name, expected in reference.gradients.items():
        value = outcome.gradients.get(name)
        off = float("inf") if value is None else float((value - expected).abs().max() / expected.abs().max())
        worst = max(worst, off)
    return abs(outcome.loss - reference.loss) / abs(reference.loss), worst


def _stages(model: GPT2LMHeadModelParallel, schedule: Schedule) -> list[nn.Sequential]:
    layers = layers_of(model)
    return cut(layers, balance([1.0] * len(layers), schedule.num_stages))


def _loss(sums: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean over targets of the losses that the last layer has summed per row."""
    return sums.sum() / num_target_tokens(labels)


def _outcome(loss: float, model: nn.Module, timeline: Timeline | None = None) -> Outcome:
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    ranks = range(timeline.num_ranks) if timeline else ()
    rows = tuple(tuple(str(span.action) for span in timeline.of_rank(rank)) for rank in ranks) if timeline else ()
    return Outcome(loss, copy.deepcopy(gradients), rows)


ALL = schedules(2, 4)  # 9 rows: micro-batches of 3, 2, 2 and 2


@cache
def reference(dropout: float, num_stages: int) -> Outcome:
    """The plain model, or with dropout the first schedule on lanes that has as many stages."""
    if not dropout:
        return plain(Task())
    return on_lanes(Task(dropout=dropout), next(each for each in ALL.values() if each.num_stages == num_stages))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("name", ALL)
def test_lanes_give_the_same_loss_gradients_and_rows(name: str, dropout: float) -> None:
    schedule = ALL[name]
    outcome = on_lanes(Task(dropout=dropout), schedule)
    assert max(deviation(outcome, reference(dropout, schedule.num_stages))) <= MOST
    assert outcome.rows == tuple(tuple(map(str, row)) for row in schedule.rows)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("name", ["gpipe", "breadth_first"])
def test_a_pipe_gives_them_too(name: str, dropout: float) -> None:
    schedule = ALL[name]
    outcome = through_the_pipe(Task(dropout=dropout), schedule)
    assert max(deviation(outcome, reference(dropout, schedule.num_stages))) <= MOST
    assert outcome.rows == tuple(tuple(map(str, row)) for row in schedule.rows)


def test_dropout_drops_something() -> None:
    assert deviation(on_lanes(Task(dropout=0.2), ALL["gpipe"]), plain(Task()))[1] > 0.1
