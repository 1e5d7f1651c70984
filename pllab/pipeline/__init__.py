"""The pipeline: layers cut into stages, micro-batches on a clock, one worker per device.

clock.py       which stage works on which micro-batch at which tick
bubble.py      how much of the clock is idle
split.py       an nn.Sequential cut where the device changes
worker.py      one thread per device, with a queue in and a queue out
compute.py     every cell of the clock to its worker, every result back
pipe.py        the module that puts them together
tied.py        two copies of one weight, kept in step
checkpointed.py     one stage that keeps its input alone
saved_bytes.py      how many bytes each stage keeps, over time

For any schedule, where the pipe knows one:
interpret.py        the one interpreter of a row of a schedule
split_backward.py   a backward in two halves, I and W
lane_executor.py    every rank of a schedule on a worker thread
rank_executor.py    every rank of a schedule on a rank of a process group (host_clock.py: whose clock)
run_emulated.py     a schedule on stages that sleep as long as costs say (emulated_plan.py: how long)
run_emulated_on_ranks.py   the same on processes
calibrate.py        what the stages cost on this machine
to_torch.py         the same rows on torch.distributed.pipelining
"""

from pllab.pipeline.balance import balance
from pllab.pipeline.batch import Step
from pllab.pipeline.bubble import bubble_fraction, bubble_overhead, fewest_batches
from pllab.pipeline.calibrate import calibrate, calibrate_ranks
from pllab.pipeline.checkpointed import checkpointed
from pllab.pipeline.clock import clock_cycles
from pllab.pipeline.compute import compute
from pllab.pipeline.interpret import interpret
from pllab.pipeline.lane_executor import LaneExecutor
from pllab.pipeline.microbatch import gather, scatter
from pllab.pipeline.pipe import Pipe
from pllab.pipeline.rank_executor import RankExecutor
from pllab.pipeline.run_emulated import run_emulated
from pllab.pipeline.run_emulated_on_ranks import run_emulated_on_ranks
from pllab.pipeline.saved_bytes import SavedBytes, live_saved_bytes
from pllab.pipeline.sleep import SleepStage
from pllab.pipeline.split import WithDevice, split_module
from pllab.pipeline.split_backward import backward_input, backward_weight
from pllab.pipeline.tied import tie_gradients
from pllab.pipeline.tied_ranks import tied_weights
from pllab.pipeline.to_torch import from_torch, to_torch
from pllab.pipeline.worker import Task, Workers, create_workers

__all__ = [
    "LaneExecutor",
    "Pipe",
    "RankExecutor",
    "SavedBytes",
    "SleepStage",
    "Step",
    "Task",
    "WithDevice",
    "Workers",
    "backward_input",
    "backward_weight",
    "balance",
    "bubble_fraction",
    "bubble_overhead",
    "calibrate",
    "calibrate_ranks",
    "checkpointed",
    "clock_cycles",
    "compute",
    "create_workers",
    "fewest_batches",
    "from_torch",
    "gather",
    "interpret",
    "live_saved_bytes",
    "run_emulated",
    "run_emulated_on_ranks",
    "scatter",
    "split_module",
    "tie_gradients",
    "tied_weights",
    "to_torch",
]
