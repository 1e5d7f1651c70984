"""The lessons as a student meets them: a real JupyterLab in Chromium, run from the first cell to the last.

They run in `make exhaustive`. In `make test` that their cells run is nbval's to say. What else a widget does in
JupyterLab is tested with a cell for each (test_jupyterlab.py).
"""

import re
from pathlib import Path

import nbformat
import pytest

from tests.browser.bench import expect
from tests.browser.jupyterlab import open_and_run, use_the_widget
from tests.browser.scenes import SCENES

pytestmark = pytest.mark.browser

LESSONS = sorted((Path(__file__).parents[2] / "notebooks").glob("[01]*.ipynb"))
# How the sentence begins of the picture under a slider of `interact`, before and after one step to the right.
SLIDERS = {
    "04": ("29 samples, 2 ranks, epoch 0", "29 samples, 3 ranks, epoch 0"),
    "06": (".*measured: real. 128 kB: ", ".*measured: real. 256 kB: "),
    "07": (".*is stage .*(block 4 to head|embed to block 3):", ".*is stage .*(block 5 to head|embed to block 4):"),
    "08": ("8 micro-batches on 4 stages", "8 micro-batches on 5 stages"),
    "12": (".*calculated. start", ".*calculated. step 1"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("notebook", LESSONS, ids=[path.name[:2] for path in LESSONS])
def test_a_lesson_runs_and_its_widget_follows_the_keyboard(notebook, visitor, lab_server):
    open_and_run(visitor, lab_server, notebook.name)
    saved = nbformat.read(lab_server.folder / notebook.name, as_version=4)
    cells = [cell for cell in saved.cells if cell.cell_type == "code"]
    assert [cell.id for cell in cells if not cell.execution_count] == []
    for name, scene in SCENES.items():
        if any(f"{name}(" in cell.source for cell in cells):
            use_the_widget(visitor, scene.control, scene.key)
    if sentences := SLIDERS.get(notebook.name[:2]):
        try_the_slider(visitor, *sentences)


def try_the_slider(page, before, after):
    """By keyboard: the last slider of the first choice draws another picture."""
    choice = page.locator(".widget-interact").first
    picture = choice.get_by_role("img")
    expect(picture).to_have_attribute("alt", re.compile(f"^{before}"))
    choice.get_by_role("slider").last.focus()
    page.keyboard.press("ArrowRight")
    expect(picture).to_have_attribute("alt", re.compile(f"^{after}"), timeout=60_000)  # the kernel draws it
