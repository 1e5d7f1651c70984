"""The student build: stubs only, every check not attempted, and all else as in the lessons."""

from copy import deepcopy

import pytest

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


def test_a_copy_is_its_lesson_without_solutions_and_every_check_says_not_attempted(built):
    """So it runs as the lesson does, which `make notebooks` runs and compares."""
    copies, originals = notebooks(built), notebooks(FOLDER)
    assert (built / "bubble_studio.html").is_file(), "lesson 00 leads there"
    assert list(copies) == [name for name in originals if not name.startswith("90")], "the guide is the instructor's"
    for name, copy in copies.items():
        cells, left_out = originals[name].cells, [cell for cell in originals[name].cells if "-solution" in cell.id]
        assert {cell.cell_type for cell in left_out} == {"markdown"}, name
        assert copy.cells == [cell for cell in cells if cell not in left_out], name
        assert copy.metadata == originals[name].metadata
        assert "Solution, after your own try" not in (built / name).read_text()
        checks = [text_of(cell).splitlines()[0] for cell in copy.cells if cell.id.endswith("-check")]
        assert checks and all(line.endswith(": not attempted") for line in checks), name


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
