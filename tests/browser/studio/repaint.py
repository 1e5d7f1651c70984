"""How long the studio takes from an input to the painted frame, as it notes it itself; nothing is asserted of it."""

import statistics
import sys

TAKE_NOTES = """(node) => {
  window.taken = [];
  window.notes?.disconnect();
  window.notes = new MutationObserver(() => window.taken.push(Number(node.dataset.plRepaintMs)));
  window.notes.observe(node, { attributes: true, attributeFilter: ["data-pl-repaint-ms"] });
}"""

UP, DOWN = "ArrowUp", "ArrowDown"
AROUND = [UP, DOWN, DOWN, UP] * 4  # the sizes next to the one measured
UPWARDS = [UP] * 15  # settings that were never on screen
TOUR = [*"1324"] * 3


def measure(page, root, keys, every_ms=150):
    """Milliseconds from each press of a key to its painted frame, as the studio notes them, least first."""
    root.evaluate(TAKE_NOTES)
    for key in keys:
        page.keyboard.press(key)
        page.wait_for_timeout(every_ms)
    return notes(page)


def notes(page):
    """What was noted once nothing has been added for half a second."""
    page.wait_for_function("window.taken.length > 0", timeout=60_000)
    while (count := page.evaluate("window.taken.length")) != (page.wait_for_timeout(500) or count):
        pass
    page.wait_for_function("count => window.taken.length >= count", arg=count)
    taken = sorted(page.evaluate("window.taken"))
    assert all(one > 0 for one in taken)
    return taken


def measure_all(page, root, where, record_property):
    """A stepper with pauses and held down (30 presses a second), a cost, and the tour; `pytest -rP` prints the figures.

    The kernel makes every picture when it is asked for. Each cost is new.
    """
    box = root.get_by_role("spinbutton", name="Micro-batches")
    box.focus()
    taken = {"stepper": measure(page, root, AROUND), "held key": measure(page, root, AROUND, every_ms=33)}
    root.get_by_role("button", name="more…").click()
    root.get_by_role("spinbutton", name="forward F").focus()
    page.wait_for_timeout(1000)
    taken["cost"] = measure(page, root, UPWARDS)
    page.keyboard.press("Escape")
    root.locator(".pl-pic").first.focus()
    page.wait_for_timeout(2000)
    taken["family"] = measure(page, root, TOUR, every_ms=1000)
    for way, one in taken.items():
        record_property(f"repaint_ms, {way}, {where}", one)
        middle = statistics.median(one)
        sys.stdout.write(f"repaint, {way}, {where}: median {middle:.0f} ms of {len(one)} ({one[0]:g} to {one[-1]:g})\n")
