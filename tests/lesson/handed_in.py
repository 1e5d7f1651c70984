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


def hand_in_variants(path: Path, lesson: str) -> Path:
    """Write a lesson's notebook with right solutions.

    The cell is the whole file of variants, of which grading runs what the function needs.
    """
    module, done = import_module(f"tests.lesson.variants_{lesson}"), []
    for exercise in exercises_of(lesson):  # the package's own may stand there too, which nobody may hand in
        own = [not solution.__module__.startswith("pllab.") for solution in module.RIGHT[exercise.id]]
        expression = f'RIGHT["{exercise.id}"][{own.index(True)}]'
        done.append((exercise.id, Path(str(module.__file__)).read_text(), expression))
    return hand_in(path, *done)
