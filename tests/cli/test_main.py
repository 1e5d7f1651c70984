import json
import re
from functools import partial
from pathlib import Path

import pytest

from pllab import __version__
from pllab.cli import _COMMANDS, main
from pllab.cli.flags import parse
from pllab.cli.measuring import _BENCHES
from pllab.cli.training import _epoch_line
from pllab.train import EpochMetrics, TrainConfig

TRAINING_PAGE = Path(__file__).parents[2] / "docs" / "training.md"
TINY = (
    "--samples-per-epoch 16 --validation-samples 8 --batch-size 8 --max-length 16 --n-layer 2 --n-embd 16 "
    "--n-head 2 --vocab-size 260 --num-epochs 1 --device cpu --quiet"
).split()


def train(*words):
    return ["train", *TINY, *words]


def test_columns_of_any_data_set_train_with_a_bar_on_stderr(tmp_path, capsys):
    there = tmp_path / "there"
    there.mkdir()
    (there / "train.jsonl").write_text('{"question": "was", "answer": "what is it"}\n' * 60)
    words = train("--workdir", str(tmp_path), "--dataset", str(there), "--columns", "question", "answer")
    assert main([word for word in words if word != "--quiet"]) == 0
    output = capsys.readouterr()
    assert "BLEU" in output.out and "step/s" not in output.out
    assert output.err.startswith(f"\rreading data set {str(there)!r}: ")
    assert "epoch 1/1" in output.err and "2/2" in output.err


def test_without_a_command_there_is_help_and_exit_code_2(capsys):
    assert [main(words) for words in (["--help"], ["--version"], [])] == [0, 0, 2]
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("words", [*([name] for name in _COMMANDS), *(["bench", n] for n in _BENCHES)], ids=" ".join)
def test_the_help_of_every_command_is_made_from_its_real_functions(words, capsys):
    try:
        code = main([*words, "--help"])
    except SystemExit as end:
        code = end.code
    assert not code
    assert f"usage: python -m pllab {' '.join(words)}" in " ".join(capsys.readouterr().out.split())


def test_traceback_on_request():
    with pytest.raises(ValueError, match="'trian'"):
        main(["trian", "--traceback"])


def test_a_run_prints_its_numbers_and_the_page_on_training_draws_them(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "--num-epochs 2 --max-length 64 --vocab-size 300 --dataset numbers".split()
    assert main(train("--workdir", "workdir", *words)) == 0
    output = capsys.readouterr()
    assert output.err == ""  # quiet
    names = "epoch 1|epoch 2|+-|tokens/s|validation loss|BLEU|single-1.json|samples/s|goodput|utilisation|MiB on a rank"
    assert [name for name in names.split("|") if name not in output.out] == []
    assert "bubble" not in output.out
    exec(re.search("```python\n(.*?)```", TRAINING_PAGE.read_text(), re.DOTALL)[1], {})
    assert all((tmp_path / f"{metric}.png").exists() for metric in ("training_time_s", "tokens_per_s"))


def test_an_epoch_takes_as_long_as_its_slowest_rank_and_its_rates_are_added():
    epoch = partial(EpochMetrics, epoch=0, training_loss=2.0, validation_loss=2.5)
    ranks = [epoch(rank=0, training_time_s=2.0, num_tokens=400), epoch(rank=1, training_time_s=3.0, num_tokens=300)]
    assert _epoch_line(ranks) == "epoch 1          3.00 s, 300 tokens/s, loss 2.0000, validation loss 2.5000"


def test_a_pipeline_has_two_stages_unless_told_otherwise(capsys, tmp_path):
    assert main(train("--workdir", str(tmp_path), "--mode", "pipeline")) == 0
    output = capsys.readouterr().out
    assert "cpu:0, cpu:1" in output
    assert "measured in the steps, 0.200 simulated for this schedule" in output
    assert main(train("--workdir", str(tmp_path), "--mode", "pipeline", "--world_size=1")) == 0
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["pipeline-1.json", "pipeline-2.json"]


@pytest.mark.parametrize(
    ("words", "run_name"),
    [
        ("--mode=data_parallel --zero 2", "data_parallel-2-zero2"),
        ("--mode tensor_parallel --loss-parallel", "tensor_parallel-2-loss_parallel"),
        ("--mode data_parallel --dp 4", "data_parallel-4"),
        ("--mode model_parallel --world-size 1", "model_parallel-1"),
        ("--mode single", "single-1"),
        ("--tp 2", "tensor_parallel-2"),
    ],
)
def test_a_mode_has_two_devices_unless_told_otherwise_whatever_else_is_given(words, run_name):
    assert parse(TrainConfig, words.split(), "train").run_name == run_name


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (lambda: int("9" * 23).to_bytes(8), "'doctor --ranks 3' ended with OverflowError: int too big to convert"),
        (lambda: json.loads("{"), "'doctor --ranks 3' ended with JSONDecodeError: Expecting property name"),
        (lambda: Path("/nowhere/x").read_text(), "FileNotFoundError: No such file or directory (/nowhere/x)"),
    ],
)
def test_an_error_of_another_library_is_one_sentence_with_the_values_given(error, sentence, capsys, monkeypatch):
    monkeypatch.setattr("pllab.cli.doctor.report", error)
    assert main(["doctor", "--ranks", "3"]) == 2
    assert sentence in capsys.readouterr().err


def test_under_torchrun_there_are_as_many_devices_as_it_started_ranks(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert TrainConfig(mode="data_parallel").dp == 4
