"""The room knows no torch, and is light until something is drawn; each case in a fresh process."""

import subprocess
import sys

import pytest

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
    import pllab.show

    with pytest.raises(AttributeError, match="no attribute 'TimelinePlayr'"):
        _ = pllab.show.TimelinePlayr
