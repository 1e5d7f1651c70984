"""Data parallelism: the same model on every rank, each on its share of the batch, gradients averaged.

Read `averaging.py` first, then `bucketing.py` and `data_parallel.py`.
"""

from pllab.parallel.averaging import (
    average_gradients,
    broadcast_parameters,
    check_same_gradients,
    check_same_model,
    global_sum,
    num_target_tokens,
    token_weighted,
)
from pllab.parallel.bucketing import Bucket, plan_buckets
from pllab.parallel.data_parallel import DataParallel
from pllab.parallel.sharded import FullyShardedDataParallel

__all__ = [
    "Bucket",
    "DataParallel",
    "FullyShardedDataParallel",
    "average_gradients",
    "broadcast_parameters",
    "check_same_gradients",
    "check_same_model",
    "global_sum",
    "num_target_tokens",
    "plan_buckets",
    "token_weighted",
]
