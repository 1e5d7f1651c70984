"""`python -m pllab course`: the table of the notebooks, with what tests saw of them or that none has looked."""

import json
import re
from pathlib import Path

import pytest

from pllab.cli import main
from pllab.lesson.course import read_course

ROOT = Path(__file__).parents[2]
COURSE = read_course(ROOT / "notebooks")

REPORT = """<testsuites><testsuite name="pytest" timestamp="2026-02-03T10:11:12.5">
<testcase classname="tests.lesson.test_exercises" name="a[09.1]" time="1"><properties>
<property name="exercise" value="09.1"/><property name="refused" value="1234"/></properties></testcase>
<testcase classname="notebooks.09_workers_and_pipe.ipynb" name="Cell 0" time="12.3"/>
<testcase classname="notebooks.09_workers_and_pipe.ipynb" name="Cell 1" time="1.1"/>
<testcase classname="notebooks.08_clock_cycles.ipynb" name="Cell 0" time="1"><failure/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def said(tmp_path, capsys):
    """What the command says of the real lessons and of reports made here, by line."""

    def run(*words):
        assert main(["course", "--notebooks", str(ROOT / "notebooks"), "--seen", str(tmp_path), *words]) == 0
        return capsys.readouterr().out.splitlines()

    return run


def columns(line):
    return re.split(r"\s{2,}", line)


def test_a_line_for_each_lesson_with_its_numbers_and_a_last_line_for_all(said):
    head, *lines = said()
    names = "lesson minutes words cells exercises,wrong refused,right accepted,compared cells,run time"
    assert " ".join(head.split()) == names.replace(",", " ")
    for lesson, line in zip(COURSE, lines, strict=False):
        title, *numbers = columns(line)
        assert title == f"{lesson.number} {lesson.title}"
        counts = [lesson.minutes, lesson.num_words, lesson.num_cells, lesson.num_exercises]
        assert [int(number.replace(",", "")) for number in numbers[:4]] == counts
        assert numbers[6] == f"{lesson.num_compared} of {lesson.num_code_cells}"
    sums = columns(lines[len(COURSE)])
    assert sums[0] == "all" and int(sums[1].replace(",", "")) == sum(lesson.minutes for lesson in COURSE)
    assert len({len(line) for line in [head, *lines[: len(COURSE) + 1]]}) == 1, "columns stand under each other"


def test_what_no_test_saw_is_not_seen(said, tmp_path):
    lines = said()
    assert all(line.count("not seen") == 3 for line in lines[1 : len(COURSE) + 2])
    assert f"  nothing, {tmp_path} holds no report; make test and make exhaustive write them" in lines


def test_what_tests_saw_stands_in_its_lesson_with_its_source(said, tmp_path):
    (tmp_path / "run.xml").write_text(REPORT)
    lines = said()
    pipe = next(line for line in lines if line.startswith("09 "))
    assert pipe.endswith(" 13 s")
    assert " 1,234 " in pipe and pipe.count("not seen") == 1
    assert lines[len(COURSE) + 1].startswith("all ") and lines[len(COURSE) + 1].endswith(" 13 s")
    assert next(line for line in lines if line.startswith("08 ")).count("not seen") == 3
    assert f"  {tmp_path / 'run.xml'}, begun 2026-02-03 10:11" in lines
    assert "  lesson 08: 1 tests or cells did not pass" in lines


def test_the_numbers_go_into_a_file_with_null_for_what_is_not_seen(said, tmp_path):
    (tmp_path / "run.xml").write_text(REPORT)
    numbers = tmp_path / "course.json"
    assert said("--json", str(numbers))[-1] == f"numbers in {numbers}"
    found = {row["number"]: row for row in json.loads(numbers.read_text())["lessons"]}
    assert list(found) == [lesson.number for lesson in COURSE]
    assert found["09"]["num_refused"] == 1234 and found["09"]["num_accepted"] is None
    assert found["09"]["seconds"] == pytest.approx(13.4) and found["08"]["seconds"] is None
    assert str(ROOT) not in numbers.read_text()


def test_no_lessons_and_unknown_flags_are_one_sentence(tmp_path, capsys):
    assert main(["course", "--notebooks", str(tmp_path)]) == 2
    assert "no lesson is in" in capsys.readouterr().err
    assert main(["course", "--lessons", "3"]) == 2
    assert "--lessons" in capsys.readouterr().err
