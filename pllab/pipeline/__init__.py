"""The pipeline: layers cut into stages, micro-batches on a clock, one worker per device.

clock.py       which stage works on which micro-batch at which tick
bubble.py      how much of the clock is idle
split.py       an nn.Sequential cut where the device changes
worker.py      one thread per device, with a queue in and a queue out
compute.py     every cell of the clock to its worker, every result back
pipe.py        the module that puts them together
tied.py        two copies of one weight, kept in step
"""

from pllab.pipeline.balance import balance
from pllab.pipeline.bubble import bubble_fraction, bubble_overhead, fewest_batches
from pllab.pipeline.clock import clock_cycles
from pllab.pipeline.compute import compute
from pllab.pipeline.microbatch import gather, scatter
from pllab.pipeline.pipe import Pipe
from pllab.pipeline.sleep import SleepStage
from pllab.pipeline.split import WithDevice, split_module
from pllab.pipeline.tied import tie_gradients
from pllab.pipeline.worker import Task, Workers, create_workers

__all__ = [
    "Pipe",
    "SleepStage",
    "Task",
    "WithDevice",
    "Workers",
    "balance",
    "bubble_fraction",
    "bubble_overhead",
    "clock_cycles",
    "compute",
    "create_workers",
    "fewest_batches",
    "gather",
    "scatter",
    "split_module",
    "tie_gradients",
]
