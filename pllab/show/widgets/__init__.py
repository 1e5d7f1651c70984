"""Small widgets, one question each; a file has the widget and its picture on paper.

ring_player.py     messages that hop around a ring of ranks
clock_player.py    ticks of a pipeline that follow two sliders
index_map.py       which rank loads which sample
fingerprint.py     by which factor gradients differ from the right ones
bucket_slider.py   how gradients fall into messages, and what these cost
cut_editor.py      layers cut into stages
shard_viewer.py    matrices split over ranks, and where their terms meet
race.py            throughput, live
"""

from pllab.show.widgets.bucket_slider import BucketSlider
from pllab.show.widgets.clock_player import ClockPlayer
from pllab.show.widgets.cut_editor import CutEditor
from pllab.show.widgets.fingerprint import GradientFingerprint
from pllab.show.widgets.index_map import IndexMap
from pllab.show.widgets.race import Race
from pllab.show.widgets.ring_player import RingPlayer
from pllab.show.widgets.shard_viewer import ShardViewer

__all__ = [
    "BucketSlider",
    "ClockPlayer",
    "CutEditor",
    "GradientFingerprint",
    "IndexMap",
    "Race",
    "RingPlayer",
    "ShardViewer",
]
