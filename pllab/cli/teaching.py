"""`pllab grade NOTEBOOKS` and `student FOLDER`: what a teacher does with the lessons."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pllab.arguments import printable, require
from pllab.cli.flags import parse


@dataclass(frozen=True, kw_only=True)
class GradeOptions:
    """Grade notebooks of lessons: every exercise is checked as the notebook checks it, for as many points as dots."""

    notebooks: tuple[Path, ...] = ()
    """Notebooks handed in."""
    json: bool = False
    """Print the grades as JSON."""
    timeout_s: float | None = None
    """Seconds that the check of one exercise may take; by default the exercise's own deadline."""
    memory_gib: float = 4.0
    """GiB that all processes of one solution may take together."""
    processes: int = 40
    """Processes that one solution may have at a time; a rank counts twice."""
    jobs: int = 2
    """Submissions that are graded at a time."""
    unfenced: bool = False
    """Run them without bubblewrap, in a container that has nothing to lose."""

    def __post_init__(self) -> None:
        require(bool(self.notebooks), "no notebook is given; write python -m pllab grade handed_in/*.ipynb")
        if missing := [str(path) for path in self.notebooks if not path.is_file()]:
            raise ValueError(f"{missing[0]!r} is no file; name the notebooks that were handed in")
        if self.timeout_s is not None and not 1 <= self.timeout_s <= 3600:
            raise ValueError(f"--timeout-s is {self.timeout_s:g}; give 1 to 3600 seconds")
        if not 0.25 <= self.memory_gib <= 1024:
            raise ValueError(f"--memory-gib is {self.memory_gib:g}; give 0.25 to 1024, ranks need some room")
        if not 4 <= self.processes <= 1000:
            raise ValueError(f"--processes is {self.processes}; give 4 to 1000, a check with three ranks needs 8")
        if not 1 <= self.jobs <= 64:
            raise ValueError(f"--jobs is {self.jobs}; give 1 to 64, at most one per core")


@dataclass(frozen=True, kw_only=True)
class StudentOptions:
    """Copy the lessons for students: the folded solutions are left out, and AGENTS.md asks assistants to tutor."""

    folder: Path | None = None
    """Folder to make."""
    notebooks: Path = Path("notebooks")
    """Folder of the lessons."""

    def __post_init__(self) -> None:
        if self.folder is None:
            raise ValueError("no folder is given; write python -m pllab student FOLDER")


def run(words: Sequence[str]) -> int:
    """Grade the notebooks and print their sheets in order; returns 1 if one could not be read, whatever the grades.

    Raises:
        ValueError: an unknown flag, a value out of range, or a file that is not there.
        RuntimeError: this system is no Linux, or has no bubblewrap that could start.
    """
    options = parse(GradeOptions, words, "grade", alone="notebooks")
    from pllab.lesson.grading import Sheet, grade  # torch takes seconds, and wrong flags are told before
    from pllab.lesson.sandbox import Limits

    memory = int(options.memory_gib * (1 << 30))
    limits = Limits(memory, options.processes, options.timeout_s, fenced=not options.unfenced)
    start = time.monotonic()

    def tell(sheet: Sheet) -> None:
        print(f"{printable(sheet.notebook)} is graded", file=sys.stderr)

    sheets = grade(options.notebooks, limits, options.jobs, tell)
    if options.json:
        print(json.dumps({"submissions": [sheet.to_json() for sheet in sheets]}, indent=1))
    else:
        print("\n".join(line for sheet in sheets for line in sheet.lines()))
        print(f"{len(sheets)} graded in {time.monotonic() - start:.0f} s")
    return int(any(sheet.problem for sheet in sheets))


def run_student(words: Sequence[str]) -> int:
    """Copy the lessons for students and say where they are; returns 0.

    Raises:
        ValueError: an unknown flag, a folder that is not empty, no lessons, or a stub that is none.
    """
    options = parse(StudentOptions, words, "student", alone="folder")
    from pllab.lesson.student import build

    assert options.folder is not None
    names = build(options.notebooks, options.folder)
    print(f"{len(names)} lessons and AGENTS.md are in {options.folder}")
    return 0
