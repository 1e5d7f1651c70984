"""How long the studio takes from an input to the painted frame, as it notes it itself; nothing is asserted of it."""

import statistics
import sys

TAKE_NOTES = """(node) => {
  window.taken = [];
  window.notes?.disconnect();
  window.notes = new MutationObserver(() => window.taken.push(Number(node.dataset.plRepaintMs)));
  window.notes.observe(node, { attributes: true, attributeFilter: ["data-pl-repaint-ms"] });
}"""


def measure(page, root, times=15, every_ms=120):
    """Milliseconds from each press of a key on a slider to its painted frame, as the studio notes them.

    One step further each time, so that no picture was on screen before.
    """
    root.evaluate(TAKE_NOTES)
    for _ in range(times):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(every_ms)
    return notes(page)


def measure_drag(page, root, name, times=15):
    """The same while the mouse drags a slider, one pixel a frame."""
    slider = root.get_by_role("slider", name=name)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    share = slider.evaluate("node => (node.value - node.min) / (node.max - node.min)")
    x, y = box["x"] + 8 + share * (box["width"] - 16), box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.wait_for_timeout(500)
    page.mouse.down()
    root.evaluate(TAKE_NOTES)
    for step in range(times):
        page.mouse.move(x + (step if share < 0.5 else -step), y)
        page.wait_for_timeout(16)
    page.mouse.up()
    return notes(page)


def notes(page):
    """What was noted once nothing has been added for half a second."""
    page.wait_for_function("window.taken.length > 0")
    while (count := page.evaluate("window.taken.length")) != (page.wait_for_timeout(500) or count):
        pass
    page.wait_for_function("count => window.taken.length >= count", arg=count)
    taken = sorted(page.evaluate("window.taken"))
    assert all(one > 0 for one in taken)
    return taken


def measure_all(page, root, where, record_property):
    """Keys with a pause, a key held down (30 presses a second) and a drag; `pytest -rP` prints the figures."""
    root.get_by_role("slider", name="Forward F").focus()
    page.wait_for_timeout(500)
    taken = {
        "keys": measure(page, root),
        "held key": measure(page, root, every_ms=33),
        "drag": measure_drag(page, root, "Micro-batches"),
    }
    for way, one in taken.items():
        record_property(f"repaint_ms, {way}, {where}", one)
        middle = statistics.median(one)
        sys.stdout.write(f"repaint, {way}, {where}: median {middle:.0f} ms of {len(one)} ({one[0]:g} to {one[-1]:g})\n")
