"""The instructor's guide: own headings, two weeks by the hour, five moments and misconceptions of every lesson."""

import builtins
import re
import symtable

import pytest

from pllab.lesson.own_code import names_read
from tests.lesson.committed import FOLDER, NOTEBOOKS, markdown, read
from tests.lesson.test_notebooks import num_words

GUIDE = FOLDER / "90_instructor_guide.ipynb"
CELLS = read(GUIDE).cells
HEADINGS = [
    "Before class",
    "Two weeks",
    "Five moments",
    "Misconceptions",
    "The studio",
    "Predictions in class",
    "Project",
    "Grading and stuck jobs",
]
MOST_CELLS = 45
MOST_WORDS = 2800  # a lesson has 2,000 to read through; the guide's tables are looked up, a lesson's rows at a time


MOMENTS = ["late", "memory", "hang", "number", "golf"]


def cells_of(name):
    """The cells of a moment or a section, as their ids say."""
    return [cell for cell in CELLS if re.match(rf"90-{name}\b", cell.id)]


def test_the_guide_has_its_own_headings():
    assert re.findall(r"^## (.+)$", markdown(GUIDE), re.MULTILINE) == HEADINGS
    assert re.findall(r"^### Moment (\d): \S", markdown(GUIDE), re.MULTILINE) == list("12345")
    assert markdown(GUIDE).count("**Ask**") == 5
    assert len(CELLS) <= MOST_CELLS
    assert num_words(markdown(GUIDE)) <= MOST_WORDS


@pytest.mark.parametrize("name", MOMENTS)
def test_a_moment_asks_runs_and_shows_its_outputs_but_neither_its_code_nor_what_to_say(name):
    *cells, said = cells_of(name)
    ask, *live = [cell for cell in cells if cell.cell_type == "code"]
    assert "**They answer**" in said.source and "**Say**" in said.source
    assert "predict(" in ask.source and ".reveal(" in live[-1].source
    assert all(cell.outputs for cell in live), "for the day on which the machine fails"
    assert all(cell.metadata.jupyter == {"source_hidden": True} for cell in (ask, *live))
    assert re.fullmatch(r"<details><summary>.*</summary>\n.*\n</details>", said.source, re.DOTALL)


@pytest.mark.parametrize("name", [*MOMENTS, "studio"])
def test_a_moment_runs_alone_in_a_new_kernel(name):
    """They are shown on five days, and not in the guide's order."""
    codes = [cell.source for cell in cells_of(name) if cell.cell_type == "code"]
    code = "\n".join(source for source in codes if not source.startswith("%%px"))
    symbols = symtable.symtable(code, name, "exec").get_symbols()
    made_here = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported()}
    assert set(names_read(code)) - made_here <= set(dir(builtins))


def output_of(cell_id):
    (text,) = (output.text for cell in CELLS if cell.id == cell_id for output in cell.outputs if "text" in output)
    return text


def test_the_moments_show_what_the_guide_says_of_them():
    assert re.search(r"^lambda +(\(3, 1\) ?){8}$", output_of("90-late-live"), re.MULTILINE)
    bubbles = re.findall(r"^(?:GPipe|1F1B) +(\S+)", output_of("90-memory-live"), re.MULTILINE)
    bytes_held = [float(held) for held in re.findall(r"([\d.]+) +MB", output_of("90-memory-live"))]
    assert bubbles[0] == bubbles[1] and bytes_held[2] < 0.7 * bytes_held[0] and bytes_held[3] < 0.7 * bytes_held[1]
    assert output_of("90-hang-live").count("step 2: the sum is 70, 60 is right") == 2
    assert output_of("90-hang-live").count("waited until its deadline") == 2
    assert output_of("90-number-live").count("cannot be") == 3


LESSONS = [path.name[:2] for path in NOTEBOOKS[:-1]]


def test_the_misconceptions_of_every_lesson_are_rows_that_say_three_things():
    text = "\n".join(cell.source for cell in cells_of("misconceptions"))
    for number in LESSONS:
        assert text.count(f"| **{number}** ") >= 2, number
    for row in re.findall(r"^\| \*\*.+$", text, re.MULTILINE):
        assert all(part.strip() for part in row.strip("|").split("|")) and row.count("|") == 4, row


def headings_of(number):
    (path,) = FOLDER.glob(f"{number}_*.ipynb")
    return re.findall(r"^#+ (.+)$", markdown(path), re.MULTILINE)


def test_a_misconception_names_a_heading_that_its_lesson_has():
    rows = "\n".join(cell.source for cell in cells_of("misconceptions"))
    named = [
        (number, heading)
        for number, where in re.findall(r"^\| \*\*(\d\d)\*\* .*\| ([^|]*) \|$", rows, re.MULTILINE)
        for heading in re.findall(r"\*([^*]+)\*", where)
    ]
    assert len(named) > 10
    assert not [(number, name) for number, name in named if not any(name in one for one in headings_of(number))]


def test_the_plan_has_each_lesson_once_in_order_and_a_day_ends_by_four():
    """Its minutes are those of the lessons: nbval compares what the cell says."""
    plan = output_of("90-weeks-table")
    assert re.findall(r"^  \d.*?  +(\d\d)  \S", plan, re.MULTILINE) == sorted(LESSONS)
    assert all(int(hour) < 16 for hour in re.findall(r"-(\d+):", plan.partition("day 10")[0]))
    assert plan.count("\nday ") == 9


def test_idle_time_is_named_and_not_by_its_colour():
    assert not re.search(r"\b(dark|black|cream)\b", markdown(GUIDE))
    assert markdown(GUIDE).count("idle time, which is hatched") == 2


def test_the_rubric_has_five_rows_of_four_points():
    (project,) = cells_of("project")
    assert len(re.findall(r"^\| \*\*\w+\*\* \|.+\|.+\|.+\|$", project.source, re.MULTILINE)) == 5
    assert "When a race shows no gain" in project.source
