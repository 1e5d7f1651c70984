"""The lessons as a student meets them: a real JupyterLab in Chromium, run from the first cell to the last."""

import importlib.util
from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

ROOT = Path(__file__).parents[2]
RUN_MS = 120_000

_spec = importlib.util.spec_from_file_location("pllab_browser_lab", Path(__file__).with_name("jupyterlab.py"))
lab = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lab)

# True once the kernel is idle and every code cell carries a number, none a star. A folded cell shows neither; the
# saved file tells whether it ran.
ALL_DONE = r"""() => {
  const idle = document.querySelector('.jp-Notebook-ExecutionIndicator[data-status="idle"]');
  const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].map((node) => node.textContent.trim());
  const shown = prompts.filter((text) => text);
  return Boolean(idle) && shown.length > 0 && shown.every((text) => /^\[\d+\]:$/.test(text));
}"""
NONE_RUN = """() => [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].every(
  (node) => !/[0-9*]/.test(node.textContent))"""
SELECTED = """() => [...document.querySelectorAll(".jp-Notebook .jp-Cell")].findIndex(
  (cell) => cell.classList.contains("jp-mod-active"))"""


def lesson(number):
    """The notebook of a lesson: `lesson("00")` -> notebooks/00_first_two_ranks.ipynb."""
    found = sorted((ROOT / "notebooks").glob(f"{number}_*.ipynb"))
    assert len(found) == 1, f"lesson {number} should be one notebook; found {[path.name for path in found]}"
    return found[0]


# The lesson's widget: the class of its root, what takes the focus in it, and a key that changes what it says.
WIDGETS = {
    "00": (".pl-player", "[role=grid]", "ArrowRight"),
    "02": (".pl-ring", ".pl-ring-picture", "ArrowRight"),
    "04": (".pl-index-map", "input[type=range]", "ArrowRight"),
    "05": (".pl-fingerprint", "[role=grid]", "ArrowDown"),
    "06": (".pl-buckets", "input[type=range]", "ArrowRight"),
    "07": (".pl-cut-editor", "[role=slider]", "ArrowDown"),
    "08": (".pl-clock", "[role=grid]", "ArrowRight"),
    "09": (".pl-player", "[role=grid]", "ArrowRight"),
    "10": (".pl-studio", ".pl-stage", "ArrowRight"),
    "11": (".pl-studio", ".pl-stage", "ArrowRight"),
    "16": (".pl-studio", ".pl-stage", "ArrowRight"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One JupyterLab with all lessons, as a student has it; the kernel of each lesson ends before the next."""
    with lab.jupyterlab(
        sorted((ROOT / "notebooks").glob("*.ipynb")), tmp_path_factory.mktemp("lab") / "home"
    ) as server:
        yield server


@pytest.mark.parametrize("number", WIDGETS)
def test_a_lesson_runs_and_its_widget_follows_the_keyboard(number, chromium_page, server):
    notebook = lesson(number)
    try:
        open_and_run(chromium_page, server, notebook.name)
        if WIDGETS[number]:
            use_the_widget(chromium_page, *WIDGETS[number])
        if number in ("00", "09"):
            step_the_player(chromium_page)
    finally:
        chromium_page.goto("about:blank")  # close the sockets before the kernel goes
        server.end_kernels()
    cells = [cell for cell in read_cells(server.folder / notebook.name) if cell.cell_type == "code"]
    assert [cell.id for cell in cells if not cell.execution_count] == []
    assert errors_in(cells) == []


def open_and_run(page, server, name):
    """Open the notebook, Run > Run All Cells, wait until all have run, and save."""
    page.goto(server.address_of(name))
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.locator("#jp-bottom-panel, .jp-StatusBar-Widget").get_by_text("| Idle").first.wait_for(timeout=60_000)
    choose(page, "Edit", "Clear Outputs of All Cells")  # so that no number is left from an earlier run
    page.wait_for_function(NONE_RUN)
    choose(page, "Run", "Run All Cells")
    page.wait_for_function(ALL_DONE, timeout=RUN_MS, polling=200)
    with page.expect_response(lambda answer: answer.request.method == "PUT" and "/api/contents/" in answer.url):
        page.keyboard.press("Control+s")


def choose(page, menu, entry):
    """Click an entry of a menu of the menu bar."""
    page.locator(".lm-MenuBar-item").get_by_text(menu, exact=True).click()
    page.locator(".lm-Menu").get_by_text(entry, exact=True).click()


def read_cells(path):
    return nbformat.read(path, as_version=4).cells


def errors_in(cells):
    """Error outputs, apart from those of cells that are meant to raise."""
    meant = {"raises-exception", "nbval-raises-exception"}
    return [
        f"{cell.id}: {output.ename}: {output.evalue}"
        for cell in cells
        if not meant & set(cell.metadata.get("tags", []))
        for output in cell.outputs
        if output.output_type == "error"
    ]


def use_the_widget(page, root, control, key):
    """Focus the first widget of the lesson and press a key: the spoken line changes. X does not cut the cell."""
    widget = page.locator(root).first
    expect(widget).to_have_attribute("data-pl-state", "ready")
    before = widget.locator(".pl-live").text_content()
    widget.locator(control).first.focus()
    page.keyboard.press(key)
    expect(widget.locator(".pl-live")).not_to_have_text(before)
    page.keyboard.press("x")
    expect(widget.locator(control).first).to_be_focused()
    page.keyboard.press("Home")


def step_the_player(page):
    """Reach the first player by keyboard focus alone and step: the spoken line changes, the notebook does not."""
    player = page.locator(".pl-player").first
    expect(player).to_have_attribute("data-pl-state", "ready")
    live, grid = player.locator(".pl-live"), player.get_by_role("grid")
    first = live.text_content()
    grid.focus()
    selected = page.evaluate(SELECTED)
    page.keyboard.press("ArrowRight")
    expect(live).not_to_have_text(first)
    page.keyboard.press("ArrowDown")
    expect(grid).to_be_focused()
    page.keyboard.press("End")
    expect(live).to_contain_text("every device is done")
    page.keyboard.press("Home")
    expect(live).to_have_text(first)
    assert page.evaluate(SELECTED) == selected
