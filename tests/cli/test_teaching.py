"""The commands for teachers: the table, and JSON that is the same every time."""

import json
from unittest.mock import Mock

import pytest

from pllab.cli import main
from pllab.lesson.sandbox import Limits
from tests.lesson.handed_in import UNFENCED_FLAG, hand_in

SHARE = "def my_share(items, rank, world_size):\n    return items[rank::world_size]"


def test_the_table_and_the_json(capsys, tmp_path):
    right = hand_in(tmp_path / "right.ipynb", ("00.1", SHARE, "my_share"))
    wrong = hand_in(tmp_path / "wrong.ipynb", ("00.1", SHARE.replace("[rank::world_size]", ""), "my_share"))
    assert main(["grade", str(wrong), "--json", str(right), *UNFENCED_FLAG]) == 0
    output = capsys.readouterr()
    sheets = json.loads(output.out)["submissions"]
    assert [(sheet["points"], sheet["of"]) for sheet in sheets] == [(0, 1), (1, 1)]
    assert [sheet["exercises"][0]["outcome"] for sheet in sheets] == ["not yet", "right"]
    assert sheets[0]["exercises"][0]["hint_id"]
    assert "right.ipynb is graded" in output.err
    assert main(["grade", str(right), str(wrong), *UNFENCED_FLAG]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{right}   1 of 1 points"
    assert lines[1] == "  00.1  1 of 1  right"
    assert lines[3].startswith("  00.1  0 of 1  not yet")
    assert lines[-1].startswith("2 graded in ")


@pytest.mark.parametrize(
    ("flags", "limits"),
    [
        ("", Limits(4 << 30, 40, None, fenced=True)),
        ("--memory-gib 0.5 --processes 9 --timeout-s 30", Limits(1 << 29, 9, 30.0, fenced=True)),
        ("--unfenced", Limits(4 << 30, 40, None, fenced=False)),
    ],
)
def test_the_limits_are_those_of_the_flags(tmp_path, monkeypatch, flags, limits):
    grade = Mock(return_value=[])
    monkeypatch.setattr("pllab.lesson.grading.grade", grade)
    (tmp_path / "a.ipynb").touch()
    main(["grade", str(tmp_path / "a.ipynb"), *flags.split()])
    assert grade.call_args.args[1] == limits


def test_what_is_no_notebook_is_a_sentence_and_a_failure(capsys, tmp_path):
    """A script sees it by the exit code; the names of files are a learner's text too."""
    odd = tmp_path / "a\x1b[2K.ipynb"
    odd.write_text("root:x:0:0")
    assert main(["grade", str(odd), *UNFENCED_FLAG]) == 1
    output = capsys.readouterr()
    assert "it is no notebook of up to 64 MB; clear its outputs" in output.out
    assert "\x1b" not in output.out + output.err


def test_the_student_build_says_where_it_is(capsys, tmp_path):
    folder = tmp_path / "lessons"
    assert main(["student", str(folder)]) == 0
    assert f"lessons and AGENTS.md are in {folder}" in capsys.readouterr().out
    assert main(["student", str(folder)]) == 2
    assert "is not empty; name a new folder" in capsys.readouterr().err
