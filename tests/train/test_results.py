import json
import math

import pytest

from pllab.train import EpochMetrics, TrainConfig
from pllab.train.metrics import RankOutcome, StepMetrics, save_result

SECONDS = (9.0, 1.0, 3.0), (9.0, 3.0, 6.0)  # of the epochs of the even and the odd ranks


def outcome(rank, loss=2.0):
    about = {"num_tokens": 300, "num_samples": 10, "training_loss": loss, "validation_loss": loss}
    seconds = SECONDS[rank % 2]
    return RankOutcome(
        epochs=tuple(EpochMetrics(rank=rank, epoch=n, training_time_s=s, **about) for n, s in enumerate(seconds)),
        steps=(StepMetrics(loss, 10, 1e-3),),
        bleu=None,
        reason="",
        num_parameters=1000,
        wall_time_s=20.0,
        peak_memory_bytes=10 + rank,
        peak_flops=1e9,
        predicted_bubble_fraction=None,
    )


def test_a_saved_result_has_rates_summed_and_times_averaged_over_ranks_without_the_first_epoch(tmp_path):
    saved = save_result(TrainConfig(dp=2, workdir=str(tmp_path)), "gloo", [outcome(0), outcome(1)])
    assert saved.path == tmp_path / "data_parallel-2.json"
    read = json.loads(saved.path.read_text())
    # Tokens/s: 300 + 100, then 100 + 50; seconds: 1 and 3, then 3 and 6.
    assert read["tokens_per_s"] == pytest.approx({"mean": 275.0, "deviation": 250.0 / math.sqrt(2.0)})
    assert read["training_time_s"] == pytest.approx({"mean": 3.25, "deviation": 2.5 / math.sqrt(2.0)})
    assert read["dropped_first_epoch"] is True
    assert [[epoch["rank"] for epoch in epochs] for epochs in read["ranks"]] == [[0, 0, 0], [1, 1, 1]]
    assert [path.name for path in tmp_path.iterdir()] == ["data_parallel-2.json"]  # no draft is left


def test_ranks_that_share_a_model_have_one_row_together_and_each_its_memory(tmp_path):
    saved = save_result(TrainConfig(dp=2, tp=2, workdir=str(tmp_path)), "gloo", [outcome(rank) for rank in range(4)])
    assert [epochs[0].rank for epochs in saved.ranks] == [0, 2]
    assert saved.metrics.peak_memory_bytes == (10, 11, 12, 13)


def test_a_diverged_run_still_writes_json_that_others_can_read(tmp_path):
    saved = save_result(TrainConfig(workdir=str(tmp_path)), "one process on cpu", [outcome(0, float("nan"))])
    text = saved.path.read_text()
    assert "NaN" not in text
    assert json.loads(text)["validation_loss"] is None
