import json
from dataclasses import dataclass

import pytest

from pllab.cli import main
from pllab.train.comparing import Strategy, StrategyComparison


@dataclass(frozen=True)
class Work:
    width: int = 8
    """How wide it is, in % of nothing."""


def comparison(num_steps: int, tokens: int = 8, off: float = 0.0) -> StrategyComparison:
    """What minutes of training would return."""
    return StrategyComparison(num_steps, tokens, 1e-5, True, (Strategy("pipeline-2", 0.1, 1, 1e-7, off),))


def bench_pipeline(workload: Work = Work(), *, repeats: int = 9) -> StrategyComparison:  # noqa: B008 - it is frozen
    """Stand in for the real bench, which takes minutes.

    Args:
        workload: what.
        repeats: how often.
    """
    return comparison(repeats, workload.width)


def equivalence(*, num_steps: int = 20) -> StrategyComparison:
    """Stand in for minutes of training; of three steps a row is not equal."""
    return comparison(num_steps, off=0.5 * (num_steps == 3))


def compare_strategies(*, num_ranks: int = 2) -> StrategyComparison:
    """Stand in for a minute of training."""
    return comparison(num_ranks)


@pytest.fixture(autouse=True)
def quick_benches(monkeypatch):
    monkeypatch.setattr("pllab.bench.rivals.bench_pipeline", bench_pipeline)
    for stand_in in (equivalence, compare_strategies):
        monkeypatch.setattr(f"pllab.train.comparing.{stand_in.__name__}", stand_in)


def test_the_table_is_printed_and_the_numbers_written(capsys, tmp_path):
    file = tmp_path / "numbers.json"
    assert main(["bench", "pipeline", "--repeats", "3", "--width", "4", "--json", str(file)]) == 0
    assert "real; 3 steps each" in capsys.readouterr().out
    numbers = json.loads(file.read_text())
    assert (numbers["num_steps"], numbers["tokens"]) == (3, 4)
    assert numbers["command"] == "python -m pllab bench pipeline --repeats 3 --width 4"


def test_help_lists_the_parameters_with_their_docstrings_and_defaults(capsys):
    with pytest.raises(SystemExit) as end:
        main(["bench", "pipeline", "--help"])
    assert not end.value.code
    output = " ".join(capsys.readouterr().out.split())
    assert "Stand in for the real bench" in output
    for flag in ("--width INT How wide it is, in % of nothing. (default: 8)", "--repeats INT how often. (default: 9)"):
        assert flag in output
    assert "--json PATH File for the numbers, the machine and the command." in output


def test_equivalence_fails_where_a_row_is_not_equal(capsys, tmp_path):
    file = tmp_path / "x.json"
    assert main(["equivalence", "--num-steps", "3", "--json", str(file)]) == 1
    assert "NOT EQUAL" in capsys.readouterr().out
    assert main(["equivalence", "--num-steps", "4"]) == 0
    row = json.loads(file.read_text())["rows"][0]
    assert (row["name"], row["is_equal"]) == ("pipeline-2", False)


def test_compare_draws_its_picture_and_no_file_is_in_the_stored_command(tmp_path):
    words = ["compare", "--picture", str(tmp_path / "x.png"), f"--json={tmp_path / 'x.json'}", "--num-ranks", "4"]
    assert main(words) == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "x.json").read_text())["command"] == "python -m pllab compare --num-ranks 4"
