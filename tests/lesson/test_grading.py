"""Grading: the verdict of the notebook, whatever else is handed in, and hostile submissions harm themselves alone."""

import tempfile
import threading
from pathlib import Path

import psutil
import pytest

from pllab.lesson import Outcome
from pllab.lesson.exercise import exercises_of, find
from pllab.lesson.grading import Grade, Sheet, grade, tasks_of
from pllab.lesson.slicing import needed, statements
from pllab.lesson.verdict import refusal
from pllab.lesson.yard import Limits
from tests.lesson.handed_in import generated, hand_in
from tests.lesson.hostile import HOSTILE, MORE, SHARE

RIGHT = f"def my_share(items, rank, world_size):\n    {SHARE}"
LIMITS = Limits(memory_bytes=1 << 30, timeout_s=20.0)


def graded(*paths: Path, limits: Limits = LIMITS, jobs: int = 2) -> list[Sheet]:
    return grade(paths, limits, jobs)


def outcome(sheet: Sheet, number: int = 0) -> tuple[Outcome, str]:
    verdict = sheet.grades[number].verdict
    return verdict.outcome, verdict.hint_id


def hostile_notebooks(folder: Path, hostile: list[tuple[str, str, set[str]]]) -> tuple[list[Path], list[Path]]:
    """A notebook of each hostile one with a right one between two, and the files that one of them would delete."""
    victim = folder / "victim"
    victim.mkdir()
    (victim / "grades.csv").write_text("all")
    paths = []
    for number, (_, cell, _) in enumerate(hostile):
        text = f"VICTIM = {str(victim)!r}\n{cell}"
        paths.append(hand_in(folder / f"{number:02}-hostile.ipynb", ("00.1", text, "my_share")))
    right = [hand_in(folder / f"{number:02}-right.ipynb", ("00.1", RIGHT, "my_share")) for number in (3, 7)]
    return paths, right


def test_hostile_submissions_lose_their_own_points_and_no_others(tmp_path, monkeypatch):
    before = set(psutil.Process().children(recursive=True))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))  # other tests have nurseries too
    paths, right = hostile_notebooks(tmp_path, [*HOSTILE, *MORE])
    together = sorted([*paths, *right])
    sheets = {Path(sheet.notebook): sheet for sheet in graded(*together, limits=Limits(1 << 30, timeout_s=6.0))}
    assert [outcome(sheets[path]) for path in right] == [(Outcome.RIGHT, "")] * len(right)
    seen = {name: outcome(sheets[path]) for path, (name, _, _) in zip(paths, [*HOSTILE, *MORE], strict=True)}
    allowed = {name: hints for name, _, hints in [*HOSTILE, *MORE]}
    assert {name: what for name, what in seen.items() if what[1] not in allowed[name]} == {}
    assert not [name for name, what in seen.items() if what[0] is Outcome.RIGHT]
    assert (tmp_path / "victim" / "grades.csv").read_text() == "all"
    left = set(psutil.Process().children(recursive=True)) - before
    _, alive = psutil.wait_procs(list(left), timeout=10)
    assert not alive
    assert not list((tmp_path / "temporary").iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name == "pllab-yard"]


def test_a_notebook_is_graded_as_it_stands(tmp_path):
    """Helpers below, constants, a decorator, another name, and runs of the lesson that must not be run."""
    cell = """
raise RuntimeError("a run of the lesson")
import functools
STEP = int("1")
def kept(function):
    @functools.wraps(function)
    def inner(*args): return function(*args)
    return inner
@kept
def share(items, rank, world_size):
    return take(items[rank:], world_size * STEP)
def take(items, step): return items[::step]
print("never", 1 / 0)
"""
    wrong = "def my_share(items, rank, world_size):\n    return items[:len(items) // world_size]"
    paths = [
        hand_in(tmp_path / "a.ipynb", ("00.1", cell, "share")),
        hand_in(tmp_path / "b.ipynb", ("00.1", wrong, "my_share")),
        hand_in(tmp_path / "c.ipynb", ("00.1", "def my_share(items):\n    raise NotImplementedError", "my_share")),
        hand_in(tmp_path / "d.ipynb", ("00.1", "", "my_share")),
        tmp_path / "e.ipynb",
    ]
    paths[-1].write_text('{"cells": 3}')
    sheets = graded(*paths)
    assert [Path(sheet.notebook) for sheet in sheets] == paths
    assert outcome(sheets[0]) == (Outcome.RIGHT, "")
    assert (sheets[0].points, sheets[0].of) == (1, 1)
    assert outcome(sheets[1])[0] is Outcome.NOT_YET
    assert outcome(sheets[2]) == (Outcome.NOT_ATTEMPTED, "")
    assert outcome(sheets[3]) == (Outcome.NOT_YET, "raised")
    assert "my_share" in sheets[3].grades[0].verdict.first.hint
    assert sheets[4].problem.startswith("it is no notebook")
    assert sheets[1].to_json()["exercises"][0]["hint"]


def test_the_packages_own_function_is_refused_also_when_the_packer_was_bent(tmp_path):
    honest = "from pllab.parallel import average_gradients"
    bent = f"{honest}\nimport pllab.lesson.packing as packing\npacking.packaged_as = lambda *_: ''"
    paths = [
        hand_in(tmp_path / f"{number}.ipynb", ("05.2", cell, name))
        for number, (cell, name) in enumerate(
            [(honest, "average_gradients"), (bent, "(packing, average_gradients)[1]")]
        )
    ]
    assert [outcome(sheet, 1) for sheet in graded(*paths)] == [(Outcome.NOT_YET, "packaged")] * 2


def test_a_lesson_without_its_check_cell_is_not_attempted_and_keeps_its_points(tmp_path):
    (sheet,) = graded(hand_in(tmp_path / "a.ipynb", ("04.1", "pass", "None")))
    assert [grade.verdict.exercise.id for grade in sheet.grades] == [one.id for one in exercises_of("04")]
    assert sheet.of == sum(one.difficulty for one in exercises_of("04"))
    assert sheet.grades[1].note == 'the notebook has no check("04.2", ...) any more'


def test_the_statements_a_function_needs():
    cells = {
        1: "import math, os\nfrom time import *\nseed = 1\ntable = []",
        2: "%%px\nf = 1",
        3: "%timeit x\ndef f(x):\n    return g(x) + math.pi + len(table)\nos.system('rm')",
        4: "def cached(f): return f\ntable.append(seed)\nseed = run()\nrun()",
        5: "def g(x):\n    def inner(y): return [y for other in x]\n    return inner(x)\nf = cached(f)\nx = f(3)",
    }
    parts = [part for number, source in cells.items() for part in statements(number, source)]
    lines = {(part.cell, part.node.lineno) for part in needed(parts, "f")}
    assert lines == {(1, 1), (1, 2), (1, 3), (1, 4), (3, 2), (4, 1), (4, 2), (5, 1), (5, 4)}


def test_checks_are_found_as_text(tmp_path):
    cell = '# check("00.1", old)\nverdict = check("00.1", my_share, deadline_s=90)\nprint(check(\'00.1\', f(1, [2])))'
    (task,) = tasks_of(hand_in(tmp_path / "a.ipynb", ("00.1", cell, "None")))
    assert task.expression == "None"
    path = hand_in(tmp_path / "b.ipynb", ("00.1", cell, "None"))
    path.write_text(path.read_text().replace('check(\\"00.1\\", None)', "pass"))
    assert tasks_of(path)[0].expression == "f(1, [2])"


def test_a_sheet_has_one_line_for_each_exercise_and_no_control_characters():
    """Or an error could paint a line of its own over the teacher's sheet."""
    painted = "Your function raised ValueError: \x1b[1A\x1b[2K\n  00.1  1 of 1  right"
    verdict = refusal(find("00.1"), "raised", painted)
    lines = list(Sheet("handed\x1b]0;in\n.ipynb", (Grade(verdict),)).lines())
    assert len(lines) == 2 and all(line.isprintable() for line in lines)
    assert lines[0].startswith("handed\\x1b]0;in\\n.ipynb") and "\\x1b[1A\\x1b[2K" in lines[1]


@pytest.mark.parametrize(("jobs",), [(1,), (3,)])
def test_the_order_is_that_of_the_notebooks(tmp_path, jobs):
    paths = [tmp_path / f"{name}.ipynb" for name in "cabd"]
    assert [Path(sheet.notebook) for sheet in graded(*paths, jobs=jobs)] == paths


def test_a_solution_may_write_in_its_own_folder_and_nowhere_else(tmp_path):
    cell = """
from pathlib import Path
def my_share(items, rank, world_size):
    for place in (Path("notes"), Path.home() / "notes"):
        place.write_text("mine")
        assert place.read_text() == "mine"
        place.unlink()
    return items[rank::world_size]
"""
    outside = f"import os\ndef my_share(*_):\n    os.open({str(tmp_path / 'x')!r}, os.O_CREAT | os.O_WRONLY)"
    linked = f"import os\ndef my_share(*_):\n    os.symlink({str(tmp_path / 'y')!r}, 'y')\n    open('y', 'w')"
    cells = [cell, outside, linked]
    paths = [hand_in(tmp_path / f"{number}.ipynb", ("00.1", one, "my_share")) for number, one in enumerate(cells)]
    assert [outcome(sheet) for sheet in graded(*paths)] == [
        (Outcome.RIGHT, ""),
        (Outcome.NOT_YET, "fenced"),
        (Outcome.NOT_YET, "fenced"),
    ]
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "y").exists()


def test_the_folders_that_torch_makes_lie_in_the_yard(tmp_path, monkeypatch):
    """The grader's own variables must not send a solution's torch outside, where the fence refuses it."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    cell = f"""
from torch._inductor.runtime.cache_dir_utils import cache_dir
def my_share(items, rank, world_size):
    cache_dir()
    {SHARE}
"""
    (sheet,) = graded(hand_in(tmp_path / "a.ipynb", ("00.1", cell, "my_share")))
    assert outcome(sheet) == (Outcome.RIGHT, "")
    assert not (tmp_path / "cache").exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize("lesson", ["04", "05", "10"])
def test_the_verdict_is_that_of_the_notebook(tmp_path, lesson):
    """Each exercise with a right variant and with a wrong one, whose hint is known."""
    paths = {kind: generated(tmp_path / f"{kind}.ipynb", lesson, kind, 0) for kind in ("RIGHT", "WRONG")}
    right, wrong = graded(*(path for path, _ in paths.values()), limits=Limits(), jobs=1)
    assert [outcome(right, number) for number in range(len(right.grades))] == [(Outcome.RIGHT, "")] * len(right.grades)
    seen = {grade.verdict.exercise.id: grade.verdict.hint_id for grade in wrong.grades}
    assert seen == paths["WRONG"][1]
