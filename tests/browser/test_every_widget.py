"""What holds for every widget in a bare page: it can be read, enlarged, narrowed and taken away."""

import pytest

from pllab import show
from pllab.show.theme import DARK
from tests.browser import bench
from tests.browser.bench import expect
from tests.browser.scenes import SCENES

pytestmark = pytest.mark.browser

SIZE_OF_WORDS = "root => parseFloat(getComputedStyle(root.querySelector('.pl-plots') ?? root).fontSize)"
HEIGHT_OF_PICTURE = """root => {
  const picture = root.querySelector(".pl-grid svg, .pl-board, .pl-pic canvas");
  return picture.getBoundingClientRect().height;
}"""
BREAK = """() => {
  try { for (const name of ["view", "step"]) window.model.set(name, undefined); } catch { /* it is also thrown */ }
}"""


def test_there_is_a_scene_for_every_widget():
    assert set(SCENES) == {name for name in show.__all__ if hasattr(getattr(show, name), "_esm")}


@bench.both_schemes
@pytest.mark.parametrize("name", SCENES)
def test_it_wears_the_scheme_of_the_page_and_axe_finds_nothing(chromium_page, name):
    root = bench.mount(chromium_page, SCENES[name].widget())
    ink, ground = (bench.brightness(bench.style_of(root, name)) for name in ("color", "backgroundColor"))
    assert (ground < ink) is (bench.look_of(chromium_page) is DARK)
    heights = root.locator("button:visible").evaluate_all("nodes => nodes.map((node) => node.offsetHeight)")
    assert min(heights) >= 24
    assert bench.findings(chromium_page) == []
    for drawer in root.get_by_role("button", name="more…").all():
        drawer.click()
        assert bench.findings(chromium_page) == []


@pytest.mark.parametrize("name", SCENES)
def test_keys_are_the_widgets_only_while_it_has_the_focus(chromium_page, name):
    scene = SCENES[name]
    root = bench.mount(chromium_page, scene.widget())
    chromium_page.evaluate(bench.PASSED)
    live = root.locator(".pl-live")
    before = live.text_content()
    chromium_page.locator("#outside").focus()
    chromium_page.keyboard.press("End")
    expect(live).to_have_text(before)
    root.locator(scene.control).first.focus()
    chromium_page.keyboard.press(scene.key)
    chromium_page.keyboard.press("x")  # which cuts a cell in JupyterLab
    chromium_page.keyboard.press("Shift+Enter")  # which runs the cell
    expect(live).not_to_have_text(before)
    passed = chromium_page.evaluate("window.passed.filter((key) => !['Alt', 'Shift'].includes(key))")
    assert passed == ["End", "Enter"]


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080)])
@pytest.mark.parametrize("name", SCENES)
def test_projected_it_fills_the_window_and_has_the_keys_then_a_narrow_page(chromium_page, name, width, height):
    chromium_page.set_viewport_size({"width": width, "height": height})
    root = bench.mount(chromium_page, SCENES[name].widget(projector=True))
    large = root.get_by_role("button", name="Projector")
    expect(root.locator(SCENES[name].control).first).to_be_focused()
    assert root.bounding_box() == {"x": 0, "y": 0, "width": width, "height": height}
    assert root.evaluate("node => node.scrollHeight") == height, "nothing is below the window"
    chromium_page.evaluate("document.dispatchEvent(new Event('fullscreenchange'))")  # of an earlier one, told late
    expect(large).to_have_attribute("aria-pressed", "true")
    words = root.evaluate(SIZE_OF_WORDS)
    chromium_page.keyboard.press("Escape")
    expect(large).to_have_attribute("aria-pressed", "false")
    assert words > 1.35 * root.evaluate(SIZE_OF_WORDS)
    chromium_page.set_viewport_size({"width": 420, "height": 700})
    chromium_page.wait_for_function("document.documentElement.scrollWidth <= 420")
    expect(root).to_have_attribute("data-pl-state", "ready")


@pytest.mark.parametrize("name", SCENES)
def test_projected_it_is_as_high_as_the_window_also_when_that_grows(chromium_page, name):
    heights = []
    for height in (1000, 600):
        chromium_page.set_viewport_size({"width": 1280, "height": height})
        root = bench.mount(chromium_page, SCENES[name].widget(projector=True))
        heights.append(root.evaluate(HEIGHT_OF_PICTURE))
    high, low = heights
    assert low < high or name == "TimelinePlayer", "two ranks need no more"
    chromium_page.set_viewport_size({"width": 1280, "height": 1000})
    chromium_page.wait_for_function(
        f"high => ({HEIGHT_OF_PICTURE})(document.querySelector('.pl-widget')) === high", arg=high
    )


@pytest.mark.parametrize("name", SCENES)
def test_a_failure_is_visible_and_unmounting_leaves_no_listener(chromium_page, name):
    root = bench.mount(chromium_page, SCENES[name].widget())
    assert chromium_page.evaluate(bench.LISTENERS_LEFT) > 0
    chromium_page.evaluate(BREAK)
    expect(root).to_have_attribute("data-pl-state", "error")
    expect(root.get_by_role("alert").last).to_contain_text("This widget failed")
    chromium_page.evaluate("window.unmount()")
    assert chromium_page.evaluate(bench.LISTENERS_LEFT) == 0
