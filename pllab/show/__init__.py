"""Pictures and widgets, which know no torch: figures with a text alternative, timelines, players and editors.

theme.py              colours, letters and how a number is written
figures.py            a picture and the sentence that says the same
boxes.py              work and idle time on paper, boxes.js the same in the browser
timeline_picture.py   a run as rows of boxes, and in words
widget.py             what all widgets share
pictures/             figures of one question each
player/  editor/  studio/

Importing this room is light: matplotlib and anywidget are imported when something is drawn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pllab.show.figures import Figure, chart, draw_spread, figure
from pllab.show.pictures.fingerprint import draw_fingerprint
from pllab.show.pictures.index_map import draw_index_map
from pllab.show.pictures.message_sizes import draw_buckets
from pllab.show.pictures.race_board import Race
from pllab.show.pictures.ring import draw_ring
from pllab.show.pictures.sharding import draw_memory, draw_mesh, draw_shards
from pllab.show.pictures.stages import draw_clock, draw_cut, draw_cuts
from pllab.show.timeline_picture import draw_timeline

if TYPE_CHECKING:
    from pllab.show.editor.schedule_editor import ScheduleEditor
    from pllab.show.player.timeline_player import TimelinePlayer
    from pllab.show.studio.bubble_studio import BubbleStudio

__all__ = [
    "BubbleStudio",
    "Figure",
    "Race",
    "ScheduleEditor",
    "TimelinePlayer",
    "chart",
    "draw_buckets",
    "draw_clock",
    "draw_cut",
    "draw_cuts",
    "draw_fingerprint",
    "draw_index_map",
    "draw_memory",
    "draw_mesh",
    "draw_ring",
    "draw_shards",
    "draw_spread",
    "draw_timeline",
    "figure",
]

_WIDGETS = {
    "BubbleStudio": "studio.bubble_studio",
    "ScheduleEditor": "editor.schedule_editor",
    "TimelinePlayer": "player.timeline_player",
}


def __getattr__(name: str) -> Any:
    """Import a widget when it is first asked for: a machine without anywidget can still draw."""
    if name not in _WIDGETS:
        raise AttributeError(f"module 'pllab.show' has no attribute {name!r}")
    return getattr(import_module(f"pllab.show.{_WIDGETS[name]}"), name)
