"""`pllab grade NOTEBOOKS` and `student FOLDER`: the commands for teachers."""

import sys
import time
from json import dumps
from pathlib import Path

from pllab.arguments import printable, require


def grade_notebooks(
    notebooks: tuple[Path, ...] = (),
    json: bool = False,
    timeout_s: float | None = None,
    memory_gib: float = 4.0,
    processes: int = 40,
    unfenced: bool = False,
) -> int:
    """Grade notebooks of lessons: every exercise is checked as the notebook checks it, for as many points as dots.

    Args:
        notebooks: Notebooks handed in.
        json: Print the grades as JSON.
        timeout_s: Seconds that the check of one exercise may take; by default the exercise's own deadline.
        memory_gib: GiB that all processes of one solution may take together.
        processes: Processes that one solution may have at a time; a rank counts twice.
        unfenced: Run them without bubblewrap, in a container that has nothing to lose.

    Returns:
        The exit code: 1 if a notebook could not be read, whatever the grades.

    Raises:
        ValueError: a value is out of range, or a file is not there.
        RuntimeError: this system is no Linux, or has no bubblewrap that could start.
    """
    require(bool(notebooks), "no notebook is given; write python -m pllab grade handed_in/*.ipynb")
    for path in notebooks:
        require(path.is_file(), f"{str(path)!r} is no file; name the notebooks that were handed in")
    if timeout_s is not None:
        require(1 <= timeout_s <= 3600, f"--timeout-s is {timeout_s:g}; give 1 to 3600 seconds")
    require(0.25 <= memory_gib <= 1024, f"--memory-gib is {memory_gib:g}; give 0.25 to 1024, ranks need some room")
    require(4 <= processes <= 1000, f"--processes is {processes}; give 4 to 1000, a check with three ranks needs 8")
    from pllab.lesson.grading import grade  # torch takes seconds, and wrong flags are told before
    from pllab.lesson.sandbox import Limits

    start = time.monotonic()
    sheets = []
    for sheet in grade(notebooks, Limits(int(memory_gib * (1 << 30)), processes, timeout_s, fenced=not unfenced)):
        print(f"{printable(sheet.notebook)} is graded", file=sys.stderr)
        sheets.append(sheet)
    if json:
        print(dumps({"submissions": [sheet.to_json() for sheet in sheets]}, indent=1))
    else:
        print("\n".join(line for sheet in sheets for line in sheet.lines()))
        print(f"{len(sheets)} graded in {time.monotonic() - start:.0f} s")
    return int(any(sheet.problem for sheet in sheets))


def copy_for_students(folder: Path | None = None, notebooks: Path = Path("notebooks")) -> None:
    """Copy the lessons for students: the folded solutions are left out, and AGENTS.md asks assistants to tutor.

    Args:
        folder: Folder to make.
        notebooks: Folder of the lessons.

    Raises:
        ValueError: there is no folder, it is not empty, there are no lessons, or a stub is none.
    """
    if folder is None:
        raise ValueError("no folder is given; write python -m pllab student FOLDER")
    from pllab.lesson.student import build

    print(f"{len(build(notebooks, folder))} lessons and AGENTS.md are in {folder}")
