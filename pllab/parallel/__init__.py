"""Data parallelism: the same model on every rank, each on its share of the batch, gradients averaged.

Read `average.py` first, then `buckets.py` and `data_parallel.py`; `tokens.py` keeps the mean right when ranks
have unequal numbers of targets.
"""

from pllab.parallel.accumulate import accumulate_gradients
from pllab.parallel.average import average_gradients, check_same_gradients
from pllab.parallel.broadcast import broadcast_parameters, check_same_model
from pllab.parallel.buckets import Bucket, plan_buckets
from pllab.parallel.data_parallel import DataParallel
from pllab.parallel.flat import average_flat
from pllab.parallel.overlap import average_in_backward
from pllab.parallel.tokens import global_sum, num_target_tokens, token_weighted

__all__ = [
    "Bucket",
    "DataParallel",
    "accumulate_gradients",
    "average_flat",
    "average_gradients",
    "average_in_backward",
    "broadcast_parameters",
    "check_same_gradients",
    "check_same_model",
    "global_sum",
    "num_target_tokens",
    "plan_buckets",
    "token_weighted",
]
