"""What the studio draws, by its pixels: the picture first, idle time as the figure, a micro-batch's way."""

import re

import pytest

from pllab import show
from pllab.show.theme import LIGHT, mix, write_percent
from pllab.simulate import Costs
from tests.browser import bench
from tests.browser.bench import expect
from tests.browser.studio.studio_screen import Plot, is_near, live_of, mount, span_of

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]


# The picture first

PLACES = """root => {
  const box = (node) => {
    const { top, bottom, height } = node.getBoundingClientRect();
    return { top, bottom, height };
  };
  const [plots, bar, say] = ["plots", "bar", "say"].map((name) => box(root.querySelector(`.pl-${name}`)));
  const controls = [...root.querySelectorAll(".pl-bar > :not([hidden])")].map(box);
  return { root: box(root), plots, bar, say, controls };
}"""


def rows_in_view(plot, height, with_memory):
    """Look for every rank's idle time, work and memory on the picture, and that its row is inside the window."""
    top = plot.pic.bounding_box()["y"]
    for rank in range(4):
        first = plot.at(rank, rank + 0.5)
        assert first.box >= 12 and 0 <= top + first.y and top + first.y + first.pitch <= height
        assert plot.fill_at(rank, rank + 0.2)[0] == LIGHT.fill_of("F")  # left of its label
        assert LIGHT.idle in plot.idle_at(rank, 7.0 if rank == 0 else rank - 0.5), f"no idle time of rank {rank}"
        below = plot.pixels(plot.at(rank, 12.0).x, first.y + first.box, 1, first.mem + 1)
        held = {colour for colour, opacity in below if opacity > 200}
        is_outlined = any(is_near(colour, LIGHT.held_line, 20) for colour in held)
        assert not with_memory or (LIGHT.held in held and is_outlined), f"no memory of rank {rank}: {held}"


def test_projector_enlarges_the_picture_and_fills_the_screen(chromium_page):
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    root = mount(chromium_page, show.BubbleStudio("1F1B", 4, 8, compare="ZB-H1"))
    before = root.bounding_box()
    button = root.get_by_role("button", name="Projector")
    for fill in (button.click, lambda: chromium_page.keyboard.press("f")):
        fill()
        chromium_page.wait_for_function("document.fullscreenElement === document.documentElement")
        expect(button).to_have_attribute("aria-pressed", "true")
        assert root.bounding_box() == {"x": 0, "y": 0, "width": 1280, "height": 720}
        at = root.evaluate(PLACES)
        assert at["plots"]["height"] >= 0.6 * 720 and at["say"]["bottom"] <= 720
        root.locator(".pl-pic").first.focus()
        chromium_page.keyboard.press("f")
        chromium_page.wait_for_function("document.fullscreenElement === null")
        expect(button).to_have_attribute("aria-pressed", "false")
        chromium_page.wait_for_function(
            "innerHeight === 720 && document.querySelector('.pl-studio').offsetHeight < 720"
        )
        assert root.bounding_box() == before, "it comes back where it was"
    chromium_page.keyboard.press("f")
    chromium_page.wait_for_function("document.fullscreenElement !== null")
    bench.press(chromium_page, "ArrowRight", "Escape")
    assert root.bounding_box()["x"] == 0, "Escape lets go of an action first"
    chromium_page.evaluate("document.exitFullscreen()")  # as the browser's own Escape does
    expect(button).to_have_attribute("aria-pressed", "false")


def test_the_picture_comes_first_at_every_size_and_zoom(own_page):
    root = mount(own_page, show.BubbleStudio("1F1B", 4, 8, compare="ZB-H1"))
    screen = own_page.context.new_cdp_session(own_page)
    for width, height, ratio in ((1280, 720, 1), (1280, 620, 1), (900, 700, 1), (640, 360, 2), (420, 700, 1)):
        metrics = {"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": False}
        screen.send("Emulation.setDeviceMetricsOverride", metrics)
        own_page.wait_for_function(
            "width => document.querySelector('.pl-studio').offsetWidth === width - 32", arg=width
        )
        own_page.wait_for_function(
            "ratio => [...document.querySelectorAll('.pl-pic')].every((pic) =>"
            " Math.abs(pic.clientWidth * ratio - pic.firstChild.width) <= ratio)",
            arg=ratio,
        )
        assert own_page.evaluate("document.documentElement.scrollWidth") <= width
        if width == 1280:  # it is drawn again a moment after the window has another height
            own_page.wait_for_function(
                "height => document.querySelector('.pl-studio').offsetHeight <= height", arg=height
            )
        root.evaluate("node => node.scrollIntoView()")
        at = root.evaluate(PLACES)
        assert at["plots"]["height"] >= 0.6 * at["root"]["height"]
        if width == 1280:
            middles = {round((one["top"] + one["bottom"]) / 2) for one in at["controls"]}
            assert max(middles) - min(middles) <= 2, "the controls are one row"
            assert at["bar"]["height"] < 40 and at["bar"]["bottom"] <= at["plots"]["top"]
            assert at["root"]["height"] <= height and at["say"]["bottom"] <= height
        for number in (0, 1):
            if width < 1280:
                root.locator(".pl-plot").nth(number).evaluate("node => node.scrollIntoView()")
            rows_in_view(Plot(root, number), height, with_memory=height > 400)


# Idle time, tints, labels, phases


@bench.both_schemes
def test_idle_is_the_strongest_ink_and_work_lies_on_it_in_tints(chromium_page):
    look = bench.look_of(chromium_page)
    root = mount(chromium_page, show.BubbleStudio("ZB-H1", 4, 8))
    plot = Plot(root, view=(0, 27))
    chromium_page.evaluate("ground => document.querySelector('.pl-studio').style.background = ground", look.ground)
    idle = plot.idle_at(3, 1.5, wide=40)
    assert look.idle in idle and look.idle_stripe in idle
    spans = {str(one.action): one for one in show.BubbleStudio("ZB-H1", 4, 8).timeline.spans}
    for kind, action in (("F", "1F3"), ("I", "1I3"), ("W", "1W3")):
        one = spans[action]
        place, end = plot.at(1, one.start), plot.at(1, one.end)
        assert is_near(plot.fill_at(1, (one.start + one.end) / 2)[0], look.fill_of(kind), 1)  # of two roundings
        edge = plot.pixels(place.x, place.y + place.box / 2)[0][0]
        assert edge == look.outline_of(kind)
        foot, top = place.y + round(place.box) - 2, place.y + 1
        is_bar = [plot.pixels((place.x + end.x) / 2, y)[0][0] == look.outline_of(kind) for y in (top, foot)]
        assert is_bar == {"F": [True, False], "I": [False, True], "W": [False, False]}[kind]
    big = bench.style_of(root.locator(".pl-big"), "backgroundColor")
    assert big == bench.as_drawn(look.idle), "the number wears the ink of what it counts"


def test_stages_are_dark_and_pale_and_labels_say_which(chromium_page):
    chromium_page.set_viewport_size({"width": 1600, "height": 900})
    studio = show.BubbleStudio("interleaved 1F1B", 4, 4)
    root = mount(chromium_page, studio)
    plot = Plot(root, view=(0, studio.timeline.makespan))
    early, late = (span_of("interleaved 1F1B", action, 4, 4) for action in ("0F0", "4F0"))
    middles = [(one.start + one.end) / 2 for one in (early, late)]
    assert [plot.fill_at(0, time)[0] for time in middles] == [LIGHT.fill_of("F"), LIGHT.fill_of("F", True)]
    words = plot.words()
    assert {"0F0", "4F0", "7B3", "3B0"} <= set(words), "stage and micro-batch where they fit"
    assert sum(bool(re.fullmatch(r"\d[FB]\d", one)) for one in words) == studio.schedule.num_actions
    chromium_page.set_viewport_size({"width": 1000, "height": 900})
    root = mount(chromium_page, show.BubbleStudio("1F1B", 4, 8))
    words = Plot(root).words()
    assert {"F0", "B7"} <= set(words) and not {"0F0", "1F0"} & set(words), "one stage a rank: it is the rank"
    assert sum(bool(re.fullmatch(r"[FB]\d", one)) for one in words) == 64


def test_the_phases_name_their_part_of_the_bubble(chromium_page, root):
    assert Plot(root).words().count("idle 6 s") == 2, "the longest waits say how long they are"
    studio = show.BubbleStudio("1F1B", 4, 8, Costs(1.0, 0.9, 0.4, p2p=0.35))
    words = Plot(mount(chromium_page, studio)).words()
    phases = studio.view["runs"][0]["step"]["phases"]
    assert min(phases) > 0.05
    for name, share in zip(("warm-up", "steady", "drain"), phases, strict=True):
        assert words[words.index(name) + 1] == write_percent(share)


# Following a micro-batch


def test_pointing_lights_the_whole_way_in_all_plots(chromium_page, pair):
    _, root = pair
    one, other = Plot(root, 0), Plot(root, 1)
    still = one.picture(), other.picture()
    for plot in (one, other):
        plot.point(0, 2.5)  # 0F2 in both
        expect(live_of(root)).to_contain_text("0F2, rank 0: forward of micro-batch 2, 2 s to 3 s.")
        for shown, family in ((one, "1F1B"), (other, "ZB-H1")):
            kinds = ("F", "B") if family == "1F1B" else ("F", "I", "W")
            for kind, stage in ((kind, stage) for kind in kinds for stage in range(4)):
                span = span_of(family, f"{stage}{kind}2")
                lit, _ = shown.fill_at(stage, (span.start + span.end) / 2, above=True)
                if (kind, stage) != ("F", 0):
                    assert lit == mix(LIGHT.hues[kind], LIGHT.ground, LIGHT.lit), f"{stage}{kind}2 of {family}"
            away = span_of(family, "1F5")
            veil = shown.fill_at(1, (away.start + away.end) / 2, above=True)
            assert veil == (LIGHT.ground, 158), "all else is dimmed"
        assert (one.picture(), other.picture()) == still, "nothing of the layer below is drawn again"
        chromium_page.mouse.move(2, 2)
        assert one.fill_at(1, 5.5, above=True)[1] == other.fill_at(1, 5.5, above=True)[1] == 0
        expect(live_of(root)).to_have_text(re.compile("^1F1B. Look at the staircases"))


def test_a_click_keeps_an_action_and_another_lets_go(chromium_page, root):
    plot, live = Plot(root), live_of(root)
    kept = "2B0, rank 2: backward of micro-batch 0, 6 s to 8 s. The rank was idle 2 s, waiting for 3B0 of rank 3."
    gap = "Rank 3 idle 27 s to 33 s, 6 s: nothing left to do, and the step ends at a barrier."
    leave = lambda: chromium_page.mouse.move(2, 2)  # noqa: E731
    for act, said in [
        (lambda: plot.click(2, 7.0), kept),
        (leave, kept),
        (lambda: plot.point(0, 7.0), kept),
        (lambda: plot.click(2, 7.0), "1F1B. Look at the staircases"),
        (lambda: plot.click(3, 30.5), gap),
        (leave, gap),
        (lambda: plot.pic.press("Escape"), "1F1B. Look at the staircases"),
    ]:
        act()
        expect(live).to_contain_text(said)


@bench.both_schemes
def test_pointing_at_idle_time_says_and_shows_its_cause(chromium_page, root):
    plot, live = Plot(root), live_of(root)
    look = bench.look_of(chromium_page)
    plot.point(3, 1.0)
    expect(live).to_have_text("Rank 3 idle 0 s to 3 s, 3 s, waiting for 2F0 of rank 2; then 3F0.")
    assert plot.fill_at(2, 2.5, above=True)[1] == 255, "the cause is lit"
    place = plot.at(3, 1.5)
    drawn = {colour for colour, _ in plot.pixels(place.x, place.y + 2, 8, 3, above=True)}
    assert look.idle in drawn, "the wait itself keeps its ink"
    assert plot.fill_at(1, 5.5, above=True)[1] < 255
    plot.point(0, 7.0)
    expect(live).to_have_text("Rank 0 idle 4 s to 10 s, 6 s, waiting for 1B0 of rank 1; then 0B0.")


# Both measures


def test_in_steady_state_zb_h2_reaches_zero_and_says_why(chromium_page):
    studio = show.BubbleStudio("ZB-H2", 4, 8, compare="1F1B")
    root = mount(chromium_page, studio)
    zero, other = Plot(root, 0), Plot(root, 1)
    expect(zero.big).to_have_text("11.1 %")
    root.get_by_role("button", name="steady state").click()
    expect(zero.big).to_have_text("0 %")
    expect(zero.rest).to_contain_text("a step every 24 s")
    expect(live_of(root)).to_have_text(
        "ZB-H2, no barrier: a rank starts its next step when its own work is done, "
        "and within a step none of them waits."
    )
    expect(other.big).to_have_text(write_percent(studio.view["runs"][1]["steady"]["bubble_fraction"]))
    assert "next step" in zero.words()
    zero.view = other.view = [-0.07 * 33, 1.06 * 33]
    whole = zero.at(0, 0).x, zero.at(0, 24).x
    for rank in range(4):  # no idle ink between a rank's first and last action, and grey steps before and after
        place = zero.at(rank, rank)
        row = [colour for colour, _ in zero.pixels(place.x, place.y + 4, whole[1] - whole[0] - 2)]
        assert not {LIGHT.idle, LIGHT.idle_stripe} & set(row), f"rank {rank} is idle in steady state"
    grey = mix(LIGHT.held, LIGHT.ground, 0.45)
    assert [zero.fill_at(0, time)[0] for time in (-0.5, 24.5)] == [grey, grey]
    assert LIGHT.idle in {colour for rank in range(4) for colour in other.idle_at(rank, 7.0 + rank)}
    zero.pic.focus()
    chromium_page.keyboard.press("b")
    expect(zero.rest).to_contain_text("one step 27 s")


# Large sizes


def test_32_by_256_is_one_tint_beside_the_other(chromium_page):
    """Boxes of about a pixel: nothing but work where a rank works, no outline of it, and long waits stay sharp."""
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    studio = show.BubbleStudio("1F1B", 32, 256, Costs(1.0, 0.9, 0.5))
    root = mount(chromium_page, studio)
    long = studio.timeline.makespan
    plot = Plot(root, view=(0, long), ranks=32)
    tints = [bytes.fromhex(LIGHT.fill_of(kind)[1:]) for kind in "FB"]
    for rank in (1, 16, 30):
        place, end = plot.at(rank, 0.35 * long), plot.at(rank, 0.65 * long)
        row = plot.pixels(int(place.x), int(place.y + place.box / 2), int(end.x - place.x))
        seen = [bytes.fromhex(colour[1:]) for colour, _ in row]
        for channel, ends in enumerate(zip(*tints, strict=True)):
            assert min(ends) - 12 <= min(one[channel] for one in seen), f"idle ink or an outline on rank {rank}"
            assert max(one[channel] for one in seen) <= max(ends) + 1
    for rank, time in ((31, 10.0), (31, long - 10.0), (16, 4.0)):
        assert LIGHT.idle in plot.idle_at(rank, time)
    place = plot.at(31, 0)
    row = [colour for colour, _ in plot.pixels(place.x, place.y + 1, plot.at(31, long).x - place.x)]
    waits = sum(colour[1:] <= LIGHT.idle_stripe[1:] for colour in row) / len(row)
    work = studio.timeline.of_rank(31)
    assert waits == pytest.approx(1 - (work[-1].end - work[0].start) / long, abs=0.02)
    plot.pic.focus()
    bench.press(chromium_page, *"++++++++")
    assert any(re.fullmatch(r"[FB]\d+", one) for one in plot.words()[40:]), "boxes again when zoomed in"
