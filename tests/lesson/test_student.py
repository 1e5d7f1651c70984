"""The student build: stubs only, every check not attempted, and the lessons still run."""

import os
from copy import deepcopy

import pytest
from nbclient import NotebookClient

from pllab.lesson.student import build, without_solutions
from tests.lesson.committed import FOLDER, read


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("student") / "lessons"
    build(FOLDER, folder)
    return folder


def notebooks(folder):
    return {path.name: read(path) for path in sorted(folder.glob("*.ipynb"))}


def text_of(cell):
    return "".join(cell.outputs[0].data["text/plain"])


def test_no_solution_is_left_and_every_check_says_not_attempted(built):
    copies, originals = notebooks(built), notebooks(FOLDER)
    assert (built / "bubble_studio.html").is_file(), "lesson 00 leads there"
    assert list(copies) == [name for name in originals if not name.startswith("90")], "the guide is the instructor's"
    for name, copy in copies.items():
        ids = [cell.id for cell in copy.cells]
        assert ids == [cell.id for cell in originals[name].cells if not cell.id.endswith("-solution")], name
        left_out = {cell.cell_type for cell in originals[name].cells if cell.id.endswith("-solution")}
        assert left_out == {"markdown"}, name
        assert "Solution, after your own try" not in (built / name).read_text()
        checks = [cell for cell in copy.cells if cell.id.endswith("-check")]
        assert checks, name
        for cell in checks:
            assert text_of(cell).splitlines()[0].endswith(": not attempted"), cell.id


def test_other_cells_stay_as_they_are(built):
    copies, originals = notebooks(built), notebooks(FOLDER)
    for name in copies:
        original = originals[name]
        assert copies[name].metadata == original.metadata
        kept = {cell.id: cell for cell in original.cells}
        assert not [cell.id for cell in copies[name].cells if cell.source != kept[cell.id].source]
        others = [cell for cell in copies[name].cells if not cell.id.endswith("-check")]
        assert not [cell.id for cell in others if cell != kept[cell.id]]


def test_agents_are_asked_to_tutor(built):
    words = (built / "AGENTS.md").read_text()
    rules = ("be a tutor", "-stub", "invariant", "concept", "do not solve", "Name the line that is wrong")
    rules += ("**No code of yours may pass the exercise's check**",)
    # What assistants gave away when only the body was forbidden, tried on five exercises with fifty questions.
    ways = ("test that computes", "simulation", '"general" version', "one bug", "language", "rewrite a solution")
    assert [word for word in rules + ways if word not in words] == []


def test_a_kept_verdict_is_replaced_and_a_solved_stub_is_refused():
    notebook = deepcopy(notebooks(FOLDER)["00_first_two_ranks.ipynb"])
    stub, check = (next(cell for cell in notebook.cells if cell.id == f"00-ex1-{what}") for what in ("stub", "check"))
    check.outputs[0].data["text/plain"] = "00.1 My share of the work: right"
    assert text_of(next(cell for cell in without_solutions(notebook).cells if cell.id == check.id)).startswith(
        "00.1 My share of the work: not attempted"
    )
    stub.source = "def my_share(items, rank, world_size):\n    return items"
    with pytest.raises(ValueError, match="00-ex1-stub is no stub"):
        without_solutions(notebook)


def test_a_folder_without_lessons_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no notebooks"):
        build(tmp_path, tmp_path / "new")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["05_the_same_gradient.ipynb", "08_clock_cycles.ipynb"])
def test_a_built_lesson_runs(built, name, tmp_path, monkeypatch):
    """Every cell runs, and every check says again what is stored.

    Two stand for all: the cells are those of the lessons (see above), which `make notebooks` runs and compares.
    """
    monkeypatch.setenv("PLLAB_HOME", str(tmp_path))
    monkeypatch.setitem(os.environ, "PYTHONDONTWRITEBYTECODE", "1")
    notebook = deepcopy(notebooks(built)[name])
    stored = {cell.id: text_of(cell) for cell in notebook.cells if cell.id.endswith("-check")}
    resources = {"metadata": {"path": str(built)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    assert {cell.id: text_of(cell) for cell in notebook.cells if cell.id in stored} == stored
