import json
import math
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2LMHeadModel

from pllab.models import gpt2_config
from pllab.train import EpochMetrics, TrainConfig, TrainResult, loop, train, trainers
from pllab.train.metrics import RunMetrics, StepMetrics, log_epoch, measured_peak_flops, model_flops
from tests.tiers import exhaustive
from tests.train.sizes import TINY


def test_the_model_needs_the_products_that_torch_counts():
    """Norms and biases multiply no matrix; they are 1.5 % of so small a model, and attention half."""
    config = gpt2_config("tiny", vocab_size=500, n_positions=512, attn_implementation="eager")
    model, ids = GPT2LMHeadModel(config), torch.zeros(3, 512, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        model(ids, labels=ids).loss.backward()
    num_parameters = model.num_parameters() - model.transformer.wpe.weight.numel()
    assert model_flops(num_parameters, 4, 64, ids.numel(), 3) == pytest.approx(counter.get_total_flops(), rel=0.02)


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="elsewhere the system's own number has to do")
def test_memory_is_that_of_this_process_at_its_highest_and_not_of_the_one_that_started_it():
    child = "import torch; from pllab.train.metrics import peak_memory_bytes as peak; y = b'y' * 4 * 10**8; del y; "
    child += "print(peak(torch.device('cpu')))"
    parent = f"import subprocess, sys; x = b'x' * 10**9; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True)
    assert 4e8 < int(done.stdout) < 9e8


OPTIONS = TINY | {"max_length": 16, "num_epochs": 3}


@pytest.mark.parametrize(
    ("mode", "num_devices"),
    [
        ({}, 1),
        ({"mode": "pipeline"}, 2),
        ({"mode": "pipeline"}, 1),  # which both stages share, as a machine's only GPU
        *exhaustive(({"mode": "data_parallel"}, 2), ({"mode": "tensor_parallel"}, 2), ({"dp": 2, "zero": 3}, 2)),
    ],
)
def test_a_run_is_measured_against_a_given_machine(mode, num_devices, tmp_path, monkeypatch):
    """The first epoch is left out, and the operations are those of all devices together."""
    size = 2 if mode else 1
    if num_devices < size:
        for room in (loop, trainers):
            monkeypatch.setattr(room, "devices_of", lambda _: [torch.device("cpu", 0)] * size, raising=False)
    result = train(TrainConfig(**OPTIONS, **{"world_size": size, **mode}, peak_flops=1e9, workdir=str(tmp_path)))
    metrics, kept = result.metrics, [epochs[1:] for epochs in result.ranks]
    tokens = sum(epoch.num_tokens for epochs in kept for epoch in epochs)
    seconds = sum(epoch.training_time_s for epochs in kept for epoch in epochs) / len(kept)
    num_parameters = 300 * 16 + 2 * (12 * 16**2 + 13 * 16) + 2 * 16
    needed = model_flops(num_parameters, 2, 16, tokens, 2 * 16)
    assert metrics.model_flops_utilisation == pytest.approx(needed / (seconds * num_devices * 1e9))
    assert metrics.samples_per_s == pytest.approx(2 * 16 / seconds)
    assert metrics.goodput == pytest.approx(3 * 2 / metrics.wall_time_s)
    assert (metrics.bubble_fraction is not None) == (mode.get("mode") == "pipeline")
    num_processes = 1 if mode.get("mode") == "pipeline" else size
    assert len(metrics.peak_memory_bytes) == num_processes and min(metrics.peak_memory_bytes) > 2**26
    assert metrics.wall_time_s > max(sum(epoch.training_time_s for epoch in epochs) for epochs in result.ranks)
    assert sum(step.num_samples for step in result.steps) == 3 * 16


def test_the_peak_is_that_of_the_fastest_product(monkeypatch):
    clock = iter([0.0, 4.0, 10.0, 11.0, 20.0, 20.5, 30.0, 32.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    with FlopCounterMode(display=False) as counter:
        peak = measured_peak_flops(torch.device("cpu"), torch.float32)
    assert peak == counter.get_total_flops() / 4 / 0.5


def test_memory_is_read_before_a_product_measures_the_machine(tmp_path, monkeypatch):
    """Its matrices, half a gigabyte on a GPU, are none of the model's."""
    calls = []
    for name in ("measured_peak_flops", "peak_memory_bytes"):
        monkeypatch.setattr(loop, name, lambda *_, name=name: calls.append(name) or 1)
    train(TrainConfig(**OPTIONS | {"num_epochs": 1}, workdir=str(tmp_path)))
    assert calls == ["peak_memory_bytes", "measured_peak_flops"]


def test_tensorboard_reads_back_every_value(tmp_path):
    """Of the last run in a folder: an earlier one there took the same steps."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for loss, epoch in ((9.0, 0), (9.0, 1), (3.0, 0), (3.0, 1)):
        steps = [StepMetrics(loss, 8, 1e-3, 2.0, None), StepMetrics(2.0, 8, 5e-4, 1.5, 2.5)]
        losses = {"training_loss": 1.0, "validation_loss": 1.0}
        metrics = EpochMetrics(rank=0, epoch=epoch, training_time_s=1.0, num_tokens=100, **losses)
        log_epoch(tmp_path, metrics, steps, first=2 * epoch)
    reader = EventAccumulator(str(tmp_path))
    reader.Reload()
    found = {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    assert found == {
        "loss/training": [(0, 3.0), (1, 2.0), (2, 3.0), (3, 2.0)],
        "loss/validation": [(1, 2.5), (3, 2.5)],
        "gradient_norm": [(0, 2.0), (1, 1.5), (2, 2.0), (3, 1.5)],
        "learning_rate": [(step, pytest.approx(1e-3 if step % 2 == 0 else 5e-4)) for step in range(4)],
        "tokens_per_s/rank_0": [(1, 100.0), (3, 100.0)],
        "training_time_s": [(1, 1.0), (3, 1.0)],
    }


METRICS = RunMetrics(**{field.name: 1.0 for field in fields(RunMetrics)})  # no test here reads them
SECONDS = (9.0, 1.0, 3.0), (9.0, 3.0, 6.0)  # of the epochs of each rank


def saved(workdir, loss):
    about = {"num_tokens": 300, "num_samples": 10, "training_loss": loss, "validation_loss": loss}
    result = TrainResult(
        config=TrainConfig(dp=2, workdir=str(workdir)),
        machine={},
        backend="gloo",
        ranks=tuple(
            tuple(EpochMetrics(rank=rank, epoch=epoch, training_time_s=s, **about) for epoch, s in enumerate(seconds))
            for rank, seconds in enumerate(SECONDS)
        ),
        steps=(StepMetrics(loss, 10, 1e-3),),
        metrics=METRICS,
    )
    result.save()
    return (workdir / "data_parallel-2.json").read_text()


def test_a_saved_result_has_rates_summed_and_times_averaged_over_ranks_without_the_first_epoch(tmp_path):
    read = json.loads(saved(tmp_path, loss=2.0))
    # Tokens/s: 300 + 100, then 100 + 50; seconds: 1 and 3, then 3 and 6.
    assert read["tokens_per_s"] == pytest.approx({"mean": 275.0, "deviation": 250.0 / math.sqrt(2.0)})
    assert read["training_time_s"] == pytest.approx({"mean": 3.25, "deviation": 2.5 / math.sqrt(2.0)})
    assert read["dropped_first_epoch"] is True
    assert [[epoch["rank"] for epoch in epochs] for epochs in read["ranks"]] == [[0, 0, 0], [1, 1, 1]]
    assert [path.name for path in tmp_path.iterdir()] == ["data_parallel-2.json"]  # no draft is left


def test_ranks_that_share_a_model_have_one_row_together():
    assert loop.first_of_each_share(TrainConfig(dp=2, tp=2, pp=2), range(8)) == (0, 2)


def test_a_diverged_run_still_writes_json_that_others_can_read(tmp_path):
    text = saved(tmp_path, loss=float("nan"))
    assert "NaN" not in text
    assert json.loads(text)["validation_loss"] is None
