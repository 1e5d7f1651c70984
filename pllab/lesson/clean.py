"""What a committed notebook must look like: made so by `clean`, and said in sentences by `problems`.

Notebooks are committed with their outputs, because a page on GitHub is the shop window. What differs from run to
run or from machine to machine is taken out; what a reader could not use is refused.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Notebook = Any  # nbformat's NotebookNode: a dictionary whose keys are also attributes

MOST_BYTES = 400_000
_WIDGET = "application/vnd.jupyter.widget-view+json"
_MACHINE_PATH = re.compile(r"(?<![\w.<:/])/(?:home|root|tmp|var|opt|usr|work|workspace|Users|mnt|private)/\w")
_HTML_IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_ALT = re.compile(r"""\balt\s*=\s*(?:"[^"]*[^"\s][^"]*"|'[^']*[^'\s][^']*')""", re.IGNORECASE)
_MARKDOWN_IMAGE = re.compile(r"!\[\s*\]\(")
_HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
_CELL_ID = re.compile(r"\d\d-[a-z0-9]+(-[a-z0-9]+)*")


def clean(notebook: Notebook) -> Notebook:
    """Take out what differs between runs and machines, in place; cell ids, tags and outputs stay.

    A widget's view is taken out as well, because without a kernel it shows an error; its static twin stays.
    """
    notebook.metadata = type(notebook)(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in notebook.cells:
        for key in ("execution", "collapsed", "scrolled", "widgets", "ExecuteTime"):
            cell.metadata.pop(key, None)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(_WIDGET, None)
            if "metadata" in output:
                output.metadata.clear()
    return notebook


def problems(notebook: Notebook, num_bytes: int = 0) -> list[str]:
    """Say what is wrong with a notebook, a sentence each; an empty list means that it can be committed."""
    return [*_in_file(notebook, num_bytes), *_in_headings(notebook), *_in_cells(notebook)]


def read_problems(path: Path) -> list[str]:
    """The problems of a notebook's file, each beginning with the file's name."""
    import nbformat  # the process of a check imports this room and reads no notebook

    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    return [f"{path.name}: {problem}" for problem in problems(notebook, path.stat().st_size)]


def _in_file(notebook: Notebook, num_bytes: int) -> Iterator[str]:
    if num_bytes > MOST_BYTES:
        yield f"it has {num_bytes} bytes, more than {MOST_BYTES}; draw smaller pictures"
    if (notebook.nbformat, notebook.nbformat_minor) != (4, 5):
        yield f"its format is {notebook.nbformat}.{notebook.nbformat_minor}, not 4.5"
    if extra := sorted(set(notebook.metadata) - {"kernelspec", "language_info"}):
        yield f"its metadata carries {', '.join(extra)}"
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "its kernel is not python3"
    if set(notebook.metadata.get("language_info", {})) != {"name"}:
        yield "its language_info says more than the name"


def _in_headings(notebook: Notebook) -> Iterator[str]:
    headings = [found for cell in notebook.cells if cell.cell_type == "markdown" for found in _headings(cell.source)]
    if sum(level == 1 for level, _ in headings) != 1 or not headings or headings[0][0] != 1:
        yield "it needs exactly one heading of level 1, and that one first"
    for (above, _), (level, text) in zip(headings, headings[1:], strict=False):
        if level > above + 1:
            yield f"heading {text!r} has level {level} below level {above}; do not skip a level"
    texts = [text for _, text in headings]
    for text in sorted({text for text in texts if texts.count(text) > 1}):
        yield f"heading {text!r} comes twice, and the contents panel cannot tell them apart"


def _headings(source: str) -> Iterator[tuple[int, str]]:
    in_code = False
    for line in source.splitlines():
        in_code ^= line.startswith("```")
        if not in_code and (match := _HEADING.fullmatch(line)):
            yield len(match[1]), match[2].strip()


def _in_cells(notebook: Notebook) -> Iterator[str]:
    for cell in notebook.cells:
        name = f"cell {cell.get('id', '?')}"
        if not _CELL_ID.fullmatch(cell.get("id", "")):
            yield f"{name}: give it a readable id such as 09-ex1-stub"
        if cell.cell_type == "markdown" and (_MARKDOWN_IMAGE.search(cell.source) or _lacks_alt(cell.source)):
            yield f"{name}: an image has no text alternative"
        if cell.cell_type == "code":
            yield from (f"{name}: {problem}" for problem in _in_code(cell))


def _in_code(cell: Notebook) -> Iterator[str]:
    if cell.execution_count is None:
        yield "it was not executed"
    if timed := sorted({"execution", "ExecuteTime"} & set(cell.metadata)):
        yield f"its metadata carries times ({', '.join(timed)})"
    for output in cell.outputs:
        yield from _in_output(output)


def _in_output(output: Notebook) -> Iterator[str]:
    data = output.get("data", {})
    if output.output_type == "error":
        yield f"its output is an error, {output.ename}; show an exception with print instead"
    if output.output_type == "stream" and output.name == "stderr":
        yield "it writes to stderr"
    if set(data) & {"image/png", "image/jpeg", "image/svg+xml"}:
        yield "a picture has no text alternative; use pllab.show.figure"
    if _WIDGET in data:
        yield "it carries a widget's view, which shows an error without its kernel"
    text = "\n".join(_text(part) for part in (output.get("text", ""), *data.values()))
    if _lacks_alt(text):
        yield "an image has no text alternative"
    if found := _MACHINE_PATH.search(text):
        yield f"its output names a folder of one machine ({found[0]}...)"


def _lacks_alt(html: str) -> bool:
    return any(not _ALT.search(image) for image in _HTML_IMAGE.findall(html))


def _text(part: Any) -> str:
    """A piece of an output as text; pictures inside HTML are left out, they hold no words."""
    text = "".join(part) if isinstance(part, list) else str(part)
    return re.sub(r"data:image/[^\"']*", "", text)
