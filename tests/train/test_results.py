import json
import math
from dataclasses import fields, replace

import pytest

from pllab.train import EpochMetrics, TrainConfig, TrainResult, save_plots
from pllab.train.metrics import RankOutcome, RunMetrics, StepMetrics
from pllab.train.results import load_results, plot_scaling, save_result
from pllab.train.running import _save

METRICS = RunMetrics(**{field.name: 1.0 for field in fields(RunMetrics)})  # no test here reads them
SECONDS = (9.0, 1.0, 3.0), (9.0, 3.0, 6.0)  # of the epochs of each rank


def result(workdir, mode="single", world_size=1, loss=2.0):
    about = {"num_tokens": 300, "num_samples": 10, "training_loss": loss, "validation_loss": loss}
    return TrainResult(
        config=TrainConfig(mode=mode, world_size=world_size, workdir=str(workdir)),
        machine={},
        backend="one process on cpu",
        ranks=tuple(
            tuple(EpochMetrics(rank=rank, epoch=epoch, training_time_s=s, **about) for epoch, s in enumerate(seconds))
            for rank, seconds in enumerate(SECONDS[:world_size])
        ),
        steps=(StepMetrics(loss, 10, 1e-3),),
        metrics=METRICS,
    )


def test_a_saved_result_has_rates_summed_and_times_averaged_over_ranks_without_the_first_epoch(tmp_path):
    saved = save_result(result(tmp_path, "data_parallel", 2))
    assert saved.path == tmp_path / "data_parallel-2.json"
    (read,) = load_results(tmp_path)
    # Tokens/s: 300 + 100, then 100 + 50; seconds: 1 and 3, then 3 and 6.
    assert read["tokens_per_s"] == pytest.approx({"mean": 275.0, "deviation": 250.0 / math.sqrt(2.0)})
    assert read["training_time_s"] == pytest.approx({"mean": 3.25, "deviation": 2.5 / math.sqrt(2.0)})
    assert read["dropped_first_epoch"] is True
    assert [[epoch["rank"] for epoch in epochs] for epochs in read["ranks"]] == [[0, 0, 0], [1, 1, 1]]
    assert [path.name for path in tmp_path.iterdir()] == ["data_parallel-2.json"]  # no draft is left


def test_ranks_that_share_a_model_have_one_row_together_and_each_its_memory(tmp_path):
    of_all = {"bleu": None, "reason": "", "num_parameters": 1000, "wall_time_s": 20.0, "peak_flops": 1e9}
    of_all |= {"steps": result(tmp_path).steps, "predicted_bubble_fraction": None}
    (epochs,) = result(tmp_path).ranks
    outcomes = [
        RankOutcome(epochs=tuple(replace(epoch, rank=rank) for epoch in epochs), peak_memory_bytes=peak, **of_all)
        for rank, peak in enumerate((1, 5, 7, 3))
    ]
    saved = _save(TrainConfig(dp=2, tp=2, workdir=str(tmp_path)), "gloo", outcomes)
    assert [epochs[0].rank for epochs in saved.ranks] == [0, 2]
    assert saved.metrics.peak_memory_bytes == (1, 5, 7, 3)


def test_a_diverged_run_still_writes_json_that_others_can_read(tmp_path):
    saved = save_result(result(tmp_path, loss=float("nan")))
    text = saved.path.read_text()
    assert "NaN" not in text
    assert json.loads(text)["validation_loss"] is None


def test_other_json_in_the_folder_is_no_result(tmp_path):
    (tmp_path / "notes.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="holds no results"):
        load_results(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match="broken.json is no JSON"):
        load_results(tmp_path)


def test_both_figures_say_their_numbers(tmp_path):
    save_result(result(tmp_path))
    save_result(result(tmp_path, "data_parallel", 2))
    paths = save_plots(tmp_path)
    assert [path.name for path in paths] == ["training_time_s.png", "tokens_per_s.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    alternative = plot_scaling(load_results(tmp_path), "tokens_per_s").alt
    assert "single on 1 device 200" in alternative
    assert "data parallel on 2 devices 275" in alternative
