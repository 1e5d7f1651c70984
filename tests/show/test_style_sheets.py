"""Widgets share a notebook page, and so all style sheets hold at once: none may reach into another's widget."""

import re
from pathlib import Path

import pytest

from pllab import show

FOLDER = Path(show.__file__).parent
WIDGETS = sorted(path.stem for path in FOLDER.glob("*.css") if path.stem != "common")
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|"[^"]*"', re.DOTALL)
JUPYTERLABS_OWN = ".jp-Cell:not(.jp-mod-outputsScrolled) :has(.pl-studio)"  # the sentence sticks to the cell


def selectors(text: str) -> list[str]:
    """What stands before each block, at-rules aside, cut at the commas outside brackets."""
    heads = [head.strip() for head in re.findall(r"([^{}]+)\{", COMMENT_OR_STRING.sub("", text))]
    rules = [head for head in heads if not head.startswith("@")]
    return [one.strip() for rule in rules for one in re.split(r",(?![^(]*\))", rule)]


@pytest.mark.parametrize("widget", WIDGETS)
def test_every_rule_begins_with_its_widget(widget: str) -> None:
    root = f".pl-{widget.replace('_', '-')}"
    found = selectors((FOLDER / f"{widget}.css").read_text(encoding="utf-8"))
    begins = re.compile(rf"(\.pl-widget)?{re.escape(root)}(?![\w-])")
    assert found
    assert [one for one in found if not begins.match(one) and one != JUPYTERLABS_OWN] == []
