"""`pllab course`: the table of lessons with what each asks for, and what the tests saw of it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pllab.cli.flags import check_file, parse
from pllab.lesson.course import Lesson, read_course
from pllab.lesson.seen import Reports, read_reports

NOT_SEEN = "not seen"
_HEAD = (
    "lesson",
    "minutes",
    "words",
    "cells",
    "exercises",
    "wrong refused",
    "right accepted",
    "compared cells",
    "run time",
)


@dataclass(frozen=True, kw_only=True)
class CourseOptions:
    """List the lessons: minutes, words, cells, exercises, solutions refused and accepted, cells compared, run time."""

    notebooks: Path = Path("notebooks")
    """Folder of the lessons."""
    seen: Path = Path("build/seen")
    """Folder of pytest's reports, which make test writes."""
    json: Path | None = None
    """File for the numbers."""

    def __post_init__(self) -> None:
        check_file("--json", self.json)


def run(words: Sequence[str]) -> int:
    """Print the table as the flags say; returns 0.

    Raises:
        ValueError: an unknown flag, no lessons, a lesson or report that cannot be read, or no place for the numbers.
    """
    options = parse(CourseOptions, words, "course")
    lessons, reports = read_course(options.notebooks), read_reports(options.seen)
    print(table(lessons, reports), end="\n\n")
    print(*sources(lessons, reports, options), sep="\n")
    if options.json is not None:
        from pllab.train.results import write_json  # with all of the trainer, which --help does not need

        write_json(options.json, to_json(lessons, reports))
        print(f"numbers in {options.json}")
    return 0


def table(lessons: Sequence[Lesson], reports: Reports) -> str:
    """A line per lesson, the first column to the left and the numbers to the right.

    Example:

        lesson            minutes   words   ...   wrong refused   compared cells   run time
        01 Honest times        45   1,234   ...        not seen         12 of 23       31 s
    """
    lines = [_HEAD, *(_row(lesson, reports) for lesson in lessons), _sums(lessons, reports)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ["<", *">" * (len(widths) - 1)]
    return "\n".join(
        "   ".join(f"{text:{side}{width}}" for text, side, width in zip(line, aligned, widths, strict=True))
        for line in lines
    )


def sources(lessons: Sequence[Lesson], reports: Reports, options: CourseOptions) -> Iterator[str]:
    """Sentences: where the numbers come from, and what is missing."""
    compared, silent = sum(one.num_compared for one in lessons), sum(one.num_silent for one in lessons)
    yield f"Minutes to cells are counted in {options.notebooks}: nbval compares {compared} cells, of which"
    yield f"{compared - silent} have an output. The rest is what tests saw that passed:"
    for name, when in reports.runs:
        yield f"  {options.seen / name}, begun {when[:16].replace('T', ' ')}"
    if not reports.runs:
        yield f"  nothing, {options.seen} holds no report; make test and make exhaustive write them"
    for lesson in lessons:
        if failed := reports.of(lesson.number).num_failed:
            yield f"  lesson {lesson.number}: {failed} tests or cells did not pass"


def to_json(lessons: Sequence[Lesson], reports: Reports) -> dict[str, Any]:
    """The numbers of the table; null is what no test saw."""
    rows = []
    for lesson in lessons:
        seen = reports.of(lesson.number)
        rows.append({**asdict(lesson), "path": lesson.path.name, **asdict(seen)})
    return {"command": "python -m pllab course", "lessons": rows, "reports": [list(each) for each in reports.runs]}


def _row(lesson: Lesson, reports: Reports) -> tuple[str, ...]:
    seen = reports.of(lesson.number)
    return (
        f"{lesson.number} {lesson.title}",
        str(lesson.minutes),
        *(f"{number:,}" for number in (lesson.num_words, lesson.num_cells, lesson.num_exercises)),
        _text(seen.num_refused),
        _text(seen.num_accepted),
        f"{lesson.num_compared} of {lesson.num_code_cells}",
        _text(seen.seconds, " s"),
    )


def _sums(lessons: Sequence[Lesson], reports: Reports) -> tuple[str, ...]:
    """The last line; a sum over what was seen says nothing of what was not."""
    seen = [reports.of(lesson.number) for lesson in lessons]
    return (
        "all",
        *(
            f"{sum(numbers):,}"
            for numbers in zip(*((x.minutes, x.num_words, x.num_cells, x.num_exercises) for x in lessons), strict=True)
        ),
        _text(_sum(each.num_refused for each in seen)),
        _text(_sum(each.num_accepted for each in seen)),
        f"{sum(x.num_compared for x in lessons)} of {sum(x.num_code_cells for x in lessons)}",
        _text(_sum(each.seconds for each in seen), " s"),
    )


def _sum(numbers: Iterator[float | None]) -> float | None:
    found = [number for number in numbers if number is not None]
    return sum(found) if found else None


def _text(number: float | None, unit: str = "") -> str:
    return NOT_SEEN if number is None else f"{number:,.0f}{unit}"
