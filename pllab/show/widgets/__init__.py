"""Small widgets, one question each; a file has the widget and its picture on paper.

bucket_slider.py   how gradients fall into messages, and what these cost
cut_editor.py      layers cut into stages
shard_viewer.py    matrices split over ranks, and where their terms meet
memory_bars.py     what each rank holds, kind by kind
rank_cube.py       ranks by coordinate, and the groups of an axis
race.py            throughput, live
"""

from pllab.show.widgets.bucket_slider import BucketSlider
from pllab.show.widgets.cut_editor import CutEditor
from pllab.show.widgets.memory_bars import MemoryBars
from pllab.show.widgets.race import Race
from pllab.show.widgets.rank_cube import RankCube
from pllab.show.widgets.shard_viewer import ShardViewer

__all__ = [
    "BucketSlider",
    "CutEditor",
    "MemoryBars",
    "Race",
    "RankCube",
    "ShardViewer",
]
