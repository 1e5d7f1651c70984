"""Pictures and widgets, which know no torch: figures with a text alternative, timelines, player and race.

Importing this room is light: matplotlib and anywidget are imported when something is drawn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pllab.show.figure import Figure, figure
from pllab.show.timeline_picture import draw_timeline
from pllab.show.timeline_text import describe_timeline

if TYPE_CHECKING:
    from pllab.show.buckets import BucketSlider
    from pllab.show.clock import ClockPlayer
    from pllab.show.cut_editor import CutEditor
    from pllab.show.editor import ScheduleEditor
    from pllab.show.fingerprint import GradientFingerprint
    from pllab.show.index_map import IndexMap
    from pllab.show.player import TimelinePlayer
    from pllab.show.race import Race
    from pllab.show.ring import RingPlayer
    from pllab.show.studio import BubbleStudio

__all__ = [
    "BubbleStudio",
    "BucketSlider",
    "ClockPlayer",
    "CutEditor",
    "Figure",
    "GradientFingerprint",
    "IndexMap",
    "Race",
    "RingPlayer",
    "ScheduleEditor",
    "TimelinePlayer",
    "describe_timeline",
    "draw_timeline",
    "figure",
]


_WIDGETS = {
    "BubbleStudio": "studio",
    "BucketSlider": "buckets",
    "ClockPlayer": "clock",
    "CutEditor": "cut_editor",
    "GradientFingerprint": "fingerprint",
    "IndexMap": "index_map",
    "Race": "race",
    "RingPlayer": "ring",
    "ScheduleEditor": "editor",
    "TimelinePlayer": "player",
}


def __getattr__(name: str) -> Any:
    """Import the widgets when they are first asked for: a machine without anywidget can still draw."""
    if name not in _WIDGETS:
        raise AttributeError(f"module 'pllab.show' has no attribute {name!r}")
    return getattr(import_module(f"pllab.show.{_WIDGETS[name]}"), name)
