"""One small scene for every widget, as a cell a student could run, with the key that changes what it says.

The bare page runs the cell here; JupyterLab runs it in a kernel.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scene:
    """A cell whose last name is `widget`, what takes the focus, and a key that it answers."""

    cell: str
    control: str
    key: str

    def widget(self, projector: bool = False) -> Any:
        names: dict[str, Any] = {}
        exec(self.cell, names)
        names["widget"].projector = projector
        return names["widget"]


SCENES = {
    "TimelinePlayer": Scene(
        """
from pllab.schedule import gpipe
from pllab.show import TimelinePlayer
from pllab.simulate import simulate
widget = TimelinePlayer(simulate(gpipe(2, 3)))""",
        "[role=grid]",
        "ArrowRight",
    ),
    "ScheduleEditor": Scene(
        """
from pllab.pipeline import run_emulated
from pllab.schedule import one_f_one_b
from pllab.show import ScheduleEditor
widget = ScheduleEditor(one_f_one_b(2, 3), memory_limit=2, par=10, run=run_emulated)""",
        "[data-id='0F0']",
        "Alt+ArrowRight",  # the kernel answers
    ),
    "BubbleStudio": Scene(
        """
from pllab.show import BubbleStudio
from pllab.simulate import simulate
widget = BubbleStudio("1F1B", 4, 8, run=simulate)""",
        ".pl-pic",
        "ArrowRight",
    ),
}
