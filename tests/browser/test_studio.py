"""The bubble studio in a bare page whose kernel is this process: what the browser sends is simulated and sent back."""

import base64
import io
import json
import re
from dataclasses import dataclass
from itertools import pairwise

import pytest
from PIL import Image

from pllab import show
from pllab.schedule import Kind, Schedule, needs, one_f_one_b
from pllab.show.studio import bubble_studio
from pllab.show.studio.settings import FAMILIES, TOUR
from pllab.show.theme import DARK, LIGHT, mix, write_percent, write_seconds
from pllab.simulate import Costs, gaps, simulate
from pllab.timeline import Span, Timeline
from tests.browser import bench
from tests.browser.repaint import measure, measure_all

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

# The studio's own functions as `window.parts`, and what it writes on its canvases from now on as `window.written`.
PREPARE = f"""async (source) => {{
  {bench.LOAD}
  window.parts ??= await load(source +
    "\\nexport {{ scaleOf, readActions, linksOf, labelOf, gapsOf, sayGap, runOf, writeSeconds, writePercent }};");
  if (window.written) return;
  window.written = [];
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {{
    window.written.push([this.canvas, String(text)]);
    return fill.call(this, text, ...at);
  }};
}}"""

# Where the studio draws an instant of a rank, by its own layout, in CSS pixels of the plot.
PLACE = """(pic, [rank, time, view, ranks]) => {
  const em = parseFloat(getComputedStyle(pic).fontSize);
  const scale = window.parts.scaleOf(pic.clientWidth, pic.clientHeight, em, ranks, view, 1, ranks > 16);
  const { box, mem, pitch } = scale;
  return { x: scale.x(time), y: scale.y(rank), box, mem, pitch };
}"""

PIXELS = """(canvas, [x, y, wide, high]) => {
  const ratio = canvas.width / parseFloat(canvas.style.width);
  const at = [x, y, wide, high].map((one) => Math.round(one * ratio));
  return [...canvas.getContext("2d").getImageData(at[0], at[1], Math.max(1, at[2]), Math.max(1, at[3])).data];
}"""

WRITTEN_ON = """(canvas) => {
  window.written.length = 0;
  window.dispatchEvent(new Event("resize"));
  return window.written.filter(([on]) => on === canvas).map(([, text]) => text);
}"""

PICTURE = "canvas => canvas.toDataURL()"


@dataclass(frozen=True)
class Place:
    """An instant of a rank in a plot: the left upper corner of what is drawn there, and the height of its parts."""

    x: float
    y: float
    box: float
    mem: float
    pitch: float


class Plot:
    """One schedule on screen, with the times in view."""

    def __init__(self, root, number=0, view=(0.0, 33.0), ranks=4):
        self.root, self.page, self.view, self.ranks = root, root.page, list(view), ranks
        self.pic = root.locator(".pl-pic").nth(number)
        self.base, self.above = (self.pic.locator("canvas").nth(layer) for layer in (0, 1))
        self.head = root.locator(".pl-head").nth(number)
        self.big, self.rest = self.head.locator(".pl-big"), self.head.locator(".pl-rest")

    def at(self, rank, time):
        return Place(**self.pic.evaluate(PLACE, [rank, time, self.view, self.ranks]))

    def pixels(self, x, y, wide=1, high=1, above=False):
        """Colours with their opacity from left to right and down: `("#FFFFFF", 255)`."""
        data = (self.above if above else self.base).evaluate(PIXELS, [x, y, wide, high])
        quads = zip(*[iter(data)] * 4, strict=True)
        return [("#" + "".join(f"{one:02X}" for one in colour), opacity) for *colour, opacity in quads]

    def fill_at(self, rank, time, above=False):
        """The colour of a box below its top bar and above its words, or of idle time."""
        place = self.at(rank, time)
        return self.pixels(place.x, place.y + 4, above=above)[0]

    def idle_at(self, rank, time, wide=6):
        """The colours of a patch of idle time."""
        place = self.at(rank, time)
        return {colour for colour, _ in self.pixels(place.x - wide / 2, place.y + 2, wide, 3)}

    def point(self, rank, time):
        box, place = self.pic.bounding_box(), self.at(rank, time)
        self.page.mouse.move(box["x"] + place.x, box["y"] + place.y + place.box / 2)

    def click(self, rank, time):
        self.point(rank, time)
        self.page.mouse.down()
        self.page.mouse.up()

    def drag(self, rank, *times):
        self.point(rank, times[0])
        self.page.mouse.down()
        for time in times[1:]:
            self.point(rank, time)
        self.page.mouse.up()

    def words(self):
        """What is written on the picture."""
        return self.base.evaluate(WRITTEN_ON)

    def picture(self):
        return self.base.evaluate(PICTURE)

    def has(self, sizes):
        """Wait until the schedule has these sizes, `5 ranks, 8 micro-batches`."""
        expect(self.pic).to_have_attribute("aria-label", re.compile(f", {sizes}"))


def mount(page, studio, with_kernel=True):
    root = (bench.mount_with_kernel if with_kernel else bench.mount)(page, studio)
    page.evaluate(PREPARE, str(studio._esm))
    return root


@pytest.fixture(autouse=True)
def _tall_enough(chromium_page):
    chromium_page.set_viewport_size({"width": 1000, "height": 900})


@pytest.fixture
def studio():
    return show.BubbleStudio("1F1B", 4, 8)


@pytest.fixture
def root(chromium_page, studio):
    return mount(chromium_page, studio)


def live_of(root):
    return root.locator(".pl-live")


def open_drawer(root):
    root.get_by_role("button", name="more…").click()
    return root.get_by_role("dialog", name="More controls")


def span_of(family, action, p=4, m=8):
    """When a family's action runs, by Python."""
    return next(one for one in show.BubbleStudio(family, p, m).timeline.spans if str(one.action) == action)


def contrast(one, other):
    """The contrast of two colours as WCAG counts it: 1 to 21."""

    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05

    low, high = sorted([light(one), light(other)])
    return high / low


def is_near(one, other, most=3):
    """Whether two colours are the same but for rounding."""
    return all(abs(int(one[at : at + 2], 16) - int(other[at : at + 2], 16)) <= most for at in (1, 3, 5))


QUIET = "performance.now() - window.heard > 300"


def rest(page):
    """Wait until nothing more comes from the kernel."""
    page.evaluate("""() => {
      window.heard = performance.now();
      if (!window.model.heard) window.model.on("msg:custom", () => (window.heard = performance.now()));
      window.model.heard = true;
    }""")
    page.wait_for_function(QUIET)


HOLD_BACK = """() => {
  const kernel = window.kernel;
  window.kernel = (sent) => new Promise((done) => (window.let_go = () => done(kernel(sent))));
}"""

# The picture first

PLACES = """root => {
  const box = (node) => {
    const { top, bottom, height } = node.getBoundingClientRect();
    return { top, bottom, height };
  };
  const parts = ["plots", "bar", "say"].map((name) => root.querySelector(`.pl-${name}`));
  const [plots, bar, say] = parts.map(box);
  const controls = [...root.querySelectorAll(".pl-bar > :not([hidden])")].map(box);
  const fonts = parts.map((node) => parseFloat(getComputedStyle(node).fontSize));
  return { root: box(root), plots, bar, say, controls, fonts };
}"""

# What can be read in the widget, each piece of text once; not what only a screen reader hears.
READ = """root => {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const isSeen = node.checkVisibility() && !node.closest(".pl-spoken, title, option");
    if (isSeen) texts.push(walker.currentNode.textContent);
  }
  return texts.join(" | ");
}"""


def rows_in_view(plot, height, with_memory):
    """Look for every rank's idle time, work and memory on the picture, and that its row is inside the window."""
    top = plot.pic.bounding_box()["y"]
    for rank in range(4):
        first, idle = plot.at(rank, rank + 0.5), plot.at(rank, 7.0 if rank == 0 else rank - 0.5)
        assert first.box >= 12 and 0 <= top + first.y and top + first.y + first.pitch <= height
        assert plot.fill_at(rank, rank + 0.2)[0] == LIGHT.fill_of("F")  # left of its label
        assert LIGHT.idle in plot.idle_at(rank, 7.0 if rank == 0 else rank - 0.5), idle
        below = plot.pixels(plot.at(rank, 12.0).x, first.y + first.box, 1, first.mem + 1)
        held = {colour for colour, opacity in below if opacity > 200}
        is_outlined = any(is_near(colour, LIGHT.held_line, 20) for colour in held)
        assert not with_memory or (LIGHT.held in held and is_outlined), f"no memory of rank {rank}: {held}"


def test_the_picture_comes_first_at_720_lines(chromium_page):
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    root = mount(chromium_page, show.BubbleStudio("1F1B", 4, 8, compare="ZB-H1"))
    root.evaluate("node => node.scrollIntoView()")
    at = root.evaluate(PLACES)
    assert at["plots"]["height"] >= 0.6 * at["root"]["height"] and at["root"]["height"] <= 720
    middles = {round((one["top"] + one["bottom"]) / 2) for one in at["controls"]}
    assert max(middles) - min(middles) <= 2, "the controls are one row"
    assert at["bar"]["height"] < 40 and at["bar"]["bottom"] <= at["plots"]["top"]
    expect(root.get_by_role("dialog")).to_have_count(0)
    for number in (0, 1):
        rows_in_view(Plot(root, number), 720, with_memory=True)
    assert at["say"]["bottom"] <= 720
    text = root.evaluate(READ)
    for number in ("27.3 %", "11.1 %", "33 s", "27 s", "holds 4 micro-batches"):
        assert text.count(number) == 1, f"{number} in {text}"
    chromium_page.set_viewport_size({"width": 1280, "height": 620})
    chromium_page.wait_for_function("document.querySelector('.pl-studio').offsetHeight <= 620")


def test_projector_enlarges_the_picture_and_fills_the_screen(chromium_page):
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    studio = show.BubbleStudio("1F1B", 4, 8, compare="ZB-H1")
    root = mount(chromium_page, studio)
    plots, bar, say = root.evaluate(PLACES)["fonts"]
    filled = "document.fullscreenElement === document.querySelector('.pl-studio')"
    button = root.get_by_role("button", name="Projector")
    for fill in (button.click, lambda: chromium_page.keyboard.press("f")):
        fill()
        chromium_page.wait_for_function(filled)
        expect(button).to_have_attribute("aria-pressed", "true")
        chromium_page.wait_for_function("document.querySelector('.pl-studio').offsetHeight === 720")
        at = root.evaluate(PLACES)
        large_plots, large_bar, large_say = at["fonts"]
        assert large_plots > 1.35 * plots and large_say > 1.25 * say and large_bar <= 1.1 * bar
        assert at["plots"]["height"] >= 0.6 * 720 and at["say"]["bottom"] <= 720
        for number in (0, 1):
            rows_in_view(Plot(root, number), 720, with_memory=False)
        root.locator(".pl-pic").first.focus()
        chromium_page.keyboard.press("f")
        chromium_page.wait_for_function("document.fullscreenElement === null")
        expect(button).to_have_attribute("aria-pressed", "false")
    chromium_page.keyboard.press("f")
    chromium_page.wait_for_function(filled)
    chromium_page.evaluate("document.exitFullscreen()")  # as the browser's own Escape does
    expect(button).to_have_attribute("aria-pressed", "false")
    assert not studio.projector


def test_the_picture_stays_when_narrow_and_when_zoomed(own_page):
    studio = show.BubbleStudio("1F1B", 4, 8, compare="ZB-H1")
    root = mount(own_page, studio)
    screen = own_page.context.new_cdp_session(own_page)
    for width, height, ratio in ((900, 700, 1), (640, 360, 2), (420, 700, 1)):
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
        at = root.evaluate(PLACES)
        assert at["plots"]["height"] >= 0.6 * at["root"]["height"]
        for number in (0, 1):
            root.locator(".pl-plot").nth(number).evaluate("node => node.scrollIntoView()")
            rows_in_view(Plot(root, number), height, with_memory=height > 400)
    strip = root.locator(".pl-strip button")
    expect(strip).to_have_count(6)
    strip.filter(has_text="GPipe").click()
    expect(root.locator(".pl-name").first).to_have_text("GPipe")
    strip.filter(has_text="ZB-H2").click(modifiers=["Shift"])
    expect(root.locator(".pl-name").nth(1)).to_have_text("ZB-H2")
    assert (studio.family, studio.compare) == ("GPipe", "ZB-H2")


# Controls


def test_steppers_go_in_doublings_and_keep_what_is_typed(chromium_page, root, studio):
    plot, box = Plot(root), root.get_by_role("spinbutton", name="Micro-batches", exact=True)
    more = root.get_by_role("button", name="more micro-batches")
    for held in (10, 12, 14, 16, 20):
        more.click()
        plot.has(f"4 ranks, {held} micro-batches")
        assert studio.num_microbatches == held
    root.get_by_role("button", name="fewer micro-batches").click()
    expect(box).to_have_value("16")
    box.fill("447")
    box.press("Enter")
    plot.has("4 ranks, 447 micro-batches")
    for held in (448, 512):
        box.press("ArrowUp")
        plot.has(f"4 ranks, {held} micro-batches")
    sizes = studio.options["microbatches"]
    assert len(sizes) < 35 and all(other <= 1.5 * one for one, other in pairwise(sizes[1:]))
    more.click()
    expect(box).to_have_value("512")
    ranks = root.get_by_role("spinbutton", name="Ranks")
    for typed, key, held in (
        ("2.7", "Enter", 3),
        ("99", "Tab", 64),
        ("-4", "Enter", 1),
        ("11", "Tab", 11),
        ("", "Tab", 11),
    ):
        ranks.fill(typed)
        ranks.press(key)
        expect(ranks).to_have_value(str(held))
        plot.has(f"{held} rank")
        assert studio.num_ranks == held
    chromium_page.wait_for_timeout(300)
    expect(root).not_to_have_class(re.compile("pl-waits"))


def test_a_drag_of_inputs_keeps_one_message_in_flight_and_the_last_wins(chromium_page, root, studio):
    box = root.get_by_role("spinbutton", name="Micro-batches", exact=True)
    box.evaluate("""node => { for (let value = 9; value <= 120; value += 1) {
      node.value = value; node.dispatchEvent(new Event("change", { bubbles: true })); } }""")
    Plot(root).has("4 ranks, 120 micro-batches")
    assert studio.num_microbatches == 120
    assert chromium_page.evaluate("window.model.sent") <= 3


def test_costs_carry_their_unit(chromium_page):
    studio = show.BubbleStudio("1F1B", 4, 8, Costs(0.02, 0.018, 0.016, p2p=0.0005))
    root = mount(chromium_page, studio)
    drawer = open_drawer(root)
    boxes = [
        drawer.get_by_role("spinbutton", name=name, exact=True)
        for name in ("forward F, ms", "backward of the inputs I, ms", "backward of the weights W, ms", "message, ms")
    ]
    expect(boxes[0]).to_be_focused()
    assert [box.input_value() for box in boxes] == ["20", "18", "16", "0.5"]
    boxes[0].fill("40")
    boxes[0].press("Enter")
    expect(Plot(root).rest).to_contain_text(f"one step {write_seconds(studio.timeline.makespan)}")
    assert studio.forward == pytest.approx(0.04) and studio.timeline.makespan > 0.5
    boxes[0].fill("")
    boxes[0].press("Enter")
    expect(boxes[0]).to_have_value("40")
    drawer.get_by_text("Costs per stage").click()
    cell = drawer.get_by_role("spinbutton", name="W of stage 2, ms")
    expect(cell).to_have_attribute("placeholder", "16")
    cell.fill("48")
    cell.press("Enter")
    expect(Plot(root).rest).to_contain_text(f"one step {write_seconds(studio.timeline.makespan)}")
    assert studio.costs.duration(2, Kind.W) == pytest.approx(0.048)
    assert studio.costs.duration(1, Kind.W) == pytest.approx(0.016)
    drawer.get_by_role("button", name="Same for all").click()
    expect(Plot(root).rest).to_contain_text(f"one step {write_seconds(studio.timeline.makespan)}")
    assert studio.costs.num_stages is None
    in_seconds = open_drawer(mount(chromium_page, show.BubbleStudio("1F1B", 4, 8)))
    expect(in_seconds.get_by_role("spinbutton", name="forward F, s", exact=True)).to_have_value("1")


def test_a_box_that_is_typed_in_is_never_rewritten(chromium_page, root, studio):
    """Answers arrive, other inputs change and the studio redraws between two digits."""
    drawer = open_drawer(root)
    limit = drawer.get_by_role("spinbutton", name="memory limit")
    drawer.get_by_text("Costs per stage").click()
    cell = drawer.get_by_role("spinbutton", name="F of stage 1")
    boxes = [
        (limit, "20", "none"),
        (cell, "30", "1"),
        (drawer.get_by_role("spinbutton", name="forward F, s"), "20", ""),
    ]
    boxes += [(root.get_by_role("spinbutton", name=name, exact=True), "10", "") for name in ("Ranks", "Micro-batches")]
    for family, (box, typed, _) in zip(TOUR, boxes, strict=True):
        box.focus()
        chromium_page.keyboard.press("Control+a")
        chromium_page.keyboard.type(typed[0])
        studio.family = family
        bench.push(
            chromium_page, studio, "family", "num_ranks", "num_microbatches", "forward", "memory_limit", "stage_costs"
        )
        chromium_page.evaluate("model.set('shades', !model.get('shades'))")
        chromium_page.evaluate("model.tell('view'); window.dispatchEvent(new Event('resize'))")
        chromium_page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(box).to_have_value(typed[0])
        expect(box).to_be_focused()
        chromium_page.keyboard.type(typed[1])
        expect(box).to_have_value(typed)
        chromium_page.keyboard.press("Enter")
        rest(chromium_page)
        expect(box).to_have_value(typed)
    assert (studio.memory_limit, studio.forward, studio.num_ranks, studio.num_microbatches) == (20, 20, 10, 10)
    assert studio.stage_costs["1"][0] == 30
    limit.fill("")
    limit.press("Tab")
    chromium_page.wait_for_function("model.get('memory_limit') === null")


def test_a_limit_that_is_exceeded_is_red_everywhere(chromium_page):
    studio = show.BubbleStudio("GPipe", 4, 8, compare="1F1B", memory_limit=5)
    root = mount(chromium_page, studio)
    plot, other = Plot(root, 0), Plot(root, 1)
    expect(plot.rest.locator(".pl-over")).to_have_text("holds 8 micro-batches: over the limit of 5")
    expect(other.rest.locator(".pl-over")).to_have_count(0)
    place = plot.at(1, 12.0)
    column = [colour for colour, _ in plot.pixels(place.x, place.y + place.box + 1, 1, place.mem)]
    assert LIGHT.over in column and LIGHT.held in column
    assert column.index(LIGHT.over) < column.index(LIGHT.held), "what is above the limit is red"
    place = other.at(1, 12.0)
    assert LIGHT.over not in [one for one, _ in other.pixels(place.x + 1, place.y + place.box + 1, 1, place.mem)]
    points = root.locator(".pl-point")
    expect(points).to_have_count(len(FAMILIES) - 1)
    line = root.locator(".pl-rail .pl-limit").bounding_box()["x"]
    middle = "node => node.querySelector('.pl-dot').getBoundingClientRect().x + 5"
    at = {name: root.locator(f'[data-family="{name}"]').evaluate(middle) for name in ("1F1B", "GPipe")}
    assert at["1F1B"] < line < at["GPipe"]
    expect(root.locator(".pl-rail .pl-red")).to_have_text("5")
    open_drawer(root).get_by_role("spinbutton", name="memory limit").fill("8")
    chromium_page.keyboard.press("Enter")
    expect(plot.rest.locator(".pl-over")).to_have_count(0)


# Idle time, tints, labels, phases


@bench.both_schemes
def test_idle_is_the_strongest_ink_and_work_lies_on_it_in_tints(chromium_page, request):
    look = DARK if chromium_page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else LIGHT
    root = mount(chromium_page, show.BubbleStudio("ZB-H1", 4, 8))
    plot = Plot(root, view=(0, 27))
    chromium_page.evaluate("ground => document.querySelector('.pl-studio').style.background = ground", look.ground)
    idle = plot.idle_at(3, 1.5, wide=40)
    assert look.idle in idle and look.idle_stripe in idle
    spans = {str(one.action): one for one in show.BubbleStudio("ZB-H1", 4, 8).timeline.spans}
    marks = {}
    for kind, action in (("F", "1F3"), ("I", "1I3"), ("W", "1W3")):
        one = spans[action]
        place, end = plot.at(1, one.start), plot.at(1, one.end)
        marks[kind] = plot.fill_at(1, (one.start + one.end) / 2)[0]
        assert marks[kind] == look.fill_of(kind)
        edge = plot.pixels(place.x, place.y + place.box / 2)[0][0]
        assert edge == look.outline_of(kind) and contrast(edge, look.ground) >= 3
        foot, top = place.y + round(place.box) - 2, place.y + 1
        is_bar = [plot.pixels((place.x + end.x) / 2, y)[0][0] == look.outline_of(kind) for y in (top, foot)]
        assert is_bar == {"F": [True, False], "I": [False, True], "W": [False, False]}[kind]
    strongest = min(contrast(one, look.ground) for one in (look.idle, look.idle_stripe))
    assert strongest > 2 * max(contrast(one, look.ground) for one in marks.values())
    big = root.locator(".pl-big").evaluate("node => getComputedStyle(node).backgroundColor")
    channels = [int(look.idle[at : at + 2], 16) for at in (1, 3, 5)]
    assert big == f"rgb({', '.join(map(str, channels))})", "the number wears the ink of what it counts"


def test_stages_are_dark_and_pale_labels_say_which_and_shades_tell_micro_batches(chromium_page):
    chromium_page.set_viewport_size({"width": 1600, "height": 900})
    studio = show.BubbleStudio("interleaved 1F1B", 4, 4)
    root = mount(chromium_page, studio)
    plot = Plot(root, view=(0, studio.timeline.makespan))
    early, late, last = (span_of("interleaved 1F1B", action, 4, 4) for action in ("0F0", "4F0", "0F3"))
    middles = [(one.start + one.end) / 2 for one in (early, late)]
    assert [plot.fill_at(0, time)[0] for time in middles] == [LIGHT.fill_of("F"), LIGHT.fill_of("F", True)]
    words = plot.words()
    assert {"0F0", "4F0", "7B3", "3B0"} <= set(words), "stage and micro-batch where they fit"
    assert sum(bool(re.fullmatch(r"\d[FB]\d", one)) for one in words) == studio.schedule.num_actions
    before = plot.picture()
    plot.pic.focus()
    chromium_page.keyboard.press("s")
    assert studio.shades and plot.picture() != before
    shades = [plot.fill_at(0, (one.start + one.end) / 2)[0] for one in (early, last)]
    assert shades == [mix(LIGHT.hues["F"], LIGHT.ground, share) for share in (0.72, 0.1)]
    chromium_page.keyboard.press("s")
    assert plot.picture() == before
    chromium_page.set_viewport_size({"width": 1000, "height": 900})
    root = mount(chromium_page, show.BubbleStudio("1F1B", 4, 8))
    words = Plot(root).words()
    assert {"F0", "B7"} <= set(words) and not {"0F0", "1F0"} & set(words), "one stage a rank: it is the rank"
    assert sum(bool(re.fullmatch(r"[FB]\d", one)) for one in words) == 64


def test_the_phases_name_their_part_of_the_bubble(chromium_page, root):
    assert Plot(root).words().count("idle 6 s") == 2, "the longest waits say how long they are"
    studio = show.BubbleStudio("1F1B", 4, 8, Costs(1.0, 0.9, 0.4, p2p=0.35))
    words = Plot(mount(chromium_page, studio)).words()
    long = studio.timeline.makespan
    idle = {"warm-up": 0.0, "steady": 0.0, "drain": 0.0}
    for rank in range(4):
        spans = sorted((one for one in studio.timeline.spans if one.rank == rank), key=lambda one: one.start)
        turn = min(one.start for one in spans if one.action.kind != Kind.F)
        last = max(one.end for one in spans if one.action.kind == Kind.F)
        ends = [0.0, *(one.end for one in spans)]
        starts = [*(one.start for one in spans), long]
        for begun, over in zip(ends, starts, strict=True):
            name = "warm-up" if begun < turn - 1e-9 else "steady" if begun < last - 1e-9 else "drain"
            idle[name] += over - begun
    assert min(idle.values()) > 0.1
    for name, seconds in idle.items():
        assert words[words.index(name) + 1] == write_percent(seconds / (4 * long))


# Following a micro-batch


@pytest.fixture
def pair(chromium_page):
    studio = show.BubbleStudio("1F1B", 4, 8, compare="ZB-H1")
    return studio, mount(chromium_page, studio)


def test_pointing_lights_the_whole_way_in_all_plots(chromium_page, pair):
    studio, root = pair
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
        for shown in (one, other):  # lines from stage to stage, and nothing of the layer below is drawn again
            span = span_of("1F1B", "0F2")
            end, begin = shown.at(0, span.end), shown.at(1, span_of("1F1B", "1F2").start)
            assert end.y + end.box < begin.y
        assert (one.picture(), other.picture()) == still
        chromium_page.mouse.move(2, 2)
        assert one.fill_at(1, 5.5, above=True)[1] == other.fill_at(1, 5.5, above=True)[1] == 0
        expect(live_of(root)).to_have_text(re.compile("^1F1B. A backward as soon as there is one"))
    assert studio.selected == ""


def test_a_click_keeps_an_action_and_another_lets_go(chromium_page, root, studio):
    plot, live = Plot(root), live_of(root)
    plot.click(2, 7.0)
    kept = "2B0, rank 2: backward of micro-batch 0, 6 s to 8 s. The rank was idle 2 s, waiting for 3B0 of rank 3."
    for leave in (lambda: chromium_page.mouse.move(2, 2), lambda: plot.point(0, 7.0)):
        leave()
        expect(live).to_have_text(kept)
    assert studio.selected == "2B0"
    plot.click(2, 7.0)
    assert studio.selected == ""
    plot.click(3, 30.5)
    expect(live).to_have_text("Rank 3 idle 27 s to 33 s, 6 s: nothing left to do, and the step ends at a barrier.")
    assert studio.selected == "", "a gap is read and not chosen"
    plot.pic.focus()
    chromium_page.keyboard.press("Escape")
    chromium_page.mouse.move(2, 2)
    expect(live).to_contain_text("1F1B. A backward as soon as")
    studio.selected = "1F3"  # chosen in Python
    bench.push(chromium_page, studio, "selected")
    expect(live).to_contain_text("1F3, rank 1: forward of micro-batch 3")


@bench.both_schemes
def test_pointing_at_idle_time_says_and_shows_its_cause(chromium_page, root):
    plot, live = Plot(root), live_of(root)
    look = DARK if chromium_page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else LIGHT
    plot.point(3, 1.0)
    expect(live).to_have_text("Rank 3 idle 0 s to 3 s, 3 s, waiting for 2F0 of rank 2; then 3F0.")
    assert plot.fill_at(2, 2.5, above=True)[1] == 255, "the cause is lit"
    place = plot.at(3, 1.5)
    drawn = {colour for colour, _ in plot.pixels(place.x, place.y + 2, 8, 3, above=True)}
    assert look.idle in drawn, "the wait itself keeps its ink"
    assert plot.fill_at(1, 5.5, above=True)[1] < 255
    plot.point(0, 7.0)
    expect(live).to_have_text("Rank 0 idle 4 s to 10 s, 6 s, waiting for 1B0 of rank 1; then 0B0.")


def exact(seconds, makespan):
    """A time with the digits that sentences have."""
    return f"{seconds * 1e3:.5g} ms" if makespan < 1 else f"{seconds:.5g} s"


def sentences_of_gaps(studio):
    """What `pllab.simulate.gaps` finds, in the words of the browser: the parts of one wait are one gap there."""
    ends = {str(one.action): one.end for one in studio.timeline.spans}
    rank_of = {str(one.action): one.rank for one in studio.timeline.spans}
    starting = {(one.rank, one.start): one.action for one in studio.timeline.spans}
    long = studio.timeline.makespan
    waits = []
    for gap in gaps(studio.schedule, studio.timeline, studio.costs):
        if waits and (waits[-1][-1].rank, waits[-1][-1].end) == (gap.rank, gap.start):
            waits[-1].append(gap)
        elif gap.duration > 1e-9:
            waits.append([gap])
    for parts in waits:
        rank, start, end = parts[0].rank, parts[0].start, parts[-1].end
        idle = f"Rank {rank} idle {exact(start, long)} to {exact(end, long)}, {write_seconds(end - start)}"
        if parts[0].cause == "drain":
            yield f"{idle}: nothing left to do, and the step ends at a barrier."
            continue
        (cause,) = {str(one.waited_for) for one in parts}
        travels = end - ends[cause]
        assert (travels > 1e-9) == any(one.cause in ("message", "start-up") for one in parts)
        message = f", whose message travels {write_seconds(travels)}" if travels > 1e-9 else ""
        yield f"{idle}, waiting for {cause} of rank {rank_of[cause]}{message}; then {starting[rank, end]}."


# What the browser works out from the bytes of a schedule: what waits for what, by names, the sentence of every gap, and
# the idle share in both measures.
WORKED_OUT = """([blocks, numbers]) => blocks.map((text, at) => {
  const { readActions, labelOf, runOf, gapsOf, sayGap } = window.parts;
  const actions = readActions(new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer));
  const run = runOf(numbers[at], actions);
  const name = (i) => labelOf(actions, i, true);
  const { before, after } = run.links;
  const waits = [...actions.rank].map((_, i) => [name(i), before(i).map(name), after(i).map(name)]);
  const idleOf = (gaps) => gaps.reduce((all, { from, to }) => all + to - from, 0) / actions.numRanks;
  const shares = [idleOf(run.gaps) / run.step.length_s, idleOf(run.steadyGaps) / run.steady.length_s];
  return [waits, run.gaps.map((gap) => sayGap(run, gap, false)), ...shares];
})"""


def test_what_waits_for_what_and_the_sentence_of_each_gap_are_pythons(chromium_page):
    studios = [show.BubbleStudio(family, 3, 5, Costs(1.0, 0.9, 0.4, p2p=0.35)) for family in FAMILIES]
    studios += [show.BubbleStudio("ZB-V", 2, 4, Costs(0.02, 0.018, 0.009, p2p=0.004))]
    mount(chromium_page, studios[0])
    blocks = [base64.b64encode(studio.actions).decode() for studio in studios]
    numbers = [studio.view["runs"][0] for studio in studios]
    answers = chromium_page.evaluate(WORKED_OUT, [blocks, json.loads(json.dumps(numbers))])
    for studio, (waits, said, step, steady) in zip(studios, answers, strict=True):
        present = set(studio.schedule.actions())
        before = {str(one): {str(need) for need in needs(one, studio.schedule.num_stages, present)} for one in present}
        assert {name: set(needed) for name, needed, _ in waits} == before, studio.family
        after = {name: {other for other, needed in before.items() if name in needed} for name in before}
        assert {name: set(waiting) for name, _, waiting in waits} == after, studio.family
        assert said == list(sentences_of_gaps(studio)), studio.family
        assert any("travels" in one for one in said) and any("nothing left" in one for one in said), studio.family
        (state,) = studio.state()["runs"]
        assert step == pytest.approx(state["bubble_fraction"], abs=1e-5), studio.family
        assert steady == pytest.approx(state["steady_bubble_fraction"], abs=1e-5), studio.family


# Both measures


def test_in_steady_state_zb_h2_reaches_zero_and_says_why(chromium_page):
    studio = show.BubbleStudio("ZB-H2", 4, 8, compare="1F1B")
    root = mount(chromium_page, studio)
    zero, other = Plot(root, 0), Plot(root, 1)
    expect(zero.big).to_have_text("11.1 %")
    expect(root.get_by_role("button", name="one step")).to_have_attribute("aria-pressed", "true")
    assert LIGHT.idle in zero.idle_at(3, 1.5)
    root.get_by_role("button", name="steady state").click()
    expect(zero.big).to_have_text("0 %")
    expect(zero.big).to_have_class(re.compile("pl-none"))
    expect(zero.rest).to_contain_text("a step every 24 s")
    expect(live_of(root)).to_have_text(
        "ZB-H2, no barrier: a rank starts its next step when its own work is done, "
        "and within a step none of them waits."
    )
    numbers = studio.state()["runs"]
    assert numbers[0]["steady_bubble_fraction"] == pytest.approx(0, abs=1e-9)
    expect(other.big).to_have_text(write_percent(numbers[1]["steady_bubble_fraction"]))
    words = zero.words()
    assert "next step" in words
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
    expect(zero.big).to_have_text("11.1 %")
    assert not studio.steady
    points = root.locator(".pl-point[data-family='ZB-H2']")
    expect(points).to_have_attribute("aria-label", "ZB-H2: bubble fraction 11.1 %, 27 s, holds 7")
    chromium_page.keyboard.press("b")
    expect(points).to_have_attribute("aria-label", "ZB-H2: bubble fraction 0 %, 24 s, holds 7")


# The overview


def test_the_overview_has_every_family_and_a_click_loads_one(chromium_page, root, studio):
    points = root.locator(".pl-point")
    expect(points).to_have_count(len(FAMILIES) - 1)  # a search would take seconds
    for family in FAMILIES:
        if FAMILIES[family].is_searched:
            continue
        (one,) = show.BubbleStudio(family, 4, 8).state()["runs"]
        numbers = f"{write_percent(one['bubble_fraction'])}, {write_seconds(one['makespan_s'])}"
        label = f"{family}: bubble fraction {numbers}, holds {max(one['most_held']):.3g}"
        expect(root.locator(f"[data-family='{family}']")).to_have_attribute("aria-label", label)

    def shown(*names):
        expect(root.locator(".pl-name")).to_have_text(list(names))
        expect(root.locator(".pl-point.pl-on")).to_have_attribute("data-family", names[0])
        expect(root.locator(".pl-point.pl-vs")).to_have_count(len(names) - 1)
        assert (studio.family, studio.compare) == (names[0], names[1] if len(names) > 1 else "")

    root.locator("[data-family='GPipe'] .pl-hit").click()
    shown("GPipe")
    root.locator("[data-family='ZB-V'] .pl-hit").click(modifiers=["Shift"])
    shown("GPipe", "ZB-V")
    root.locator("[data-family='ZB-V'] .pl-hit").click()
    shown("ZB-V", "GPipe")
    root.get_by_role("combobox", name="Compare with").select_option("ZB-V")
    shown("GPipe", "ZB-V")
    root.get_by_role("combobox", name="Schedule").select_option("ZB-V")
    shown("ZB-V", "GPipe")
    root.locator("[data-family='ZB-V']").focus()
    chromium_page.keyboard.press("ArrowRight")
    name = chromium_page.evaluate("document.activeElement.dataset.family")
    assert name not in ("ZB-V", None)
    chromium_page.keyboard.press("Enter")
    expect(root.locator(".pl-name").first).to_have_text(name)
    texts = root.locator(".pl-rail svg > text")
    assert any("%" in one for one in texts.all_text_contents())
    root.get_by_role("button", name="bubble against memory").click()
    expect(root.get_by_role("button", name="step time against memory")).to_be_visible()
    assert any(one.endswith(" s") for one in texts.all_text_contents())
    heights = {name: root.locator(f"[data-family='{name}'] .pl-dot").bounding_box()["y"] for name in ("GPipe", "ZB-V")}
    assert heights["ZB-V"] > heights["GPipe"], "less time is lower"


# Zoom, pan, brush


def test_only_the_wheel_with_ctrl_zooms_and_the_plain_one_scrolls_the_page(chromium_page, root):
    plot = Plot(root)
    chromium_page.evaluate(
        "document.body.append(Object.assign(document.createElement('p'), { style: 'height: 3000px' }))"
    )
    whole = plot.picture()
    plot.point(1, 20)
    chromium_page.mouse.wheel(0, 200)
    chromium_page.wait_for_function("window.scrollY > 100")
    assert plot.picture() == whole
    chromium_page.evaluate("window.scrollTo(0, 0)")
    chromium_page.wait_for_function("window.scrollY === 0")
    plot.point(1, 20.0)
    chromium_page.keyboard.down("Control")
    chromium_page.mouse.wheel(0, -208)
    chromium_page.keyboard.up("Control")
    differs = "([node, old]) => node.toDataURL() !== old"
    chromium_page.wait_for_function(differs, arg=[plot.base.element_handle(), whole])
    assert chromium_page.evaluate("window.scrollY") == 0
    zoomed = plot.picture()
    expect(live_of(root)).to_contain_text("rank 1")
    times = axis_of(root)
    assert 6 < times[0] <= 20 <= times[-1] < 32, "the time under the pointer stays"
    plot.pic.focus()
    chromium_page.mouse.move(2, 2)
    box = plot.pic.bounding_box()
    chromium_page.mouse.move(box["x"] + 400, box["y"] + 60)  # zoomed: a drag moves
    chromium_page.mouse.down()
    chromium_page.mouse.move(box["x"] + 300, box["y"] + 60)
    chromium_page.mouse.up()
    assert plot.picture() != zoomed
    assert axis_of(root)[-1] > times[-1] or axis_of(root)[0] > times[0]
    for back in ("0", "Escape"):
        plot.pic.focus()
        chromium_page.keyboard.press(back)
        chromium_page.mouse.move(2, 2)
        assert plot.picture() == whole
        chromium_page.keyboard.press("+")
        assert plot.picture() != whole
        chromium_page.keyboard.press("PageDown")
    chromium_page.keyboard.press("Escape")
    drawer = open_drawer(root)
    drawer.get_by_role("button", name="Zoom in").click()
    assert plot.picture() != whole
    drawer.get_by_role("button", name="Fit").click()
    assert plot.picture() == whole


def axis_of(root):
    """The times below the plots, in seconds."""
    texts = root.locator(".pl-axis canvas").evaluate(WRITTEN_ON)
    return [float(one.removesuffix(" s")) for one in texts]


def test_a_drag_selects_times_and_z_zooms_into_them(chromium_page, pair):
    studio, root = pair
    one, other = Plot(root, 0), Plot(root, 1)
    whole = one.picture()
    one.drag(1, 6.0, 9.0, 12.0)
    said = live_of(root).text_content()
    assert (
        found := re.match(r"([\d.]+) s to ([\d.]+) s, ([\d.]+) s: 1F1B idle ([\d.]+) %, ZB-H1 idle ([\d.]+) %\.", said)
    )
    begun, over, _, *idle = map(float, found.groups())
    assert begun == pytest.approx(6, abs=0.1) and over == pytest.approx(12, abs=0.1)
    for family, percent in zip(("1F1B", "ZB-H1"), idle, strict=True):
        spans = show.BubbleStudio(family, 4, 8).timeline.spans
        busy = sum(max(0.0, min(over, span.end) - max(begun, span.start)) for span in spans)
        assert percent == pytest.approx(100 * (1 - busy / (4 * (over - begun))), abs=0.06)
    for plot in (one, other):
        assert plot.fill_at(1, 9.0, above=True)[1] == 0 and plot.fill_at(1, 20.0, above=True) == (LIGHT.ground, 158)
    one.pic.focus()
    chromium_page.keyboard.press("z")
    assert 6 <= axis_of(root)[0] and axis_of(root)[-1] <= 12
    chromium_page.mouse.move(2, 2)
    assert one.fill_at(1, 20.0, above=True)[1] == 0
    chromium_page.keyboard.press("Escape")
    assert one.picture() == whole
    one.drag(1, 6.0, 12.0)
    chromium_page.mouse.move(2, 2)
    assert one.fill_at(1, 20.0, above=True)[1] > 0
    chromium_page.keyboard.press("Escape")
    assert one.fill_at(1, 20.0, above=True)[1] == 0
    assert one.picture() == whole, "Escape lets go before it zooms out"
    assert studio.selected == ""


# Large sizes


def test_32_by_256_is_woven_and_not_moire(chromium_page):
    """Neighbouring columns of the steady phase hardly differ, its lanes are F above B, and long waits stay sharp."""
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    studio = show.BubbleStudio("1F1B", 32, 256, Costs(1.0, 0.9, 0.5, p2p=0.1))
    root = mount(chromium_page, studio, with_kernel=False)  # whose overview would take long
    long = studio.timeline.makespan
    plot = Plot(root, view=(0, long), ranks=32)
    for rank in (1, 16, 30):
        place, end = plot.at(rank, 0.35 * long), plot.at(rank, 0.65 * long)
        wide, high = int(end.x - place.x), int(place.box)
        cells = [colour for colour, _ in plot.pixels(int(place.x), int(place.y), wide, high)]
        rows = [cells[y * wide : (y + 1) * wide] for y in range(high)]
        jumps = sum(contrast(*two) > 1.12 for row in rows for two in pairwise(row))
        assert jumps < 0.01 * wide * high, f"{jumps} of {wide * high} neighbours differ on rank {rank}"
        blue, orange = (int(rows[at][wide // 2][5:7], 16) - int(rows[at][wide // 2][1:3], 16) for at in (1, -3))
        assert blue > 0 > orange, "forward lies above backward"
    for rank, time in ((31, 10.0), (31, long - 10.0), (16, 4.0)):
        assert plot.idle_at(rank, time) == {LIGHT.idle}, "idle time before and after is one ink"
    place = plot.at(31, 0)
    row = [colour for colour, _ in plot.pixels(place.x, place.y + place.box / 2, plot.at(31, long).x - place.x)]
    waits = sum(colour == LIGHT.idle for colour in row) / len(row)
    ends = span_of_rank(studio, 31)
    assert waits == pytest.approx(1 - (ends[1] - ends[0]) / long, abs=0.02)
    plot.point(16, 0.5 * long)
    expect(live_of(root)).to_contain_text("rank 16")
    plot.pic.focus()
    for _ in range(6):
        chromium_page.keyboard.press("+")
    assert any(re.fullmatch(r"[FB]?\d+", one) for one in plot.words()[40:]), "boxes again when zoomed in"


def span_of_rank(studio, rank):
    spans = [one for one in studio.timeline.spans if one.rank == rank]
    return min(one.start for one in spans), max(one.end for one in spans)


# The tour


@pytest.fixture
def stopped_page(own_page):
    """A page whose clock moves only when it is told to."""
    own_page.set_viewport_size({"width": 1000, "height": 700})
    own_page.clock.install(time=0)
    own_page.clock.pause_at(1000)
    return own_page


def test_keys_1_to_5_are_a_tour_that_moves(stopped_page, studio):
    root = mount(stopped_page, studio)
    plot = Plot(root)
    plot.pic.focus()
    stopped_page.clock.run_for(2000)
    for key, family in enumerate(TOUR, 1):
        before, shown = plot.picture(), plot.big.text_content()
        stopped_page.keyboard.press(str(key))
        expect(root.locator(".pl-name")).to_have_text(family)
        stopped_page.wait_for_function("family => model.get('view').runs[0].name === family", arg=family)
        pictures = []
        for ms in (100, 300, 300, 160, 100, 300):
            stopped_page.clock.run_for(ms)
            pictures.append(plot.picture())
        assert pictures[-2] == pictures[-1], "it is still after 900 ms"
        if family != "1F1B" or studio.family != family:
            assert pictures[-1] != before
        assert len(set(pictures[:4])) == 4 and before not in pictures, f"{family} moves"
        after = write_percent(studio.state()["runs"][0]["bubble_fraction"])
        expect(plot.big).to_have_text(after)
        expect(live_of(root)).to_contain_text(f"{family}. ")
        assert studio.family == family and shown


def test_with_reduced_motion_the_tour_is_at_its_place_at_once(stopped_page, studio):
    stopped_page.emulate_media(reduced_motion="reduce")
    root = mount(stopped_page, studio)
    plot = Plot(root)
    stopped_page.clock.run_for(2000)
    plot.pic.focus()
    stopped_page.keyboard.press("1")
    expect(root.locator(".pl-name")).to_have_text("GPipe")
    stopped_page.wait_for_function("model.get('view').runs[0].name === 'GPipe'")
    at_once = plot.picture()
    stopped_page.clock.run_for(400)
    assert plot.picture() == at_once


# Keys


def test_the_timeline_is_near_and_arrows_walk_it(chromium_page, pair):
    studio, root = pair
    chromium_page.evaluate(bench.PASSED)
    live, press = live_of(root), chromium_page.keyboard.press
    expect(live).to_have_attribute("aria-live", "polite")
    root.get_by_role("combobox", name="Schedule").focus()
    for _ in range(3):
        if chromium_page.evaluate("document.activeElement.className") != "pl-pic":
            press("Tab")
    expect(root.locator(".pl-pic").first).to_be_focused()
    press("ArrowRight")
    expect(live).to_contain_text("0F0, rank 0: forward of micro-batch 0, 0 s to 1 s. It needs nothing")
    press("ArrowDown")
    press("End")
    press("ArrowLeft")
    expect(live).to_have_text(
        "1B6, rank 1: backward of micro-batch 6, 26 s to 28 s. The rank was idle 1 s, waiting for 2B6 of rank 2."
    )
    assert studio.selected == "1B6"
    press("Home")
    expect(live).to_contain_text(
        "1F0, rank 1: forward of micro-batch 0, 1 s to 2 s. The rank was idle 1 s, waiting for 0F0 of rank 0."
    )
    for rank in (2, 3):
        press("ArrowDown")
        expect(live).to_contain_text(f"rank {rank}:")
    press("ArrowDown")
    expect(root.locator(".pl-pic").nth(1)).to_be_focused()
    press("ArrowRight")
    expect(live).to_contain_text("0F0, rank 0: forward")
    press("ArrowUp")
    expect(root.locator(".pl-pic").first).to_be_focused()
    press("Escape")
    assert studio.selected == ""
    press("Tab")
    press("Tab")
    focused = chromium_page.evaluate("document.activeElement.closest('.pl-rail') !== null")
    assert focused, "the overview comes behind the plots"
    assert set(chromium_page.evaluate("window.passed")) <= {"Tab", "Escape"}


def test_keys_in_the_row_and_the_drawer_stay_in_the_studio(chromium_page, root, studio):
    """JupyterLab would move to another cell at an arrow, and a checkbox or a summary answers to space."""
    chromium_page.evaluate(bench.PASSED)
    press = chromium_page.keyboard.press
    focused = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
    root.get_by_role("combobox", name="Schedule").focus()
    for name in ("Compare with", "fewer ranks", "Ranks", "more ranks", "fewer micro-batches", "Micro-batches"):
        press("ArrowRight")
        assert chromium_page.evaluate(focused) == name
    press("ArrowUp")
    Plot(root).has("4 ranks, 10 micro-batches")
    for name in ("more micro-batches", "one step", "steady state", "more…"):
        press("ArrowRight")
        assert chromium_page.evaluate(focused) == name
    press("ArrowLeft")
    press("Space")
    expect(Plot(root).rest).to_contain_text("a step every")
    for key in ("ArrowDown", "ArrowUp", "ArrowRight", "Enter"):
        press(key)
    expect(root.get_by_role("dialog")).to_be_visible()
    drawer = root.get_by_role("dialog")
    for trait, name in (("shades", "a shade per micro-batch"), ("critical", "critical path")):
        drawer.get_by_role("checkbox", name=name).focus()
        press("Space")
        chromium_page.wait_for_function("trait => model.get(trait) === true", arg=trait)
    drawer.locator("summary").focus()
    press("Space")
    expect(drawer.get_by_role("spinbutton", name="F of stage 0")).to_be_visible()
    expect(drawer.get_by_role("button", name="Play")).to_be_visible()
    press("ArrowDown")
    press("Escape")
    expect(root.get_by_role("dialog")).to_have_count(0)
    assert chromium_page.evaluate(focused) == "more…"
    for key in ("x", "d", "a", "m", "1", "Home", "End", "ArrowDown"):
        press(key)
    assert chromium_page.evaluate("window.passed") == []
    assert studio.shades and studio.critical


def test_step_and_play_say_who_is_busy(own_page, studio):
    own_page.emulate_media(reduced_motion="reduce")
    own_page.clock.install()
    root = mount(own_page, studio)
    live, drawer = live_of(root), open_drawer(root)
    drawer.get_by_role("button", name="Step forward").click()
    expect(live).to_have_text("t = 0 s, 1 of 4 ranks busy: rank 0 F0, rank 1 idle, rank 2 idle, rank 3 idle")
    drawer.get_by_role("button", name="Step forward").click()
    expect(live).to_have_text("t = 1 s, 2 of 4 ranks busy: rank 0 F1, rank 1 F0, rank 2 idle, rank 3 idle")
    root.locator(".pl-pic").focus()
    own_page.keyboard.press("Space")
    expect(root.get_by_role("button", name="Pause")).to_be_visible()
    expect(live).to_have_attribute("aria-live", "off")
    own_page.clock.run_for(800)
    expect(live).to_contain_text("t = 2 s, 3 of 4 ranks busy")
    own_page.clock.run_for(60_000)
    expect(live).to_contain_text("t = 33 s, 0 of 4 ranks busy")
    expect(root.get_by_role("button", name="Play")).to_be_visible()
    own_page.keyboard.press(",")
    own_page.keyboard.press(",")
    expect(live).to_contain_text("t = 2")
    own_page.keyboard.press(".")
    own_page.keyboard.press("Escape")
    expect(live).to_contain_text("1F1B. A backward as soon as")


def test_the_critical_path_is_lit(chromium_page, root, studio):
    plot, drawer = Plot(root), open_drawer(root)
    drawer.get_by_role("checkbox", name="critical path").check()
    chromium_page.wait_for_function("model.get('path').byteLength > 0")
    lit = mix(LIGHT.hues["B"], LIGHT.ground, LIGHT.lit)
    assert plot.fill_at(3, 4.9, above=True) == (lit, 255)
    assert plot.fill_at(0, 3.5, above=True)[1] < 255, "0F3 is not on the path and is paler"
    assert studio.critical


# The way from an input to the frame


def test_the_next_sizes_are_drawn_before_the_kernel_answers(chromium_page, root, studio):
    rest(chromium_page)
    chromium_page.evaluate(HOLD_BACK)
    plot, box = Plot(root), root.get_by_role("spinbutton", name="Ranks")
    for ranks in (5, 6):
        box.press("ArrowUp")
        plot.has(f"{ranks} ranks")
        rest(chromium_page)
    assert studio.num_ranks == 4
    early, numbers = plot.picture(), plot.head.inner_text()
    for ranks in (5, 6):  # the answer for 5 comes while 6 is on screen, and changes nothing
        chromium_page.evaluate("window.let_go()")
        chromium_page.wait_for_function(
            "ranks => window.model.get('view').runs[0].title.includes(`${ranks} ranks`)", arg=ranks
        )
        plot.has("6 ranks")
    assert studio.num_ranks == 6
    assert (plot.picture(), plot.head.inner_text()) == (early, numbers)


def test_where_the_kernel_disagrees_with_what_was_foreseen_it_is_right(chromium_page, studio, monkeypatch):
    view_of = bubble_studio.view_of

    def another(screen):
        view = view_of(screen)
        return view | {"runs": [view["runs"][0] | {"title": "another"}, None, None]}

    monkeypatch.setattr(bubble_studio, "view_of", another)
    root = mount(chromium_page, studio)
    rest(chromium_page)
    monkeypatch.undo()
    chromium_page.evaluate(HOLD_BACK)
    root.get_by_role("spinbutton", name="Ranks").press("ArrowUp")
    expect(Plot(root).pic).to_have_attribute("aria-label", re.compile("^another"))
    chromium_page.evaluate("window.let_go()")
    Plot(root).has("5 ranks")


def measured_by(schedule):
    return Timeline.of(simulate(schedule).spans, "real", schedule.num_ranks)


def test_what_was_foreseen_before_a_run_lacks_it_and_is_forgotten(chromium_page):
    root = mount(chromium_page, show.BubbleStudio("1F1B", 4, 8, run=measured_by))
    rest(chromium_page)
    for size in (10, 8):  # there and back: both sizes have been on screen
        root.get_by_role("button", name="more micro-batches" if size == 10 else "fewer micro-batches").click()
        Plot(root).has(f"4 ranks, {size} micro-batches")
    root.get_by_role("button", name="Run it").click()
    expect(root.locator(".pl-plot")).to_have_count(2)
    rest(chromium_page)
    root.get_by_role("button", name="more micro-batches").click()
    expect(root.locator(".pl-plot")).to_have_count(1)
    rest(chromium_page)
    chromium_page.evaluate(HOLD_BACK)
    root.get_by_role("button", name="fewer micro-batches").click()
    expect(root.locator(".pl-plot")).to_have_count(2)


@pytest.mark.parametrize("foreseen", [False, True])
def test_what_the_kernel_refuses_is_taken_back(chromium_page, root, studio, monkeypatch, foreseen):
    plot, box = Plot(root), root.get_by_role("spinbutton", name="Ranks")

    def refuse(name, value):
        if (name, value) == ("num_ranks", 6):
            raise ValueError("six is refused")

    monkeypatch.setattr(bubble_studio, "check_size", refuse)
    if foreseen:
        box.press("ArrowUp")
        plot.has("5 ranks")
        rest(chromium_page)
        box.press("ArrowUp")
    else:
        box.fill("6")
        box.press("Enter")
    expect(box).to_have_value("6")
    chromium_page.wait_for_function("was => window.model.get('num_ranks') === was", arg=5 if foreseen else 4)
    expect(box).to_have_value("5" if foreseen else "4")
    plot.has("5 ranks" if foreseen else "4 ranks")
    chromium_page.wait_for_timeout(300)
    expect(root).not_to_have_class(re.compile("pl-waits"))
    box.fill("7")
    box.press("Enter")
    plot.has("7 ranks")


def test_what_cannot_be_is_said_and_the_picture_stays(chromium_page):
    own = Schedule(one_f_one_b(3, 4).rows, "mine")
    studio = show.BubbleStudio(own)
    root = mount(chromium_page, studio)
    picture = Plot(root).picture()
    root.get_by_role("button", name="more ranks").click()
    expect(root.get_by_role("alert")).to_contain_text("mine is for 3 ranks, 4 micro-batches and not for 4 ranks")
    Plot(root).has("3 ranks, 4 micro-batches")
    root.get_by_role("button", name="fewer ranks").click()
    expect(root.get_by_role("alert")).to_have_count(0)
    chromium_page.wait_for_function(
        "([node, old]) => node.toDataURL() === old", arg=[Plot(root).base.element_handle(), picture]
    )


def test_a_stepper_that_rests_says_the_numbers(chromium_page, root):
    spoken = root.locator(".pl-spoken")
    expect(spoken).to_have_attribute("aria-live", "polite")
    root.get_by_role("spinbutton", name="Ranks").press("ArrowUp")
    expect(spoken).to_have_text("1F1B, 5 ranks, 8 micro-batches, simulated: bubble fraction 33.3 %, 36 s, holds 5.")


def test_run_lays_the_measured_plot_below(chromium_page):
    def run(schedule):
        spans = simulate(schedule, Costs(1.1, 1.1, 1.1)).spans
        return Timeline.of([Span(*one) for one in spans], "emulated", schedule.num_ranks)

    root = mount(chromium_page, show.BubbleStudio("1F1B", 4, 8, run=run))
    root.get_by_role("button", name="Run it").click()
    expect(root.locator(".pl-plot")).to_have_count(2)
    expect(root.locator(".pl-rest").nth(1)).to_have_text("one step 36.3 s, 3.3 s more · holds 4 · emulated (sleep)")
    below = Plot(root, 1, view=(0, 36.3))
    assert below.fill_at(0, 3.9)[0] == LIGHT.fill_of("F")
    below.point(0, 3.9)
    expect(live_of(root)).to_contain_text("0F3, rank 0, emulated (sleep): forward of micro-batch 3, 3.3 s to 4.4 s")
    root.get_by_role("combobox", name="Compare with").select_option("GPipe")
    expect(root.locator(".pl-name")).to_have_text(["1F1B", "1F1B", "GPipe"])
    root.get_by_role("button", name="more ranks").click()
    expect(root.locator(".pl-name")).to_have_text(["1F1B", "GPipe"])


def test_only_an_answered_input_counts_as_a_repaint(chromium_page):
    root = mount(chromium_page, show.BubbleStudio("1F1B", 4, 8, run=simulate))
    root.get_by_role("spinbutton", name="Micro-batches", exact=True).focus()
    assert measure(chromium_page, root, ["ArrowUp", "ArrowUp"])
    root.evaluate("node => delete node.dataset.plRepaintMs")
    root.get_by_role("button", name="Run it").click()
    expect(root.locator(".pl-plot")).to_have_count(2)
    chromium_page.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert root.get_attribute("data-pl-repaint-ms") is None


@pytest.mark.exhaustive
@pytest.mark.parametrize(("p", "m"), [(16, 64), (32, 256)])
def test_the_repaint_is_measured_from_the_input_to_the_painted_frame(chromium_page, record_property, p, m):
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    root = bench.mount_with_kernel(chromium_page, show.BubbleStudio("1F1B", p, m))
    measure_all(chromium_page, root, f"p = {p}, m = {m}, bare page", record_property)


NUMBERS = [0, 1, 33, 861, 1234.5, 99_999, 0.412, 0.0185, 1.25, 9.999, 12.04, 0.00062, 0.99996, 0.9994]


def test_numbers_are_written_as_python_writes_them(chromium_page, root):
    written = chromium_page.evaluate("numbers => numbers.map((one) => parts.writeSeconds(one))", NUMBERS)
    assert written == [write_seconds(one) for one in NUMBERS]
    shares = [0.1176, 0.2727, 1 / 3, 0.05, 1.0]
    assert chromium_page.evaluate("all => all.map((one) => parts.writePercent(one))", shares) == [
        *map(write_percent, shares)
    ]


# Files


def test_exports_are_downloads(chromium_page, root, studio):
    contents, drawer = {}, open_drawer(root)
    for kind in ("PNG", "SVG", "CSV", "Trace", "HTML"):
        with chromium_page.expect_download() as download:
            drawer.get_by_role("button", name=kind, exact=True).click()
        contents[download.value.suggested_filename] = download.value.path().read_bytes()
    stem = "1f1b-4-ranks-8-micro-batches"
    assert list(contents) == [f"{stem}.{suffix}" for suffix in ("png", "svg", "csv", "trace.json", "html")]
    picture = Image.open(io.BytesIO(contents[f"{stem}.png"]))
    assert picture.convert("RGBA").getchannel("A").getextrema() == (255, 255)
    assert b"<svg" in contents[f"{stem}.svg"]
    assert Schedule.from_csv(contents[f"{stem}.csv"].decode()) == one_f_one_b(4, 8)
    assert len([one for one in json.loads(contents[f"{stem}.trace.json"])["traceEvents"] if one["ph"] == "X"]) == 64
    assert contents[f"{stem}.html"].startswith(b"<!doctype html>")


def open_page(page, path, studio):
    """The exported page, and the list of what it asks for."""
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    root = page.locator('.pl-studio[data-pl-state="ready"]')
    root.wait_for()
    page.evaluate(PREPARE, str(studio._esm))
    return root, asked


@bench.both_schemes
def test_the_page_keeps_its_controls_without_kernel_or_network(chromium_page, tmp_path):
    studio = show.BubbleStudio("1F1B", 4, 8, compare="GPipe")
    path = tmp_path / "studio.html"
    studio.export_html(path)
    assert path.stat().st_size <= 1_000_000
    root, asked = open_page(chromium_page, path, studio)
    look = DARK if chromium_page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else LIGHT
    plot = Plot(root)
    strong = plot.fill_at(0, 0.5)[0]
    assert is_near(strong, look.fill_of("F"), 8)
    plot.point(2, 7.0)
    expect(live_of(root)).to_contain_text("2B0, rank 2: backward of micro-batch 0")
    chromium_page.mouse.move(2, 2)
    plot.pic.focus()
    for key, family in ((5, "ZB-H2"), (4, "ZB-H1"), (3, "interleaved 1F1B"), (2, "1F1B")):
        chromium_page.keyboard.press(str(key))
        expect(root.locator(".pl-name").first).to_have_text(family)
        (one,) = show.BubbleStudio(family, 4, 8).state()["runs"]
        expect(plot.big).to_have_text(write_percent(one["bubble_fraction"]))
    for name, sizes in (
        ("more ranks", "8 ranks, 8"),
        ("more micro-batches", "8 ranks, 16"),
        ("fewer ranks", "4 ranks, 16"),
    ):
        root.get_by_role("button", name=name).click()
        plot.has(sizes)
    expect(root.locator(".pl-big").nth(1)).to_have_text("15.8 %")  # 3 / 19, both
    box = root.get_by_role("spinbutton", name="Micro-batches", exact=True)
    box.fill("29")
    box.press("Enter")
    plot.has("4 ranks, 32 micro-batches")
    expect(box).to_have_value("32")
    root.get_by_role("combobox", name="Compare with").select_option("ZB-V")
    expect(root.locator(".pl-name")).to_have_text(["1F1B", "ZB-V"])
    root.get_by_role("combobox", name="Schedule").select_option("ZB-H2")
    root.get_by_role("button", name="steady state").click()
    expect(plot.big).to_have_text("0 %")
    expect(root.locator(".pl-point")).to_have_count(len(FAMILIES) - 1)
    root.locator("[data-family='V-min'] .pl-hit").click()
    expect(root.locator(".pl-name").first).to_have_text("V-min")
    root.get_by_role("combobox", name="Schedule").select_option("zero bubble search")
    expect(root.get_by_role("alert")).to_have_text(
        "the page has no zero bubble search for 4 ranks and 32 micro-batches; choose another size"
    )
    root.get_by_role("combobox", name="Schedule").select_option("ZB-V")
    expect(root.get_by_role("alert")).to_have_count(0)
    root.get_by_role("button", name="one step").click()
    drawer = open_drawer(root)
    files = {}
    for kind in ("PNG", "CSV"):
        with chromium_page.expect_download() as download:
            drawer.get_by_role("button", name=kind, exact=True).click()
        files[kind] = download.value.path().read_bytes()
    assert download.value.suggested_filename == "zb-v-4-ranks-32-micro-batches.csv"
    assert Schedule.from_csv(files["CSV"].decode()).rows == show.BubbleStudio("ZB-V", 4, 32).schedule.rows
    image = Image.open(io.BytesIO(files["PNG"])).convert("RGB")
    colours = {f"#{red:02X}{green:02X}{blue:02X}" for _, (red, green, blue) in image.getcolors(1 << 20)}
    assert image.width > 500 and look.idle in colours
    drawer.get_by_role("button", name="Show as table").click()
    expect(root.locator(".pl-table tbody tr")).to_have_count(500)
    drawer.get_by_role("button", name="Show as table").click()
    drawer.get_by_role("button", name="Play").click()
    expect(live_of(root)).to_contain_text("t = ")
    assert all(url.startswith(("file:", "blob:")) for url in asked), asked


@pytest.mark.parametrize(
    "name",
    ["<!--<script>", "</script><script>alert(1)</script>", "\"quoted\" & 'so' {title} \\", "🚀 Zeitplan, ü", "a|b"],
    ids=["comment", "script", "quotes", "emoji", "separator"],
)
def test_the_page_of_a_schedule_with_any_name_is_drawn(chromium_page, tmp_path, name):
    studio = show.BubbleStudio(Schedule(one_f_one_b(2, 2).rows, name), compare="GPipe")
    studio.export_html(tmp_path / "studio.html", ranks=(2,), microbatches=(2,))
    root, _ = open_page(chromium_page, tmp_path / "studio.html", studio)
    expect(root.locator(".pl-name")).to_have_text([name, "GPipe"])
    assert chromium_page.title() == f"{name}, 2 ranks, 2 micro-batches"
    root.get_by_role("combobox", name="Schedule").select_option("1F1B")
    expect(root.locator(".pl-name")).to_have_text(["1F1B", "GPipe"])
    root.get_by_role("combobox", name="Schedule").select_option(name)
    expect(root.locator(".pl-name")).to_have_text([name, "GPipe"])
    with chromium_page.expect_download() as download:
        open_drawer(root).get_by_role("button", name="CSV").click()
    assert Schedule.from_csv(download.value.path().read_text()).rows == one_f_one_b(2, 2).rows
