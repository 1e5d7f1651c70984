"""The notebooks say what they take, need and promise; README, their heads and their order agree; and what tests saw."""

import re

import nbformat
import pytest

from pllab.lesson.course import fill, main, read_course, read_lesson
from pllab.lesson.exercise import exercises_of
from tests.lesson.committed import FOLDER, code_cells, read

COMPARED, IGNORED = "nbval-check-output", "nbval-ignore-output"
README = FOLDER.parent / "README.md"
COURSE = read_course(FOLDER)
GUIDES = "90"  # lessons from here on are for teachers: they need no lesson before
each_lesson = pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.number)


def test_readme_says_what_the_notebooks_say():
    text = README.read_text()
    assert text.count("<!-- lessons -->\n") == 1
    assert fill(text, COURSE) == text, "run python -m pllab.lesson.course README.md notebooks"


@each_lesson
def test_the_head_says_the_minutes_and_links_what_the_lesson_needs(lesson):
    needs = re.findall(r"^\*\*Needs\*\* (.*)$", read(lesson.path).cells[0].source, re.MULTILINE)
    assert lesson.number >= GUIDES or len(needs) == 1
    for line in needs:
        assert line.startswith(f"{' and '.join(map(str, lesson.sittings))} minutes")
        assert ("in two sittings" in line) == (len(lesson.sittings) == 2)
        assert sorted(set(re.findall(r"\]\((\d\d)_\w+\.ipynb\)", line))) == list(lesson.needs)
        linked = re.sub(r"\[[^]]*\]\([^)]*\)", "", line)
        assert not re.search(r"\blessons? \d\d", linked), "link every lesson that is needed"


@each_lesson
def test_a_lesson_needs_earlier_lessons_that_are_there(lesson):
    assert set(lesson.needs) <= {other.number for other in COURSE if other.number < lesson.number}
    assert bool(lesson.needs) == ("00" < lesson.number < GUIDES), "only lesson 00 and the guides need none"


@each_lesson
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


@each_lesson
def test_a_sitting_promises_what_reading_running_and_exercises_need(lesson):
    if lesson.number >= GUIDES:
        return
    for (words, runs, exercises), minutes in zip(sittings_of(lesson), lesson.sittings, strict=True):
        assert words / WORDS_A_MINUTE + runs + exercises <= minutes <= MOST_MINUTES
        assert words <= MOST_WORDS


def test_every_code_cell_says_whether_its_output_is_compared_and_at_least_half_are():
    tags = {cell.id: set(cell.metadata.get("tags", [])) for lesson in COURSE for cell in code_cells(lesson.path)}
    assert not [name for name, ours in tags.items() if len({COMPARED, IGNORED} & ours) != 1]
    assert sum(COMPARED in ours for ours in tags.values()) >= len(tags) / 2


@each_lesson
def test_a_lesson_has_the_exercises_of_the_registry(lesson):
    if lesson.number < GUIDES:
        assert lesson.num_exercises == len(exercises_of(lesson.number))


def written(folder, name="03_three.ipynb", about=None, cells=()):
    """A small notebook with a title, and metadata unless `about` is empty."""
    title = nbformat.v4.new_markdown_cell(f"# {name[:2]} Three at a time", id=f"{name[:2]}-title")
    notebook = nbformat.v4.new_notebook(cells=[title, *cells])
    about = {"minutes": [45], "needs": ["00"], "promise": "count"} if about is None else about
    notebook.metadata.update({"pllab": about} if about else {})
    nbformat.write(notebook, folder / name)
    return folder / name


def test_a_lesson_is_counted(tmp_path):
    names = ("03-run", "03-ex1-stub", "03-ex1-check", "03-ex10-stub", "04-ex1-stub")
    lesson = read_lesson(written(tmp_path, cells=[nbformat.v4.new_code_cell("1", id=name) for name in names]))
    assert (lesson.number, lesson.title, lesson.sittings) == ("03", "Three at a time", (45,))
    assert (lesson.needs, lesson.promise) == (("00",), "count")
    assert lesson.num_exercises == 2


def test_a_guide_needs_no_lesson(tmp_path):
    assert read_lesson(written(tmp_path, "90_guide.ipynb", {"minutes": [30], "promise": "teach"})).needs == ()


def test_what_is_wrong_with_a_notebook_is_said_with_its_name(tmp_path):
    with pytest.raises(ValueError, match=r"03_three.ipynb does not say its minutes and promise; write them"):
        read_lesson(written(tmp_path, about={}))
    (tmp_path / "03_three.ipynb").write_text("{")
    with pytest.raises(ValueError, match=r"03_three.ipynb is no notebook: .*; restore it"):
        read_course(tmp_path)
    other = written(tmp_path, "04_four.ipynb")
    other.write_text(other.read_text().replace("# 04", "# 05"))
    with pytest.raises(ValueError, match=r"04_four.ipynb has no title; begin it with '# 04 ...'"):
        read_lesson(other)
    other.unlink()
    with pytest.raises(ValueError, match="no lesson is in '.*empty'; name the folder"):
        read_course(tmp_path / "empty")
    written(tmp_path, "03_three.ipynb")
    written(tmp_path, "03_tree.ipynb")
    with pytest.raises(ValueError, match=r"03_three.ipynb and 03_tree.ipynb have the same number"):
        read_course(tmp_path)


def test_the_table_is_written_between_its_marks_and_nowhere_else(tmp_path, capsys):
    written(tmp_path, about={"minutes": [20, 5], "needs": [], "promise": "count to `3`"})
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- lessons -->\nold\n<!-- end -->\nafter\n<!-- end -->\n")
    assert main([str(readme), str(tmp_path)]) == 0
    row = "| [03 Three at a time](notebooks/03_three.ipynb) | 20 + 5 | count to `3` |"
    table = f"| Lesson | Minutes | You will |\n| --- | ---: | --- |\n{row}"
    text = f"before\n<!-- lessons -->\n\n{table}\n\n<!-- end -->\nafter\n<!-- end -->\n"
    assert readme.read_text() == text
    assert main([str(readme), str(tmp_path)]) == 0 and readme.read_text() == text
    assert main(["README.md"]) == 2 and "name the file and the folder" in capsys.readouterr().err


def test_words_in_folds_and_links_are_not_counted():
    folded = "<details><summary>Answer</summary>\nmany more words\n</details>"
    assert num_words("one two-three", f"[four](five_six.md) {folded} don't") == 4
