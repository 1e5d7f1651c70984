"""Grade notebooks: the checks of the lessons with points, and limits on what a submission may take.

    grade            reads the notebook's cells as text; runs no foreign code
      a sandbox      for each exercise, with limits
        answering    the process that makes the function of an exercise's cells and calls it, as in the notebook, with
                     its ranks; the cases run outside

A notebook's own outputs are not read. An exercise counts as many points as its difficulty, all or none. What could not
be decided is tried once more.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pllab.arguments import printable, require
from pllab.lesson.checking import judge
from pllab.lesson.exercise import Exercise, exercises_of
from pllab.lesson.packing import Packed, Source
from pllab.lesson.sandbox import Limits, Sandbox, require_bubblewrap
from pllab.lesson.verdict import Outcome, Verdict

_MOST_BYTES = 64 << 20
_CELL_ID = re.compile(r"(\d\d)-ex\d+")
_CHECK = re.compile(r"""\bcheck\([^)]*?["'](\d\d)\.\d+["']""")
_LIMIT = "Your function {breach}, more than a solution may take."


@dataclass(frozen=True)
class Sheet:
    """One submission: the verdicts in the lesson's order, or why it could not be read."""

    notebook: str
    verdicts: tuple[Verdict, ...] = ()
    problem: str = ""

    @property
    def points(self) -> int:
        """The sum of its points."""
        return sum(map(points_of, self.verdicts))

    @property
    def of(self) -> int:
        """The points of the lesson."""
        return sum(verdict.exercise.difficulty for verdict in self.verdicts)

    def lines(self) -> Iterator[str]:
        """The submission for people: the sum, then a line per exercise."""
        yield printable(f"{self.notebook}   {self.problem or f'{self.points} of {self.of} points'}")
        for verdict in self.verdicts:
            points = f"{verdict.exercise.id}  {points_of(verdict)} of {verdict.exercise.difficulty}"
            hint = f"{verdict.hint_id}: {verdict.hint}" if verdict.hint_id else ""
            yield printable(f"  {points}  {verdict.outcome:<16} {hint}".rstrip())

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        head = {"notebook": self.notebook, "points": self.points, "of": self.of, "problem": self.problem}
        return head | {"exercises": [_as_json(verdict) for verdict in self.verdicts]}


def points_of(verdict: Verdict) -> int:
    """As many as the exercise's difficulty, or none."""
    return verdict.exercise.difficulty if verdict.outcome is Outcome.RIGHT else 0


def _as_json(verdict: Verdict) -> dict[str, Any]:
    head = {"id": verdict.exercise.id, "title": verdict.exercise.title, "outcome": str(verdict.outcome)}
    points = {"points": points_of(verdict), "of": verdict.exercise.difficulty}
    return head | points | {"hint_id": verdict.hint_id, "hint": verdict.hint}


def grade(notebooks: Sequence[Path], limits: Limits) -> Iterator[Sheet]:
    """Grade notebooks, one after the other: the cases of a check seed one random generator.

    Raises:
        RuntimeError: this system is no Linux, or has no bubblewrap that could start.
    """
    if sys.platform != "linux":
        raise RuntimeError(f"grade limits its submissions as Linux can, and this is {sys.platform}; grade on Linux")
    if limits.fenced:
        require_bubblewrap()
    folders = {path.resolve().parent for path in notebooks}  # of all that was handed in: no submission sees another
    for path in notebooks:
        try:
            sheet = Sheet(str(path), tuple(_verdicts(path, limits, folders)))
        except ValueError as error:
            sheet = Sheet(str(path), problem=str(error))
        yield sheet


def _verdicts(path: Path, limits: Limits, hidden: set[Path]) -> Iterator[Verdict]:
    """The verdict on each exercise of a notebook; what is undecided is tried once more."""
    exercises, source = exercises_in(path)
    solution = Packed(source)
    for exercise in exercises:
        verdict = _judged(exercise, solution, limits, hidden)
        if verdict.outcome is Outcome.UNDECIDED:
            verdict = _judged(exercise, solution, limits, hidden)
        yield verdict


def _judged(exercise: Exercise, solution: Packed, limits: Limits, hidden: set[Path]) -> Verdict:
    """One try at an exercise; whatever goes wrong affects only this exercise."""
    deadline_s = limits.timeout_s or exercise.deadline_s
    sandbox = Sandbox(limits, hidden)
    try:
        with sandbox:
            folder = Path(tempfile.mkdtemp(dir=sandbox.scratch))
            verdict = judge(exercise, solution, sandbox.server, folder, deadline_s)
    except (OSError, RuntimeError) as error:  # the fork server has ended, or the disk is full
        hint = f"The check ended with: {error}"
        verdict = Verdict(exercise=exercise, hint_id="ended", hint=hint, is_undecided=True)
    if sandbox.breach and verdict.outcome is not Outcome.RIGHT:
        verdict = Verdict(exercise=exercise, hint_id="limit", hint=_LIMIT.format(breach=sandbox.breach))
    return verdict


def exercises_in(path: Path) -> tuple[list[Exercise], Source]:
    """All exercises of the lessons that a notebook has cells of, and its cells of code.

    Raises:
        ValueError: the file is no notebook, or it belongs to no lesson.
    """
    cells = _cells_of(path)
    code = [(number, text) for number, (_, kind, text) in enumerate(cells, 1) if kind == "code"]
    lessons = {found[1] for name, _, _ in cells if (found := _CELL_ID.match(name))}
    lessons = lessons or {lesson for _, text in code for lesson in _CHECK.findall(text)}
    exercises = [exercise for lesson in sorted(lessons) for exercise in exercises_of(lesson)]
    require(bool(exercises), "it has no exercise of a lesson; hand in the notebook of a lesson")
    return exercises, tuple(
        (f"cell {number}", tuple(line + "\n" for line in text.split("\n"))) for number, text in code
    )


def _cells_of(path: Path) -> list[tuple[str, str, str]]:
    """Id, kind and source of each cell."""
    try:
        with path.open("rb") as file:
            read = json.loads(file.read(_MOST_BYTES))
        return [(str(c.get("id", "")), str(c["cell_type"]), "".join(c["source"])) for c in read["cells"]]
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("it is no notebook of up to 64 MB; clear its outputs and save it in JupyterLab") from None
