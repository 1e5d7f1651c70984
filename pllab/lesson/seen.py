"""What the tests saw of each lesson, read from pytest's own reports.

    python -m pytest --junitxml=build/seen/lessons.xml tests/lesson
    python -m pytest --nbval --junitxml=build/seen/notebooks.xml notebooks

A test of solutions notes how many it saw refused and accepted (`record_property`), and pytest writes it into its
report beside the seconds of each test and cell. A folder holds the reports of several runs; of a test that is in
more than one, the latest counts.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from pllab.arguments import plain_file

Test = ElementTree.Element  # a test or a cell in a report

_NOTEBOOK = re.compile(r"(?:.*\.)?(\d\d)_\w+\.ipynb")


@dataclass
class Seen:
    """What tests saw of one lesson; None where none has looked.

    Only tests that passed count as having seen solutions. `seconds` is the time of a notebook with its kernel, if all
    of its cells passed; `num_failed` are the tests and cells that did not pass.
    """

    num_refused: int | None = None
    num_accepted: int | None = None
    seconds: float | None = None
    num_failed: int = 0


@dataclass(frozen=True)
class Reports:
    """A folder of reports: what was seen of each lesson by its number, and the name and beginning of each run."""

    lessons: dict[str, Seen] = field(default_factory=dict)
    runs: tuple[tuple[str, str], ...] = ()

    def of(self, number: str) -> Seen:
        """What was seen of a lesson, which may be nothing."""
        return self.lessons.get(number, Seen())


def read_reports(folder: Path) -> Reports:
    """Read all reports of a folder; a folder that is not there holds none.

    Example: `read_reports(Path("build/seen")).of("09").num_refused` -> 48.

    Raises:
        ValueError: a file is no report of pytest.
    """
    suites = sorted((_suite(path) for path in folder.glob("*.xml")), key=lambda each: each[0])
    tests: dict[tuple[str, str], Test] = {}
    notebooks: dict[str, list[Test]] = {}
    for _, _, suite in suites:
        own: defaultdict[str, list[Test]] = defaultdict(list)
        for test in suite.iter("testcase"):
            group, name = test.get("classname", ""), test.get("name", "")
            if notebook := _NOTEBOOK.fullmatch(group):
                own[notebook[1]].append(test)
            else:
                tests[group, name] = test
        notebooks |= own  # whole notebooks, which may have lost cells since the run before
    lessons: defaultdict[str, Seen] = defaultdict(Seen)
    for number, cells in notebooks.items():
        _time(lessons[number], cells)
    for test in tests.values():
        notes = {note.get("name", ""): note.get("value", "") for note in test.iter("property")}
        if "exercise" in notes:
            _count(lessons[notes["exercise"][:2]], notes, _has_passed(test))
    return Reports(dict(lessons), tuple((name, when) for when, name, _ in suites))


def _suite(path: Path) -> tuple[str, str, ElementTree.Element]:
    """When a report's run began, its file's name, and its tests."""
    try:
        suite = ElementTree.parse(plain_file(path)).getroot().find("testsuite")
    except ElementTree.ParseError as error:
        raise ValueError(f"{str(path)!r} is no report of pytest: {error}; remove it") from error
    if suite is None:
        raise ValueError(f"{str(path)!r} is no report of pytest; remove it")
    return suite.get("timestamp", ""), path.name, suite


def _has_passed(test: Test) -> bool:
    return all(test.find(kind) is None for kind in ("failure", "error", "skipped"))


def _time(seen: Seen, cells: list[Test]) -> None:
    """Add the time of a notebook, or how many of its cells did not pass."""
    failed = sum(not _has_passed(cell) for cell in cells)
    seen.num_failed += failed
    seen.seconds = None if failed else sum(float(cell.get("time", 0)) for cell in cells)


def _count(seen: Seen, notes: dict[str, str], has_passed: bool) -> None:
    """Add what one test has noted."""
    if not has_passed:
        seen.num_failed += 1
        return
    if "refused" in notes:
        seen.num_refused = (seen.num_refused or 0) + int(notes["refused"])
    if "accepted" in notes:
        seen.num_accepted = (seen.num_accepted or 0) + int(notes["accepted"])
