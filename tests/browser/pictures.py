"""README's moving picture of the studio and the page behind it, and the editor of docs/schedules.md, light and dark.

python -m tests.browser.pictures assets
"""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from pllab.lesson.site import write_hand_out
from pllab.schedule import one_f_one_b
from pllab.show import BubbleStudio, ScheduleEditor
from pllab.simulate import Costs
from tests.browser.bench import mount
from tests.browser.conftest import ARGUMENTS, browser_program

SIZE = {"width": 1144, "height": 900}


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


def take(folder: Path) -> None:
    """Write studio_light.gif, editor_dark.png and so on."""
    scenes = {
        "studio": (lambda: BubbleStudio("GPipe", 4, 8, Costs(0.010, 0.010, 0.010)), tour_the_families),
        "editor": (lambda: ScheduleEditor(one_f_one_b(3, 4)), make_a_deadlock),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_program(), args=ARGUMENTS)
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme, viewport=SIZE, device_scale_factor=1.5).new_page()
            for name, (make, act) in scenes.items():
                root = mount(page, make())
                frames = []
                for _ in act(page):
                    page.wait_for_timeout(500)
                    picture = Image.open(io.BytesIO(root.screenshot()))
                    frames.append(picture.convert("RGB").quantize(256, dither=Image.Dither.NONE))
                moving = {"save_all": True, "append_images": frames[1:], "duration": 3000, "loop": 0}
                suffix, more = ("gif", moving) if len(frames) > 1 else ("png", {})
                frames[0].save(folder / f"{name}_{scheme}.{suffix}", optimize=True, **more)


if __name__ == "__main__":
    write_hand_out(Path("notebooks"))
    take(Path(sys.argv[1]))
