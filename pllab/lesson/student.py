"""The lessons as students get them: stubs only, every check "not attempted", and a word to coding assistants.

A folded solution is one click away in the lessons, and an assistant reads the file. So the student build leaves the
solutions out, and its AGENTS.md asks assistants to tutor.
"""

import re
from importlib.resources import files
from pathlib import Path

import nbformat

from pllab.arguments import plain_file, require
from pllab.lesson.exercise import find
from pllab.lesson.publish import Notebook
from pllab.lesson.site import write_hand_out
from pllab.lesson.verdict import Verdict

_CHECK = re.compile(r"(\d\d)-ex(\d+)-check")


def build(lessons: Path, folder: Path) -> list[str]:
    """Write the student's copy of every lesson, the bubble studio as a page and AGENTS.md; return the notebooks' names.

    A notebook without an exercise, such as the guide, is the instructor's and stays out.

    Example: `build(Path("notebooks"), Path("for_students"))` -> `["00_first_two_ranks.ipynb", ...]`.

    Raises:
        ValueError: there are no lessons, the folder is not empty, or a stub has been filled in.
    """
    paths = sorted(lessons.glob("*.ipynb"))
    require(bool(paths), f"{str(lessons)!r} has no notebooks; name the folder of the lessons with --notebooks")
    is_empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    require(is_empty, f"{str(folder)!r} is not empty; name a new folder")
    read = {path.name: nbformat.read(plain_file(path), as_version=4) for path in paths}
    lessons_read = {name: one for name, one in read.items() if any(_CHECK.fullmatch(cell.id) for cell in one.cells)}
    copies = {name: without_solutions(notebook) for name, notebook in lessons_read.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, notebook in copies.items():
        nbformat.write(notebook, folder / name)
    (folder / "AGENTS.md").write_bytes((files("pllab.lesson") / "tutor.md").read_bytes())
    write_hand_out(folder)
    return list(copies)


def without_solutions(notebook: Notebook) -> Notebook:
    """Remove, in place, the folded solutions, and store under each check what it says of a stub.

    Raises:
        ValueError: a stub has been filled in.
    """
    notebook.cells = [cell for cell in notebook.cells if not cell.id.endswith("-solution")]
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        is_fine = not cell.id.endswith("-stub") or "raise NotImplementedError" in cell.source
        require(is_fine, f"cell {cell.id} is no stub; put `raise NotImplementedError` back in the place of its body")
        if found := _CHECK.fullmatch(cell.id):
            cell.outputs = [_not_attempted(f"{found[1]}.{found[2]}", cell.execution_count)]
    return notebook


def _not_attempted(exercise_id: str, count: int | None) -> Notebook:
    verdict = Verdict(exercise=find(exercise_id))
    data = {"text/html": verdict._repr_html_(), "text/plain": str(verdict)}
    return nbformat.v4.new_output("execute_result", data=data, execution_count=count)
