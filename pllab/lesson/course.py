"""The course as its notebooks describe it: only the lesson itself says what it takes, needs and promises.

    python -m pllab.lesson.course README.md notebooks

writes README's table of lessons, between `<!-- lessons -->` and `<!-- end -->`. A notebook describes itself, in its
metadata under "pllab":

    {"minutes": [30, 60], "needs": ["05", "09"], "promise": "say what each stage holds, in bytes"}

A lesson of two sittings says in its text where the second begins.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pllab.arguments import plain_file, require
from pllab.lesson.exercise import exercises_of


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A lesson, as its notebook describes it.

    `number` is "09", `sittings` are the minutes of each, `needs` are the numbers of the lessons before it, `promise` is
    what one is able to do after it.
    """

    path: Path
    number: str
    title: str
    sittings: tuple[int, ...]
    needs: tuple[str, ...]
    promise: str
    num_exercises: int

    @property
    def minutes(self) -> int:
        """All sittings together."""
        return sum(self.sittings)


def read_lesson(path: Path) -> Lesson:
    """Read a lesson from its notebook.

    Example: `read_lesson(Path("notebooks/09_workers_and_pipe.ipynb")).sittings` -> (60, 60).
    """
    notebook, number = json.loads(plain_file(path).read_text(encoding="utf-8")), path.name[:2]
    about = notebook["metadata"]["pllab"]
    return Lesson(
        path=path,
        number=number,
        title="".join(notebook["cells"][0]["source"]).partition("\n")[0].removeprefix(f"# {number} ").strip(),
        sittings=tuple(about["minutes"]),
        needs=tuple(about.get("needs", ())),
        promise=about["promise"],
        num_exercises=len(exercises_of(number)),
    )


def read_course(folder: Path) -> tuple[Lesson, ...]:
    """The lessons of a folder by their numbers.

    Raises:
        ValueError: there is no notebook.
    """
    lessons = tuple(read_lesson(path) for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")))
    require(bool(lessons), f"no lesson is in {str(folder)!r}; name the folder of the notebooks")
    return lessons


def table_of_lessons(lessons: Iterable[Lesson], folder: str) -> str:
    """A row for each lesson, in Markdown; its link is the notebook's name behind `folder`, as in "notebooks/"."""
    from pllab.bench.document import table  # the bench loads slowly

    rows = [
        (f"[{one.number} {one.title}]({folder}{one.path.name})", " + ".join(map(str, one.sittings)), one.promise)
        for one in lessons
    ]
    return table(("Lesson", "Minutes", "You will"), rows, num_right=1)


def main(file: Path, folder: Path) -> None:
    """Write the table of lessons between its marks in a file, from a folder of notebooks."""
    from pllab.bench.document import between_marks

    lessons = table_of_lessons(read_course(folder), "notebooks/")
    file.write_text(between_marks(file.read_text(encoding="utf-8"), "lessons", lambda _: lessons), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
