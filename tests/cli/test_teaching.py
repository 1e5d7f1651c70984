"""The commands for teachers: the table, and JSON that is the same every time."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from pllab.cli import main
from pllab.lesson import Outcome, Verdict
from pllab.lesson.exercise import find
from pllab.lesson.grading import Grade, Sheet
from pllab.lesson.sandbox import Limits
from pllab.lesson.verdict import refusal
from tests.lesson.handed_in import UNFENCED_FLAG

SHARE = "def my_share(items, rank, world_size):\n    return items[rank::world_size]"
SHEETS = [
    Sheet("wrong.ipynb", (Grade(refusal(find("00.1"), "twice", "Once.")),)),
    Sheet("right.ipynb", (Grade(Verdict(exercise=find("00.1"), outcome=Outcome.RIGHT)),)),
]
TABLE = """wrong.ipynb   0 of 1 points
  00.1  0 of 1  not yet          twice: Once.
right.ipynb   1 of 1 points
  00.1  1 of 1  right
2 graded in """


@pytest.mark.parametrize(
    ("flags", "limits", "jobs"),
    [
        ("--json", Limits(4 << 30, 40, None, fenced=True), 2),
        ("--memory-gib 0.5 --processes 9 --timeout-s 30 --jobs 3", Limits(1 << 29, 9, 30.0, fenced=True), 3),
        ("--unfenced --jobs 1 --json", Limits(4 << 30, 40, None, fenced=False), 1),
    ],
)
def test_what_the_flags_ask_for_is_graded_and_told(capsys, tmp_path, monkeypatch, flags, limits, jobs):
    grade, names = Mock(return_value=SHEETS), [sheet.notebook for sheet in SHEETS]
    monkeypatch.setattr("pllab.lesson.grading.grade", grade)
    monkeypatch.chdir(tmp_path)
    for name in names:
        Path(name).touch()
    assert main(["grade", names[0], *flags.split(), names[1]]) == 0
    *asked, tell = grade.call_args.args
    assert asked == [tuple(map(Path, names)), limits, jobs]
    told = capsys.readouterr().out
    if "--json" in flags:
        first, second = json.loads(told)["submissions"]
        assert (first["points"], first["of"], second["points"]) == (0, 1, 1)
        assert [first["exercises"][0][key] for key in ("outcome", "hint_id")] == ["not yet", "twice"]
    else:
        assert told.startswith(TABLE)
    tell(SHEETS[1])
    assert capsys.readouterr().err == "right.ipynb is graded\n"


def test_what_is_no_notebook_is_a_sentence_and_a_failure(capsys, tmp_path):
    """A script sees it by the exit code; the names of files are a learner's text too."""
    odd = tmp_path / "a\x1b[2K.ipynb"
    odd.write_text("root:x:0:0")
    assert main(["grade", str(odd), "--jobs", "1", *UNFENCED_FLAG]) == 1
    output = capsys.readouterr()
    assert "it is no notebook; save it in JupyterLab" in output.out
    assert "\x1b" not in output.out + output.err
    assert main(["grade", str(odd), "--json", *UNFENCED_FLAG]) == 1
    assert "it is no notebook" in json.loads(capsys.readouterr().out)["submissions"][0]["problem"]


def test_the_student_build_says_where_it_is(capsys, tmp_path):
    folder = tmp_path / "lessons"
    assert main(["student", str(folder)]) == 0
    assert f"lessons and AGENTS.md are in {folder}" in capsys.readouterr().out
    assert main(["student", str(folder)]) == 2
    assert "is not empty; name a new folder" in capsys.readouterr().err
