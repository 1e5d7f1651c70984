"""What the room brings along: no torch, and for the browser local text whose style sheets keep to their own widget."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pllab import show

FOLDER = Path(show.__file__).parent
WIDGETS = [name for name in show.__all__ if hasattr(getattr(show, name), "_esm")]
SHEETS = sorted(path for path in FOLDER.rglob("*.css") if path.stem != "common")
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|"[^"]*"', re.DOTALL)
JUPYTERLABS_OWN = ".jp-Cell:not(.jp-mod-outputsScrolled) :has(.pl-studio)"  # the sentence sticks to the cell


def test_there_are_three_widgets_and_each_has_its_sheet():
    assert len(WIDGETS) == len(SHEETS) == 3


@pytest.mark.parametrize("name", WIDGETS)
def test_sources_are_local_and_small(name):
    widget = getattr(show, name)
    source = widget._esm + widget._css
    assert len(widget._esm) <= (120_000 if name == "BubbleStudio" else 35_000) and len(widget._css) <= 14_000
    assert "http" not in source.replace("http://www.w3.org/2000/svg", "")
    assert "\nimport " not in source and "@import" not in source
    assert source.count("export default") == 1


def selectors(text: str) -> list[str]:
    """What stands before each block, at-rules aside, cut at the commas outside brackets."""
    heads = [head.strip() for head in re.findall(r"([^{}]+)\{", COMMENT_OR_STRING.sub("", text))]
    rules = [head for head in heads if not head.startswith("@")]
    return [one.strip() for rule in rules for one in re.split(r",(?![^(]*\))", rule)]


def test_every_rule_begins_with_its_widget_for_sheets_share_a_page():
    roots = set()
    for path in SHEETS:
        text = path.read_text(encoding="utf-8")
        root = re.search(r"\.pl-[\w-]+", text)[0]
        begins = re.compile(rf"(\.pl-widget)?{re.escape(root)}(?![\w-])")
        assert [one for one in selectors(text) if not begins.match(one) and one != JUPYTERLABS_OWN] == [], path.name
        script = path.with_suffix(".js").read_text(encoding="utf-8")
        assert re.search(rf'"(pl-widget )?(pl-)?{root.removeprefix(".pl-")}"', script), (
            f"{path.name} styles another widget"
        )
        roots.add(root)
    assert len(roots) == len(SHEETS)


# Imports, each case in a fresh process

HEAVY = ("torch", "matplotlib", "anywidget", "ipywidgets")


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import pllab.show", HEAVY),
        ("from pllab.show import Race, TimelinePlayer", ("torch", "matplotlib")),
        ("from pllab.show import draw_cuts; draw_cuts([1, 2], 'ab')", ("torch", "matplotlib.pyplot")),
    ],
)
def test_what_is_imported(code, unwanted):
    check = f"{code}\nimport sys\nfound = set({unwanted!r}) & set(sys.modules)\nassert not found, found"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'TimelinePlayr'"):
        _ = show.TimelinePlayr
