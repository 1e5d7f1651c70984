"""`pllab train`: one run with a progress bar, a summary for people and JSON for the figures."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from pllab import comm
from pllab.comm.group import torchrun_rank
from pllab.comm.processes import end_with_parent
from pllab.train import EpochMetrics, NothingLeftError, TrainConfig, TrainResult, train, train_as_rank
from pllab.train.loop import OnProgress


def run(config: TrainConfig, *, quiet: bool = False) -> None:
    """Train GPT-2 on one device, or on several: data, tensor and pipeline parallel, and several of these at once.

    Args:
        config: what to train, and on what.
        quiet: show no progress bar.

    Raises:
        ValueError: see `pllab.train.train`.
        RankError: a rank failed.
    """
    given = torchrun_rank()
    is_first = given is None or given[0] == 0
    try:
        with progress_bar(config, is_hidden=quiet or not is_first) as on_progress:
            result = train(config, on_progress) if given is None else _train_as(given, config, on_progress)
    except NothingLeftError as nothing:  # what a restarted job needs to hear is that it has ended well
        if is_first:
            print(nothing)
        return
    if result is not None:  # rank 0 has it
        print(summary_text(result))


def _train_as(given: tuple[int, int], config: TrainConfig, on_progress: OnProgress) -> TrainResult | None:
    """Train as a rank that torchrun started, on this host or on many."""
    end_with_parent()
    plan = comm.setup(*given, "gloo" if config.device == "cpu" else None, timeout_s=config.timeout_s)
    try:
        return train_as_rank(config, plan.reason, on_progress)
    finally:
        comm.teardown()


@contextmanager
def progress_bar(config: TrainConfig, is_hidden: bool = False) -> Iterator[OnProgress]:
    """Yield what shows the events of `pllab.train.train` as a bar on stderr, that of rank 0: all ranks keep pace.

    In a log file it is drawn only every few seconds. Until the first step it names the data set, which may be large.
    """
    often, first = 0.1 if sys.stderr.isatty() else 5.0, f"reading data set {config.dataset!r}"
    with tqdm(desc=first, disable=is_hidden, unit="step", mininterval=often, dynamic_ncols=True) as bar:

        def show(event: dict[str, Any]) -> None:
            """Move the bar; a new epoch starts it again."""
            if event["rank"] > 0:
                return
            if event["step"] <= bar.n:
                bar.reset()
            bar.n, bar.total = event["step"], event["num_steps"]
            rate = event["tokens"] / event["seconds"] if event["seconds"] else 0.0
            bar.set_description_str(f"epoch {event['epoch'] + 1}/{config.num_epochs}", refresh=False)
            bar.set_postfix_str(f"rank 0: loss {event['loss']:.3f}, {rate:,.0f} tokens/s", refresh=False)
            bar.update(0)
            if event["step"] == event["num_steps"]:
                bar.refresh()

        yield show


def summary_text(result: TrainResult) -> str:
    """The results of a run for people: per epoch, then in total; `pllab.train.metrics` explains each measure."""
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
        f"training time    {result.training_time_s.text()} s per epoch ({dropped})",
        f"throughput       {rate} tokens/s ({summed}), {metrics.samples_per_s:,.1f} samples/s",
        *bubble,
        f"goodput          {metrics.goodput:.2f} updates/s over {metrics.wall_time_s:.1f} s of wall time",
        f"utilisation      {metrics.model_flops_utilisation:.1%} of the devices' FLOP/s; "
        f"at most {memory:,.0f} MiB on a rank",
        f"validation loss  {result.validation_loss:.4f}",
        *([f"BLEU             {result.bleu:.2f}"] if result.bleu is not None else []),
        f"results          {result.config.result_file}",
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
