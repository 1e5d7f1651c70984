"""Ways to share the training of any model: replicated, sharded, split.

Read `averaging.py` first, then `bucketing.py` and `data_parallel.py`: the same model on every rank. `tensor.py` splits
its layers. `shards.py` and `sharded.py` keep a part of it on each rank, and say where the pieces lie and when they
travel. `norms.py` adds up what is spread over ranks, and `byte_count.py` counts the bytes that a rank holds.
"""

from pllab.parallel.averaging import (
    average_gradients,
    broadcast_parameters,
    check_same_parameters_used,
    global_sum,
    num_target_tokens,
    token_weighted,
)
from pllab.parallel.bucketing import Bucket, plan_buckets
from pllab.parallel.byte_count import held_bytes
from pllab.parallel.data_parallel import DataParallel
from pllab.parallel.norms import clip_grad_norm
from pllab.parallel.sharded import FullyShardedDataParallel
from pllab.parallel.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    VocabParallelEmbedding,
    vocab_parallel_cross_entropy,
)

__all__ = [
    "Bucket",
    "ColumnParallelLinear",
    "DataParallel",
    "FullyShardedDataParallel",
    "RowParallelLinear",
    "VocabParallelEmbedding",
    "average_gradients",
    "broadcast_parameters",
    "check_same_parameters_used",
    "clip_grad_norm",
    "global_sum",
    "held_bytes",
    "num_target_tokens",
    "plan_buckets",
    "token_weighted",
    "vocab_parallel_cross_entropy",
]
