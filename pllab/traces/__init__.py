"""Recorded runs: the traces that torch.profiler writes of a pipeline become a schedule and a timeline.

trace_files.py  one file as plain data, or a sentence on what is wrong with it
kineto.py       the spans of one rank
alignment.py    whether the files of all ranks belong together, and their clocks do
rank_files.py   one step of all ranks

No torch; standard library only.
"""

from pllab.traces.rank_files import Recorded, read_trace

__all__ = ["Recorded", "read_trace"]
