"""Notebooks as they are handed in: a cell for a solution and one for its check."""

from importlib import import_module
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from pllab.lesson.exercise import exercises_of
from pllab.lesson.sandbox import require_bubblewrap

try:
    require_bubblewrap()
    FENCED = True  # this machine lets a process have namespaces, as CI's does
except RuntimeError:
    FENCED = False
UNFENCED_FLAG = [] if FENCED else ["--unfenced"]


def hand_in(path: Path, *exercises: tuple[str, str, str]) -> Path:
    """Write a notebook with (exercise, cell, name of the function) for each exercise done."""
    cells = []
    for exercise_id, source, name in exercises:
        stem = exercise_id.replace(".", "-ex")
        cells.append(new_code_cell(source, id=f"{stem}-stub"))
        cells.append(new_code_cell(f'check("{exercise_id}", {name})', id=f"{stem}-check"))
    nbformat.write(new_notebook(cells=cells), path)
    return path


def generated(path: Path, lesson: str, kind: str) -> tuple[Path, dict[str, str]]:
    """Write a lesson's notebook with its first RIGHT or WRONG solutions; return the hint ids that are expected.

    The cell is the whole file of variants or mutants, of which grading runs what the function needs.
    """
    module = import_module(f"tests.lesson.{'variants' if kind == 'RIGHT' else 'mutants'}_{lesson}")
    source = Path(str(module.__file__)).read_text()
    hints, done = {}, []
    for exercise in exercises_of(lesson):
        if kind == "RIGHT":  # the package's own may stand there too, which nobody may hand in
            own = [not solution.__module__.startswith("pllab.") for solution in module.RIGHT[exercise.id]]
            expression, hints[exercise.id] = f'RIGHT["{exercise.id}"][{own.index(True)}]', ""
        else:
            number = [exercise_id for exercise_id, *_ in module.WRONG].index(exercise.id)
            expression, hints[exercise.id] = f"WRONG[{number}][-1]", module.WRONG[number][1]
        done.append((exercise.id, source, expression))
    return hand_in(path, *done), hints
