"""Every way to share a model among some ranks, and one table that says whether all of them train the same model.

Each row trains the same GPT-2 for some steps of plain gradient descent: rows with unequally many targets, a tied
embedding, a frozen parameter. The reference is one process with the whole batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from pllab import comm
from pllab.train.config import TrainConfig
from pllab.train.placing import build_model
from pllab.train.trainers import StepRecord, make_trainer

MOST = 1e-5
"""The largest relative deviation in float32 that counts as equal."""
_FROZEN = ("transformer.h.1.ln_1.weight",)
_VOCAB, _TIME, _ROWS = 65, 12, 8
_SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "zero_bubble")


def layouts(num_ranks: int, **fields: Any) -> Iterator[TrainConfig]:
    """A configuration for every strategy, composition and schedule that so many ranks allow, ours and PyTorch's.

    Example: `[config.run_name for config in layouts(2)]` -> `data_parallel-2`, `data_parallel-2-pytorch`, ...

    Args:
        num_ranks: 2, 4 or 8; with 8 only the layouts that have all three axes.
        fields: other fields of each `TrainConfig`.
    """
    for axes in _axes(num_ranks):
        for implementation in ("custom", "pytorch"):
            with suppress(ValueError):  # what PyTorch's classes do not do together; see `check_axes`
                yield TrainConfig(**fields, **axes, implementation=implementation)


def _axes(num_ranks: int) -> Iterator[dict[str, Any]]:
    if num_ranks == 8:
        yield from ({"dp": 2, "tp": 2, "pp": 2, "schedule": "1f1b", "loss_parallel": True, "zero": z} for z in (0, 1))
        return
    yield from ({"dp": num_ranks, "zero": zero} for zero in (0, 1, 2, 3))
    yield {"dp": num_ranks, "zero": 3, "deferred_init": True}
    yield from ({"tp": num_ranks, "loss_parallel": splits} for splits in (False, True))
    yield from ({"pp": num_ranks, "schedule": name} for name in (_SCHEDULES if num_ranks == 2 else ("gpipe", "1f1b")))
    if num_ranks == 4:
        yield from ({"dp": 2, "tp": 2, "zero": zero, "loss_parallel": zero > 0} for zero in (0, 1, 2, 3))
        yield {"dp": 2, "tp": 2, "zero": 3, "deferred_init": True}
        yield from ({"dp": 2, "pp": 2, "schedule": name} for name in _SCHEDULES)
        yield from ({"dp": 2, "pp": 2, "schedule": name, "zero": 1} for name in ("1f1b", "interleaved", "zbv"))
        yield from ({"tp": 2, "pp": 2, "schedule": name, "loss_parallel": name == "1f1b"} for name in ("gpipe", "1f1b"))


@dataclass(frozen=True)
class LayoutRow:
    """One line of the table: the largest deviations of losses and parameters, relative to the reference's largest."""

    name: str
    loss: float
    parameters: float

    @property
    def is_equal(self) -> bool:
        """Whether nothing deviates by more than rounding."""
        return self.loss <= MOST and self.parameters <= MOST  # so that NaN is not


@dataclass(frozen=True)
class LayoutEquivalence:
    """All rows, and the steps they trained."""

    num_steps: int
    rows: tuple[LayoutRow, ...]

    @property
    def is_equal(self) -> bool:
        """Whether every row is equal."""
        return all(row.is_equal for row in self.rows)

    def table(self) -> str:
        """One line per row."""
        width = max(len(row.name) for row in self.rows)
        lines = [
            f"{row.name:{width}} {row.loss:8.1e} {row.parameters:10.1e}{'' if row.is_equal else '   NOT EQUAL'}"
            for row in self.rows
        ]
        head = f"{'layout':{width}} {'loss':>8} {'parameters':>10}"
        tail = f"{self.num_steps} steps against one process; relative deviations, {MOST:g} allowed"
        return "\n".join([head, *lines, tail])

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        rows = [{**asdict(row), "is_equal": row.is_equal} for row in self.rows]
        return {"num_steps": self.num_steps, "rows": rows}


def layout_equivalence(
    *, ranks: tuple[int, ...] = (2, 4, 8), num_steps: int = 20, timeout_s: float = 600.0
) -> LayoutEquivalence:
    """Train the same GPT-2 under every layout of some numbers of ranks.

    Example: `print(layout_equivalence(ranks=(2,)).table())`.

    Args:
        ranks: numbers of ranks, each 2, 4 or 8.
        num_steps: steps of gradient descent.
        timeout_s: the most seconds the ranks of one number may take.
    """
    rows: list[LayoutRow] = []
    reference = trained(small(), num_steps)
    for num_ranks in ranks:
        rows += on_ranks([small(config) for config in layouts(num_ranks)], reference, num_steps, timeout_s)
    return LayoutEquivalence(num_steps, tuple(rows))


def on_ranks(
    configs: Sequence[TrainConfig],
    reference: "Trained",
    num_steps: int,
    timeout_s: float = 600.0,
    frozen: tuple[str, ...] = _FROZEN,
) -> list[LayoutRow]:
    """A row for each configuration, all with the same number of ranks, against a reference with as much frozen."""
    num_ranks = configs[0].world_size
    outcomes = comm.launch(_train_all, num_ranks, configs, num_steps, frozen, backend="gloo", timeout_s=timeout_s)[0]
    return [
        LayoutRow(config.label, *deviation(outcome, reference))
        for config, outcome in zip(configs, outcomes, strict=True)
    ]


Trained = tuple[list[float], Mapping[str, torch.Tensor]]


def trained(config: TrainConfig, num_steps: int, frozen: tuple[str, ...] = _FROZEN) -> Trained:
    """The loss of each step over the whole batch, and the parameters after the last.

    Args:
        config: the layout.
        num_steps: steps of gradient descent.
        frozen: how the names of the parameters begin that do not train.
    """
    model = build_model(config, _VOCAB)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    trainer = make_trainer(config, _VOCAB, model)
    try:
        trainer.updates.begin(num_steps)
        losses = [loss_of_all(trainer.step(share_of(batch(number), config))) for number in range(num_steps)]
        return losses, {name: value.detach().clone() for name, value in trainer.gather().state_dict().items()}
    finally:
        trainer.close()


def loss_of_all(record: StepRecord) -> float:
    """The loss of a step over the whole batch."""
    pair = torch.tensor([float(record.loss_sum), float(record.num_targets)], dtype=torch.float64)
    comm.all_reduce(pair)
    return float(pair[0] / pair[1])


def share_of(whole: dict[str, torch.Tensor], config: TrainConfig) -> dict[str, torch.Tensor]:
    """The rows of this rank's replica."""
    number, size = config.share_of(comm.rank()), config.batch_size // config.dp
    return {name: rows[number * size : (number + 1) * size] for name, rows in whole.items()}


def batch(number: int) -> dict[str, torch.Tensor]:
    """Ids and labels, both (rows, time); row r has r targets fewer than the first, and the last half sometimes none."""
    generator = torch.Generator().manual_seed(number)
    ids = torch.randint(_VOCAB, (_ROWS, _TIME), generator=generator)
    places = torch.arange(_TIME)
    has_target = places[None] < _TIME - places[:_ROWS, None]
    if number % 3 == 1:
        has_target[_ROWS // 2 :] = False
    return {"input_ids": ids, "labels": ids.where(has_target, -100)}


def _train_all(
    rank: int,  # noqa: ARG001 - what launch calls
    world_size: int,  # noqa: ARG001
    configs: Sequence[TrainConfig],
    num_steps: int,
    frozen: tuple[str, ...],
) -> list[Trained]:
    return [trained(config, num_steps, frozen) for config in configs]


def deviation(outcome: Trained, reference: Trained) -> tuple[float, float]:
    """How far losses and parameters are from the reference's, relative; infinite if a parameter is missing."""
    off = [abs(ours - theirs) / abs(theirs) for ours, theirs in zip(outcome[0], reference[0], strict=True)]
    far = [
        float((outcome[1][name] - value).abs().max() / value.abs().max()) if name in outcome[1] else float("inf")
        for name, value in reference[1].items()
    ]
    return max(off), max(far)


def small(like: TrainConfig | None = None) -> TrainConfig:
    """The model and the steps that the table trains, for one process or with the axes of another configuration."""
    fields: dict[str, Any] = {
        "batch_size": _ROWS,
        "n_embd": 64,
        "max_length": _TIME,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "device": "cpu",
    }
    return TrainConfig(**fields) if like is None else replace(like, **fields)
