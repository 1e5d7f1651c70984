"""Recorded runs: traces of PyTorch's pipelines and of this package become a schedule and a timeline.

recorded.py     what is read: a schedule, a timeline, whose clock it is
trace_files.py  one file as plain data, or a sentence on what is wrong with it
kineto.py       the spans of one rank, as torch.profiler writes them
kernels.py      when a GPU did the work of those spans
alignment.py    the files of all ranks on one clock
rank_files.py   one step of all ranks
run_files.py    the traces that this package writes
reading.py      any of them

No torch; standard library only.
"""

from pllab.traces.reading import read_trace
from pllab.traces.recorded import Clock, Recorded

__all__ = ["Clock", "Recorded", "read_trace"]
