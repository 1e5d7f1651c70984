"""Pictures and widgets, which know no torch: figures with a text alternative, timelines, players and editors.

theme.py              colours, letters and how a number is written
figures.py            a picture and the sentence that says the same
boxes.py              work and idle time on paper, boxes.js the same in the browser
timeline_picture.py   a run as rows of boxes, and in words
widget.py             what all widgets share
pictures/  widgets/  player/  editor/  studio/

Importing this room is light: matplotlib and anywidget are imported when something is drawn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pllab.show.figures import Figure, chart, draw_spread, figure
from pllab.show.timeline_picture import describe_timeline, draw_timeline

if TYPE_CHECKING:
    from pllab.show.editor import ScheduleEditor
    from pllab.show.pictures.matrix_shards import draw_shards
    from pllab.show.pictures.memory_bars import draw_memory
    from pllab.show.pictures.message_sizes import draw_buckets
    from pllab.show.pictures.race_board import Race
    from pllab.show.pictures.rank_groups import draw_mesh
    from pllab.show.pictures.stage_cuts import draw_cut, draw_cuts
    from pllab.show.player import TimelinePlayer
    from pllab.show.studio import BubbleStudio
    from pllab.show.widgets import (
        ClockPlayer,
        GradientFingerprint,
        IndexMap,
        RingPlayer,
    )

__all__ = [
    "BubbleStudio",
    "ClockPlayer",
    "Figure",
    "GradientFingerprint",
    "IndexMap",
    "Race",
    "RingPlayer",
    "ScheduleEditor",
    "TimelinePlayer",
    "chart",
    "describe_timeline",
    "draw_buckets",
    "draw_cut",
    "draw_cuts",
    "draw_memory",
    "draw_mesh",
    "draw_shards",
    "draw_spread",
    "draw_timeline",
    "figure",
]

_ROOMS = {
    "BubbleStudio": "studio",
    "ScheduleEditor": "editor",
    "TimelinePlayer": "player",
    "Race": "pictures.race_board",
    "draw_cut": "pictures.stage_cuts",
    "draw_cuts": "pictures.stage_cuts",
    "draw_buckets": "pictures.message_sizes",
    "draw_shards": "pictures.matrix_shards",
    "draw_mesh": "pictures.rank_groups",
    "draw_memory": "pictures.memory_bars",
}


def __getattr__(name: str) -> Any:
    """Import pictures and widgets when they are first asked for: a machine without anywidget can still draw."""
    if name not in __all__:
        raise AttributeError(f"module 'pllab.show' has no attribute {name!r}")
    return getattr(import_module(f"pllab.show.{_ROOMS.get(name, 'widgets')}"), name)
