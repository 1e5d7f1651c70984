import json
import sys
import types
from dataclasses import dataclass

import pytest

from pllab.cli import main


@dataclass(frozen=True)
class Work:
    width: int = 8


class Table:
    def __init__(self, repeats, width):
        self.repeats, self.width = repeats, width

    def table(self):
        return f"measured {self.repeats} times"

    def to_json(self):
        return {"repeats": self.repeats, "width": self.width}

    def picture(self):
        return self

    def save(self, path):
        path.write_text("picture")
        return path


def bench_pipeline(workload: Work | None = None, *, repeats: int = 9) -> Table:
    """Stand in for the real bench, which takes minutes.

    Args:
        workload: what.
        repeats: how often.
    """
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}; measure at least once")
    return Table(repeats, workload.width)


@pytest.fixture(autouse=True)
def quick_bench(monkeypatch):
    module = types.ModuleType("pllab.bench.pipeline")
    module.bench_pipeline = bench_pipeline
    monkeypatch.setitem(sys.modules, "pllab.bench.pipeline", module)


def test_the_table_is_printed_and_the_numbers_written(capsys, tmp_path):
    file = tmp_path / "numbers.json"
    assert main(["bench", "pipeline", "--repeats", "3", "--width", "4", "--json", str(file)]) == 0
    assert "measured 3 times" in capsys.readouterr().out
    numbers = json.loads(file.read_text())
    assert (numbers["repeats"], numbers["width"]) == (3, 4)
    assert numbers["command"] == "python -m pllab bench pipeline --repeats 3 --width 4"
    assert [path.name for path in tmp_path.iterdir()] == ["numbers.json"]


def test_the_picture_is_drawn_and_no_file_is_in_the_stored_command(capsys, tmp_path):
    words = ["bench", "pipeline", "--picture", str(tmp_path / "x.png"), f"--json={tmp_path / 'x.json'}", "--width", "2"]
    assert main(words) == 0
    assert (tmp_path / "x.png").read_text() == "picture"
    assert json.loads((tmp_path / "x.json").read_text())["command"] == "python -m pllab bench pipeline --width 2"


def test_a_missing_folder_is_found_before_measuring(capsys, tmp_path):
    assert main(["bench", "pipeline", "--json", str(tmp_path / "no" / "x.json")]) == 2
    output = capsys.readouterr()
    assert "does not exist" in output.err
    assert output.out == ""


def test_a_refusal_of_the_bench_is_one_sentence(capsys):
    assert main(["bench", "pipeline", "--repeats", "0"]) == 2
    assert capsys.readouterr().err == "pllab: repeats is 0; measure at least once\n"


def test_help_lists_the_parameters(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "pipeline", "--help"])
    output = capsys.readouterr().out
    assert "--repeats" in output
    assert "--json" in output
