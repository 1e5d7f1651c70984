"""Notebooks as they are handed in: a cell for a solution and one for its check."""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook


def hand_in(path: Path, *exercises: tuple[str, str, str]) -> Path:
    """Write a notebook with (exercise, cell, name of the function) for each exercise done."""
    cells = []
    for exercise_id, source, name in exercises:
        stem = exercise_id.replace(".", "-ex")
        cells.append(new_code_cell(source, id=f"{stem}-stub"))
        cells.append(new_code_cell(f'check("{exercise_id}", {name})', id=f"{stem}-check"))
    nbformat.write(new_notebook(cells=cells), path)
    return path
