"""What a run reads: examples to train on and to validate with, and the tokenizer that is trained on them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pllab.data import Example, Tokenizer, load_examples, texts_of, train_tokenizer
from pllab.data.corpora import FILE_TYPES, NAMES
from pllab.train.config import TrainConfig


@dataclass(frozen=True)
class Corpus:
    """Training and validation examples with their tokenizer.

    Every rank reads the examples itself; the tokenizer is trained once and passed on as a file.
    """

    training: Sequence[Example]
    validation: Sequence[Example]
    tokenizer: Tokenizer

    @property
    def is_translation(self) -> bool:
        """Whether the examples have a source to translate."""
        return any(example.source for example in self.validation)

    @property
    def digest(self) -> str:
        """A checksum of the training examples, in twelve digits."""
        return hashlib.sha256("\0".join(texts_of(self.training)).encode()).hexdigest()[:12]

    def identity(self, config: TrainConfig) -> dict[str, Any]:
        """What decides what a run learns from these examples; a resumed run must have the same."""
        return config.identity | {"data": self.digest}


def load_corpus(config: TrainConfig, tokenizer_path: Path | None = None) -> Corpus:
    """Load the data set of the configuration and load or train its tokenizer.

    Raises:
        ValueError: the data set or its columns are missing, or it has fewer examples than one batch.
    """
    training = _load(config, "train", config.samples_per_epoch)
    validation = _load(config, "validation", config.validation_samples)
    if len(training) < config.batch_size:
        raise ValueError(
            f"dataset {config.dataset!r} gives {len(training)} training examples, fewer than batch_size "
            f"{config.batch_size}; give a smaller batch_size or more samples_per_epoch"
        )
    if tokenizer_path is not None:
        return Corpus(training, validation, Tokenizer.load(tokenizer_path))
    return Corpus(training, validation, train_tokenizer(texts_of(training), config.vocab_size))


def _load(config: TrainConfig, split: str, limit: int | None) -> list[Example]:
    """Load the examples; a name that is not known is a path if it exists or looks like one."""
    path = Path(config.dataset)
    is_path = config.dataset not in NAMES and (path.exists() or path.is_absolute() or path.suffix in FILE_TYPES)
    return load_examples(config.dataset, split, path=path if is_path else None, columns=config.columns, limit=limit)
