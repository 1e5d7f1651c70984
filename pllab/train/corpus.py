"""The data of a run: examples to train on, examples to validate on, and a tokenizer trained on the former.

Every rank reads the examples itself; the tokenizer is trained once and handed over as a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pllab.data import Example, Tokenizer, load_examples, texts_of, train_tokenizer
from pllab.train.config import TrainConfig

_NAMES = ("docs", "numbers", "iwslt14-de-en", "tinyshakespeare", "openwebtext")


@dataclass(frozen=True)
class Corpus:
    """Training and validation examples with the tokenizer that reads them."""

    training: Sequence[Example]
    validation: Sequence[Example]
    tokenizer: Tokenizer

    @property
    def is_translation(self) -> bool:
        """Whether the examples have a source to translate."""
        return any(example.source for example in self.validation)


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
    """Take what is no known name as a path where something lies there."""
    is_path = config.dataset not in _NAMES and Path(config.dataset).exists()
    return load_examples(
        config.dataset, split, path=config.dataset if is_path else None, columns=config.columns, limit=limit
    )
