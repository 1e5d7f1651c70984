"""The notebooks say what they take, need and promise; README, their heads and their order agree; and what tests saw."""

import re

import pytest

from pllab.lesson.course import fill, main, read_course
from pllab.lesson.exercise import exercises_of
from tests.lesson.committed import FOLDER, code_cells, read

COMPARED, IGNORED = "nbval-check-output", "nbval-ignore-output"
README = FOLDER.parent / "README.md"
COURSE = read_course(FOLDER)
GUIDES = "90"  # lessons from here on are for teachers: they need no lesson before
each_lesson = pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.number)


def test_readme_says_what_the_notebooks_say_between_its_marks(tmp_path):
    text, copy = README.read_text(), tmp_path / "README.md"
    assert fill(text, COURSE) == text, "run python -m pllab.lesson.course README.md notebooks"
    old, count = re.subn("(<!-- lessons -->\n).*?(<!-- end -->)", r"\1old\n\2", text, flags=re.DOTALL)
    copy.write_text(old)
    main(copy, FOLDER)
    assert count == 1 and copy.read_text() == text


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


def test_a_folder_without_lessons_is_refused(tmp_path):
    with pytest.raises(ValueError, match=f"no lesson is in '{tmp_path}'; name the folder"):
        read_course(tmp_path)


def test_words_in_folds_and_links_are_not_counted():
    folded = "<details><summary>Answer</summary>\nmany more words\n</details>"
    assert num_words("one two-three", f"[four](five_six.md) {folded} don't") == 4
