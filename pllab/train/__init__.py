"""One trainer for any axes: one device, data, tensor and pipeline parallel, naive model parallel, and several at once.

`TrainConfig` says what to train; `train` does it with live progress, validation, BLEU, checkpoints and JSON
results. Losses agree between modes, so that only time differs.
To read it, begin with `first_training.py`, data-parallel training in forty lines; then follow `train`: `running.py`
starts a run, `loop.py` has the steps, `trainers.py` what a step does on any axes.
"""

from pllab.train.config import TrainConfig
from pllab.train.first_training import train_data_parallel
from pllab.train.metrics import EpochMetrics, TrainResult
from pllab.train.running import NothingLeftError, train, train_as_rank

__all__ = [
    "EpochMetrics",
    "NothingLeftError",
    "TrainConfig",
    "TrainResult",
    "train",
    "train_as_rank",
    "train_data_parallel",
]
