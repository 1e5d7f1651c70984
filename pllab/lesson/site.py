"""The lessons as a folder of pages, with the hand-out in front: `python -m pllab.lesson.site FOLDER notebooks`.

The folder holds an index, the bubble studio as a page, and each lesson with its committed outputs. A web server or a
memory stick can carry it: a page asks for nothing outside the folder, and opens by a double click.
"""

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import DictLoader
from nbconvert import HTMLExporter

from pllab.lesson.course import read_course, table_of_lessons
from pllab.show import BubbleStudio
from pllab.show.theme import IN_THE_DARK

HAND_OUT = "bubble_studio.html"

# nbconvert's own page, without the scripts that it takes from the network, in the scheme that the browser asks for;
# the page calls itself light in either, so figures are turned over here
_PAGE = """{% extends "lab/index.html.j2" %}
{% block html_head_js %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_js_mermaidjs %}{% endblock %}
{% block html_head_css %}
{{ resources.include_css("static/theme-dark.css") | replace("<style", '<style media="(prefers-color-scheme: dark)"') }}
<style>
:root { color-scheme: light dark; }
body { max-width: 64rem; margin: auto; }
@media (prefers-color-scheme: dark) { .pl-figure { filter: IN_THE_DARK; } }
</style>
{% endblock %}
""".replace("IN_THE_DARK", IN_THE_DARK)
_INDEX = """# pllab, the parallel-training lab

**[Open the bubble studio]({hand_out})**: pipeline schedules to play with. The keys 1 to 4 tour the families, and b
takes away the barrier between two steps.

These pages show the lessons as they ran. To run and solve them, start the lab with `make lab`.

{lessons}
"""


def write_site(folder: Path, notebooks: Path) -> None:
    """Write the index, the hand-out and a page for each lesson into a folder, which is made where there is none.

    Example: `write_site(Path("build/site"), Path("notebooks"))`, then open `build/site/index.html`.

    Raises:
        ValueError: there is no lesson.
    """
    lessons = read_course(notebooks)
    folder.mkdir(parents=True, exist_ok=True)
    write_hand_out(folder)
    for lesson in lessons:
        page = folder / f"{lesson.path.stem}.html"
        _write_page(page, nbformat.read(lesson.path, as_version=4), f"{lesson.number} {lesson.title}")
    words = _INDEX.format(hand_out=HAND_OUT, lessons=table_of_lessons(lessons, folder=""))
    index = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(words)])
    _write_page(folder / "index.html", index, "pllab")


def write_hand_out(folder: Path) -> None:
    """Write the bubble studio as one page, `bubble_studio.html`, which needs no kernel and no network."""
    BubbleStudio("GPipe", 4, 8).export_html(folder / HAND_OUT)


def _write_page(path: Path, notebook: Any, title: str) -> None:
    exporter = HTMLExporter(extra_loaders=[DictLoader({"page.html.j2": _PAGE})], template_file="page.html.j2")
    notebook.metadata["title"] = title
    page, _ = exporter.from_notebook_node(notebook)
    links = re.compile(r'(href="[^":]*)\.ipynb\b')
    path.write_text(links.sub(r"\1.html", page), encoding="utf-8")


if __name__ == "__main__":
    write_site(*map(Path, sys.argv[1:]))
