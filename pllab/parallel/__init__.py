"""Ways to share one model's training that know no model: replicated, sharded, split.

Read `averaging.py` first, then `bucketing.py` and `data_parallel.py`: the same model on every rank. `tensor.py` splits
its layers. `shards.py` and `sharded.py` keep a part of it on each rank, and say where the pieces lie and when they
travel. `norms.py` adds up what is spread over ranks, and `held.py` counts the bytes that a rank holds.
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
from pllab.parallel.held import held_bytes
from pllab.parallel.norms import clip_grad_norm
from pllab.parallel.sharded import FullyShardedDataParallel
from pllab.parallel.shards import join, part_of
from pllab.parallel.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    Split,
    VocabParallelEmbedding,
    slice_of,
    split_of,
    vocab_parallel_cross_entropy,
    whole_of,
    whole_state,
)

__all__ = [
    "Bucket",
    "ColumnParallelLinear",
    "DataParallel",
    "FullyShardedDataParallel",
    "RowParallelLinear",
    "Split",
    "VocabParallelEmbedding",
    "average_gradients",
    "broadcast_parameters",
    "check_same_gradients",
    "check_same_model",
    "clip_grad_norm",
    "global_sum",
    "held_bytes",
    "join",
    "num_target_tokens",
    "part_of",
    "plan_buckets",
    "slice_of",
    "split_of",
    "token_weighted",
    "vocab_parallel_cross_entropy",
    "whole_of",
    "whole_state",
]
