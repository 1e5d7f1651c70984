"""Pictures and widgets, which know no torch: figures with a text alternative, timelines, player and race.

Importing this room is light: matplotlib and anywidget are imported when something is drawn.
"""

from typing import TYPE_CHECKING, Any

from pllab.show.figure import Figure, figure
from pllab.show.timeline_picture import draw_timeline
from pllab.show.timeline_text import describe_timeline

if TYPE_CHECKING:
    from pllab.show.buckets import BucketSlider
    from pllab.show.clock import ClockPlayer
    from pllab.show.cut_editor import CutEditor
    from pllab.show.fingerprint import GradientFingerprint
    from pllab.show.index_map import IndexMap
    from pllab.show.player import TimelinePlayer
    from pllab.show.race import Race

__all__ = [
    "BucketSlider",
    "ClockPlayer",
    "CutEditor",
    "Figure",
    "GradientFingerprint",
    "IndexMap",
    "Race",
    "TimelinePlayer",
    "describe_timeline",
    "draw_timeline",
    "figure",
]


def __getattr__(name: str) -> Any:
    """Import the widgets when they are first asked for: a machine without anywidget can still draw."""
    if name == "CutEditor":
        from pllab.show.cut_editor import CutEditor

        return CutEditor
    if name == "ClockPlayer":
        from pllab.show.clock import ClockPlayer

        return ClockPlayer
    if name == "IndexMap":
        from pllab.show.index_map import IndexMap

        return IndexMap
    if name == "GradientFingerprint":
        from pllab.show.fingerprint import GradientFingerprint

        return GradientFingerprint
    if name == "BucketSlider":
        from pllab.show.buckets import BucketSlider

        return BucketSlider
    if name == "TimelinePlayer":
        from pllab.show.player import TimelinePlayer

        return TimelinePlayer
    if name == "Race":
        from pllab.show.race import Race

        return Race
    raise AttributeError(f"module 'pllab.show' has no attribute {name!r}")
