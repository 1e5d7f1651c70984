"""One table: the same GPT-2 through every engine and schedule, and how far each is from the plain model.

Weights are tied, micro-batches differ in rows and in targets, and the plain model gets the whole batch. With dropout
there is no plain model to compare with: then engines with the same cut into stages and micro-batches are compared.
"""

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from pllab import comm
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of
from pllab.models.layers import cut
from pllab.parallel import num_target_tokens
from pllab.pipeline import LaneExecutor, Pipe, RankExecutor, balance, tied_weights
from pllab.schedule import FAMILIES, Schedule, zero_bubble
from pllab.simulate import Costs
from pllab.timeline import Timeline

MOST = 1e-5
"""The largest relative deviation in float32 that counts as equal."""
OF_THE_PIPE = ("gpipe", "breadth_first")
Where = Literal["pipe", "lanes", "ranks"]


def schedules(num_ranks: int, num_microbatches: int) -> dict[str, Schedule]:
    """One schedule of every family, and the result of a search."""
    families = {name: family.make(num_ranks, num_microbatches) for name, family in FAMILIES.items()}
    searched = zero_bubble(num_ranks, num_microbatches, Costs(1.0, 1.2, 0.7, 0.1), memory_limit=num_ranks)
    return {**families, "zero_bubble": searched}


@dataclass(frozen=True)
class Row:
    """One line of the table: the largest deviations of loss and gradients, relative to the reference's largest."""

    where: Where
    schedule: str
    reference: str
    loss: float
    gradient: float
    follows_rows: bool
    """Whether the rows of the timeline are the rows of the schedule."""

    @property
    def is_equal(self) -> bool:
        """Whether nothing deviates by more than rounding, and the rows that ran are the schedule's."""
        return self.follows_rows and max(self.loss, self.gradient) <= MOST


@dataclass(frozen=True)
class Equivalence:
    """All rows, and the sizes they were computed with."""

    num_ranks: int
    num_microbatches: int
    rows: tuple[Row, ...]

    @property
    def is_equal(self) -> bool:
        """Whether every row is equal."""
        return all(row.is_equal for row in self.rows)

    def table(self) -> str:
        """One line per row."""
        head = f"{'on':6} {'schedule':14} {'loss':>8} {'gradient':>9}  against"
        lines = [
            f"{row.where:6} {row.schedule:14} {row.loss:8.1e} {row.gradient:9.1e}  {row.reference}"
            + ("" if row.is_equal else "   NOT EQUAL")
            for row in self.rows
        ]
        sizes = f"{self.num_ranks} ranks, {self.num_microbatches} micro-batches; relative deviations, {MOST:g} allowed"
        return "\n".join([head, *lines, sizes])

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return {**asdict(self), "rows": [{**asdict(row), "is_equal": row.is_equal} for row in self.rows]}


def equivalence(*, num_ranks: int = 2, num_microbatches: int = 4, timeout_s: float = 600.0) -> Equivalence:
    """Run the same GPT-2 through pipe, lanes and ranks under every schedule they take.

    Example: `print(equivalence().table())` takes about half a minute on two cores.

    Args:
        num_ranks: lanes, and processes.
        num_microbatches: how many the nine rows of the batch are cut into, at most nine.
        timeout_s: the most seconds the processes may take.
    """
    rows: list[Row] = []
    of_all = schedules(num_ranks, num_microbatches)
    for task in (Task(), Task(dropout=0.2)):
        on_ranks = comm.launch(_on_ranks, num_ranks, task, of_all, backend="gloo", timeout_s=timeout_s)[0]
        references: dict[int, Outcome] = {}  # with dropout: by the number of stages
        of_plain = None if task.dropout else plain(task)
        for name, schedule in of_all.items():
            outcomes: dict[Where, Outcome] = {"lanes": on_lanes(task, schedule), "ranks": on_ranks[name]}
            if name in OF_THE_PIPE:
                outcomes["pipe"] = through_the_pipe(task, schedule)
            reference = of_plain or references.setdefault(schedule.num_stages, outcomes["lanes"])
            label = "plain model" if of_plain else "lanes, with dropout"
            rows += [_row(where, name, schedule, label, outcome, reference) for where, outcome in outcomes.items()]
    return Equivalence(num_ranks, num_microbatches, tuple(rows))


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


def _on_ranks(rank: int, _world_size: int, task: Task, of_all: Mapping[str, Schedule]) -> dict[str, Outcome]:
    """One step of a `RankExecutor` for each schedule; every rank returns the gradients of all."""
    return {name: _on_rank(rank, task, schedule) for name, schedule in of_all.items()}


def _on_rank(rank: int, task: Task, schedule: Schedule) -> Outcome:
    model, (ids, labels) = task.model(), task.batch()
    stages = _stages(model, schedule)
    mine: dict[int, nn.Module] = {stage: stages[stage] for stage in schedule.stages_of_rank(rank)}
    executor = RankExecutor(schedule, mine, _loss, mean_over=num_target_tokens, tied=tied_weights(stages))
    torch.manual_seed(1)
    step = executor.step((ids, labels), labels)
    outcome = _outcome(step.loss, model, step.timeline)
    everywhere = comm.all_gather_object(outcome.gradients)
    return outcome._replace(gradients={name: value for part in everywhere for name, value in part.items()})


def deviation(outcome: Outcome, reference: Outcome) -> tuple[float, float]:
    """How far loss and gradients are from the reference's; infinite if a gradient is missing."""
    worst = 0.0
    for name, expected in reference.gradients.items():
        value = outcome.gradients.get(name)
        off = float("inf") if value is None else float((value - expected).abs().max() / expected.abs().max())
        worst = max(worst, off)
    return abs(outcome.loss - reference.loss) / abs(reference.loss), worst


def _row(where: Where, name: str, schedule: Schedule, label: str, outcome: Outcome, reference: Outcome) -> Row:
    expected = tuple(tuple(map(str, row)) for row in schedule.rows)
    return Row(where, name, label, *deviation(outcome, reference), outcome.rows == expected)


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
