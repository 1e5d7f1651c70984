"""Data for every rank: shares in which nothing is lost or doubled, texts with and without a network, batches.

`partition.py` cuts, `loader.py` keeps the ranks in step, `corpora.py` has the texts, `tokens.py` makes batches of them.
"""

from pllab.data.corpora import DatasetError, Example, load_examples, texts_of
from pllab.data.loader import ShareLoader, partition_dataset
from pllab.data.partition import DataPartitioner, Partition
from pllab.data.tokens import IGNORED, Collate, Row, Tokenizer, pack_text, prompt_tokens, train_tokenizer

__all__ = [
    "IGNORED",
    "Collate",
    "DataPartitioner",
    "DatasetError",
    "Example",
    "Partition",
    "Row",
    "ShareLoader",
    "Tokenizer",
    "load_examples",
    "pack_text",
    "partition_dataset",
    "prompt_tokens",
    "texts_of",
    "train_tokenizer",
]
