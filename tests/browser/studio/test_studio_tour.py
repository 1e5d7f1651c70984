"""The tour, its legend and its places: five stops by button, key and clicker, and a picture that holds still."""

import re

import pytest

from pllab import show
from pllab.schedule import Schedule, one_f_one_b
from pllab.show.studio.settings import STORIES, TOUR
from pllab.simulate import Costs
from tests.browser import bench
from tests.browser.bench import expect
from tests.browser.studio.studio_screen import Plot, live_of, mount, run_slowly

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]

# Where every part stands: its box, by its class or name.
BOXES = """root => [...root.querySelectorAll(
    ".pl-bar *, .pl-plot, .pl-head > *, .pl-pic, .pl-axis, .pl-foot *, .pl-say > *"
  )].filter((node) => !node.matches("option, .pl-rest, .pl-error"))
  .map((node) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    return [node.className || node.tagName, x, y, width, height].join(" ");
  })"""


def is_at(root, studio, stop):
    """The stop is pressed, its family on screen, and its sentence says what to look at."""
    stops = root.get_by_role("button", name=re.compile("^Stop "))
    expect(stops.nth(stop)).to_have_attribute("aria-pressed", "true")
    expect(root.locator(".pl-foot [aria-pressed=true]")).to_have_count(1)
    if stop < len(TOUR):
        expect(root.locator(".pl-name")).to_have_text([TOUR[stop]])
        expect(live_of(root)).to_have_text(f"{TOUR[stop]}. {STORIES[TOUR[stop]]}")
        assert STORIES[TOUR[stop]].startswith("Look at ")
        assert studio.family == TOUR[stop]
    else:
        expect(root.locator(".pl-of")).to_have_text(["bubble fraction, simulated", "bubble fraction, real"])
        expect(live_of(root)).to_have_text(re.compile("^Idle .* on all ranks, real: "))


def test_buttons_numbers_and_a_clicker_go_from_stop_to_stop(chromium_page):
    studio = show.BubbleStudio("1F1B", 4, 8, run=run_slowly)
    root = mount(chromium_page, studio)
    back, ahead = (root.get_by_role("button", name=name, exact=True) for name in ("Back", "Next"))
    back.click()
    is_at(root, studio, 0)
    expect(back).to_be_disabled()
    expect(root.locator(".pl-pic")).to_be_focused()  # which has the keys of a button that is disabled
    for stop in (1, 2, 3, 4):
        ahead.click()
        is_at(root, studio, stop)
    expect(ahead).to_be_disabled()
    for key, stop in (("PageUp", 3), ("PageUp", 2), ("PageDown", 3), ("1", 0), ("4", 3), ("PageDown", 4), ("2", 1)):
        chromium_page.keyboard.press(key)
        is_at(root, studio, stop)
    root.get_by_role("button", name="Stop 3: interleaved 1F1B").click()
    is_at(root, studio, 2)
    chromium_page.keyboard.press("5")
    is_at(root, studio, 4)
    assert studio.view["runs"][2] and studio.family == TOUR[2], "the run is of what was on screen"
    root.get_by_role("combobox", name="Compare with").select_option("ZB-V")
    root.get_by_role("button", name="steady state").click()
    root.locator(".pl-pic").first.focus()
    chromium_page.keyboard.press("4")
    is_at(root, studio, 3)
    assert (studio.compare, studio.steady) == ("", False), "a stop is one schedule that ends at a barrier"


def test_without_a_run_the_last_stop_is_dimmed_and_says_what_is_missing(chromium_page, root, studio):
    root.locator(".pl-pic").focus()
    bench.press(chromium_page, "4", "5")
    is_at(root, studio, 3)
    title = "no run to show: BubbleStudio(..., run=run_emulated) has one"
    expect(root.get_by_title(title)).to_be_disabled()
    expect(root.get_by_role("button", name="Next", exact=True)).to_be_disabled()


def test_beside_the_tour_next_leads_to_its_first_stop_and_a_run_under_way_is_not_asked_for(chromium_page):
    asked = []
    studio = show.BubbleStudio(
        "ZB-V", 4, 8, run=lambda schedule, costs: asked.append(schedule) or run_slowly(schedule, costs)
    )
    root = mount(chromium_page, studio)
    expect(root.get_by_role("button", name="Back", exact=True)).to_be_disabled()
    root.get_by_role("button", name="Run it").focus()
    chromium_page.evaluate("model.set('running', true)")
    expect(root.locator(".pl-pic")).to_be_focused()
    chromium_page.keyboard.press("5")
    expect(root.get_by_title("a run is under way")).to_be_disabled()
    chromium_page.evaluate("model.set('running', false)")
    chromium_page.keyboard.press("5")
    is_at(root, studio, 4)
    assert len(asked) == 1
    root.get_by_role("button", name="more ranks").click()
    root.get_by_role("button", name="Next", exact=True).click()
    is_at(root, studio, 0)


def test_a_run_that_was_given_is_the_last_stop_in_the_hand_out_too(chromium_page, tmp_path):
    mine = Schedule(one_f_one_b(3, 4).rows, "mine")
    studio = show.BubbleStudio(mine, measured=run_slowly(mine, Costs()))
    (tmp_path / "studio.html").write_text(studio.export_html(), encoding="utf-8")
    root = mount(chromium_page, studio)
    for page_too in (False, True):
        if page_too:
            chromium_page.goto((tmp_path / "studio.html").as_uri())
            root = chromium_page.locator('.pl-studio[data-pl-state="ready"]')
        expect(root.locator(".pl-name")).to_have_text(["mine", "mine"])
        root.locator(".pl-pic").first.focus()
        for key, names in (("PageUp", ["ZB-H2"]), ("3", ["interleaved 1F1B"]), ("5", ["mine", "mine"])):
            chromium_page.keyboard.press(key)
            expect(root.locator(".pl-name")).to_have_text(names)
        expect(live_of(root)).to_contain_text("on all ranks, real")


@pytest.mark.parametrize("width", [880, 1280, 1920])
@pytest.mark.parametrize("large", [False, True], ids=["cell", "projector"])
def test_nothing_moves_by_a_pixel(chromium_page, width, large):
    """Pointed at, followed, played, in another measure, in another family."""
    chromium_page.set_viewport_size({"width": width, "height": 720})
    studio = show.BubbleStudio("1F1B", 4, 8, Costs(0.010, 0.010, 0.010, p2p=0.001), run=run_slowly, projector=large)
    root = mount(chromium_page, studio)
    plot = Plot(root, view=(0.0, studio.timeline.makespan))
    rest = root.evaluate(BOXES)
    assert len(rest) > 40
    assert plot.at(0, 0).mem >= 40 and plot.at(0, 0).box >= 20, "a staircase that can be read, below its work"

    def holds(what):
        moved = [f"{one} is {other}" for one, other in zip(rest, root.evaluate(BOXES), strict=True) if one != other]
        assert not moved, f"{what}: {moved}"
        assert live_of(root).evaluate("node => node.scrollHeight <= node.clientHeight"), f"{what}: the sentence is cut"

    plot.point(2, 0.065)
    expect(live_of(root)).to_contain_text("whose message travels 1 ms")
    holds("pointed at")
    plot.click(3, 0.001)
    expect(live_of(root)).to_contain_text("Rank 3 idle")
    holds("idle time, followed")
    plot.pic.focus()
    chromium_page.keyboard.press(".")
    expect(live_of(root)).to_contain_text("of 4 ranks busy")
    holds("played")
    chromium_page.keyboard.press("Escape")
    chromium_page.mouse.move(2, 2)
    holds("let go")
    for key in ("b", "b", *"134", "b", "2"):
        chromium_page.keyboard.press(key)
        chromium_page.wait_for_function("model.get('view').stamp === model.get('stamp')")
        holds(f"after {key}")
    menu = root.get_by_role("combobox", name="Schedule")
    for name in ("interleaved zero bubble", "V-half"):
        menu.select_option(name)
        expect(root.locator(".pl-name")).to_have_text(name)
        holds(name)
    root.get_by_role("spinbutton", name="Ranks").focus()
    studio.view = {**studio.view, "problem": "a problem, " * 12}
    bench.push(chromium_page, studio, "view")
    expect(root.get_by_role("alert")).to_be_visible()
    holds("a problem")


@bench.both_schemes
def test_the_legend_is_one_line_with_every_kind_and_hatched_idle_time(chromium_page):
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    root = mount(chromium_page, show.BubbleStudio("1F1B", 4, 8))
    legend = root.locator(".pl-legend")
    words = ["Fforward", "Bbackward", "Ifor inputs", "Wfor weights", "idle", "later stage"]
    expect(legend.locator(":scope > span")).to_have_text(words)
    tops = legend.locator(":scope > span").evaluate_all("all => all.map((one) => Math.round(one.offsetTop))")
    assert len(set(tops)) == 1
    grounds = legend.locator("i").evaluate_all("all => all.map((one) => getComputedStyle(one).background)")
    assert len(set(grounds)) >= 5 and "repeating-linear-gradient" in grounds[4]


def test_what_does_not_exist_here_is_dimmed_or_refused_and_says_why(chromium_page):
    studio = show.BubbleStudio(Schedule(one_f_one_b(3, 4).rows, 'a "quoted" one'), compare="GPipe")
    root = mount(chromium_page, studio)
    family, compare = (root.get_by_role("combobox", name=name) for name in ("Schedule", "Compare with"))
    names = family.locator("option").all_text_contents()
    missing = re.compile("is for 3 ranks, 4 micro-batches and not for 4 ranks")
    root.get_by_role("button", name="more ranks").click()
    expect(root.get_by_role("alert")).to_have_text(missing)
    Plot(root).has("3 ranks, 4 micro-batches")  # the picture stays
    family.select_option("1F1B")
    expect(root.get_by_role("alert")).to_have_count(0)
    Plot(root).has("4 ranks, 4 micro-batches")
    dimmed = compare.locator("option:disabled")
    expect(dimmed).to_have_text(['a "quoted" one'])
    expect(dimmed).to_have_attribute("title", missing)
    assert family.locator("option").all_text_contents() == names, "families stand in one order"
    family.select_option('a "quoted" one')  # it brings its size
    Plot(root).has("3 ranks, 4 micro-batches")
    expect(compare.locator("option:disabled")).to_have_count(0)
