"""The palette is readable: contrast as WCAG 2 defines it, computed here and not believed."""

import pytest

from pllab.schedule import Kind
from pllab.show.theme import (
    DARK,
    LIGHT,
    NAMES,
    as_json,
    mix,
    name_of,
    round_step,
    ticks_of,
    write_number,
    write_percent,
    write_seconds,
)


def luminance(colour):
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


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
    assert min(contrast(one, look.ground) for one in (look.idle, look.held_line, look.over)) >= 3
    assert min(contrast(one, look.ground) for one in (look.ink, look.soft, look.over_text)) >= 4.5
    assert min(contrast(look.on_idle, one) for one in (look.idle, look.idle_stripe)) >= 4.5


def test_a_mixture_is_a_share_of_each_channel():
    assert mix("#FF8000", "#0000FF", 0.5) == "#804080"
    assert mix("#123456", "#FFFFFF", 1) == "#123456"


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_every_kind_has_a_name_and_no_two_look_alike(look):
    assert set(NAMES) == set(look.hues) == set(look.outlines) == {str(kind) for kind in Kind}
    tints = [look.fill_of(kind) for kind in NAMES if kind != "I"]  # as B, but for its letter
    assert len({*tints, look.idle}) == len(NAMES)


def test_an_unknown_letter_is_illegal():
    assert name_of("?") == "illegal"
    assert LIGHT.outline_of("?") == LIGHT.over


def test_the_browser_gets_the_same_names_and_colours():
    palette = as_json()
    assert palette["names"] == NAMES
    assert palette["dark"]["outlines"] == DARK.outlines and palette["light"]["idle"] == LIGHT.idle


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.11819, "0.118"),
        (12.34, "12.3"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1234.5, "1,230"),
        (1e6, "1,000,000"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert write_number(value) == text


def test_times_and_shares():
    assert write_seconds(0.4121) == "412 ms"
    assert write_seconds(3.5) == "3.5 s"
    assert write_seconds(0.9994) == "999 ms"
    assert write_seconds(0.99996) == "1 s"
    assert write_seconds(0) == "0 s"
    assert write_percent(2 / 17) == "11.8 %"


@pytest.mark.parametrize(("limit", "most", "step"), [(0.412, 7, 0.1), (1.0, 5, 0.2), (14_688, 5, 5000), (0, 5, 1)])
def test_round_step(limit, most, step):
    assert round_step(limit, most) == pytest.approx(step)


def test_ticks_are_round_and_reach_the_end():
    assert [tick["text"] for tick in ticks_of(0.412, 7, write_seconds)] == [
        "0 s",
        "100 ms",
        "200 ms",
        "300 ms",
        "400 ms",
    ]
    assert [tick["at"] for tick in ticks_of(4.0, 4, write_seconds)] == [0, 1, 2, 3, 4]
    assert ticks_of(0.0, 7, write_seconds)
