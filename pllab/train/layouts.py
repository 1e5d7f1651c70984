"""Every way to share a model among some ranks, and the batches that all of them learn from.

The rows of a batch have unequally many targets, and a rank's rows sometimes none.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import torch

from pllab import comm
from pllab.train.config import TrainConfig
from pllab.train.trainers import StepRecord

_SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "zero_bubble")


def layouts(num_ranks: int, **fields: Any) -> Iterator[TrainConfig]:
    """A configuration for every strategy, composition and schedule that so many ranks allow, ours and PyTorch's.

    Example: `[config.run_name for config in layouts(2)]` -> `data_parallel-2`, `data_parallel-2-pytorch`, ...

    Args:
        num_ranks: 2, 4 or 8; with 8 only the layouts that have all three axes.
        fields: other fields of each `TrainConfig`.
    """
    for axes in _axes(num_ranks):
        # Between ranks a pipeline is PyTorch's under either name, so one that is not shared over dp or tp comes once.
        both: tuple[Literal["custom", "pytorch"], ...] = ("custom", "pytorch")
        for implementation in both[axes.get("pp") == num_ranks :]:
            with suppress(ValueError):  # what PyTorch's classes do not do together
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


def loss_of_all(record: StepRecord) -> float:
    """The loss of a step over the whole batch."""
    pair = torch.tensor([float(record.loss_sum), float(record.num_targets)], dtype=torch.float64)
    comm.all_reduce(pair)
    return float(pair[0] / pair[1])


def share_of(whole: dict[str, torch.Tensor], config: TrainConfig) -> dict[str, torch.Tensor]:
    """The rows of this rank's replica."""
    number, size = config.share_of(comm.rank()), config.batch_size // config.dp
    return {name: rows[number * size : (number + 1) * size] for name, rows in whole.items()}


def batch(number: int, config: TrainConfig) -> dict[str, torch.Tensor]:
    """Ids and labels, both (rows, time); row r has r targets fewer than the first, and the last half sometimes none."""
    generator, rows, length = torch.Generator().manual_seed(number), config.batch_size, config.max_length
    ids = torch.randint(config.vocab_size, (rows, length), generator=generator)
    has_target = torch.arange(length)[None] < length - torch.arange(rows)[:, None] % length
    if number % 3 == 1:
        has_target[rows // 2 :] = False
    return {"input_ids": ids, "labels": ids.where(has_target, -100)}


def small(like: TrainConfig | None = None) -> TrainConfig:
    """The model and the steps that `equivalence` trains, for one process or with the axes of another configuration."""
    fields: dict[str, Any] = {
        "batch_size": 8,
        "n_embd": 64,
        "max_length": 12,
        "vocab_size": 65,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "device": "cpu",
    }
    return TrainConfig(**fields) if like is None else replace(like, **fields)
