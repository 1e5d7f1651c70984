"""The instructor's guide: own headings, five moments, each with a recorded twin, and misconceptions of every lesson."""

import re
from pathlib import Path

import nbformat
import pytest

from pllab.lesson.course import num_words, read_course
from pllab.lesson.recordings import MOMENTS

FOLDER = Path(__file__).parents[2] / "notebooks"
CELLS = nbformat.read(FOLDER / "90_instructor_guide.ipynb", as_version=nbformat.NO_CONVERT).cells
HEADINGS = [
    "Before class",
    "Timings",
    "Five moments",
    "Misconceptions",
    "The studio",
    "Predictions in class",
    "Grading and stuck jobs",
]
MOST_CELLS = 45
MOST_WORDS = 2800  # a lesson has 2,000 to read through; the guide's tables are looked up, a lesson's rows at a time


def section(heading):
    """The cells from this heading of level 2 to the next."""
    found, inside = [], False
    for cell in CELLS:
        if cell.cell_type == "markdown" and (names := re.findall(r"^## (.+)$", cell.source, re.MULTILINE)):
            inside = heading in names
        found += [cell] if inside else []
    return found


def moments():
    """For each moment its cells: the words, and the code until the next words."""
    parts = []
    for cell in section("Five moments"):
        if cell.cell_type == "markdown":
            parts.append([])
        parts[-1].append(cell)
    return parts


def test_the_guide_has_its_own_headings():
    text = "\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert len(CELLS) <= MOST_CELLS
    assert num_words(CELLS) <= MOST_WORDS


def test_there_are_five_moments_in_the_order_of_their_recordings():
    assert len(moments()) == len(MOMENTS) == 5
    for number, cells in enumerate(moments(), start=1):
        assert re.search(rf"^### Moment {number}: \S", cells[0].source, re.MULTILINE)


@pytest.mark.parametrize("number", range(5), ids=MOMENTS)
def test_a_moment_asks_runs_live_and_has_a_labelled_recording(number):
    words, ask, *live, twin = moments()[number]
    assert [f"**{name}**" in words.source for name in ("Ask", "They answer", "Say")] == [True] * 3
    assert "predict(" in ask.source
    shown = "\n".join(cell.source for cell in live)
    assert f'live("{MOMENTS[number]}")' in shown or "run_emulated" in shown
    assert ".reveal(" in shown
    assert twin.source == f'recorded("{MOMENTS[number]}")'
    (output,) = twin.outputs
    for kind in ("text/plain", "text/html"):
        assert re.search(
            r"recorded on .+, \d+ cores?, torch .+, \d{4}-\d\d-\d\d; engine (real|emulated)", output.data[kind]
        )


def test_every_lesson_is_in_the_misconceptions_and_the_timings():
    rows = "\n".join(cell.source for cell in section("Misconceptions"))
    table = next(cell for cell in section("Timings") if cell.cell_type == "code").outputs[0].text
    for lesson in read_course(FOLDER):
        if lesson.number != "90":
            assert rows.count(f"| **{lesson.number}** ") >= 2, lesson.number
            assert f"{lesson.number}  {lesson.title}" in table, f"publish the guide again, for {lesson.number}"
            assert re.search(rf"^{lesson.number}  .* {lesson.minutes} min", table, re.MULTILINE), lesson.number


def test_the_row_of_a_misconception_says_three_things():
    for cell in section("Misconceptions"):
        for row in re.findall(r"^\| \*\*.+$", cell.source, re.MULTILINE):
            assert all(part.strip() for part in row.strip("|").split("|")) and row.count("|") == 4, row
