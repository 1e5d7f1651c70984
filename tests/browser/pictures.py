"""README's moving picture of the studio and the page behind it, and the editor of docs/schedules.md, light and dark.

python -m tests.browser.pictures assets
"""

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from pllab.lesson.site import write_hand_out
from tests.browser.conftest import ARGUMENTS, browser_program
from tests.browser.jupyterlab import jupyterlab, open_and_run, write_notebook

CELLS = {
    "studio": """
from pllab.show import BubbleStudio
from pllab.simulate import Costs

BubbleStudio("GPipe", 4, 8, Costs(0.010, 0.010, 0.010))""",
    "editor": """
from pllab.schedule import one_f_one_b
from pllab.show import ScheduleEditor

ScheduleEditor(one_f_one_b(3, 4))""",
}
SIZE = {"width": 1280, "height": 900}


def tour_the_families(page: Page) -> Iterator[None]:
    """The tour's families, and the last without a barrier: a frame each."""
    page.locator(".pl-pic").first.focus()
    for key in "1234b":
        page.keyboard.press(key)
        yield


def make_a_deadlock(page: Page) -> Iterator[None]:
    """Send the first backward of rank 0 before its second forward: rank 1 wants that forward first."""
    page.locator(".pl-editor [data-id='0B0']").focus()
    for _ in range(2):
        page.keyboard.press("Alt+ArrowLeft")
    yield


@contextmanager
def lab_page(folder: Path, scheme: str) -> Iterator[Page]:
    """A page of JupyterLab in which the cells have run."""
    write_notebook(folder / "pictures.ipynb", list(CELLS.values()))
    theme = f"JupyterLab {scheme.title()}"
    with jupyterlab([folder / "pictures.ipynb"], folder / "home", theme) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_program(), args=ARGUMENTS)
        page = browser.new_context(color_scheme=scheme, viewport=SIZE, device_scale_factor=1.5).new_page()
        page.set_default_timeout(30_000)
        open_and_run(page, server, "pictures.ipynb")
        yield page
        browser.close()


def take(folder: Path) -> None:
    """Write studio_light.gif, editor_dark.png and so on, from a real JupyterLab."""
    for scheme in ("light", "dark"):
        with tempfile.TemporaryDirectory() as home, lab_page(Path(home), scheme) as page:
            for name, act in (("studio", tour_the_families), ("editor", make_a_deadlock)):
                widget = page.locator(f".pl-{name}")
                widget.scroll_into_view_if_needed()
                frames = []
                for _ in act(page):
                    page.wait_for_timeout(1500)
                    picture = Image.open(io.BytesIO(widget.screenshot()))
                    frames.append(picture.convert("RGB").quantize(128, dither=Image.Dither.NONE))
                moving = {"save_all": True, "append_images": frames[1:], "duration": 3000, "loop": 0}
                suffix, more = ("gif", moving) if len(frames) > 1 else ("png", {})
                frames[0].save(folder / f"{name}_{scheme}.{suffix}", optimize=True, **more)


if __name__ == "__main__":
    write_hand_out(Path("notebooks"))
    take(Path(sys.argv[1]))
