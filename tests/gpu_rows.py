"""`python -m tests.gpu_rows NUM_RANKS quick|every FILE`: train under layouts on the pretended GPU; write a table.

For processes whose environment is `pretend_gpu.environment(n)`. Each row trains two epochs, the quick ones with a
checkpoint and a resume in between. It fails if parameters, batch, loss or messages were elsewhere, or if a tensor of
the CPU was taken in.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

from pllab import accelerator, comm
from pllab.comm.devices import gpu_backend
from pllab.train import TrainConfig, TrainResult, loop, train
from pllab.train.comparing import layouts
from pllab.train.running import train_as_rank

Row = dict[str, Any]
TIMEOUT_S = 2400.0
SMALL: Row = {
    "dataset": "numbers",
    "samples_per_epoch": 16,
    "validation_samples": 7,
    "batch_size": 8,
    "n_layer": 4,
    "n_embd": 32,
    "n_head": 4,
    "max_length": 48,
    "vocab_size": 260,
    "timeout_s": 60.0,
    "gradient_clipping": 1.0,
    "peak_flops": 1e12,
    "name": "run",
}
LANES: Row = {"mode": "pipeline", "world_size": 2}
FEW: Row = {"n_layer": 2, "checkpoint": True, "eval_interval": 2}  # what `make test` has the time for
QUICK: dict[int, list[Row]] = {
    1: [{}, LANES | {"schedule": "zb_h1"}],
    2: [{"dp": 2}, {"dp": 2, "zero": 3}, {"tp": 2}, {"pp": 2, "schedule": "1f1b"}],
}


def every_row(num_ranks: int) -> Iterator[Row]:
    """Every layout that so many ranks allow; in one process every schedule on lanes."""
    if num_ranks > 1:
        kept = ("dp", "tp", "pp", "zero", "implementation", "schedule", "loss_parallel", "deferred_init")
        yield from ({name: getattr(config, name) for name in kept} for config in layouts(num_ranks))
        return
    yield from ({}, {"mode": "model_parallel", "world_size": 2}, {"accumulation": 2})
    for name in ("gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "zero_bubble"):
        yield LANES | {"schedule": name}
    yield LANES | {"recompute": True}
    yield {"dtype": "bfloat16", "dropout": 0.1}
    yield LANES | {"recompute": True, "dropout": 0.1}


Outcome = tuple[list[float], float]
"""The loss of every step, and the last validation loss."""


def two_epochs(row: Row, folder: Path, run: Any) -> Outcome | None:
    """Train two epochs; with checkpoints, save after the first and resume for the second."""
    config = TrainConfig(**SMALL | row, num_epochs=2, workdir=str(folder))
    runs = [replace(config, num_epochs=1), replace(config, resume=True)] if config.checkpoint else [config]
    results: list[TrainResult | None] = [run(each) for each in runs]
    steps = [step for result in results if result for step in result.steps]
    return ([step.loss for step in steps], results[-1].ranks[0][-1].validation_loss) if results[-1] else None


def watched(row: Row, folder: Path, run: Any) -> Row:
    """Train a row; assert that it was on the GPU, and that the GPU refused what was not."""
    trainers: list[Any] = []
    make = loop.make_trainer
    accelerator.seen.clear()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*fork_rng without")  # it would touch every GPU of the machine
        patch.setattr(loop, "make_trainer", lambda *args: trainers.append(make(*args)) or trainers[-1])
        outcome = two_epochs(row, folder, run)
    assert_on_gpu(trainers[-1].shared, comm.all_gather_object(dict(accelerator.seen)))
    losses, validation = outcome or ([], 0.0)
    return {"label": str(row), "losses": losses, "validation": validation}


def assert_on_gpu(model: torch.nn.Module, seen: list[dict[str, int]]) -> None:
    """Of a pipeline's ranks the first embeds the batch and the last computes the loss, so what all have seen counts."""
    parts = [getattr(parameter, "_local_tensor", parameter) for parameter in model.parameters()]  # of a DTensor
    assert {part.device.type for part in parts} == {accelerator.KIND}, "parameters"
    assert any(of_rank.get("embedding") for of_rank in seen), "batch"
    losses = ("nll_loss_forward", "gather")  # `gather` picks the targets' logits where they are split over ranks
    assert any(of_rank.get(name) for of_rank in seen for name in losses), "loss"
    with pytest.raises(RuntimeError, match="same device"):
        parts[0].detach() + torch.ones(parts[0].shape or (1,))
    if comm.backend_name() is not None:
        assert all(of_rank.get("message") for of_rank in seen), "messages"
        with pytest.raises((ValueError, RuntimeError), match="cpu"):
            comm.all_reduce(torch.ones(2))


def on_rank(rank: int, world_size: int, rows: list[Row], folder: str) -> list[Row]:
    """All rows in one group; rank 0 has the outcomes."""
    assert comm.backend_name() == gpu_backend()
    outcomes = [
        watched(row, Path(folder) / str(number), lambda config: train_as_rank(config, "the double"))
        for number, row in enumerate(rows)
    ]
    assert accelerator.deadlines == {timedelta(seconds=TIMEOUT_S)}, "of every group, also those of a mesh"
    return outcomes


def main(num_ranks: int, chosen: str) -> list[Row]:
    """The outcome of every row; that of one process on the CPU comes first, to compare with."""
    rows = [FEW | row for row in QUICK[num_ranks]] if chosen == "quick" else list(every_row(num_ranks))
    with tempfile.TemporaryDirectory() as folder:
        reference = {"device": "cpu"} | (FEW if chosen == "quick" else {})
        losses, validation = two_epochs(reference, Path(folder) / "cpu", train) or ([], 0.0)
        on_cpu = {"label": "one process on the CPU", "losses": losses, "validation": validation}
        if num_ranks > 1:
            # A rank keeps the threads of every group that it made, so a few rows are enough for one.
            parts = [rows[start : start + 6] for start in range(0, len(rows), 6)]
            places = [str(Path(folder) / f"ranks-{number}") for number in range(len(parts))]
            table = [
                comm.launch(on_rank, num_ranks, *each, timeout_s=TIMEOUT_S)[0]
                for each in zip(parts, places, strict=False)
            ]
            return [on_cpu, *(row for part in table for row in part)]
        return [on_cpu, *(watched(row, Path(folder) / str(number), train) for number, row in enumerate(rows))]


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(main(int(sys.argv[1]), sys.argv[2])))
