"""Curves for TensorBoard: the loss of every step, and per epoch the rates and the validation loss."""

from collections.abc import Sequence
from pathlib import Path

from pllab.train.config import TrainConfig
from pllab.train.metrics import EpochMetrics


def log_epoch(folder: Path, config: TrainConfig, metrics: EpochMetrics, step_losses: Sequence[float]) -> None:
    """Append one epoch to the run's event files; watch them with `tensorboard --logdir FOLDER`."""
    from torch.utils.tensorboard import SummaryWriter  # a second to import, and only wanted here

    with SummaryWriter(str(folder)) as writer:
        first = metrics.epoch * len(step_losses)
        for step, loss in enumerate(step_losses, start=first):
            writer.add_scalar("loss/training", loss, step)
        last = first + len(step_losses) - 1
        writer.add_scalar("loss/validation", metrics.validation_loss, last)
        writer.add_scalar("tokens_per_s/rank_0", metrics.tokens_per_s, last)
        writer.add_scalar("training_time_s", metrics.training_time_s, last)
        writer.add_scalar("learning_rate", config.learning_rate, last)
