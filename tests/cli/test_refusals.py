"""What a command cannot do it refuses in one sentence with the value given, before it reads or prints anything."""

import os
import threading

import pytest

from pllab.cli import main
from tests.cli.test_main import TINY


@pytest.fixture
def refusal(capsys):
    """Run a refused command line and return its sentence."""

    def of(line):
        name, *words = line.split() or [""]
        assert main([name, *(TINY if name == "train" else ()), *words]) == 2
        output = capsys.readouterr()
        assert (output.out, output.err.count("\n")) == ("", 1), output
        return output.err

    return of


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("trian", "'trian' is no command; choose one of doctor, train, "),
        ("doctor --ranks -1", "ranks is -1"),
        ("scale --rows 2000000", "rows x num_microbatches is 2000000; give a whole number from 1 to 1000000"),
        ("scale --num-microbatches 2000000", "rows x num_microbatches is 2000000; give a whole number from 1 to 100"),
        ("scale --world-size 1000000000000 --dp 1000000000000", "1000000000000; give a whole number from 1 to 131072"),
        ("train --mode tensor", "argument --mode: invalid choice: 'tensor'"),
        ("train --vocab-size 8", "vocab_size 8"),
        ("train --dataset numbers --max-length 2", "max_length 2"),
        ("train --dataset shakespeare", "'shakespeare' is not known; give one of docs, numbers, iwslt14-de-en, tinysh"),
        ("train --workdir taken", "File exists (taken/single-1)"),
        ("train --workdir /proc/self --name net", "FileNotFoundError: No such file or directory (/proc/self/tmp"),
        ("train --mode pipeline --world-size 9", "9 stages are more than the 4 layers; use at most 4 devices"),
        ("bench pipelines", "'pipelines' is no bench; choose one of data-parallel, "),
        ("compare --json no/x.json", "--json 'no/x.json' lies in a folder that does not exist; make it first"),
        ("compare --json .", "--json '.' is a folder; name a file in it"),
        ("compare --json /proc/x.json", "FileNotFoundError: No such file or directory (/proc/tmp"),
        (f"compare --json {'x' * 300}", f"File name too long ({'x' * 300})"),
        ("compare --picture x.jpg", "--picture 'x.jpg' is no picture; end the name in .png or .svg"),
        ("equivalence --picture x.png", "unrecognized arguments: --picture x.png"),
        ("import", "no trace is given; write python -m pllab import rank*.json"),
        ("import rank0.json", "FileNotFoundError: No such file or directory (rank0.json)"),
        ("import rank0.json -o run.json", "--output 'run.json' is no page; end the name in .html"),
        ("autopsy", "no file is given, and ranks are compared"),
        ("autopsy trace_0", "1 file is given, and ranks are compared"),
        ("autopsy trace_0 trace_1", "'trace_0' cannot be read (No such file or directory)"),
        ("autopsy a.ipynb a.ipynb", "'a.ipynb' is no flight record: it is not JSON or a pickle"),
        ("grade", "no notebook is given; write python -m pllab grade handed_in/*.ipynb"),
        ("grade nowhere.ipynb", "'nowhere.ipynb' is no file; name the notebooks"),
        ("grade a.ipynb --timeout-s 0", "--timeout-s is 0; give 1 to 3600 seconds"),
        ("grade a.ipynb --memory-gib=0.1", "--memory-gib is 0.1; give 0.25 to 1024"),
        ("grade a.ipynb --processes 1", "--processes is 1; give 4 to 1000"),
        ("student", "no folder is given; write python -m pllab student FOLDER"),
    ],
)
def test_a_refusal_is_one_sentence(line, sentence, refusal, tmp_path, monkeypatch):
    def compare_strategies() -> None:
        """Stand in for a minute of training."""
        pytest.fail("it measured before it refused")

    monkeypatch.setattr("pllab.train.comparing.compare_strategies", compare_strategies)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ipynb").touch()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "single-1").touch()
    assert sentence in refusal(line)


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


@pytest.mark.parametrize(
    "line",
    [
        "import PIPE",
        "import PIPE -o run.html",
        "import /dev/null",
        "autopsy PIPE PIPE",
        "train --dataset PIPE",
        "grade PIPE",
        "student new --notebooks FOLDER",
        "compare --json PIPE",  # as a file to write it would be replaced
    ],
)
def test_a_pipe_or_a_device_is_refused_before_anything_is_read(line, pipe, refusal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentence = refusal(line.replace("PIPE", pipe.name).replace("FOLDER", "."))
    assert "is a pipe or a device" in sentence or f"{pipe.name!r} is no file" in sentence
