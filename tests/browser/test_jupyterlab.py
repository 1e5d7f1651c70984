"""Every widget in a real JupyterLab: a notebook with a cell for each, its kernel, mouse and keys."""

import json
import os
import re
import subprocess
import sys

import pytest

from pllab.show.studio.settings import TOUR
from tests.browser.bench import block, expect, order, press
from tests.browser.jupyterlab import MAKEFILE, open_and_run, open_at
from tests.browser.scenes import SCENES

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]

RAN = re.compile(r"This order ran: makespan [\d.]+, engine emulated \(sleep\)\.")


def test_make_lab_opens_lesson_00_with_its_browser_folded_and_play_on_the_first_screen(visitor, lab_server):
    recipes = MAKEFILE.read_text()
    workspace, url = (re.search(rf"{flag}(\S+)", recipes)[1] for flag in ("workspaces import ", "default_url=/"))
    command = [sys.executable, "-m", "jupyterlab", "workspaces", "import", str(MAKEFILE.parent / workspace)]
    folder = {"JUPYTER_CONFIG_DIR": str(lab_server.folder.parent / "config")}
    subprocess.run(command, env=os.environ | folder, check=True, capture_output=True, timeout=60)
    visitor.set_viewport_size({"width": 1280, "height": 720})
    open_at(visitor, f"{lab_server.url}{url.replace('tree/notebooks/', 'tree/')}?token={lab_server.token}")
    expect(visitor.locator("#jp-left-stack")).to_be_hidden()
    visitor.locator(".jp-CodeCell .cm-content").first.click()
    visitor.keyboard.press("Shift+Enter")
    play = visitor.locator(".pl-player").get_by_role("button", name="Play")
    expect(play).to_be_in_viewport(ratio=1, timeout=60_000)
    expect(visitor.get_by_role("heading", level=1)).to_be_in_viewport()  # nothing has scrolled
    widths = "[...document.querySelectorAll('.cm-scroller')].map((one) => one.scrollWidth - one.clientWidth)"
    assert max(visitor.evaluate(widths)) == 0, "a line of code is wider than its cell"


def test_a_moment_goes_on_by_the_keyboard_after_its_projector(visitor, lab_server):
    """The studio takes the keys while it fills the window; Escape gives them back to the next cell."""
    visitor.set_viewport_size({"width": 1280, "height": 720})
    open_at(visitor, lab_server.address_of("90_instructor_guide.ipynb"))
    visitor.get_by_role("heading", name="Moment 1").click()
    press(visitor, *["Shift+Enter"] * 7)  # moment 1, and moment 2 up to its studio
    studio = visitor.locator(".pl-studio:popover-open")
    expect(studio.locator(".pl-pic").first).to_be_focused(timeout=60_000)
    visitor.keyboard.press("Escape")
    expect(studio).to_have_count(0)
    visitor.keyboard.press("Shift+Enter")
    expect(visitor.locator(".jp-Cell.jp-mod-active")).to_contain_text("What they answer", timeout=60_000)


def test_a_widget_is_shown_when_its_saved_notebook_is_opened_again(visitor, lab_server):
    """A learner comes back the next day, and the kernel is gone."""
    open_and_run(visitor, lab_server, "00_first_two_ranks.ipynb")
    visitor.goto("about:blank")
    lab_server.end_kernels()
    open_at(visitor, lab_server.address_of("00_first_two_ranks.ipynb"))
    player = visitor.locator(".pl-player[data-pl-state=ready]")
    player.get_by_role("button", name="Play").click(timeout=60_000)
    expect(player.get_by_role("button", name="Pause")).to_be_visible()
    expect(visitor.get_by_text("Error displaying widget")).to_have_count(0)


@pytest.fixture(scope="module")
def lab(module_page, lab_server):
    """The page of the notebook, all cells run."""
    module_page.emulate_media(reduced_motion="reduce")  # a block that glides is hard to catch
    open_and_run(module_page, lab_server, "widgets.ipynb")
    yield module_page
    module_page.goto("about:blank")  # close the sockets before the kernel goes
    lab_server.start_over()


def test_nobody_is_asked_about_news(lab, lab_server):
    settings = json.loads(lab_server.ask("lab/api/settings/@jupyterlab/apputils-extension:notification"))
    assert settings["schema"]["properties"]["fetchNews"]["default"] == "false"  # "none" asks
    expect(lab.get_by_text("notified about official Jupyter news")).to_have_count(0)


def test_the_editor_hears_from_its_kernel(lab):
    """Move by key, faster than the kernel answers; split; undo; drag; run. The notebook stays where it is."""
    root = lab.locator(".pl-editor")
    live = root.locator(".pl-live")
    block(root, "1B0").focus()
    press(lab, *["Alt+ArrowRight"] * 3, "Alt+ArrowLeft")
    expect(live).to_contain_text("B0 moved before F2 on rank 1: legal")
    lab.keyboard.press("s")
    expect(block(root, "1I0")).to_be_focused()
    lab.keyboard.press("Control+z")
    box, target = block(root, "1B0").bounding_box(), block(root, "1F1").bounding_box()
    lab.mouse.move(box["x"] + 10, box["y"] + 10)
    lab.mouse.down()
    lab.mouse.move(target["x"] + 2, box["y"] + 10, steps=2)
    lab.mouse.up()
    expect(live).to_contain_text("B0 moved before F1 on rank 1: legal, makespan 12")
    assert order(root, 1) == ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]
    root.get_by_role("button", name="Run it").click()
    expect(live).to_have_text(RAN, timeout=60_000)
    expect(root.locator(".pl-ran span")).to_have_count(12)
    for key in ("a", "x", "m"):  # JupyterLab's insert, cut, and make it text
        block(root, "0F1").focus()
        lab.keyboard.press(key)
        expect(block(root, "0F1")).to_be_focused()
    expect(lab.locator(".jp-Notebook .jp-CodeCell")).to_have_count(len(SCENES))


def test_the_studio_hears_from_its_kernel(lab):
    """A stepper, keys, a run and a file; the sentence and the numbers come from the kernel's schedule."""
    root = lab.locator(".pl-studio")
    root.get_by_role("button", name="more ranks").click()
    expect(root.locator(".pl-pic")).to_have_attribute("aria-label", re.compile("1F1B, 5 ranks, 8 micro-batches"))
    root.locator(".pl-pic").first.focus()
    press(lab, "Escape", "ArrowRight")
    expect(root.locator(".pl-live")).to_contain_text("0F0, rank 0: forward of micro-batch 0")
    root.get_by_role("button", name="Run it").click()
    expect(root.locator(".pl-plot")).to_have_count(2)
    with lab.expect_download() as download:
        root.get_by_role("button", name="HTML").click()
    assert download.value.suggested_filename == "1f1b-5-ranks-8-micro-batches.html"
    root.get_by_role("button", name="fewer ranks").click()
    expect(root.locator(".pl-plot")).to_have_count(1)


PLACE = """root => {
  const { height } = root.getBoundingClientRect();
  const notebook = document.querySelector(".jp-WindowedPanel-outer, .jp-Notebook").getBoundingClientRect();
  const share = root.querySelector(".pl-plots").getBoundingClientRect().height / height;
  const code = root.closest(".jp-Cell").querySelector(".jp-Cell-inputWrapper").offsetHeight;
  return { height, share, code, bar: root.querySelector(".pl-bar").offsetHeight, notebook: notebook.height };
}"""


def test_the_tour_runs_from_the_keyboard_alone(lab):
    """At 1280x720: family control, three tabs at most, the stops, both measures, the whole screen, and back."""
    lab.set_viewport_size({"width": 1280, "height": 720})
    root = lab.locator(".pl-studio")
    cells = "[...document.querySelectorAll('.jp-Cell')].findIndex((one) => one.matches('.jp-mod-active'))"
    root.get_by_role("combobox", name="Compare with").select_option("ZB-H1")
    expect(root.locator(".pl-plot")).to_have_count(2)
    root.evaluate("node => node.scrollIntoView()")
    at = root.evaluate(PLACE)
    assert at["share"] >= 0.6 and at["height"] + at["code"] <= at["notebook"] and at["bar"] < 40, at
    root.get_by_role("combobox", name="Compare with").select_option("")
    expect(root.locator(".pl-plot")).to_have_count(1)
    root.get_by_role("combobox", name="Schedule").focus()
    active = lab.evaluate(cells)
    for _ in range(3):
        if lab.evaluate("document.activeElement.className") != "pl-pic":
            press(lab, "Tab")
    expect(root.locator(".pl-pic").first).to_be_focused()
    press(lab, "Escape")  # what an earlier test chose
    for key, family in enumerate(TOUR, 1):
        press(lab, str(key))
        expect(root.locator(".pl-name").first).to_have_text(family)
        press(lab, "ArrowRight", "ArrowDown", "Escape")
    press(lab, "b")
    expect(root.locator(".pl-big").first).to_have_text("0 %")
    press(lab, "f")
    lab.wait_for_function("document.fullscreenElement && document.querySelector('.pl-studio:popover-open')")
    press(lab, "f")
    lab.wait_for_function("document.fullscreenElement === null")
    press(lab, "x", "d", "d", "a", "m", "ArrowUp", "ArrowDown", "s", "s", "Escape")
    assert lab.evaluate(cells) == active and lab.locator(".jp-Notebook .jp-CodeCell").count() == len(SCENES)
    press(lab, "Shift+Tab", "ArrowRight", "ArrowLeft", "ArrowRight", "ArrowRight")  # where Lab would go to a heading
    assert lab.evaluate(cells) == active
    expect(root.get_by_role("button", name="fewer ranks")).to_be_focused()
