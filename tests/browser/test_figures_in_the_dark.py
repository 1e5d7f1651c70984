"""Figures in JupyterLab's themes: the light card, or the same turned over, by its pixels."""

import io

import pytest

from pllab import show
from pllab.schedule import gpipe
from pllab.show.theme import DARK, LIGHT
from pllab.simulate import Costs, simulate

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]


@pytest.mark.parametrize(("is_light", "look"), [("true", LIGHT), ("false", DARK)], ids=["light", "dark"])
def test_a_figure_wears_the_colours_that_the_widgets_wear(chromium_page, is_light, look):
    from PIL import Image

    body = show.draw_timeline(simulate(gpipe(2, 3), Costs())).to_html()
    chromium_page.set_content(f'<body data-jp-theme-light="{is_light}">{body}</body>')
    with Image.open(io.BytesIO(chromium_page.locator("figure").screenshot())) as image:
        counts = {colour: count for count, colour in image.convert("RGB").getcolors(100_000)}
    for colour in (look.ground, look.idle, look.fill_of("F")):
        wanted = bytes.fromhex(colour[1:])
        near = sum(n for one, n in counts.items() if max(abs(a - b) for a, b in zip(wanted, one, strict=True)) <= 3)
        assert near > 2000, colour
    assert chromium_page.get_by_role("img", name="makespan 12 s").count() == 1
