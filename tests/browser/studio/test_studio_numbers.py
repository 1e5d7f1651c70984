"""What the browser works out by itself is what Python says: needs, waits, memory, and how a number is written."""

import random

import numpy as np
import pytest

from pllab import show
from pllab.schedule import needs
from pllab.show.studio.settings import FAMILIES
from pllab.show.theme import LIGHT, mix, round_step, write_number, write_percent, write_seconds
from pllab.simulate import Costs, gaps
from tests.browser import bench
from tests.simulate.legal import period

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]


def waits_of(studio):
    """Rank, start, end and what is waited for, as `pllab.simulate.gaps` finds it; parts of one wait are one here."""
    waits = {}
    for gap in gaps(studio.schedule, studio.timeline, studio.costs):
        if gap.duration > 1e-9:
            waits.setdefault((gap.rank, gap.waited_for), []).append(gap)
    return [(rank, parts[0].start, parts[-1].end, cause and str(cause)) for (rank, cause), parts in waits.items()]


# What the browser works out from the bytes of a schedule: what needs what, by names, every wait, the memory of every
# rank, and the idle share in both measures.
WORKED_OUT = """(studios) => studios.map(({ view, options: { changes } }) => {
  const { labelOf, runOf, heldOf } = window.parts;
  const [numbers] = view.runs;
  const bytes = Uint8Array.from(atob(numbers.actions.base64), (one) => one.charCodeAt(0));
  const run = runOf({ ...numbers, actions: new DataView(bytes.buffer) });
  const { actions } = run;
  const name = (i) => labelOf(actions, i, true);
  const needs = [...actions.rank].map((_, i) => [name(i), run.links.before(i).map(name)]);
  const waits = run.gaps.map(({ rank, from, to, i }) =>
    [rank, from, to, i < actions.first[rank + 1] ? name(run.links.sender(i)) : null]);
  const idleOf = (gaps) => gaps.reduce((all, { from, to }) => all + to - from, 0) / actions.numRanks;
  const shares = [idleOf(run.gaps) / run.step.length_s, idleOf(run.steadyGaps) / run.steady.length_s];
  const held = Array.from({ length: actions.numRanks }, (_, rank) => heldOf(actions, rank, changes, run.unit));
  return [needs, waits, held, ...shares];
})"""


def stairs_of(studio, rank):
    """What Python says a rank holds, from each moment on; what changes at one moment is one step."""
    steps = studio.timeline.held_over_time(rank)
    lasting = dict((round(time, 6), count / studio.schedule.stages_per_rank) for time, count in steps)
    return list(lasting.items())


def test_needs_waits_and_memory_are_pythons(chromium_page, root):
    studios = [show.BubbleStudio(family, 3, 5, Costs(1.0, 0.9, 0.4, p2p=0.35)) for family in FAMILIES]
    studios += [show.BubbleStudio("ZB-V", 2, 4, Costs(0.02, 0.018, 0.009, p2p=0.004))]
    studios += [show.BubbleStudio("ZB-H2", 4, 8, Costs(1.0, 1.0, 1.0, p2p=0.01))]  # whose measures differ
    answers = chromium_page.evaluate(WORKED_OUT, [bench.traits_of(studio) for studio in studios])
    for studio, (needed, waits, held, step, steady) in zip(studios, answers, strict=True):
        present = set(studio.schedule.actions())
        before = {str(one): {str(need) for need in needs(one, studio.schedule.num_stages, present)} for one in present}
        assert {name: set(inputs) for name, inputs in needed} == before, studio.family
        for wait, expected in zip(waits, waits_of(studio), strict=True):
            assert wait == pytest.approx(expected, abs=1e-5), studio.family
        for rank, stairs in enumerate(held):
            assert np.array(stairs) == pytest.approx(np.array(stairs_of(studio, rank)), abs=1e-5), studio.family
        assert step == pytest.approx(studio.timeline.bubble_fraction, abs=1e-5), studio.family
        forgiven = 1 - studio.timeline.busy / (studio.timeline.num_ranks * period(studio.timeline))
        assert steady == pytest.approx(forgiven, abs=1e-5), studio.family


# How numbers are written

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
