import json
import math
from dataclasses import fields

import pytest

from pllab.train import EpochMetrics, TrainConfig, TrainResult
from pllab.train.loop import first_of_each_share
from pllab.train.metrics import RunMetrics, StepMetrics

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
    assert first_of_each_share(TrainConfig(dp=2, tp=2, pp=2), range(8)) == (0, 2)


def test_a_diverged_run_still_writes_json_that_others_can_read(tmp_path):
    text = saved(tmp_path, loss=float("nan"))
    assert "NaN" not in text
    assert json.loads(text)["validation_loss"] is None
