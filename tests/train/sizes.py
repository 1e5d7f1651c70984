"""The smallest run that still trains: what the tests of this room give a `TrainConfig`, each with its own changes."""

from typing import Any

TINY: dict[str, Any] = {
    "batch_size": 8,
    "samples_per_epoch": 16,
    "validation_samples": 4,
    "max_length": 24,
    "n_layer": 2,
    "n_embd": 16,
    "n_head": 2,
    "vocab_size": 300,
    "device": "cpu",
}
NUMBERS = TINY | {"dataset": "numbers", "bleu": False}
