"""Execute notebooks and clean them for a commit: `python -m pllab.lesson.publish notebooks/*.ipynb`.

Notebooks are committed with their outputs, because many readers see only the page on GitHub. `clean` removes everything
that differs between runs or machines. `problems` lists, in sentences, what a reader could not use. A notebook with a
problem is still written, so that it can be looked at, and the command ends with 1.
"""

import re
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
from nbclient import execute

Notebook = Any  # nbformat's NotebookNode: a dictionary whose keys are also attributes

MOST_BYTES = 400_000
_WIDGET = "application/vnd.jupyter.widget-view+json"
_MACHINE_PATH = re.compile(r"(?<![\w.<:/])/(?:home|root|tmp|var|opt|usr|work|workspace|Users|mnt|private)/\w")
_NO_ALT = re.compile(r"""!\[\s*\]\(|<img\b(?![^>]*\balt\s*=\s*["']\s*[^"'\s])""", re.IGNORECASE)  # or an empty one
_CELL_ID = re.compile(r"\d\d-[a-z0-9]+(-[a-z0-9]+)*")


def publish(path: Path) -> list[str]:
    """Execute a notebook in its own folder, clean it, write it back, and return its problems.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised; the file is left as it was.
    """
    notebook = nbformat.read(path, as_version=4)
    folder = str(path.parent)
    execute(notebook, folder, timeout=120, kernel_name="python3", record_timing=False, coalesce_streams=True)
    nbformat.write(clean(notebook), path)
    return read_problems(path)


def read_problems(path: Path) -> list[str]:
    """The problems of a notebook's file, each beginning with the file's name."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    found = [f"{path.name}: {problem}" for problem in problems(notebook)]
    if path.stat().st_size > MOST_BYTES:
        found.append(f"{path.name}: it has more than {MOST_BYTES} bytes; draw smaller pictures")
    return found


def clean(notebook: Notebook) -> Notebook:
    """Remove, in place, everything that differs between runs and machines; cell ids, tags and outputs stay.

    What the lesson says of itself (`pllab.lesson.course`) stays too. A widget's view is taken out, because without a
    kernel it shows an error; its static twin stays. What has no twin, such as the sliders of `interact`, goes.
    """
    notebook.metadata = {key: value for key, value in notebook.metadata.items() if key == "pllab"}
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key in ("jupyter", "tags")}
        if cell.cell_type == "code":
            cell.outputs = [
                one for one in cell.outputs if _WIDGET not in one.get("data", {}) or "text/html" in one.data
            ]
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(_WIDGET, None)
            if "metadata" in output:
                output.metadata = {}
    return notebook


def problems(notebook: Notebook) -> Iterator[str]:
    """The problems of a notebook, a sentence each; without any it can be committed."""
    if clean(deepcopy(notebook)) != notebook:
        yield "it carries times, widget views or metadata of one machine; run make publish"
    for cell in notebook.cells:
        name = f"cell {cell.get('id', '?')}"
        if not _CELL_ID.fullmatch(cell.get("id", "")):
            yield f"{name}: give it a readable id such as 09-ex1-stub"
        if cell.cell_type == "markdown" and _NO_ALT.search(cell.source):
            yield f"{name}: an image has no text alternative"
        if cell.cell_type == "code":
            if cell.execution_count is None:
                yield f"{name}: it was not executed"
            yield from (f"{name}: {problem}" for output in cell.outputs for problem in _in_output(output))


def _in_output(output: Notebook) -> Iterator[str]:
    data = output.get("data", {})
    if output.output_type == "error":
        yield f"its output is an error, {output.ename}; show an exception with print instead"
    if output.output_type == "stream" and output.name == "stderr":
        yield "it writes to stderr"
    if set(data) & {"image/png", "image/jpeg", "image/svg+xml"}:
        yield "a picture has no text alternative; use pllab.show.figure"
    text = "\n".join(map(str, (output.get("text", ""), *data.values())))
    if _NO_ALT.search(text):
        yield "an image has no text alternative"
    if found := _MACHINE_PATH.search(re.sub(r"data:image/[^\"']*", "", text)):  # a picture holds no words
        yield f"its output names a folder of one machine ({found[0]}...)"


if __name__ == "__main__":
    sys.exit("\n".join(problem for name in sys.argv[1:] for problem in publish(Path(name))) or None)
