"""`pllab train`: one run with progress bars, a summary for people and JSON for the figures."""

import re
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from pllab import comm
from pllab.cli.flags import parse
from pllab.comm.group import torchrun_rank
from pllab.comm.processes import end_with_parent
from pllab.train import (
    EpochMetrics,
    NothingLeftError,
    Summary,
    TrainConfig,
    TrainResult,
    save_plots,
    train,
    train_as_rank,
)


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Train GPT-2 on one device, or on several: data, tensor and pipeline parallel, and several of these at once."""

    config: TrainConfig = field(default_factory=TrainConfig)
    plot: bool = False
    """Draw both scaling figures from all results in the work folder."""
    quiet: bool = False
    """Show no progress bars."""


def run(words: Sequence[str]) -> None:
    """Train as the flags say.

    Raises:
        ValueError: see `pllab.train.TrainConfig` and `pllab.train.train`.
        RankError: a rank failed.
    """
    given = torchrun_rank()
    is_first = given is None or given[0] == 0
    options = parse(TrainOptions, _with_devices(words, given), "train")
    config = options.config
    try:
        result = _trained(config, options.quiet or not is_first, given)
    except NothingLeftError as nothing:  # what a restarted job needs to hear is that it has ended well
        if is_first:
            print(nothing)
        return
    if result is None:  # rank 0 prints it
        return
    print(summary_text(result))
    if options.plot:
        for path in save_plots(config.workdir):
            print(f"figure           {path}")


def _with_devices(words: Sequence[str], given: tuple[int, int] | None) -> Sequence[str]:
    """Without --world-size or an axis: as many devices as torchrun started ranks, else 2 for every mode but single."""
    line = " ".join(words)
    modes = re.findall(r"--mode[= ](\w+)", line)
    if modes[-1:] in ([], ["single"]) or re.search(r"--(world[-_]size|dp|tp|pp)\b", line):
        return words
    return [f"--world-size={2 if given is None else given[1]}", *words]


def _trained(config: TrainConfig, is_quiet: bool, given: tuple[int, int] | None) -> TrainResult | None:
    """Train in this process or in ranks that it starts; or as a rank that torchrun started, on this host or on many."""
    with closing(Bars(config.num_epochs, is_hidden=is_quiet)) as bars:
        if given is None:
            return train(config, on_progress=bars)
        end_with_parent()
        plan = comm.setup(*given, "gloo" if config.device == "cpu" else None, timeout_s=config.timeout_s)
        try:
            return train_as_rank(config, plan.reason, on_progress=bars)
        finally:
            comm.teardown()


class Bars:
    """Show the events of `pllab.train.train` as bars on stderr, one per rank: `train(config, on_progress=bars)`.

    In a log file they are drawn only every few seconds. `close` ends them.
    """

    def __init__(self, num_epochs: int, is_hidden: bool = False) -> None:
        self._num_epochs, self._is_hidden = num_epochs, is_hidden
        self._bars: dict[int, tqdm[Any]] = {}

    def __call__(self, event: dict[str, Any]) -> None:
        """Move the bar of the event's rank; a new epoch starts it again."""
        rank, often = event["rank"], 0.1 if sys.stderr.isatty() else 5.0
        if rank not in self._bars:
            self._bars[rank] = tqdm(
                position=rank, disable=self._is_hidden, unit="step", mininterval=often, dynamic_ncols=True
            )
        bar = self._bars[rank]
        if event["step"] <= bar.n:
            bar.reset()
        bar.n, bar.total = event["step"], event["num_steps"]
        rate = event["tokens"] / event["seconds"] if event["seconds"] else 0.0
        bar.set_description_str(f"rank {rank} epoch {event['epoch'] + 1}/{self._num_epochs}", refresh=False)
        bar.set_postfix_str(f"loss {event['loss']:.3f}, {rate:,.0f} tokens/s", refresh=False)
        bar.update(0)
        if event["step"] == event["num_steps"]:
            bar.refresh()

    def close(self) -> None:
        """End the bars."""
        for bar in self._bars.values():
            bar.close()


def summary_text(result: TrainResult) -> str:
    """The results of a run for people: per epoch, per rank, in total; `pllab.train.metrics` explains each measure."""
    num_devices, num_epochs, metrics = result.config.world_size, len(result.ranks[0]), result.metrics
    dropped = f"mean and deviation, the first of {num_epochs} epochs dropped" if num_epochs > 1 else "one epoch"
    summed = f"{num_devices} devices together, real" if num_devices > 1 else "one device, real"
    rate, memory = result.tokens_per_s.text(0), max(metrics.peak_memory_bytes) / 2**20
    bubble = []  # of a pipeline, beside its prediction
    if metrics.bubble_fraction is not None:
        measured, simulated = metrics.bubble_fraction, metrics.predicted_bubble_fraction
        bubble = [f"bubble fraction  {measured:.3f} measured in the steps, {simulated:.3f} simulated for this schedule"]
    lines = [
        f"devices          {result.backend}",
        *(_epoch_line(epochs) for epochs in zip(*result.ranks, strict=True)),
        *(_rank_line(epochs) for epochs in result.ranks if len(result.ranks) > 1),
        f"training time    {result.training_time_s.text()} s per epoch ({dropped})",
        f"throughput       {rate} tokens/s ({summed}), {metrics.samples_per_s:,.1f} samples/s",
        *bubble,
        f"goodput          {metrics.goodput:.2f} updates/s over {metrics.wall_time_s:.1f} s of wall time",
        f"utilisation      {metrics.model_flops_utilisation:.1%} of the devices' FLOP/s; "
        f"at most {memory:,.0f} MiB on a rank",
        f"validation loss  {result.validation_loss:.4f}",
        *([f"BLEU             {result.bleu:.2f}"] if result.bleu is not None else []),
        f"results          {result.path}",
    ]
    return "\n".join(lines)


def _epoch_line(ranks: Sequence[EpochMetrics]) -> str:
    """One epoch of all ranks."""
    first = ranks[0]
    seconds = max(rank.training_time_s for rank in ranks)
    rate = sum(rank.tokens_per_s for rank in ranks)
    return (
        f"epoch {first.epoch + 1:<10} {seconds:.2f} s, {rate:,.0f} tokens/s, "
        f"loss {first.training_loss:.4f}, validation loss {first.validation_loss:.4f}"
    )


def _rank_line(epochs: Sequence[EpochMetrics]) -> str:
    seconds = Summary.of([epoch.training_time_s for epoch in epochs])
    rate = Summary.of([epoch.tokens_per_s for epoch in epochs])
    return f"rank {epochs[0].rank:<11} {seconds.text()} s per epoch, {rate.text(0)} tokens/s"
