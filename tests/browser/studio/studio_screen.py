"""A studio in a bare page as a test reads it: where its plots draw an instant, and the pixels and words there."""

import re
from types import SimpleNamespace

from pllab import show
from pllab.simulate import simulate
from tests.browser import bench
from tests.browser.bench import expect
from tests.show.recorded import recorded

# The studio's own functions as `window.parts`, and what it writes on its canvases from now on as `window.written`.
PREPARE = f"""async (source) => {{
  {bench.LOAD}
  window.parts ??= await load(source +
    "\\nexport {{ scaleOf, labelOf, heldOf, runOf }};" +
    "\\nexport {{ writeCount, writeSeconds, writePercent, roundStep, mix }};");
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


class Plot:
    """One schedule on screen, with the times in view."""

    def __init__(self, root, number=0, view=(0.0, 33.0), ranks=4):
        self.root, self.page, self.view, self.ranks = root, root.page, list(view), ranks
        self.pic = root.locator(".pl-pic").nth(number)
        self.base, self.above = (self.pic.locator("canvas").nth(layer) for layer in (0, 1))
        self.head = root.locator(".pl-head").nth(number)
        self.big, self.rest = self.head.locator(".pl-big"), self.head.locator(".pl-rest")

    def at(self, rank, time):
        """The left upper corner, x and y, of what is drawn at an instant; heights of box and memory, and row to row."""
        return SimpleNamespace(**self.pic.evaluate(PLACE, [rank, time, self.view, self.ranks]))

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

    def words(self):
        """What is written on the picture."""
        return self.base.evaluate(WRITTEN_ON)

    def picture(self):
        return self.base.evaluate(PICTURE)

    def has(self, sizes):
        """Wait until the schedule has these sizes, `5 ranks, 8 micro-batches`."""
        expect(self.pic).to_have_attribute("aria-label", re.compile(f", {sizes}"))


def mount(page, studio):
    root = bench.mount(page, studio)
    page.evaluate(PREPARE, str(studio._esm))
    return root


def run_slowly(schedule, costs):
    """A run a tenth slower than predicted with costs of 1 s."""
    return recorded(simulate(schedule), slower=1.1)


def live_of(root):
    return root.locator(".pl-live")


def open_drawer(root):
    root.get_by_role("button", name="more…").click()
    return root.get_by_role("dialog", name="More controls")


def span_of(family, action, p=4, m=8):
    """When a family's action runs, by Python."""
    return next(one for one in show.BubbleStudio(family, p, m).timeline.spans if str(one.action) == action)


def is_near(one, other, most=3):
    """Whether two colours are the same but for rounding."""
    return all(abs(int(one[at : at + 2], 16) - int(other[at : at + 2], 16)) <= most for at in (1, 3, 5))
