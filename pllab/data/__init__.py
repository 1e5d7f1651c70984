"""Data for every rank: shares in which nothing is lost or repeated, texts with and without a network, batches.

`loader.py` cuts data and keeps the ranks in step, `corpora.py` has the texts, `tokens.py` makes batches of them.
"""

from pllab.data.corpora import DatasetError, Example, load_examples, texts_of
from pllab.data.loader import DataPartitioner, Partition, ShareLoader, partition_dataset
from pllab.data.tokens import IGNORED, Collate, Row, Tokenizer, pack_text, train_tokenizer

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
    "texts_of",
    "train_tokenizer",
]
