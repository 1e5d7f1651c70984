"""Recorded runs: torch.profiler's traces of a pipeline become a schedule and a timeline.

kineto.py       the spans in the file of one rank
rank_files.py   one step of all ranks, if their files and clocks belong together

No torch; standard library only.
"""

from pllab.traces.rank_files import Recorded, read_trace

__all__ = ["Recorded", "read_trace"]
