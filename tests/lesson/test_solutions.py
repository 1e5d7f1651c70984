"""The solutions that the notebooks fold away: each is executed as it stands there, and its check says right."""

import re
from pathlib import Path

import nbformat
import pytest

from pllab.lesson import Outcome, check

FOLDER = Path(__file__).parents[2] / "notebooks"
SOLUTION_ID = re.compile(r"(\d\d)-ex(\d)-solution")
CODE = re.compile(r"```python\n(.*?)\n```", re.DOTALL)


def solutions():
    """Exercise, code, and the name of the function that the notebook gives to `check`."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        cells = nbformat.read(path, as_version=nbformat.NO_CONVERT).cells
        checked = dict(re.findall(r'check\("(\d\d\.\d)", (\w+)\)', "\n".join(cell.source for cell in cells)))
        for cell in cells:
            found = SOLUTION_ID.fullmatch(cell.id)
            if found and cell.cell_type == "markdown":
                number = ".".join(found.groups())
                yield number, "\n\n".join(CODE.findall(cell.source)), checked[number]


SOLUTIONS = list(solutions())


def test_there_are_folded_solutions():
    assert {number for number, _, _ in SOLUTIONS} >= {"02.1", "02.2", "06.1", "06.2", "06.3"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("number", "code", "name"), SOLUTIONS, ids=[number for number, _, _ in SOLUTIONS])
def test_a_folded_solution_is_right(number, code, name):
    names = {"__name__": "__main__"}  # as in a notebook, so that it travels to the check by value
    exec(compile(code, f"<solution {number}>", "exec"), names)
    verdict = check(number, names[name], deadline_s=90.0)
    assert verdict.outcome is Outcome.RIGHT, str(verdict)
