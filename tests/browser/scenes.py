"""One small scene for every widget, as a cell a student could run, with the key that changes what it says.

The bare page runs the cell here; JupyterLab runs it in a kernel.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scene:
    """A cell whose last name is `widget`, the class of its root, what takes the focus, and a key that it answers."""

    cell: str
    root: str
    control: str
    key: str

    def widget(self) -> Any:
        names: dict[str, Any] = {}
        exec(self.cell, names)
        return names["widget"]


SCENES = {
    "TimelinePlayer": Scene(
        """
from pllab.schedule import gpipe
from pllab.show import TimelinePlayer
from pllab.simulate import simulate
widget = TimelinePlayer(simulate(gpipe(2, 3)))""",
        ".pl-player",
        "[role=grid]",
        "ArrowRight",
    ),
    "RingPlayer": Scene(
        """
from pllab.show import RingPlayer
widget = RingPlayer([
    {"messages": [("send", 1, 4), ("receive", 1, 4)], "held": [1, 11], "sent": [1]},
    {"messages": [("send", 0, 4), ("receive", 0, 4)], "held": [10, 11], "sent": [10]},
])""",
        ".pl-ring",
        ".pl-ring-picture",
        "ArrowRight",
    ),
    "ClockPlayer": Scene(
        """
from pllab.show import ClockPlayer
widget = ClockPlayer(lambda m, p: [[(t - j, j) for j in range(p) if 0 <= t - j < m] for t in range(m + p - 1)])""",
        ".pl-clock",
        "[role=grid]",
        "ArrowRight",
    ),
    "IndexMap": Scene(
        """
from pllab.show import IndexMap
def deal(world_size, epoch, remainder):
    return [[list(range(rank, 11, world_size))] for rank in range(world_size)]
widget = IndexMap(11, deal)""",
        ".pl-index-map",
        "input[type=range]",
        "ArrowLeft",
    ),
    "GradientFingerprint": Scene(
        """
from pllab.show import GradientFingerprint
widget = GradientFingerprint({"w": [1.0, 2.0], "b": [1.0]}, {"summed": {"w": [2.0, 4.0], "b": [3.0]}})""",
        ".pl-fingerprint",
        "[role=grid]",
        "ArrowRight",
    ),
    "ScheduleEditor": Scene(
        """
from pllab.pipeline import run_emulated
from pllab.schedule import one_f_one_b
from pllab.show import ScheduleEditor
widget = ScheduleEditor(one_f_one_b(2, 3), memory_limit=2, par=10, run=run_emulated)""",
        ".pl-editor",
        "[data-id='0F0']",
        "Space",
    ),
    "BubbleStudio": Scene(
        """
from pllab.show import BubbleStudio
from pllab.simulate import simulate
widget = BubbleStudio("1F1B", 4, 8, run=simulate)""",
        ".pl-studio",
        ".pl-pic",
        "ArrowRight",
    ),
}
