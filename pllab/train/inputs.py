"""What a run starts from: the examples and the tokenizer that is trained on them, the GPT-2, and the devices."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pllab import accelerator, comm, models
from pllab.comm import devices
from pllab.data import Example, Tokenizer, load_examples, texts_of, train_tokenizer
from pllab.data.corpora import FILE_TYPES, NAMES
from pllab.models.new_gpt2 import gpt2_config, made_real
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

    def identity(self, config: TrainConfig) -> dict[str, Any]:
        """What decides what a run learns from these examples; a resumed run must have the same."""
        digest = hashlib.sha256("\0".join(texts_of(self.training)).encode()).hexdigest()
        return config.identity | {"data": digest[:12]}


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


def build_model(config: TrainConfig, vocab_size: int) -> "models.GPT2LMHeadModelParallel":
    """Make a randomly initialised GPT-2, the same on every rank for the same seed; if deferred, without values."""
    model = meta_model(config, vocab_size)
    return model if config.deferred_init else made_real(model, config.seed)


def meta_model(config: TrainConfig, vocab_size: int) -> "models.GPT2LMHeadModelParallel":
    """The whole GPT-2 of a configuration on the meta device, which has shapes and no values."""
    sizes = {"n_layer": config.n_layer, "n_embd": config.n_embd, "n_head": config.n_head}
    # No dropout in attention: the fused kernel of a GPU takes no generator, so its masks could not be repeated.
    dropout = {"embd_pdrop": config.dropout, "resid_pdrop": config.dropout}
    settings = gpt2_config("tiny", vocab_size, n_positions=config.max_length, use_cache=False, **sizes, **dropout)
    with torch.device("meta"):
        model = models.GPT2LMHeadModelParallel(settings)
    return model.to(getattr(torch, config.dtype))


def devices_of(config: TrainConfig) -> list[torch.device]:
    """The devices of this process: one, or one per stage or lane; these share GPUs if there are too few.

    Example: two lanes without a GPU -> `[cpu:0, cpu:1]`, with one GPU -> `[cuda:0, cuda:0]`.

    Raises:
        ValueError: device is cuda and there is no GPU.
    """
    num_gpus = devices.num_gpus()
    if config.device == "cuda" and not num_gpus:
        raise ValueError("device is 'cuda' and this machine has no CUDA GPU; use 'cpu' or 'auto'")
    on_cpu = config.device == "cpu" or not num_gpus
    if comm.backend_name() is not None:  # a rank computes where its group carries messages
        return [comm.own_device()]
    if config.is_split:
        kind, number = ("cpu", config.world_size) if on_cpu else (accelerator.KIND, num_gpus)
        return [torch.device(kind, stage % number) for stage in range(config.pp)]
    return [torch.device("cpu") if on_cpu else devices.current_gpu()]
