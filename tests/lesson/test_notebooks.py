"""The committed notebooks: clean, readable, the same skeleton in each, and exercises that agree with the registry.

They say what they take, need and promise; README, their heads and their order agree.
"""

import ast
import re
from html import unescape

import nbformat
import pytest

from pllab.lesson.course import main, read_course
from pllab.lesson.exercise import exercises_of
from pllab.lesson.extraction import statements
from pllab.lesson.publish import clean, problems, publish, read_problems
from pllab.pipeline import clock_cycles
from pllab.show import draw_clock
from tests.lesson.committed import FOLDER, NOTEBOOKS, code_cells, markdown, read

SKELETON = [
    "Predict",
    "Run",
    "Investigate",
    "Exercises",
    "Break it",
    "What to remember",
    "Further reading",
]
MOST_CELLS = 45
MOST_STATEMENT_WORDS = 120
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
CODE = re.compile(r"\w\(|\w\[| [-+*/]?= |==|\blambda\b|\bfor \w+(, \w+)* in .*:")

COMPARED, IGNORED = "nbval-check-output", "nbval-ignore-output"
README = FOLDER.parent / "README.md"
LESSONS = [lesson for lesson in read_course(FOLDER) if lesson.number != "90"]  # the guide: test_guide.py

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
every_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)


def names_bound(source: str) -> set[str]:
    """The names that a cell binds in the kernel; one for the ranks binds none."""
    return {name for part in statements("", source) for name in part.binds}


@every_notebook
def test_a_committed_notebook_has_no_problem(path):
    assert read_problems(path) == []
    nbformat.validate(read(path))


@every_notebook
def test_cell_ids_begin_with_the_lessons_number(path):
    ids = [cell.id for cell in read(path).cells]
    assert all(name.startswith(f"{path.name[:2]}-") for name in ids)
    assert len(set(ids)) == len(ids)


@every_lesson
def test_every_lesson_has_the_same_skeleton(lesson):
    text = markdown(lesson.path)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SKELETON
    assert re.search(rf"^# {lesson.number} \S", text)
    assert "**You will be able to**" in text
    assert "**Needs**" in text
    remembered = text.partition("## What to remember")[2].partition("## Further")[0]
    assert remembered.count("\n- ") == 3


@every_notebook
def test_exercises_are_those_of_the_registry(path):
    lesson, cells = path.name[:2], {cell.id: cell for cell in read(path).cells}
    assert sum(bool(re.search(r"-ex\d+-stub$", name)) for name in cells) == len(exercises_of(lesson))
    for exercise in exercises_of(lesson):
        start = f"{lesson}-ex{exercise.id.partition('.')[2]}"
        text = cells[start].source
        difficulty = "●" * exercise.difficulty + "○" * (3 - exercise.difficulty)
        heading = rf"^### Exercise {exercise.id} {re.escape(exercise.title)} \(\d+ min, {difficulty}\)$"
        assert re.search(heading, text, re.MULTILINE)
        assert re.findall(r"<summary>Hint (\d)</summary>", text) == ["1", "2", "3"]
        hints = re.findall(r"</summary>\n\n(.*?)\n\n</details>", text, re.DOTALL)
        assert len(set(filter(None, hints))) == len(hints) == 3
        assert "raise NotImplementedError" in cells[f"{start}-stub"].source
        check = cells[f"{start}-check"]
        assert "nbval-check-output" in check.metadata.tags
        assert f"{exercise.id} {exercise.title}: not attempted" in check.outputs[0].data["text/plain"]
        hidden = cells[f"{start}-solution"]
        assert hidden.metadata == {"tags": ["solution", "hide-cell"]}
        assert hidden.source.startswith("<details><summary>Solution, after your own try</summary>\n\n")
        assert hidden.source.count("```python\n") == 1
        assert not [hint for hint in hints if CODE.search(hint)], "code stands in the solution alone"


@every_lesson
def test_a_statement_is_short(lesson):
    for cell in read(lesson.path).cells:
        if re.fullmatch(r"\d\d-ex\d+", cell.id):
            _, heading, statement = FOLDED.sub("", cell.source).partition("### Exercise ")
            assert len((heading + statement).split()) <= MOST_STATEMENT_WORDS, cell.id


@every_lesson
def test_what_a_solution_imports_of_torch_and_pllab_a_learner_has_already(lesson):
    names = set()
    for cell in read(lesson.path).cells:
        if cell.cell_type == "code":
            names |= names_bound(cell.source)
        elif re.fullmatch(r"\d\d-ex\d+-solution", cell.id):
            (code,) = re.findall(r"```python\n(.*?)```", cell.source, re.DOTALL)
            imports = [part for part in statements("", code) if part.is_import]
            ours = [part for part in imports if re.match(r"(import|from) (torch|pllab)\b", ast.unparse(part.node))]
            assert {name for part in ours for name in part.binds} <= names, cell.id


@every_lesson
def test_a_lesson_has_few_cells_and_asks_for_a_prediction(lesson):
    assert len(read(lesson.path).cells) <= MOST_CELLS
    assert any(re.search(r"\bpredict\(", cell.source) for cell in code_cells(lesson.path))


@every_notebook
def test_every_question_has_a_folded_answer(path):
    section = ""
    for cell in read(path).cells:
        if cell.cell_type != "markdown" or re.search(r"-ex\d+(-|$)", cell.id):
            continue
        section = (re.findall(r"^## (.+)$", cell.source, re.MULTILINE) or [section])[-1]
        asks = re.search(r"^[^#\n].*\?$", FOLDED.sub("", cell.source), re.MULTILINE)
        if asks and section != "Predict":
            assert "<details><summary>Answer" in cell.source, cell.id


@every_notebook
def test_links_between_notebooks_lead_somewhere(path):
    for name in re.findall(r"\]\(([^):]+\.ipynb)\)", markdown(path)):
        assert (path.parent / name).exists(), name


def test_the_picture_beside_a_slider_is_saved_as_it_is_drawn():
    """nbval skips the cell: it takes what a slider draws for an output of its own."""
    [cell] = [cell for cell in read(FOLDER / "08_clock_cycles.ipynb").cells if cell.id == "08-clock-player"]
    [output] = cell.outputs
    assert output.data["text/plain"] == draw_clock(clock_cycles, 5, 3).alt and "<img alt=" in output.data["text/html"]


def _notebook(*cells, **metadata):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# 01 One", id="01-title"), *cells])
    notebook.metadata.update(metadata)
    return clean(notebook)


def _ran(source="1", outputs=(), name="01-cell"):
    return nbformat.v4.new_code_cell(source, id=name, execution_count=1, outputs=list(outputs))


def _shows(**data):
    mime = {key.replace("_", "/", 1): value for key, value in data.items()}
    return nbformat.v4.new_output("display_data", data=mime)


def test_cleaning_takes_out_what_differs_between_runs():
    cell = _ran(outputs=[_shows(text_html="twin", text_plain="x"), _shows(text_plain="interactive(children=())")])
    for output in cell.outputs:
        output.data["application/vnd.jupyter.widget-view+json"] = {"model_id": "1"}
    cell.metadata.update({"execution": {"iopub.status.busy": "now"}, "collapsed": True, "tags": ["solution"]})
    about = {"minutes": 45, "needs": ["00"], "promise": "stay"}
    cleaned = _notebook(cell, widgets={"state": {}}, language_info={"name": "python", "version": "3.11.7"}, pllab=about)
    assert cleaned.metadata.pllab == about
    assert set(cleaned.metadata) == {"kernelspec", "language_info", "pllab"}
    assert [*problems(cleaned)] == []
    assert cleaned.cells[1].id == "01-cell"
    assert cleaned.cells[1].metadata == {"tags": ["solution"]}
    assert [output.data for output in cleaned.cells[1].outputs] == [{"text/html": "twin", "text/plain": "x"}]


def test_a_choice_is_published_without_its_slider(tmp_path):
    source = "from ipywidgets import interact\n\ninteract(lambda first: None, first=(1, 2))\nprint(1)"
    title = nbformat.v4.new_markdown_cell("# 01 One", id="01-title")
    path = tmp_path / "01_one.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[title, nbformat.v4.new_code_cell(source, id="01-cut")]), path)
    assert publish(path) == []
    assert [output.text for output in read(path).cells[1].outputs] == ["1\n"]


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        (_ran(outputs=[nbformat.v4.new_output("error", ename="KeyError")]), "an error, KeyError"),
        (_ran(outputs=[nbformat.v4.new_output("stream", name="stderr", text="warning")]), "writes to stderr"),
        (_ran(outputs=[_shows(image_png="AAAA")]), "picture has no text alternative"),
        (_ran(outputs=[_shows(text_html='<img src="x.png">')]), "image has no text alternative"),
        (_ran(outputs=[_shows(text_html='<img alt=" " src="x.png">')]), "image has no text alternative"),
        (_ran(outputs=[_shows(text_plain="saved /home/jane/x.json")]), "a folder of one machine"),
        (_ran(name="4f2a77c0"), "give it a readable id"),
        (nbformat.v4.new_code_cell("1", id="01-cell"), "it was not executed"),
        (nbformat.v4.new_markdown_cell("![](x.png)", id="01-cell"), "image has no text alternative"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_a_reader_could_not_use_is_refused(cell, problem):
    assert [found for found in problems(_notebook(cell)) if problem in found]


def test_a_picture_with_words_is_fine():
    picture = _ran(outputs=[_shows(text_html='<img alt="two bars" src="data:image/png;base64,/tmp/x">')])
    assert [*problems(_notebook(picture))] == []


def test_a_large_notebook_is_refused(tmp_path):
    large = nbformat.v4.new_markdown_cell("a" * 400_000, id="01-large")
    nbformat.write(_notebook(large), tmp_path / "01_one.ipynb")
    told = "01_one.ipynb: it has more than 400000 bytes; draw smaller pictures"
    assert read_problems(tmp_path / "01_one.ipynb") == [told]


@every_notebook
def test_a_lesson_reads_no_private_function_of_the_package(path):
    source = "\n".join(cell.source for cell in code_cells(path))
    called = re.findall(r"show_source\((.*)\)", source)
    imported = re.findall(r"from pllab\S* import (\([^)]*\)|.*)", source)
    assert [text for text in called + imported if re.search(r"(?<!\w)_\w", text)] == []


@every_lesson
def test_a_question_in_a_picture_is_the_question_that_the_lesson_asks(lesson):
    """Pictures of measured numbers are not compared by nbval, so one of an earlier question would stay."""
    cells = code_cells(lesson.path)
    pages = [output.get("data", {}).get("text/html", "") for cell in cells for output in cell.outputs]
    asked = [unescape(one) for page in pages for one in re.findall(r"Predict\.</strong> (.*?) \(no guess yet\)", page)]
    source = re.sub(r"\"\s+\"", "", "\n".join(cell.source for cell in cells))
    assert [one for one in asked if one not in source] == []
    drawn = [page for page in pages if "You made no guess" in page]
    heads = [unescape(one) for page in drawn for one in re.findall("<figcaption>(.*?)</figcaption>", page)]
    assert [one for one in heads if not one.startswith(tuple(asked))] == []


def test_readme_says_what_the_notebooks_say_between_its_marks(tmp_path):
    text, copy = README.read_text(), tmp_path / "README.md"
    old, count = re.subn("(<!-- lessons -->\n).*?(<!-- end -->)", r"\1old\n\2", text, flags=re.DOTALL)
    copy.write_text(old)
    main(copy, FOLDER)
    assert count == 1 and copy.read_text() == text, "run python -m pllab.lesson.course README.md notebooks"


@every_lesson
def test_the_head_says_the_minutes_and_links_what_the_lesson_needs(lesson):
    (line,) = re.findall(r"^\*\*Needs\*\* (.*)$", read(lesson.path).cells[0].source, re.MULTILINE)
    assert line.startswith(f"{' and '.join(map(str, lesson.sittings))} minutes")
    assert ("in two sittings" in line) == (len(lesson.sittings) == 2)
    assert sorted(set(re.findall(r"\]\((\d\d)_\w+\.ipynb\)", line))) == list(lesson.needs)
    linked = re.sub(r"\[[^]]*\]\([^)]*\)", "", line)
    assert not re.search(r"\blessons? \d\d", linked), "link every lesson that is needed"


@every_lesson
def test_a_lesson_needs_earlier_lessons_that_are_there(lesson):
    assert set(lesson.needs) <= {other.number for other in LESSONS if other.number < lesson.number}
    assert bool(lesson.needs) == (lesson.number > "00"), "only lesson 00 needs none"


@every_lesson
def test_a_promise_completes_the_sentence_you_will(lesson):
    assert re.fullmatch(r"[a-z].*[^.\s|]", lesson.promise), lesson.promise
    assert all(minutes % 5 == 0 for minutes in lesson.sittings)


MOST_MINUTES, MOST_WORDS, WORDS_A_MINUTE = 75, 1700, 200
SECOND = re.compile(r"^\*The second sitting begins here\.\*$", re.MULTILINE)


def num_words(*texts):
    """The words to read, without folded parts: hints, answers and solutions."""
    text = re.sub(r"<details>.*?</details>", "", "\n".join(texts), flags=re.DOTALL)
    return len(re.findall(r"\w+(?:['-]\w+)*", re.sub(r"\]\([^)]*\)", "]", text)))


def sittings_of(lesson):
    """For each sitting of a lesson the words to read, the cells to run, and the minutes of its exercises."""
    told = [[0, 0, 0]]
    for cell in read(lesson.path).cells:
        if cell.cell_type == "code":
            told[-1][1] += not re.search(r"\bcheck\(|raise NotImplementedError", cell.source)
            continue
        for number, text in enumerate(SECOND.split(cell.source)):
            told += [[0, 0, 0]] if number else []
            told[-1][0] += num_words(text)
            told[-1][2] += sum(map(int, re.findall(r"^### Exercise [\d.]+ .*\((\d+) min", text, re.MULTILINE)))
    return told


@every_lesson
def test_a_sitting_promises_what_reading_running_and_exercises_need(lesson):
    for (words, runs, exercises), minutes in zip(sittings_of(lesson), lesson.sittings, strict=True):
        assert words / WORDS_A_MINUTE + runs + exercises <= minutes <= MOST_MINUTES
        assert words <= MOST_WORDS


def test_every_code_cell_says_whether_its_output_is_compared_and_at_least_half_are():
    tags = {cell.id: set(cell.metadata.get("tags", [])) for path in NOTEBOOKS for cell in code_cells(path)}
    assert not [name for name, ours in tags.items() if len({COMPARED, IGNORED} & ours) != 1]
    assert sum(COMPARED in ours for ours in tags.values()) >= len(tags) / 2


def test_a_folder_without_lessons_is_refused(tmp_path):
    with pytest.raises(ValueError, match=f"no lesson is in '{tmp_path}'; name the folder"):
        read_course(tmp_path)
