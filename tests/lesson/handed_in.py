"""Notebooks as they are handed in: a cell for a solution and one for its check."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from pllab.lesson.exercise import exercises_of
from pllab.lesson.sandbox import require_bubblewrap


def bubblewrap_starts() -> bool:
    """Whether this machine lets a process have namespaces; CI's does."""
    try:
        require_bubblewrap()
    except RuntimeError:
        return False
    return True


FENCED = bubblewrap_starts()
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


def generated(path: Path, lesson: str, kind: str, which: int) -> tuple[Path, dict[str, str]]:
    """Write a lesson's notebook with its `which`-th RIGHT or WRONG solutions; return the hint ids that are expected.

    The cell is the whole file of variants or mutants, of which grading runs what the function needs. The package's own
    functions, which stand among the variants, are left out: nobody may hand them in.
    """
    name = f"tests.lesson.{'variants' if kind == 'RIGHT' else 'mutants'}_{lesson}"
    module, source = import_module(name), Path(str(import_module(name).__file__)).read_text()
    hints, done = {}, []
    for exercise in exercises_of(lesson):
        numbers = [
            number for number, one in enumerate(getattr(module, kind)) if one[0] == exercise.id and _is_own(one[-1])
        ]
        number = numbers[which % len(numbers)]
        hints[exercise.id] = "" if kind == "RIGHT" else module.WRONG[number][1]
        done.append((exercise.id, source, f"{kind}[{number}][-1]"))
    return hand_in(path, *done), hints


def _is_own(solution: Callable[..., Any]) -> bool:
    return not solution.__module__.startswith("pllab.")
