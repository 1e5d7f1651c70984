"""The committed notebooks, as the tests read them."""

from functools import cache
from pathlib import Path

import nbformat

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@cache
def read(path: Path) -> nbformat.NotebookNode:
    """A notebook as its file has it; whoever changes it takes a copy."""
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    """Its cells of code."""
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def markdown(path: Path) -> str:
    """All its text."""
    return "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
