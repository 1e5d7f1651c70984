"""The pipeline: layers cut into stages, a schedule, and the one engine that runs it.

split.py           a model cut into stages
batches.py         a batch cut into micro-batches, and its loss
workers.py         one thread per device, and the clock
stage.py           what a stage does with F, B, I and W (split_backward.py: a backward in two halves; randomness.py: the
                   same draws whatever the threads do; tied.py: weights that stages share)
engine.py          interpret a row: take, perform, give; the packets that travel (streams.py: where a GPU's work is)
lanes.py           rows on worker threads
pipe.py            the engine behind autograd: a module like any other
executor.py        a batch through any schedule, with its loss inside; what the stages cost on this machine
emulation.py       the engine on stages that sleep
saved_bytes.py     how many bytes each stage keeps, over time
torch_schedule.py  the same rows on torch.distributed.pipelining
"""

from pllab.pipeline.emulation import run_emulated
from pllab.pipeline.engine import interpret
from pllab.pipeline.executor import LaneExecutor, calibrate
from pllab.pipeline.pipe import Pipe
from pllab.pipeline.saved_bytes import SavedBytes, live_saved_bytes
from pllab.pipeline.split import WithDevice, balance, split_module
from pllab.pipeline.split_backward import backward_input, backward_weight
from pllab.pipeline.tied import tie_gradients, tied_weights
from pllab.pipeline.torch_schedule import to_torch
from pllab.pipeline.workers import Task, Workers, clock_cycles, compute, create_workers

__all__ = [
    "LaneExecutor",
    "Pipe",
    "SavedBytes",
    "Task",
    "WithDevice",
    "Workers",
    "backward_input",
    "backward_weight",
    "balance",
    "calibrate",
    "clock_cycles",
    "compute",
    "create_workers",
    "interpret",
    "live_saved_bytes",
    "run_emulated",
    "split_module",
    "tie_gradients",
    "tied_weights",
    "to_torch",
]
