"""Small widgets, one question each; a file has the widget and its picture on paper.

ring_player.py     messages that hop around a ring of ranks
clock_player.py    ticks of a pipeline that follow two sliders
index_map.py       which rank loads which sample
fingerprint.py     by which factor gradients differ from the right ones
"""

from pllab.show.widgets.clock_player import ClockPlayer
from pllab.show.widgets.fingerprint import GradientFingerprint
from pllab.show.widgets.index_map import IndexMap
from pllab.show.widgets.ring_player import RingPlayer

__all__ = [
    "ClockPlayer",
    "GradientFingerprint",
    "IndexMap",
    "RingPlayer",
]
