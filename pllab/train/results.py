"""The result of a run: a value for the caller, the same as JSON in the work folder, and two figures of several runs.

The JSON has the configuration and the machine, because a rate without them means nothing, and every epoch, so that
means can be computed again.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pllab.arguments import plain_file
from pllab.files import write_whole
from pllab.show import Figure, chart, figure
from pllab.show.theme import LIGHT, write_number
from pllab.train.config import TrainConfig
from pllab.train.metrics import EpochMetrics, RunMetrics, StepMetrics, Summary

Metric = Literal["training_time_s", "tokens_per_s"]

_TITLES: dict[Metric, tuple[str, str]] = {
    "training_time_s": ("Training time of an epoch", "seconds"),
    "tokens_per_s": ("Throughput of all devices", "tokens/s"),
}


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
    path: Path | None = None
    """Where the JSON was written."""

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


def save_result(result: TrainResult) -> TrainResult:
    """Write `WORKDIR/NAME.json` atomically, into a folder that is there, and return the result with its path."""
    path = Path(result.config.workdir, f"{result.config.run_name}.json")
    write_whole(path, json.dumps(result.to_json(), indent=1) + "\n")
    return replace(result, path=path)


def load_results(workdir: str | Path) -> list[dict[str, Any]]:
    """Read every result of a work folder, as `to_json` wrote it, ordered by mode and world size.

    Raises:
        ValueError: there is none, or a file is not JSON.
    """
    results = [result for path in sorted(Path(workdir).glob("*.json")) if "ranks" in (result := _read(path))]
    if not results:
        raise ValueError(f"workdir {str(workdir)!r} holds no results to draw; train into it first")
    return sorted(results, key=lambda result: (result["config"]["mode"], result["config"]["world_size"]))


def _read(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(plain_file(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON ({error}); remove it or train again") from error
    return result if isinstance(result, dict) else {}


def open_workdir(workdir: str, flag: str = "workdir") -> Path:
    """Make the work folder, or that of another flag, if it is missing, and check that a file can be written there.

    Raises:
        ValueError: no file can be written; the message names the folder and the reason.
    """
    folder = Path(workdir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ValueError(
            f"{flag} {workdir!r} cannot be written ({reason}); name a folder of your own with --{flag}"
        ) from error
    return folder


def plot_scaling(results: Sequence[dict[str, Any]], metric: Metric) -> Figure:
    """Draw one metric of several results, a bar with its deviation for each.

    Example: `plot_scaling(load_results("workdir"), "tokens_per_s")` draws a bar for every run in the folder; the
    other metric is training_time_s.
    """
    title, unit = _TITLES[metric]
    places, names = range(len(results)), [_names(result) for result in results]
    means, deviations = ([result[metric][part] for result in results] for part in ("mean", "deviation"))
    with chart("", unit, 1.8 + 1.3 * len(results), 3.6) as axes:
        bars = axes.bar(places, means, yerr=deviations, capsize=4, color=LIGHT.held, edgecolor=LIGHT.held_line)
        axes.bar_label(bars, fmt=write_number, padding=3)
        axes.set_xticks(places, ["\n".join(name) for name in names])
        axes.set_title(title)
        axes.margins(y=0.15)
        rows = zip(names, means, deviations, strict=True)
        said = [f"{' on '.join(name)} {write_number(mean)} +- {write_number(off)}" for name, mean, off in rows]
        canvas: Any = axes.figure
        return figure(canvas, f"{title} in {unit}: {'; '.join(said)}.")


def _names(result: dict[str, Any]) -> tuple[str, str]:
    """What was run, and on how many devices."""
    mode, count, schedule = (result["config"][name] for name in ("mode", "world_size", "schedule"))
    order = "" if schedule == "gpipe" else f", {schedule}"
    return f"{mode.replace('_', ' ')}{order}", "1 device" if count == 1 else f"{count} devices"


def save_plots(workdir: str | Path) -> tuple[Path, Path]:
    """Draw both figures from all results of a work folder into its `figures`; returns the two paths.

    Raises:
        ValueError: the folder holds no results.
    """
    results, folder = load_results(workdir), Path(workdir) / "figures"
    folder.mkdir(exist_ok=True)
    seconds, rate = (plot_scaling(results, metric).save(folder / f"{metric}.png") for metric in _TITLES)
    return seconds, rate
