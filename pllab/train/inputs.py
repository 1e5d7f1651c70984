"""What a run starts from: examples, the tokenizer that is trained on them, devices, the GPT-2, and the optimizer.

The optimizer has a learning-rate schedule. Its states are saved and restored by the names of parameters, because their
numbers depend on how the model is cut.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from pllab import accelerator, comm, models
from pllab.comm import devices
from pllab.data import Example, Tokenizer, load_examples, partition_dataset, texts_of, train_tokenizer
from pllab.models.new_gpt2 import gpt2_config, made_real
from pllab.parallel.shards import is_dtensor
from pllab.train.config import TrainConfig

_OF_DATA = "dataset columns max_length samples_per_epoch batch_size vocab_size"
_OF_MODEL = "n_layer n_embd n_head dropout dtype optimizer seed"


@dataclass(frozen=True)
class Corpus:
    """Training and validation examples with their tokenizer; every rank reads and trains them itself."""

    training: Sequence[Example]
    validation: Sequence[Example]
    tokenizer: Tokenizer

    def identity(self, config: TrainConfig) -> dict[str, Any]:
        """What decides what a run learns from these examples; a resumed run must have the same."""
        digest = hashlib.sha256("\0".join(texts_of(self.training)).encode()).hexdigest()
        steps = len(partition_dataset(0, config.dp, self.training, config.batch_size, remainder="drop"))
        plain = json.loads(json.dumps(asdict(config)))
        given = {name: plain[name] for name in f"{_OF_DATA} {_OF_MODEL}".split()}
        return given | {"data": digest[:12], "steps_per_epoch": steps}


def load_corpus(config: TrainConfig) -> Corpus:
    """Load the data set of the configuration and train its tokenizer: the same texts give the same one.

    Raises:
        ValueError: the data set or its columns are missing.
    """
    training = load_examples(config.dataset, "train", config.columns, config.samples_per_epoch)
    validation = load_examples(config.dataset, "validation", config.columns, config.validation_samples)
    return Corpus(training, validation, train_tokenizer(texts_of(training), config.vocab_size))


def build_model(config: TrainConfig, vocab_size: int) -> "models.GPT2LMHeadModelParallel":
    """Make a randomly initialised GPT-2, the same on every rank for the same seed; if deferred, without values."""
    model = meta_model(config, vocab_size)
    return model if config.deferred_init else made_real(model, config.seed)


def meta_model(config: TrainConfig, vocab_size: int) -> "models.GPT2LMHeadModelParallel":
    """The whole GPT-2 of a configuration on the meta device, which has shapes but no values."""
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


class Updates:
    """The optimizer of one process, for the parameters that it trains.

    Example:

        updates = Updates(dict(model.named_parameters()), config)
        updates.begin(num_steps=96)
        loss.backward()
        updates.step()
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], config: TrainConfig) -> None:
        self._config, self.parameters = config, dict(sorted(parameters.items()))
        self._num_steps, self._done = 1, 0
        kind: Any = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[config.optimizer]
        # Fused, it is one call of torch for all of them. For DTensors and on the meta device torch has no such call;
        # that of SGD leaves nearly all numbers of bfloat16 on a CPU as they were.
        is_plain = not any(is_dtensor(parameter) or parameter.is_meta for parameter in parameters.values())
        is_plain &= (config.optimizer, config.dtype) != ("sgd", "bfloat16")
        self.optimizer = kind(self.parameters.values(), config.learning_rate, weight_decay=0.0, fused=is_plain or None)

    def begin(self, num_steps: int, done: int = 0) -> None:
        """Start the learning-rate schedule over `num_steps` steps, of which a resumed run has taken `done`."""
        self._num_steps, self._done = num_steps, done

    def step(self) -> float:
        """Update all parameters, forget their gradients, and return the learning rate that was used."""
        rate = self._config.learning_rate * learning_rate_factor(self._done, self._num_steps, self._config)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._done += 1
        return rate


def learning_rate_factor(step: int, num_steps: int, config: TrainConfig) -> float:
    """The share of the learning rate that a step takes, counted from 0.

    Example, cosine with 2 steps of warm-up, over 6 steps:

        step      0     1     2     3     4     5
        factor   1/3   2/3    1   0.85  0.5   0.15

    Source: the warm-up is torch's LinearLR from 1/(N+1), the rest CosineAnnealingLR, or LinearLR to 0.
    """
    warmup = config.warmup_steps
    if step < warmup:
        return (step + 1) / (warmup + 1)
    progress = min(1.0, (step - warmup) / max(1, num_steps - warmup))
    falling = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    return falling[config.lr_schedule]
