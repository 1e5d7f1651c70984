"""The instructor's guide: own headings, five moments and misconceptions of every lesson."""

import re
from pathlib import Path

import nbformat
import pytest

from pllab.lesson.course import num_words, read_course

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


def test_there_are_five_moments():
    assert len(moments()) == 5
    for number, cells in enumerate(moments(), start=1):
        assert re.search(rf"^### Moment {number}: \S", cells[0].source, re.MULTILINE)


@pytest.mark.parametrize("number", range(5))
def test_a_moment_asks_runs_and_keeps_its_outputs_for_the_day_on_which_the_machine_fails(number):
    words, ask, *live = moments()[number]
    assert [f"**{name}**" in words.source for name in ("Ask", "They answer", "Say")] == [True] * 3
    assert "predict(" in ask.source and ".reveal(" in live[-1].source
    assert all(cell.outputs for cell in live)


def output_of(cell_id):
    (text,) = (output.text for cell in CELLS if cell.id == cell_id for output in cell.outputs if "text" in output)
    return text


def test_the_moments_show_what_the_guide_says_of_them():
    assert output_of("90-late-live").count("the lambda worked on (3, 1)") == 8
    bubbles = re.findall(r"bubble fraction (\S+)", output_of("90-memory-live"))
    bytes_held = [float(held) for held in re.findall(r"([\d.]+) MB", output_of("90-memory-live"))]
    assert bubbles[0] == bubbles[1] and bytes_held[2] < 0.7 * bytes_held[0] and bytes_held[3] < 0.7 * bytes_held[1]
    assert output_of("90-hang-live").count("step 2: the sum is 70, 60 is right") == 2
    assert output_of("90-hang-live").count("waited until its deadline") == 2
    assert output_of("90-number-live").count("cannot be") == 3


def test_every_lesson_is_in_the_misconceptions_and_the_timings():
    rows = "\n".join(cell.source for cell in section("Misconceptions"))
    table = next(cell for cell in section("Timings") if cell.cell_type == "code").outputs[0].text
    for lesson in read_course(FOLDER):
        if lesson.number != "90":
            assert rows.count(f"| **{lesson.number}** ") >= 2, lesson.number
            assert f"{lesson.number}  {lesson.title}" in table, f"publish the guide again, for {lesson.number}"
            sittings = re.escape(" + ".join(map(str, lesson.sittings)))
            assert re.search(rf"^{lesson.number}  .* {sittings} min", table, re.MULTILINE), lesson.number


def test_the_row_of_a_misconception_says_three_things():
    for cell in section("Misconceptions"):
        for row in re.findall(r"^\| \*\*.+$", cell.source, re.MULTILINE):
            assert all(part.strip() for part in row.strip("|").split("|")) and row.count("|") == 4, row
