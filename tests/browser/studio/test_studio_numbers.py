"""A number reads the same in the studio and on its printed twin: both rules on the same values, ties among them."""

import random

import pytest

from pllab.show.theme import LIGHT, mix, round_step, write_number, write_percent, write_seconds

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]

TIES = [0.0625, 1 / 8 + 2, 2.135, 16.25, 1.625, 112.5, 0.3125, 2.5e-5, 1005.0, 1235.0, 0.1875]
EDGES = [0.0, 1e-9, 1e-5, 9.996e-5, 0.00012344, 0.0999951, 0.99949, 0.9996, 999.4, 999.6, 1234.5, 1e6, 123456789.0]


def written(page, name, values):
    return page.evaluate("([name, values]) => values.map((one) => window.parts[name](one))", [name, values])


@pytest.mark.parametrize(
    ("script", "python"),
    [("writeCount", write_number), ("writeSeconds", write_seconds), ("writePercent", write_percent)],
)
def test_numbers_are_written_as_on_paper(chromium_page, root, script, python):
    chance = random.Random(5)
    drawn = [10 ** chance.uniform(-7, 6) for _ in range(500)]
    chosen = [*EDGES, *TIES]
    values = [*chosen, *(-one for one in chosen[1:]), *drawn, *(n / 16 for n in range(64))]
    values += [n / 2000 for n in range(400)]
    assert written(chromium_page, script, values) == [python(value) for value in values]


def test_steps_of_an_axis_and_tints_are_as_on_paper(chromium_page, root):
    limits = [(limit, most) for limit in (0.0412, 0.412, 1.0, 7.3, 14_688.0) for most in (2, 5, 7, 12)]
    steps = chromium_page.evaluate("all => all.map(([limit, most]) => window.parts.roundStep(limit, most))", limits)
    assert steps == [pytest.approx(round_step(*one)) for one in limits]
    tints = [(hue, LIGHT.ground, share / 100) for hue in LIGHT.hues.values() for share in range(0, 101, 3)]
    mixed = chromium_page.evaluate("all => all.map((one) => window.parts.mix(...one))", tints)
    assert [one.upper() for one in mixed] == [mix(*one) for one in tints]
