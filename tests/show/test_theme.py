"""The palette is readable: contrast as WCAG 2 defines it, computed here and not believed."""

from itertools import combinations

import numpy as np
import pytest

from pllab.schedule import Kind
from pllab.show import theme
from pllab.show.theme import DARK, LIGHT, NAMES, as_json, mix, turned_over
from tests.show.colours import contrast, linear

# Machado, Oliveira and Fernandes 2009: deuteranopia, the whole of it; and Ottosson 2020: OKLab
DEUTERANOPIA = np.array(
    [(0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)]
)
TO_CONES = np.array(
    [(0.41222147, 0.53633254, 0.05144599), (0.21190350, 0.68069955, 0.10739696), (0.08830246, 0.28171884, 0.62997870)]
)
TO_OKLAB = np.array(
    [
        (0.21045426, 0.79361779, -0.00407205),
        (1.97799850, -2.42859221, 0.45059371),
        (0.02590404, 0.78277177, -0.80867577),
    ]
)


def oklab(colour, sight):
    return TO_OKLAB @ np.cbrt(TO_CONES @ np.clip(sight @ linear(colour), 0, 1))


def distance(one, other, sight):
    """Between two colours as an eye sees them; 0.02 is just seen, and black is 1 from white."""
    return float(np.linalg.norm(oklab(one, sight) - oklab(other, sight)))


def test_contrast_formula_on_the_known_extreme():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_every_mark_stands_out_from_its_ground_by_its_outline_and_words_can_be_read(look):
    """WCAG 1.4.11 asks 3:1 of a mark and 1.4.3 asks 4.5:1 of words."""
    for kind in NAMES:
        assert contrast(look.outline_of(kind), look.ground) >= 3
        for is_later in (False, True):
            fill = look.fill_of(kind, is_later)
            assert contrast(look.ink, fill) >= 4.5
            assert contrast(look.idle, fill) >= 3  # idle is what the eye finds first
            assert contrast(look.outline_of(kind), fill) >= 1.9
            lit = mix(look.hues[kind], look.ground, look.lit_pale if is_later else look.lit)
            assert contrast(look.ink, lit) >= 4.5
    assert min(contrast(one, look.ground) for one in (look.idle, look.held_line, look.over)) >= 3
    assert min(contrast(one, look.ground) for one in (look.ink, look.soft)) >= 4.5
    assert min(contrast(look.on_idle, one) for one in (look.idle, look.idle_stripe)) >= 4.5


def test_distance_on_known_colours():
    assert oklab("#FFFFFF", np.eye(3)) == pytest.approx([1, 0, 0], abs=1e-5)
    assert oklab("#FF0000", np.eye(3)) == pytest.approx([0.628, 0.225, 0.126], abs=1e-3)  # of Ottosson's table
    red, green = "#B04030", "#707030"  # told apart by most, and by a deuteranope not
    assert distance(red, green, np.eye(3)) > 3 * distance(red, green, DEUTERANOPIA)


@pytest.mark.parametrize("sight", [np.eye(3), DEUTERANOPIA], ids=["usual", "deuteranopia"])
@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_what_a_pipeline_does_is_told_apart_without_reading(look, sight):
    """Forward, backward, its two halves, and idle time, as they are drawn; the paler stages at less than half of it."""
    for is_later, least in ((False, 0.09), (True, 0.04)):
        fills = [*(look.fill_of(kind, is_later) for kind in "FBIW"), look.idle, look.idle_stripe]
        between = {pair: distance(*pair, sight) for pair in combinations(fills, 2)}
        assert min(between.values()) >= least, between
    assert min(distance(look.fill_of(kind), look.fill_of(kind, True), sight) for kind in "FBIW") >= 0.04


def test_the_dark_theme_is_the_light_one_turned_over():
    assert [turned_over(one) for one in ("#FFFFFF", "#000000", "#808080")] == ["#000000", "#FFFFFF", "#7F7F7F"]
    assert contrast(DARK.idle, DARK.ground) == pytest.approx(contrast(LIGHT.idle, LIGHT.ground), rel=0.05)
    for kind in NAMES:  # a tint of a hue turned over is the tint turned over, but for roundings
        one, other = (bytes.fromhex(tint[1:]) for tint in (DARK.fill_of(kind), turned_over(LIGHT.fill_of(kind))))
        assert max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 1


def test_a_mixture_is_a_share_of_each_channel():
    assert mix("#FF8000", "#0000FF", 0.5) == "#804080"
    assert mix("#123456", "#FFFFFF", 1) == "#123456"


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_every_kind_has_a_name_and_no_two_look_alike(look):
    assert set(NAMES) == set(look.hues) == set(look.outlines) == {str(kind) for kind in Kind}
    assert len({*map(look.fill_of, NAMES), look.idle}) == len(NAMES) + 1


def test_an_unknown_letter_looks_illegal():
    assert LIGHT.outline_of("?") == LIGHT.over


def test_the_browser_gets_the_same_names_and_colours():
    palette = as_json()
    assert palette["names"] == NAMES
    assert palette["dark"]["outlines"] == DARK.outlines and palette["light"]["idle"] == LIGHT.idle


def test_numbers_have_three_digits():
    texts = [theme.write_number(value) for value in (0, 0.11819, 12.34, 999.4, 999.6, 1234.5, 1e6)]
    assert texts == ["0", "0.118", "12.3", "999", "1,000", "1,230", "1,000,000"]


def test_times_and_shares():
    times = [theme.write_seconds(seconds) for seconds in (0.4121, 3.5, 0.9994, 0.99996, 0)]
    assert times == ["412 ms", "3.5 s", "999 ms", "1 s", "0 s"]
    shares = [theme.write_percent(share) for share in (0, 0.0002, 0.0006, 2 / 17, 1)]
    assert shares == ["0 %", "0 %", "0.1 %", "11.8 %", "100.0 %"]


@pytest.mark.parametrize(("limit", "most", "step"), [(0.412, 7, 0.1), (1.0, 5, 0.2), (14_688, 5, 5000), (0, 5, 1)])
def test_round_step(limit, most, step):
    assert theme.round_step(limit, most) == pytest.approx(step)


def test_ticks_are_round_and_reach_the_end():
    texts = [tick["text"] for tick in theme.ticks_of(0.412, 7, theme.write_seconds)]
    assert texts == ["0 s", "100 ms", "200 ms", "300 ms", "400 ms"]
    assert [tick["at"] for tick in theme.ticks_of(4.0, 4, theme.write_seconds)] == [0, 1, 2, 3, 4]
    assert theme.ticks_of(0.0, 7, theme.write_seconds)
