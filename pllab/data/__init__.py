"""Data for every rank: shares in which nothing is lost or doubled, texts with and without a network, batches.

`partition` cuts, `loader` keeps the ranks in step, `corpus` and `hub` have the texts, `tokens` makes numbers
of them and `batches` makes rectangles of those.
"""

from pllab.data.batches import IGNORED, Block, Collate, pack_text, prompt_tokens
from pllab.data.corpus import docs_examples, number_examples
from pllab.data.example import DatasetError, Example, texts_of
from pllab.data.hub import load_examples
from pllab.data.loader import Remainder, ShareLoader, partition_dataset, rank_batch_size
from pllab.data.partition import DataPartitioner, Partition, share_counts
from pllab.data.tokens import Tokenizer, train_tokenizer

__all__ = [
    "IGNORED",
    "Block",
    "Collate",
    "DataPartitioner",
    "DatasetError",
    "Example",
    "Partition",
    "Remainder",
    "ShareLoader",
    "Tokenizer",
    "docs_examples",
    "load_examples",
    "number_examples",
    "pack_text",
    "partition_dataset",
    "prompt_tokens",
    "rank_batch_size",
    "share_counts",
    "texts_of",
    "train_tokenizer",
]
