import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from pllab import __version__
from pllab.cli import _COMMANDS, main
from pllab.cli.measuring import _BENCHES
from pllab.cli.training import _epoch_line
from pllab.train import EpochMetrics

TINY = (
    "--samples-per-epoch 16 --validation-samples 8 --batch-size 8 --max-length 16 --n-layer 2 --n-embd 16 "
    "--n-head 2 --vocab-size 260 --num-epochs 1 --device cpu --quiet"
).split()


def refusal(capsys, *words):
    """The sentence of a refused call."""
    assert main(words) == 2
    output = capsys.readouterr()
    assert output.err.count("\n") == 1, output.err
    assert "Traceback" not in output.err
    return output.err.strip()


def train(*words):
    return ["train", *TINY, *words]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--mode", "tensor"], ["'tensor'", "pipeline"]),
        (["--world-size", "two"], ["two", "--world-size"]),
        (["--vocab-size", "8"], ["vocab_size 8"]),
        (["--dataset", "numbers", "--max-length", "2"], ["max_length 2"]),
        (["--dataset", "shakespeare"], ["'shakespeare' is not known", "one of docs, numbers", "tinyshakespeare"]),
    ],
)
def test_wrong_flags_are_one_sentence_with_the_value(words, expected, capsys, tmp_path):
    sentence = refusal(capsys, *train("--workdir", str(tmp_path), *words))
    assert all(word in sentence for word in expected), sentence


def test_a_folder_of_a_run_that_cannot_be_made_is_named(capsys, tmp_path):
    (tmp_path / "single-1").write_text("")
    sentence = refusal(capsys, *train("--workdir", str(tmp_path)))
    assert "single-1' cannot be written (File exists); name a folder of your own with --workdir" in sentence


def test_columns_of_any_data_set_train_with_bars_on_stderr(tmp_path, capsys):
    there = tmp_path / "there"
    there.mkdir()
    (there / "train.jsonl").write_text('{"question": "was", "answer": "what is it"}\n' * 60)
    words = train("--workdir", str(tmp_path), "--dataset", str(there), "--columns", "question", "answer")
    assert main([word for word in words if word != "--quiet"]) == 0
    output = capsys.readouterr()
    assert "BLEU" in output.out and "step/s" not in output.out
    assert output.err.startswith(f"reading data set {str(there)!r}, split 'train'\n")
    assert "rank 0 epoch 1/1" in output.err and "2/2" in output.err


def test_commands_and_help(capsys):
    assert "'trian'" in refusal(capsys, "trian")
    assert "'pipelines'" in refusal(capsys, "bench", "pipelines")
    assert main(["--help"]) == 0
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert main([]) == 2


@pytest.mark.parametrize("words", [*([name] for name in _COMMANDS), *(["bench", n] for n in _BENCHES)], ids=" ".join)
def test_the_help_of_every_command_is_made_from_its_real_functions(words, capsys):
    try:
        code = main([*words, "--help"])
    except SystemExit as end:
        code = end.code
    assert not code
    assert f"usage: python -m pllab {' '.join(words)}" in " ".join(capsys.readouterr().out.split())


@pytest.fixture
def pipe(tmp_path):
    """A named pipe; whoever reads it reads nothing, and the test fails."""
    path, opened = tmp_path / "00_pipe.ipynb", []
    os.mkfifo(path)

    def give_nothing():
        os.close(os.open(path, os.O_WRONLY))  # returns when somebody reads
        opened.append(path)

    writer = threading.Thread(target=give_nothing, daemon=True)
    writer.start()
    yield path
    is_read = bool(opened)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # stays open: the writer may come only now
    writer.join(10)
    os.close(reader)
    assert not is_read


@pytest.mark.parametrize("is_device", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        "import PATH",
        "import PATH -o run.html",
        "autopsy PATH PATH",
        "train --dataset PATH",
        "grade PATH",
        "compare --json PATH",  # as a file to write it would be replaced
    ],
)
def test_a_pipe_or_a_device_is_refused_before_anything_is_read(words, is_device, pipe, capsys):
    if is_device and "--json" in words:
        pytest.skip("whoever breaks this refusal and is root must not lose a device")
    path = "/dev/null" if is_device else str(pipe)
    sentence = refusal(capsys, *words.replace("PATH", path).split())
    assert repr(path) in sentence
    assert "is a pipe or a device" in sentence or "is no file" in sentence


def test_a_pipe_in_a_folder_of_notebooks_is_refused_as_well(pipe, capsys):
    sentence = refusal(capsys, "student", f"{pipe.parent}/new", "--notebooks", str(pipe.parent))
    assert "is a pipe or a device" in sentence


def test_a_world_that_no_machine_has_is_refused_at_once(capsys):
    sentence = refusal(capsys, "scale", "--world-size", "1000000000000", "--dp", "1000000000000")
    assert "world_size is 1000000000000; give a whole number from 1 to 131072" in sentence


def test_traceback_on_request():
    with pytest.raises(ValueError, match="'trian'"):
        main(["trian", "--traceback"])


def test_a_run_prints_its_numbers_and_draws_both_figures(capsys, tmp_path):
    words = "--num-epochs 2 --max-length 64 --vocab-size 300 --dataset numbers --plot".split()
    assert main(train("--workdir", str(tmp_path), *words)) == 0
    output = capsys.readouterr()
    assert output.err == ""  # quiet
    names = "epoch 1|epoch 2|+-|tokens/s|validation loss|BLEU|single-1.json|samples/s|goodput|utilisation|MiB on a rank"
    assert [name for name in names.split("|") if name not in output.out] == []
    assert "bubble" not in output.out
    assert (tmp_path / "single-1.json").exists()
    assert (tmp_path / "figures" / "tokens_per_s.png").exists()


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


def test_as_a_process_a_refusal_has_exit_code_2_and_no_traceback(tmp_path):
    words = train("--workdir", str(tmp_path), "--mode", "pipeline", "--world-size", "9")
    done = subprocess.run([sys.executable, "-m", "pllab", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "pllab: 9 stages are more than the 2 layers of the model; give a smaller world_size or a larger n_layer\n"
    )


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
    assert sentence in refusal(capsys, "doctor", "--ranks", "3")


def test_under_torchrun_there_are_as_many_devices_as_it_started_ranks(capsys, monkeypatch, tmp_path):
    for name, value in {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    words = train("--workdir", str(tmp_path), "--mode", "data_parallel")
    assert "batch_size 8 is not divisible by dp 3" in refusal(capsys, *words)
