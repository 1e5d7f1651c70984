"""The two results of a run, seconds and tokens per second, and how they are averaged.

A rate is total tokens over total wall time. Over epochs we give mean and standard deviation; of several epochs the
first is dropped, because it includes the warm-up. Over ranks the rates are summed and the times are averaged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev


@dataclass(frozen=True, kw_only=True)
class EpochMetrics:
    """The measurements of one rank in one epoch."""

    rank: int
    epoch: int
    training_time_s: float
    """Wall seconds of all steps with data loading and communication; the clock stops after CUDA."""
    num_tokens: int
    """Source and target tokens this rank trained on, padding not counted."""
    training_loss: float
    """Mean over the target tokens of all ranks, measured before each step's update."""
    validation_loss: float
    """Mean over the target tokens of the validation examples of all ranks."""

    @property
    def tokens_per_s(self) -> float:
        """Tokens over wall time: 1000 tokens in 4 s are 250 tokens/s."""
        return self.num_tokens / self.training_time_s


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of a number over epochs: `Summary(2.0, 0.5, 4)` reads 2.00 +- 0.50."""

    mean: float
    deviation: float
    """Sample standard deviation, 0 for one epoch."""
    num_epochs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        """Summarise the values of consecutive epochs, the first dropped when there are several.

        Example: `Summary.of([9.0, 2.0, 4.0])` has mean 3.0.

        Raises:
            ValueError: there is no value.
        """
        if not values:
            raise ValueError("there is no epoch to summarise; train for at least one")
        counted = values[1:] if len(values) > 1 else values
        return cls(fmean(counted), stdev(counted) if len(counted) > 1 else 0.0, len(counted))

    def text(self, digits: int = 2) -> str:
        """The two numbers for people: `3.00 +- 1.41`."""
        return f"{self.mean:,.{digits}f} +- {self.deviation:,.{digits}f}"


def mean_time_s(ranks: Sequence[Sequence[EpochMetrics]]) -> Summary:
    """Seconds per epoch: averaged over ranks, then summarised over epochs."""
    return Summary.of([fmean(epoch.training_time_s for epoch in epochs) for epochs in zip(*ranks, strict=True)])


def total_tokens_per_s(ranks: Sequence[Sequence[EpochMetrics]]) -> Summary:
    """Tokens/s of all ranks together: summed over ranks, then summarised over epochs."""
    return Summary.of([sum(epoch.tokens_per_s for epoch in epochs) for epochs in zip(*ranks, strict=True)])


def log_epoch(folder: Path, learning_rate: float, metrics: EpochMetrics, step_losses: Sequence[float]) -> None:
    """Append one epoch to TensorBoard's files: the loss of every step, rates and validation loss.

    Watch them with `tensorboard --logdir FOLDER`.
    """
    from torch.utils.tensorboard import SummaryWriter  # a second to import, and only wanted here

    with SummaryWriter(str(folder)) as writer:
        first = metrics.epoch * len(step_losses)
        for step, loss in enumerate(step_losses, start=first):
            writer.add_scalar("loss/training", loss, step)
        last = first + len(step_losses) - 1
        writer.add_scalar("loss/validation", metrics.validation_loss, last)
        writer.add_scalar("tokens_per_s/rank_0", metrics.tokens_per_s, last)
        writer.add_scalar("training_time_s", metrics.training_time_s, last)
        writer.add_scalar("learning_rate", learning_rate, last)
