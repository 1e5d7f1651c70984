"""The commands for teachers: the table, and JSON that is the same every time."""

import json

import pytest

from pllab.cli import main
from pllab.lesson import Outcome, Verdict
from pllab.lesson.exercise import find
from pllab.lesson.grading import Grade, Sheet
from pllab.lesson.sandbox import Limits
from pllab.lesson.verdict import refusal
from tests.lesson.handed_in import UNFENCED_FLAG

SHARE = "def my_share(items, rank, world_size):\n    return items[rank::world_size]"


@pytest.mark.parametrize(
    ("flags", "limits", "jobs"),
    [
        ("--json", Limits(4 << 30, 40, None, fenced=True), 2),
        ("--memory-gib 0.5 --processes 9 --timeout-s 30 --jobs 3", Limits(1 << 29, 9, 30.0, fenced=True), 3),
        ("--unfenced --jobs 1 --json", Limits(4 << 30, 40, None, fenced=False), 1),
    ],
)
def test_what_the_flags_ask_for_is_graded_and_told(capsys, tmp_path, monkeypatch, flags, limits, jobs):
    verdicts = refusal(find("00.1"), "twice", "Once."), Verdict(exercise=find("00.1"), outcome=Outcome.RIGHT)
    paths = [tmp_path / "wrong.ipynb", tmp_path / "right.ipynb"]

    def graded(*asked):
        *asked, tell = asked
        assert asked == [tuple(paths), limits, jobs]
        sheets = [Sheet(str(path), (Grade(verdict),)) for path, verdict in zip(paths, verdicts, strict=True)]
        list(map(tell, sheets))
        return sheets

    monkeypatch.setattr("pllab.lesson.grading.grade", graded)
    for path in paths:
        path.touch()
    assert main(["grade", str(paths[0]), *flags.split(), str(paths[1])]) == 0
    output = capsys.readouterr()
    assert "right.ipynb is graded" in output.err
    if "--json" in flags:
        sheets = json.loads(output.out)["submissions"]
        assert [(sheet["points"], sheet["of"]) for sheet in sheets] == [(0, 1), (1, 1)]
        exercises = [sheet["exercises"][0] for sheet in sheets]
        assert [(one["outcome"], one["hint_id"]) for one in exercises] == [("not yet", "twice"), ("right", "")]
    else:
        *table, last = output.out.splitlines()
        assert table == [
            f"{paths[0]}   0 of 1 points",
            "  00.1  0 of 1  not yet          twice: Once.",
            f"{paths[1]}   1 of 1 points",
            "  00.1  1 of 1  right",
        ]
        assert last.startswith("2 graded in ")


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
