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
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "zero_bubble")
LANES: dict[str, dict[str, Any]] = {
    "model_parallel": {"mode": "model_parallel", "world_size": 2, "accumulation": 9},  # a row each
    "ragged": {"mode": "pipeline", "world_size": 2, "num_microbatches": 3, "recompute": True},
} | {name: {"mode": "pipeline", "world_size": 2, "schedule": name} for name in SCHEDULES}
"""Every way to train on two lanes."""
