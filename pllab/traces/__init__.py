"""Recorded runs: torch.profiler's traces of a pipeline become a schedule and a timeline.

trace_files.py  one file as plain data, or a sentence that says what is wrong with it
kineto.py       the spans of one rank
alignment.py    whether the files of all ranks, and their clocks, belong together
rank_files.py   one step of all ranks

No torch; standard library only.
"""

from pllab.traces.rank_files import Recorded, read_trace

__all__ = ["Recorded", "read_trace"]
