"""The bubble studio in a bare page whose kernel is this process: what the browser sends is simulated and sent back."""

import base64
import csv
import io
import json
import re

import pytest
from PIL import Image

from pllab import show
from pllab.schedule import Kind, Schedule, needs, one_f_one_b
from pllab.show.studio import bubble_studio
from pllab.show.studio.settings import FAMILIES
from pllab.show.theme import write_seconds
from pllab.simulate import Costs, gaps, simulate
from pllab.timeline import Span, Timeline
from tests.browser import bench
from tests.browser.repaint import measure, measure_all

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

# What the browser works out from the bytes of each schedule: what waits for what, by names, and what is said of every
# gap and of what is behind each rank's last action.
WORKED_OUT = f"""async ([source, blocks]) => {{
  {bench.LOAD}
  const js = await load(source + "\\nexport {{ readActions, linksOf, labelOf, gapBefore, isLonger, sayGap }};");
  return blocks.map((text) => {{
    const actions = js.readActions(new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer));
    const links = js.linksOf(actions);
    const name = (i) => js.labelOf(actions, i, true);
    const waits = [...actions.rank].map((_, i) => [name(i), links.before(i).map(name), links.after(i).map(name)]);
    const said = [];
    for (let rank = 0; rank < actions.numRanks; rank += 1) {{
      for (let i = actions.first[rank]; i <= actions.first[rank + 1]; i += 1) {{
        const gap = js.gapBefore(actions, rank, i);
        if (js.isLonger(gap.to, gap.from, actions)) said.push(js.sayGap(actions, links, gap));
      }}
    }}
    return [waits, said];
  }});
}}"""

WRITTEN = f"""async ([source, numbers]) => {{
  {bench.LOAD}
  const js = await load(source + "\\nexport {{ writeSeconds }};");
  return numbers.map((one) => js.writeSeconds(one));
}}"""

PIXEL = """(canvas, [x, y]) => {
  const at = [x * devicePixelRatio, y * devicePixelRatio, 1, 1];
  return [...canvas.getContext("2d").getImageData(...at).data];
}"""


@pytest.fixture(autouse=True)
def _tall_enough(chromium_page):
    chromium_page.set_viewport_size({"width": 1000, "height": 1200})  # rows at their full height


@pytest.fixture
def studio():
    return show.BubbleStudio("1F1B", 4, 8)


@pytest.fixture
def root(chromium_page, studio):
    return bench.mount_with_kernel(chromium_page, studio)


def colour_at(root, x, y):
    """The colour of a point of the lower canvas, in CSS pixels."""
    return root.locator("canvas").first.evaluate(PIXEL, [x, y])


def place_of(root, rank, time, makespan=33.0):
    """Where an instant of a rank is drawn in a studio of 4 ranks at normal size, in CSS pixels of the canvas."""
    width = root.locator(".pl-stage").evaluate("node => node.clientWidth")
    return 72 + (width - 72 - 16) * time / makespan, 25 + 36 * (rank + 0.5)


def point_at(page, root, rank, time):
    box = root.locator("canvas").first.bounding_box()
    x, y = place_of(root, rank, time)
    page.mouse.move(box["x"] + x, box["y"] + y)


@bench.both_schemes
def test_boxes_have_their_colours_and_both_numbers_are_there(root):
    x, y = place_of(root, 0, 0.5)
    assert colour_at(root, x, y - 12) == [0x00, 0x72, 0xB2, 255]
    x, y = place_of(root, 0, 10.5)
    assert colour_at(root, x, y - 12) == [0xE6, 0x9F, 0x00, 255]
    idle = [colour_at(root, x + step, y) for x, y in [place_of(root, 0, 7)] for step in range(12)]
    assert len({tuple(colour) for colour in idle}) > 1, "idle time is hatched"
    expect(root.locator(".pl-figures th")).to_contain_text(
        ["Bubble fraction, idle / all", "Bubble overhead, idle / busy"]
    )
    expect(root.locator(".pl-figures tbody td")).to_have_text(["1F1B", "simulated", "27.3 %", "37.5 %", "33 s", "4"])


def test_a_slider_by_keyboard_is_simulated_and_drawn(chromium_page, root, studio):
    root.get_by_role("slider", name="Ranks").focus()
    for _ in range(4):
        chromium_page.keyboard.press("ArrowRight")
    expect(root.locator(".pl-title")).to_have_text("1F1B, 8 ranks, 8 micro-batches engine: simulated")
    expect(root.locator(".pl-figures tbody")).to_contain_text("46.7 %")
    assert (studio.num_ranks, studio.costs.num_stages) == (8, None)
    root.get_by_role("slider", name="Forward F").focus()
    chromium_page.keyboard.press("Home")
    expect(root.get_by_role("spinbutton", name="Forward F")).to_have_value("0")
    assert chromium_page.evaluate("document.activeElement.type") == "range"


def test_a_drag_keeps_one_message_in_flight_and_the_last_position_wins(chromium_page, root, studio):
    slider = root.get_by_role("slider", name="Micro-batches")
    slider.evaluate("""node => { for (let value = 9; value <= 120; value += 1) {
      node.value = value; node.dispatchEvent(new Event("input", { bubbles: true })); } }""")
    expect(root.locator(".pl-title")).to_contain_text("120 micro-batches")
    assert studio.num_microbatches == 120
    assert chromium_page.evaluate("window.model.sent") <= 3


def test_family_compare_limit_and_stage_costs_by_their_labels(root, studio):
    root.get_by_label("Schedule", exact=True).select_option("GPipe")
    root.get_by_label("Compare with").select_option("1F1B")
    expect(root.locator(".pl-figures tbody tr")).to_have_count(2)
    root.get_by_label("Memory limit").fill("5")
    root.get_by_label("Memory limit").press("Tab")
    expect(root.get_by_role("alert")).to_have_text(re.compile("^GPipe: rank 0 holds 8 micro-batches, more than"))
    root.get_by_text("Costs per stage").click()
    cell = root.get_by_role("spinbutton", name="Forward F of stage 2")
    expect(cell).to_have_attribute("placeholder", "1")
    cell.fill("4")
    cell.press("Tab")
    expect(root.locator(".pl-figures tbody tr").first).to_contain_text(write_seconds(studio.timeline.makespan))
    assert studio.costs.duration(2, Kind.F) == 4.0
    root.get_by_role("button", name="Same for all").click()
    expect(root.locator(".pl-figures tbody tr").first).to_contain_text("33 s")


def test_arrow_keys_choose_an_action_and_say_what_it_waits_for(chromium_page, root, studio):
    live, stage = root.locator(".pl-live"), root.locator(".pl-stage")
    expect(live).to_have_attribute("aria-live", "polite")
    stage.focus()
    chromium_page.keyboard.press("Control+ArrowRight")
    expect(live).to_contain_text("Choose an action")
    chromium_page.keyboard.press("ArrowRight")
    expect(live).to_have_text(re.compile(r"^0F0, forward, on rank 0, simulated: 0 s to 1 s, 1 s\. Waits for nothing;"))
    chromium_page.keyboard.press("ArrowDown")
    chromium_page.keyboard.press("End")
    chromium_page.keyboard.press("ArrowLeft")
    expect(live).to_have_text(
        "1B6, backward, on rank 1, simulated: 26 s to 28 s, 2 s, after 1 s idle. "
        "Waits for 1F6 (done at 20 s) and 2B6 (done at 26 s) and 1B5 on its own rank; 0B6 waits for it."
    )
    assert studio.selected == "1B6"
    chromium_page.keyboard.press("Escape")
    expect(live).to_contain_text("Choose an action")
    assert studio.selected == ""


def exact(seconds):
    """A time with the digits that sentences have."""
    return f"{seconds:.5g} s" if seconds == 0 or seconds >= 1 else f"{seconds * 1e3:.5g} ms"


def sentences_of_gaps(studio):
    """What `pllab.simulate.gaps` finds, in the words of the browser: the parts of one wait are one gap there."""
    ends = {one.action: one.end for one in studio.timeline.spans}
    starting = {(one.rank, one.start): one.action for one in studio.timeline.spans}
    waits = []
    for gap in gaps(studio.schedule, studio.timeline, studio.costs):
        if waits and (waits[-1][-1].rank, waits[-1][-1].end) == (gap.rank, gap.start):
            waits[-1].append(gap)
        elif gap.duration > 1e-9:
            waits.append([gap])
    for parts in waits:
        rank, start, end = parts[0].rank, parts[0].start, parts[-1].end
        idle = f"rank {rank} idle {exact(start)} to {exact(end)}, {write_seconds(end - start)}"
        if parts[0].cause == "drain":
            yield f"{idle}: nothing left to do"
            continue
        (cause,) = {one.waited_for for one in parts}
        travels = end > ends[cause] + 1e-9
        assert travels == any(one.cause in ("message", "start-up") for one in parts)
        message = f", its message travels from {exact(ends[cause])} to {exact(end)}" if travels else ""
        action = starting[rank, end]
        yield f"{idle}: its next action {action} waits for {cause} (done at {exact(ends[cause])}){message}"


def test_what_waits_for_what_and_the_sentence_of_each_gap_are_pythons(chromium_page):
    studios = [show.BubbleStudio(family, 3, 5, Costs(1.0, 0.9, 0.4, p2p=0.35)) for family in FAMILIES]
    blocks = [base64.b64encode(studio.actions).decode() for studio in studios]
    answers = chromium_page.evaluate(WORKED_OUT, [str(show.BubbleStudio._esm), blocks])
    for studio, (waits, said) in zip(studios, answers, strict=True):
        present = set(studio.schedule.actions())
        before = {str(one): {str(need) for need in needs(one, studio.schedule.num_stages, present)} for one in present}
        assert {name: set(needed) for name, needed, _ in waits} == before, studio.family
        after = {name: {other for other, needed in before.items() if name in needed} for name in before}
        assert {name: set(waiting) for name, _, waiting in waits} == after, studio.family
        assert said == list(sentences_of_gaps(studio)), studio.family
        assert any("travels" in one for one in said) and any("nothing left" in one for one in said), studio.family


@bench.both_schemes
def test_the_mouse_reads_a_gap_and_shows_its_cause(chromium_page, root, studio):
    live = root.locator(".pl-live")
    point_at(chromium_page, root, 3, 1.0)
    expect(live).to_have_text("rank 3 idle 0 s to 3 s, 3 s: its next action 3F0 waits for 2F0 (done at 3 s)")
    x, y = place_of(root, 2, 2.5)
    marked = root.locator("canvas.pl-above")
    assert marked.evaluate(PIXEL, [x, y - 16])[3] == 255, "the cause is outlined"
    point_at(chromium_page, root, 3, 30.5)
    expect(live).to_have_text("rank 3 idle 27 s to 33 s, 6 s: nothing left to do")
    assert marked.evaluate(PIXEL, [x, y - 16])[3] == 0
    chromium_page.mouse.down()
    chromium_page.mouse.up()
    assert studio.selected == "", "a gap is read and not chosen"
    chromium_page.mouse.move(2, 2)
    expect(live).to_contain_text("Choose an action")


def test_a_sentence_of_the_compared_run_names_it(chromium_page):
    studio = show.BubbleStudio("1F1B", 4, 8, compare="ZB-H1")
    studio.memory = False
    root = bench.mount_with_kernel(chromium_page, studio)
    root.locator(".pl-stage").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"):
        chromium_page.keyboard.press(key)
    live = root.locator(".pl-live")
    expect(live).to_contain_text("0F3, forward, on rank 0, ZB-H1, simulated: 3 s to 4 s")
    box = root.locator("canvas").first.bounding_box()
    height = root.locator("canvas").first.evaluate("node => node.clientHeight")
    chromium_page.mouse.move(box["x"] + 76, box["y"] + height - 30 - 4 - 10)
    expect(live).to_contain_text("ZB-H1, simulated: rank 3 idle 0 s to 3 s, 3 s: its next action 3F0 waits for 2F0")


def test_what_is_typed_into_a_whole_box_is_rounded_and_kept_in_range(chromium_page, root, studio):
    box = root.get_by_role("spinbutton", name="Ranks, exact")
    for typed, key, held in (
        ("2.7", "Enter", 3),
        ("99", "Tab", 32),
        ("-4", "Enter", 1),
        ("2.4", "Tab", 2),
        ("", "Tab", 2),
    ):
        box.fill(typed)
        box.press(key)
        expect(box).to_have_value(str(held))
        expect(root.locator(".pl-title")).to_contain_text(f"{held} rank")
        assert studio.num_ranks == held
    chromium_page.wait_for_timeout(300)
    expect(root).not_to_have_class(re.compile("pl-waits"))


@pytest.mark.parametrize("foreseen", [False, True])
def test_what_the_kernel_refuses_is_taken_back(chromium_page, root, studio, monkeypatch, foreseen):
    box = root.get_by_role("spinbutton", name="Ranks, exact")
    if foreseen:
        rest_on(chromium_page, root, "Ranks")

    def refuse(name, value):
        if (name, value) == ("num_ranks", 6):
            raise ValueError("six is refused")

    monkeypatch.setattr(bubble_studio, "check_size", refuse)
    if foreseen:
        chromium_page.keyboard.press("ArrowRight")
        expect(root.locator(".pl-title")).to_contain_text("5 ranks")
        chromium_page.keyboard.press("ArrowRight")
    else:
        box.fill("6")
        box.press("Enter")
    expect(box).to_have_value("6")
    chromium_page.wait_for_function("was => model.get('num_ranks') === was", arg=5 if foreseen else 4)
    expect(box).to_have_value("5" if foreseen else "4")
    expect(root.locator(".pl-title")).to_contain_text("5 ranks" if foreseen else "4 ranks")
    chromium_page.wait_for_timeout(300)
    expect(root).not_to_have_class(re.compile("pl-waits"))
    box.fill("7")
    box.press("Enter")
    expect(root.locator(".pl-title")).to_contain_text("7 ranks")


PLACES = """root => Object.fromEntries(["live", "stage", "legend", "bar", "figures"].map((part) => {
  const { top, bottom } = root.querySelector(`.pl-${part}`).getBoundingClientRect();
  return [part, [top, bottom]];
}))"""

SMALL, LARGE = (1280, 720), (1920, 1080)
HALLS = pytest.mark.parametrize(
    ("size", "projector"),
    [
        (SMALL, False),
        (LARGE, True),
        pytest.param(SMALL, True, marks=pytest.mark.exhaustive),
        pytest.param(LARGE, False, marks=pytest.mark.exhaustive),
    ],
    ids=["small", "large-projector", "small-projector", "large"],
)


@HALLS
def test_the_sentence_is_in_view_with_its_box(chromium_page, size, projector):
    width, height = size
    chromium_page.set_viewport_size({"width": width, "height": height})
    studio = show.BubbleStudio("1F1B", 4, 8, compare="ZB-H1", projector=projector)
    studio.memory = True
    root = bench.mount_with_kernel(chromium_page, studio)
    root.evaluate("node => node.querySelector('.pl-bar').scrollIntoView()")
    at = root.evaluate(PLACES)
    assert 0 <= at["bar"][0] < at["live"][0] < at["stage"][0] < at["legend"][0] and at["legend"][1] <= height
    root.evaluate("node => node.scrollIntoView()")
    root.locator(".pl-stage").focus()
    for ranks in (0, 1, 2, 3, 0, 1, 2, 3):  # down through both schedules
        chromium_page.keyboard.press("ArrowDown")
        expect(root.locator(".pl-live")).to_contain_text(f"on rank {ranks}")
        at, box = root.evaluate(PLACES), root.locator(".pl-reach").bounding_box()
        assert at["live"][0] >= 0 and at["live"][1] <= box["y"] and box["y"] + box["height"] <= height


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "height"), [SMALL, LARGE])
def test_with_32_ranks_the_sentence_stays_while_the_timeline_scrolls(chromium_page, width, height):
    chromium_page.set_viewport_size({"width": width, "height": height})
    studio = show.BubbleStudio("1F1B", 32, 64, compare="GPipe", projector=True)
    root = bench.mount_with_kernel(chromium_page, studio)
    root.locator(".pl-stage").focus()
    for _ in range(64):
        chromium_page.keyboard.press("ArrowDown")
    expect(root.locator(".pl-live")).to_contain_text("on rank 31, GPipe, simulated")
    at, box = root.evaluate(PLACES), root.locator(".pl-reach").bounding_box()
    assert 0 <= at["live"][0] and at["live"][1] <= box["y"] and box["y"] + box["height"] <= height


@HALLS
def test_neither_mouse_nor_play_nor_problem_moves_anything(chromium_page, size, projector):
    width, height = size
    chromium_page.set_viewport_size({"width": width, "height": height})
    root = bench.mount_with_kernel(chromium_page, show.BubbleStudio("GPipe", 4, 8, compare="1F1B", projector=projector))
    before = root.evaluate(PLACES)
    box = root.locator("canvas").first.bounding_box()
    for part in (0.1, 0.2, 0.3, 0.5):
        chromium_page.mouse.move(box["x"] + width * part, box["y"] + 60)
        assert root.evaluate(PLACES) == before
    root.get_by_role("button", name="Play").click()
    expect(root.locator(".pl-live")).to_contain_text("t = ")
    assert root.evaluate(PLACES) == before
    root.get_by_label("Memory limit").fill("5")
    root.get_by_label("Memory limit").press("Enter")
    expect(root.get_by_role("alert")).to_contain_text("GPipe: rank 0 holds 8 micro-batches")
    assert root.evaluate(PLACES) == before
    chromium_page.wait_for_timeout(500)  # the numbers are said now
    assert root.evaluate(PLACES) == before


@pytest.mark.parametrize(("width", "height", "ranks"), [(1280, 720, 4), (1920, 1080, 8)])
def test_at_a_desk_the_whole_comparison_fits_the_window(chromium_page, width, height, ranks):
    chromium_page.set_viewport_size({"width": width, "height": height + 40})
    root = bench.mount_with_kernel(chromium_page, show.BubbleStudio("1F1B", ranks, 8, compare="ZB-H1"))
    tall = root.bounding_box()["height"]
    assert tall <= height + 40
    chromium_page.set_viewport_size({"width": width, "height": height})
    fits = "height => document.querySelector('.pl-studio').offsetHeight <= height"
    chromium_page.wait_for_function(fits, arg=height)
    assert root.bounding_box()["height"] < tall


def test_the_mouse_reads_an_action_and_a_click_keeps_it(chromium_page, root, studio):
    live = root.locator(".pl-live")
    point_at(chromium_page, root, 2, 7.0)
    expect(live).to_contain_text("2B0, backward, on rank 2")
    chromium_page.mouse.down()
    chromium_page.mouse.up()
    chromium_page.mouse.move(2, 2)
    expect(live).to_contain_text("2B0, backward, on rank 2")
    assert studio.selected == "2B0"
    point_at(chromium_page, root, 0, 7.0)
    expect(live).to_contain_text("rank 0 idle 4 s to 10 s, 6 s: its next action 0B0 waits for 1B0 (done at 10 s)")
    chromium_page.mouse.move(2, 2)
    expect(live).to_contain_text("2B0, backward, on rank 2")


def test_zoom_by_key_wheel_and_button_and_back(chromium_page, root):
    picture = root.locator("canvas").first
    whole = picture.evaluate("canvas => canvas.toDataURL()")
    root.locator(".pl-stage").focus()
    for zoom in ("+", None, "button"):
        if zoom == "+":
            chromium_page.keyboard.press("+")
        elif zoom == "button":
            root.get_by_role("button", name="Zoom in").click()
        else:
            point_at(chromium_page, root, 1, 20)
            chromium_page.keyboard.down("Control")
            chromium_page.mouse.wheel(0, -200)
            chromium_page.keyboard.up("Control")
        chromium_page.wait_for_function(
            "([node, old]) => node.toDataURL() !== old", arg=[picture.element_handle(), whole]
        )
        root.locator(".pl-stage").focus()
        chromium_page.keyboard.press("0")
        chromium_page.wait_for_function(
            "([node, old]) => node.toDataURL() === old", arg=[picture.element_handle(), whole]
        )


def test_step_and_play_say_who_is_busy(own_page, studio):
    own_page.emulate_media(reduced_motion="reduce")
    own_page.clock.install()
    root = bench.mount_with_kernel(own_page, studio)
    live = root.locator(".pl-live")
    root.get_by_role("button", name="Step forward").click()
    expect(live).to_have_text("t = 0 s, 1 of 4 ranks busy: rank 0 F0, rank 1 idle, rank 2 idle, rank 3 idle")
    root.get_by_role("button", name="Step forward").click()
    expect(live).to_have_text("t = 1 s, 2 of 4 ranks busy: rank 0 F1, rank 1 F0, rank 2 idle, rank 3 idle")
    root.locator(".pl-stage").focus()
    own_page.keyboard.press("Space")
    expect(root.get_by_role("button", name="Pause")).to_be_visible()
    expect(live).to_have_attribute("aria-live", "off")
    own_page.clock.run_for(800)
    expect(live).to_contain_text("t = 2 s, 3 of 4 ranks busy")
    own_page.clock.run_for(60_000)
    expect(live).to_contain_text("t = 33 s, 0 of 4 ranks busy")
    expect(root.get_by_role("button", name="Play")).to_be_visible()


def test_the_critical_path_is_marked(root, studio):
    x, y = place_of(root, 3, 5.0)
    other, level = place_of(root, 0, 3.5)
    root.get_by_role("button", name="Critical path").click()
    expect(root.get_by_role("button", name="Critical path")).to_have_attribute("aria-pressed", "true")
    root.page.wait_for_function("window.model.get('path').byteLength > 0")
    assert colour_at(root, x, y - 12)[:3] == [0xE6, 0x9F, 0x00]
    assert colour_at(root, other, level - 12)[:3] != [0x00, 0x72, 0xB2], "0F3 is not on the path and is paler"
    assert studio.critical


def test_only_an_answered_input_counts_as_a_repaint(chromium_page):
    root = bench.mount_with_kernel(chromium_page, show.BubbleStudio("1F1B", 4, 8, run=simulate))
    root.get_by_role("slider", name="Message").focus()
    assert measure(chromium_page, root, 2)
    root.evaluate("node => delete node.dataset.plRepaintMs")
    root.get_by_role("button", name="Run it").click()
    expect(root.locator(".pl-figures tbody tr")).to_have_count(2)
    chromium_page.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert root.get_attribute("data-pl-repaint-ms") is None


HOLD_BACK = """() => {
  const kernel = window.kernel;
  window.kernel = (sent) => new Promise((done) => (window.let_go = () => done(kernel(sent))));
}"""


def rest_on(page, root, name):
    """Put the focus on a slider and wait until its next positions have come."""
    slider = root.get_by_role("slider", name=name)
    page.evaluate("window.ahead = 0; model.on('msg:custom', () => (window.ahead += 1))")
    slider.focus()
    page.wait_for_function("window.ahead >= 8")
    return slider


def test_the_next_positions_of_a_slider_are_drawn_before_the_kernel_answers(chromium_page, root, studio):
    rest_on(chromium_page, root, "Ranks")
    chromium_page.evaluate(HOLD_BACK)
    for ranks in (5, 6):
        chromium_page.keyboard.press("ArrowRight")
        expect(root.locator(".pl-title")).to_contain_text(f"{ranks} ranks")
    assert studio.num_ranks == 4
    early = root.locator("canvas").first.evaluate("canvas => canvas.toDataURL()")
    numbers = root.locator(".pl-figures").inner_text()
    for ranks in (5, 6):  # the answer for 5 comes while 6 is on screen, and changes nothing
        chromium_page.evaluate("window.let_go()")
        chromium_page.wait_for_function("ranks => window.model.get('view').title.includes(`${ranks} ranks`)", arg=ranks)
        expect(root.locator(".pl-title")).to_contain_text("6 ranks")
    assert studio.num_ranks == 6
    assert root.locator("canvas").first.evaluate("canvas => canvas.toDataURL()") == early
    assert root.locator(".pl-figures").inner_text() == numbers


def test_where_the_kernel_disagrees_with_what_was_foreseen_it_is_right(chromium_page, studio, monkeypatch):
    view_of = bubble_studio.view_of
    monkeypatch.setattr(bubble_studio, "view_of", lambda *screen: view_of(*screen) | {"title": "another"})
    root = bench.mount_with_kernel(chromium_page, studio)
    rest_on(chromium_page, root, "Ranks")
    monkeypatch.undo()
    chromium_page.evaluate(HOLD_BACK)
    chromium_page.keyboard.press("ArrowRight")
    expect(root.locator(".pl-title")).to_contain_text("another")
    chromium_page.evaluate("window.let_go()")
    expect(root.locator(".pl-title")).to_contain_text("1F1B, 5 ranks")


def test_what_was_foreseen_before_a_run_lacks_it_and_is_forgotten(chromium_page):
    run = lambda schedule: Timeline.of(simulate(schedule).spans, "real", schedule.num_ranks)  # noqa: E731
    root = bench.mount_with_kernel(chromium_page, show.BubbleStudio("1F1B", 4, 8, run=run))
    rest_on(chromium_page, root, "Forward F")
    root.get_by_role("button", name="Run it").click()
    expect(root.locator(".pl-figures tbody tr")).to_have_count(2)
    rest_on(chromium_page, root, "Forward F")
    chromium_page.evaluate(HOLD_BACK)
    chromium_page.keyboard.press("ArrowRight")
    expect(root.locator(".pl-figures tbody tr").first).not_to_contain_text("33 s")
    expect(root.locator(".pl-figures tbody tr")).to_have_count(2)


def test_a_slider_that_rests_says_the_numbers(chromium_page, root):
    root.get_by_role("slider", name="Ranks").focus()
    chromium_page.keyboard.press("ArrowRight")
    expect(root.locator(".pl-live")).to_have_text(
        "1F1B, 5 ranks, 8 micro-batches. "
        "1F1B, simulated: bubble fraction 33.3 %, bubble overhead 50.0 %, makespan 36 s, most held 5"
    )


def test_run_lays_the_measured_spans_below(chromium_page):
    def run(schedule):
        spans = simulate(schedule, Costs(1.1, 1.1, 1.1)).spans
        return Timeline.of([Span(*one) for one in spans], "emulated", schedule.num_ranks)

    root = bench.mount_with_kernel(chromium_page, show.BubbleStudio("1F1B", 4, 8, run=run))
    root.get_by_role("button", name="Run it").click()
    expect(root.locator(".pl-figures tbody tr")).to_have_count(2)
    expect(root.locator(".pl-figures tbody tr").nth(1)).to_contain_text("emulated (sleep)")
    expect(root.locator(".pl-legend")).to_contain_text("upper boxes simulated, lower boxes emulated (sleep)")
    root.locator(".pl-stage").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"):
        chromium_page.keyboard.press(key)
    expect(root.locator(".pl-live")).to_contain_text("0F3, forward, on rank 0, 1F1B, emulated (sleep): 3.3 s to 4.4 s")


def test_exports_are_downloads(chromium_page, root, studio):
    contents = {}
    for kind in ("PNG", "SVG", "CSV", "Trace", "HTML"):
        with chromium_page.expect_download() as download:
            root.get_by_role("button", name=kind, exact=True).click()
        contents[download.value.suggested_filename] = download.value.path().read_bytes()
    stem = "1f1b-4-ranks-8-micro-batches"
    assert list(contents) == [f"{stem}.{suffix}" for suffix in ("png", "svg", "csv", "trace.json", "html")]
    picture = Image.open(io.BytesIO(contents[f"{stem}.png"]))
    assert picture.convert("RGBA").getchannel("A").getextrema() == (255, 255)
    assert b"<svg" in contents[f"{stem}.svg"]
    assert Schedule.from_csv(contents[f"{stem}.csv"].decode()) == one_f_one_b(4, 8)
    assert len([one for one in json.loads(contents[f"{stem}.trace.json"])["traceEvents"] if one["ph"] == "X"]) == 64
    assert contents[f"{stem}.html"].startswith(b"<!doctype html>")


@bench.both_schemes
def test_the_page_works_from_a_disk_without_kernel_or_network(chromium_page, tmp_path):
    studio = show.BubbleStudio("1F1B", 4, 8, compare="GPipe")
    studio.export_html(tmp_path / "studio.html")
    asked = []
    chromium_page.on("request", lambda request: asked.append(request.url))
    chromium_page.goto((tmp_path / "studio.html").as_uri())
    root = chromium_page.locator('.pl-studio[data-pl-state="ready"]')
    expect(root.locator(".pl-figures tbody tr")).to_have_count(2)
    expect(root.get_by_role("slider")).to_have_count(0)
    x, y = place_of(root, 0, 0.5)
    assert colour_at(root, x, y - 12) == [0x00, 0x72, 0xB2, 255]
    point_at(chromium_page, root, 2, 7.0)
    expect(root.locator(".pl-live")).to_contain_text("2B0, backward, on rank 2")
    root.locator(".pl-stage").focus()
    chromium_page.keyboard.press("ArrowRight")
    expect(root.locator(".pl-live")).to_contain_text("0F0, forward, on rank 0")
    before = root.locator("canvas").first.evaluate("canvas => canvas.toDataURL()")
    chromium_page.keyboard.press("+")
    assert root.locator("canvas").first.evaluate("canvas => canvas.toDataURL()") != before
    root.get_by_role("button", name="Fit").click()
    root.get_by_role("button", name="Critical path").click()
    x, y = place_of(root, 0, 3.5)
    assert colour_at(root, x, y - 12)[:3] != [0x00, 0x72, 0xB2]
    root.get_by_role("button", name="Show as table").click()
    rows = root.locator(".pl-table tbody tr")
    expect(rows).to_have_count(64)
    expect(rows.nth(3).locator("td")).to_have_text(["rank 0", "0F3", "3 s", "4 s", "1 s"])
    root.get_by_role("button", name="Show as table").click()
    root.get_by_role("button", name="Step forward").click()
    expect(root.locator(".pl-live")).to_contain_text("t = 0 s, 1 of 4 ranks busy")
    with chromium_page.expect_download() as download:
        root.get_by_role("button", name="CSV").click()
    lines = list(csv.reader(download.value.path().read_text().splitlines()))
    assert lines == [[str(action) for action in row] for row in studio.schedule.rows]
    root.get_by_role("button", name="Play").click()
    expect(root.get_by_role("button", name="Pause")).to_be_visible()
    expect(root.locator(".pl-live")).to_contain_text("t = ")
    assert all(url.startswith(("file:", "blob:")) for url in asked), asked


def test_the_page_of_a_schedule_with_a_hostile_name_is_drawn(chromium_page, tmp_path):
    name = "<!--<script>"
    show.BubbleStudio(Schedule(one_f_one_b(2, 2).rows, name)).export_html(tmp_path / "studio.html")
    chromium_page.goto((tmp_path / "studio.html").as_uri())
    root = chromium_page.locator('.pl-studio[data-pl-state="ready"]')
    expect(root.locator(".pl-title strong")).to_have_text(f"{name}, 2 ranks, 2 micro-batches")


def test_numbers_are_written_as_python_writes_them(chromium_page):
    numbers = [0, 1, 33, 861, 1234.5, 99_999, 0.412, 0.0185, 1.25, 9.999, 12.04, 0.00062, 0.99996, 0.9994]
    written = chromium_page.evaluate(WRITTEN, [str(show.BubbleStudio._esm), numbers])
    assert written == [write_seconds(one) for one in numbers]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("p", "m"), [(16, 64), (32, 256)])
def test_the_repaint_is_measured_from_the_input_to_the_painted_frame(chromium_page, record_property, p, m):
    root = bench.mount_with_kernel(chromium_page, show.BubbleStudio("1F1B", p, m))
    measure_all(chromium_page, root, f"p = {p}, m = {m}, bare page", record_property)


def test_a_narrow_page_redraws(chromium_page, root):
    chromium_page.set_viewport_size({"width": 420, "height": 700})
    chromium_page.wait_for_function("document.querySelector('.pl-stage canvas').clientWidth < 400")
    assert root.evaluate("node => node.scrollWidth <= node.clientWidth")
