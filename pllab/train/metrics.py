"""The measures of a run, each defined once with its unit and its source, and its result, which has all of them.

A rate is a total over wall time, never a mean of rates. Over epochs we give mean and standard deviation; of several
epochs the first is dropped, because it includes the warm-up. Over ranks rates are summed and times are averaged. The
JSON of a result has the configuration and the machine, because a rate without them means nothing, and every epoch, so
that means can be computed again.
"""

import json
import re
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from timeit import repeat
from typing import Any, NamedTuple

import torch

from pllab import accelerator
from pllab.comm.devices import is_gpu, large_product, synchronize, used_gpus
from pllab.files import write_whole
from pllab.train.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class EpochMetrics:
    """The measurements of one rank in one epoch."""

    rank: int
    epoch: int
    training_time_s: float
    """Wall seconds of its steps, or those left after a resume, with loading and messages, until a GPU has finished."""
    num_tokens: int
    """Source and target tokens this rank trained on, padding not counted."""
    num_samples: int = 0
    """Examples this rank trained on."""
    training_loss: float
    """Mean over the target tokens of all ranks, measured before each step's update."""
    validation_loss: float
    """Mean over the target tokens of the validation examples of all ranks."""
    bubble_fraction: float | None = None
    """Share of the devices' time in which a pipeline was idle, from the first action of a step to the last."""

    @property
    def tokens_per_s(self) -> float:
        """Tokens over wall time: 1000 tokens in 4 s are 250 tokens/s."""
        return self.num_tokens / self.training_time_s


class StepMetrics(NamedTuple):
    """One optimizer step. The loss against the samples, over all steps, is the statistical efficiency of a run.

    Source: Qiao et al., Pollux, OSDI 2021: it is not throughput, and the product of both decides.
    """

    loss: float
    """Nats per target token over the whole batch, before the update."""
    num_samples: int
    """Examples of the step, over all ranks."""
    learning_rate: float
    gradient_norm: float | None = None
    """Norm over all parameters, before clipping; none unless gradients are clipped."""
    validation_loss: float | None = None
    """Validation loss after the update, where one was asked for."""


@dataclass(frozen=True, kw_only=True)
class RunMetrics:
    """A whole run in numbers, over all ranks; rates and shares leave out the first of several epochs."""

    samples_per_s: float
    """Throughput: examples over training time."""
    goodput: float
    """Updates per second of wall time, which includes everything that throughput leaves out.
    Source: ML Productivity Goodput, Google Cloud 2024."""
    wall_time_s: float
    """Seconds from the making of the model to the end, with validation, checkpoints and translation."""
    peak_memory_bytes: tuple[int, ...]
    """Per rank; on a GPU what torch has allocated, else the resident set of the process since it started."""
    bubble_fraction: float | None
    """Idle share of a pipeline in its steps, and none without one. Source: (p-1)/(m+p-1), Huang et al. 2019."""
    predicted_bubble_fraction: float | None
    """The same in a simulation of the schedule where F, I and W take equally long."""
    model_flops_utilisation: float
    """Operations that the model needs (`model_flops`) over those the devices could do in the training time.
    Source: PaLM, Chowdhery et al. 2022, section 4.1."""


def counted(ranks: Sequence[Sequence[EpochMetrics]]) -> tuple[int, int, float, float | None]:
    """Examples, tokens, seconds and a pipeline's idle share of the epochs that count, given those of each share."""
    chosen = [epoch for epochs in ranks for epoch in (epochs[1:] or epochs)]
    seconds = fmean(sum(e.training_time_s for e in epochs[1:] or epochs) for epochs in ranks)
    fractions = [epoch.bubble_fraction for epoch in chosen if epoch.bubble_fraction is not None]
    samples, tokens = sum(e.num_samples for e in chosen), sum(e.num_tokens for e in chosen)
    return samples, tokens, seconds, fmean(fractions) if fractions else None


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of a number over epochs: `Summary(2.0, 0.5)` reads 2.00 +- 0.50."""

    mean: float
    deviation: float
    """Sample standard deviation, 0 for one epoch."""

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        """Summarise the values of consecutive epochs, the first dropped when there are several.

        Example: `Summary.of([9.0, 2.0, 4.0])` has mean 3.0.
        """
        counted = values[1:] if len(values) > 1 else values
        return cls(fmean(counted), stdev(counted) if len(counted) > 1 else 0.0)

    def text(self, digits: int = 2) -> str:
        """The two numbers for people: `3.00 +- 1.41`."""
        return f"{self.mean:,.{digits}f} +- {self.deviation:,.{digits}f}"


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """All measurements of a run.

    Example: `result.tokens_per_s.mean` is the throughput of all devices together.
    """

    config: TrainConfig
    machine: dict[str, Any]
    """Processor, cores, GPUs and library versions."""
    backend: str
    """Which backend carries messages and which devices compute, in a sentence."""
    ranks: tuple[tuple[EpochMetrics, ...], ...]
    """The epochs of each share of the data; the ranks that share a model, over tp or pp, have one share together."""
    steps: tuple[StepMetrics, ...]
    """Every step, over the whole batch."""
    metrics: RunMetrics
    """The whole run in numbers: goodput, memory, a pipeline's bubble, and how much of the machine was used."""
    bleu: float | None = None
    """BLEU (0 to 100) of greedy translations of the validation examples; none without sources."""

    @property
    def step_losses(self) -> tuple[float, ...]:
        """Loss of every step over the whole batch, before the step's update."""
        return tuple(step.loss for step in self.steps)

    @property
    def training_time_s(self) -> Summary:
        """Seconds per epoch, averaged over ranks, then summarised over epochs."""
        return Summary.of([fmean(epoch.training_time_s for epoch in ranks) for ranks in zip(*self.ranks, strict=True)])

    @property
    def tokens_per_s(self) -> Summary:
        """Tokens/s of all ranks together, summarised over epochs."""
        return Summary.of([sum(epoch.tokens_per_s for epoch in ranks) for ranks in zip(*self.ranks, strict=True)])

    @property
    def validation_loss(self) -> float:
        """Validation loss after the last epoch."""
        return self.ranks[0][-1].validation_loss

    def to_json(self) -> dict[str, Any]:
        """The result as plain values; numbers that are not finite, as in a diverged run, become null."""
        plain = {
            "config": asdict(self.config),
            "machine": self.machine,
            "backend": self.backend,
            "training_time_s": asdict(self.training_time_s),
            "tokens_per_s": asdict(self.tokens_per_s),
            "metrics": asdict(self.metrics),
            "dropped_first_epoch": len(self.ranks[0]) > 1,
            "validation_loss": self.validation_loss,
            "bleu": self.bleu,
            "ranks": [[asdict(e) | {"tokens_per_s": e.tokens_per_s} for e in epochs] for epochs in self.ranks],
            "steps": dict(zip(StepMetrics._fields, map(list, zip(*self.steps, strict=True)), strict=True)),
        }
        finite: dict[str, Any] = json.loads(json.dumps(plain), parse_constant=lambda _: None)  # JSON has no NaN
        return finite

    def save(self) -> None:
        """Write `WORKDIR/NAME.json` atomically."""
        write_whole(self.config.result_file, json.dumps(self.to_json(), indent=1) + "\n")


def model_flops(num_parameters: int, n_layer: int, width: int, num_tokens: int, num_samples: int) -> float:
    """Floating-point operations to train on some tokens: per token 6 N + 12 layers x width x length.

    Every parameter multiplies and adds once forward and twice backward; the rest is attention to a row, here of the
    mean length. The extra operations of recomputation and padding are not needed, so they do not count.

    Example: 1e6 parameters, 4 layers of width 128 and 10 rows of 50 tokens -> 500 * (6e6 + 307,200) = 3.15e9.

    Source: Chowdhery et al., PaLM, 2022, appendix B; as Narayanan et al., Megatron-LM, 2021, without recomputation.
    """
    return num_tokens * (6.0 * num_parameters + 12.0 * n_layer * width * num_tokens / max(1, num_samples))


def measured_peak_flops(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations per second of one device: the fastest of some products of two square matrices."""
    flops, multiply = large_product(device, dtype)

    def multiply_and_wait() -> None:
        multiply()
        synchronize()

    return flops / min(repeat(multiply_and_wait, number=1, repeat=4, timer=time.perf_counter))


def reset_peak_memory() -> None:
    """Restart `peak_memory_bytes` for what this process holds on GPUs."""
    for gpu in used_gpus():
        accelerator.reset_peak_bytes(gpu)


def peak_memory_bytes(device: torch.device) -> int:
    """The most bytes this process held: torch's allocations on its GPUs, else its resident set."""
    if is_gpu(device):
        return sum(map(accelerator.peak_bytes, used_gpus()))
    status = Path("/proc/self/status")  # on Linux, where getrusage would count the starting process's peak too
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return 1024 * int(found[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def log_epoch(folder: Path, metrics: EpochMetrics, steps: Sequence[StepMetrics], first: int) -> None:
    """Append one epoch to TensorBoard's files, its steps counted from `first`: losses, norms and rates.

    Watch them with `tensorboard --logdir FOLDER`.
    """
    from torch.utils.tensorboard import SummaryWriter  # a second to import, and only wanted here

    with SummaryWriter(str(folder), purge_step=first) as writer:
        for number, step in enumerate(steps, start=first):
            values = step._asdict() | {"loss/training": step.loss, "loss/validation": step.validation_loss}
            for tag in ("loss/training", "loss/validation", "learning_rate", "gradient_norm"):
                if values[tag] is not None:
                    writer.add_scalar(tag, values[tag], number)
        writer.add_scalar("tokens_per_s/rank_0", metrics.tokens_per_s, first + len(steps) - 1)
        writer.add_scalar("training_time_s", metrics.training_time_s, first + len(steps) - 1)
