"""The bubble studio in a bare page whose kernel is this process: controls, keys, and from an input to the frame."""

import re

import pytest

from pllab import show
from pllab.schedule import Kind
from pllab.show.theme import LIGHT, write_seconds
from pllab.simulate import Costs
from tests.browser import bench
from tests.browser.bench import expect
from tests.browser.studio.studio_screen import Plot, live_of, mount, open_drawer, run_slowly

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]


TYPE_FAST = """(node, [from, to]) => {
  for (let value = from; value <= to; value += 1) {
    node.value = value;
    node.dispatchEvent(new Event("change", { bubbles: true }));
  }
}"""


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
    before = chromium_page.evaluate("window.model.sent")
    box.evaluate(TYPE_FAST, [17, 447])
    plot.has("4 ranks, 447 micro-batches")
    assert chromium_page.evaluate("window.model.sent") - before <= 3, "one message is under way, and the last wins"
    for held in (448, 512):
        box.press("ArrowUp")
        plot.has(f"4 ranks, {held} micro-batches")
    bench.enter(box, "4")
    ranks = root.get_by_role("spinbutton", name="Ranks")
    typed_in = [("2.7", "Enter", 3), ("99", "Tab", 64), ("-4", "Enter", 1), ("11", "Tab", 11), ("", "Tab", 11)]
    for typed, key, held in typed_in:
        bench.enter(ranks, typed, key)
        expect(ranks).to_have_value(str(held))
        plot.has(f"{held} rank")
        assert studio.num_ranks == held
    spoken = root.locator(".pl-spoken")
    expect(spoken).to_have_text("1F1B, 11 ranks, 4 micro-batches, simulated: bubble fraction 71.4 %, 42 s, holds 4.")
    expect(root).not_to_have_class(re.compile("pl-waits"))


def test_costs_carry_their_unit_on_a_projector_too(chromium_page):
    studio = show.BubbleStudio("1F1B", 4, 8, Costs(0.02, 0.018, 0.016, p2p=0.0005), projector=True)
    root = mount(chromium_page, studio)
    drawer = open_drawer(root)

    names = ("forward F, ms", "backward of the inputs I, ms", "backward of the weights W, ms", "message, ms")
    boxes = [drawer.get_by_role("spinbutton", name=name, exact=True) for name in names]
    expect(boxes[0]).to_be_focused()
    assert [box.input_value() for box in boxes] == ["20", "18", "16", "0.5"]
    for typed, held in (("40", "40"), ("", "40"), ("-5", "0")):
        bench.enter(boxes[0], typed)
        expect(boxes[0]).to_have_value(held)
        expect(Plot(root).rest).to_contain_text(f"one step {write_seconds(studio.timeline.makespan)}")
        assert studio.forward == pytest.approx(float(held) / 1000)
    drawer.get_by_text("Costs per stage").click()
    cell = drawer.get_by_role("spinbutton", name="W of stage 2, ms")
    expect(cell).to_have_attribute("placeholder", "16")
    bench.enter(cell, "48")
    expect(Plot(root).rest).to_contain_text(f"one step {write_seconds(studio.timeline.makespan)}")
    assert [studio.costs.duration(stage, Kind.W) for stage in (2, 1)] == pytest.approx([0.048, 0.016])
    drawer.get_by_role("button", name="Same for all").click()
    assert studio.stage_costs == {}
    expect(drawer.get_by_role("spinbutton", name="W of stage 2, ms")).to_have_value("")
    assert studio.costs.backward_weight == (0.016,) * 4


def test_a_box_that_is_typed_in_is_never_rewritten(chromium_page, root, studio):
    """Answers arrive, other inputs change and the studio redraws between two digits."""
    open_drawer(root).get_by_text("Costs per stage").click()
    for family, name, typed in (
        ("1F1B", "F of stage 1, s", "30"),
        ("interleaved 1F1B", "forward F, s", "20"),
        ("ZB-H2", "Ranks", "10"),
        ("ZB-H1", "Micro-batches", "10"),
    ):
        box = root.get_by_role("spinbutton", name=name, exact=True)
        box.focus()
        chromium_page.keyboard.press("Control+a")
        chromium_page.keyboard.type(typed[0])
        studio.family = family
        bench.push(chromium_page, studio, *studio.options["inputs"])
        chromium_page.evaluate("model.tell('view'); window.dispatchEvent(new Event('resize'))")
        expect(box).to_have_value(typed[0])
        expect(box).to_be_focused()
        chromium_page.keyboard.type(typed[1])
        expect(box).to_have_value(typed)
        chromium_page.keyboard.press("Enter")
        chromium_page.wait_for_function("model.get('view').stamp === model.get('stamp')")
        expect(box).to_have_value(typed)
    assert (studio.forward, studio.num_ranks, studio.num_microbatches) == (20, 10, 10)
    assert studio.stage_costs["1"][0] == 30


# Keys


def test_the_timeline_is_near_and_arrows_walk_it(chromium_page, pair):
    _, root = pair
    chromium_page.evaluate(bench.PASSED)
    live, press = live_of(root), chromium_page.keyboard.press
    root.get_by_role("combobox", name="Schedule").focus()
    for _ in range(3):
        if chromium_page.evaluate("document.activeElement.className") != "pl-pic":
            press("Tab")
    expect(root.locator(".pl-pic").first).to_be_focused()
    backward = "1B6, rank 1: backward of micro-batch 6, 26 s to 28 s. The rank was idle 1 s, waiting for 2B6 of rank 2."
    forward = "1F0, rank 1: forward of micro-batch 0, 1 s to 2 s. The rank was idle 1 s, waiting for 0F0 of rank 0."
    for keys, plot, said in [
        (["ArrowRight"], 0, "0F0, rank 0: forward of micro-batch 0, 0 s to 1 s. It needs nothing"),
        (["ArrowDown", "End", "ArrowLeft"], 0, backward),
        (["Home"], 0, forward),
        (["ArrowDown"], 0, "rank 2:"),
        (["ArrowDown"], 0, "rank 3:"),
        (["ArrowDown", "ArrowRight"], 1, "0F0, rank 0: forward"),
    ]:
        bench.press(chromium_page, *keys)
        expect(live).to_contain_text(said)
        expect(root.locator(".pl-pic").nth(plot)).to_be_focused()
    bench.press(chromium_page, "ArrowUp", "Escape", "Tab", "Tab")
    assert chromium_page.evaluate("document.activeElement.closest('.pl-foot') !== null"), "the tour is behind the plots"
    assert set(chromium_page.evaluate("window.passed")) <= {"Tab", "Escape"}


def test_keys_in_the_row_and_the_drawer_stay_in_the_studio(chromium_page, root):
    """JupyterLab would move to another cell at an arrow, and a summary answers to space."""
    chromium_page.evaluate(bench.PASSED)
    press = chromium_page.keyboard.press
    focused = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
    root.get_by_role("combobox", name="Schedule").focus()
    row = ["Compare with", "fewer ranks", "Ranks", "more ranks", "fewer micro-batches", "Micro-batches"]
    for name in (*row, "more micro-batches", "one step", "steady state", "more…"):
        press("ArrowRight")
        assert chromium_page.evaluate(focused) == name
    bench.press(chromium_page, "ArrowLeft", "Space")
    expect(Plot(root).rest).to_contain_text("a step every")
    bench.press(chromium_page, "ArrowDown", "ArrowUp", "ArrowRight", "Enter")
    expect(root.get_by_role("dialog")).to_be_visible()
    drawer = root.get_by_role("dialog")
    drawer.locator("summary").focus()
    press("Space")
    expect(drawer.get_by_role("spinbutton", name="F of stage 0")).to_be_visible()
    bench.press(chromium_page, "ArrowDown", "Escape")
    expect(root.get_by_role("dialog")).to_have_count(0)
    assert chromium_page.evaluate(focused) == "more…"
    bench.press(chromium_page, "x", "d", "a", "m", "1", "Home", "End", "ArrowDown")
    assert chromium_page.evaluate("window.passed") == []


def test_keys_stay_with_the_studio_when_the_plot_that_has_them_goes(chromium_page, pair):
    _, root = pair
    root.get_by_role("button", name="Projector").click()
    Plot(root, 1).pic.click(position={"x": 400, "y": 30})
    for key, family in (("1", "GPipe"), ("2", "1F1B")):
        chromium_page.keyboard.press(key)
        expect(Plot(root).head).to_contain_text(family)
    chromium_page.keyboard.press("Escape")
    expect(root.get_by_role("button", name="Projector")).to_have_attribute("aria-pressed", "false")


def test_step_and_play_say_who_is_busy(own_page, studio):
    own_page.emulate_media(reduced_motion="reduce")
    own_page.clock.install()
    root = mount(own_page, studio)
    live, drawer = live_of(root), open_drawer(root)
    drawer.get_by_role("button", name="Step forward").click()
    expect(live).to_have_text("t = 0 s, 1 of 4 ranks busy: rank 0 F0, rank 1 idle, rank 2 idle, rank 3 idle")
    root.locator(".pl-pic").focus()
    own_page.keyboard.press("Space")
    expect(live).to_have_attribute("aria-live", "off")
    own_page.clock.run_for(900)
    expect(live).to_contain_text("t = 1 s, 2 of 4 ranks busy")
    own_page.clock.run_for(60_000)
    expect(live).to_contain_text("t = 33 s, 0 of 4 ranks busy")
    expect(root.get_by_role("button", name="Play")).to_be_visible()
    bench.press(own_page, ",", ",")
    expect(live).to_contain_text("t = 2")
    bench.press(own_page, ".", "Escape")
    expect(live).to_contain_text("1F1B. Look at the staircases")


def test_run_lays_the_measured_plot_below(chromium_page):
    root = mount(chromium_page, show.BubbleStudio("1F1B", 4, 8, run=run_slowly))
    root.get_by_role("button", name="Run it").click()
    expect(root.locator(".pl-plot")).to_have_count(2)
    expect(root.locator(".pl-rest").nth(1)).to_have_text("one step 36.3 s, 1.10 times the prediction · holds 4")
    expect(root.locator(".pl-of")).to_have_text(["bubble fraction, simulated", "bubble fraction, real"])
    below = Plot(root, 1, view=(0, 36.3))
    assert below.fill_at(0, 3.9)[0] == LIGHT.fill_of("F")
    below.point(0, 3.9)
    expect(live_of(root)).to_contain_text("0F3, rank 0, real: forward of micro-batch 3, 3.3 s to 4.4 s")
    root.get_by_role("combobox", name="Compare with").select_option("GPipe")
    expect(root.locator(".pl-name")).to_have_text(["1F1B", "1F1B", "GPipe"])
    root.get_by_role("button", name="more ranks").click()
    expect(root.locator(".pl-name")).to_have_text(["1F1B", "GPipe"])


def test_keys_and_buttons_zoom_and_come_back(chromium_page, root):
    plot, drawer = Plot(root), open_drawer(root)
    whole = plot.picture()
    acts = {key: lambda key=key: plot.pic.press(key) for key in ("+", "-", "0", "Escape")}
    acts |= {name: drawer.get_by_role("button", name=name).click for name in ("Zoom in", "Fit")}
    for name in ("+", "-", "+", "0", "+", "Escape", "Zoom in", "Fit"):
        acts[name]()
        assert (plot.picture() == whole) is (name not in ("+", "Zoom in")), name
