"""The training of one rank: epochs of steps, each with a validation loss at its end, then translations.

A run in one process is a rank in a world of one. Along dp every rank has a share of the data; along tp and pp all ranks
read the same rows.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.profiler import profile, schedule, supported_activities

from pllab import comm
from pllab.arguments import require
from pllab.comm.devices import describe_machine, synchronize
from pllab.data import IGNORED, Collate, partition_dataset
from pllab.pipeline.lanes import every_lane
from pllab.simulate import simulate
from pllab.timeline import Timeline
from pllab.train.checkpoints import load_checkpoint, save_checkpoint
from pllab.train.config import TrainConfig
from pllab.train.evaluation import bleu_score, validation_loss
from pllab.train.inputs import Corpus, devices_of, meta_model
from pllab.train.metrics import (
    EpochMetrics,
    RunMetrics,
    StepMetrics,
    TrainResult,
    counted,
    log_epoch,
    measured_peak_flops,
    model_flops,
    peak_memory_bytes,
    reset_peak_memory,
)
from pllab.train.trainers import Pipelined, StepRecord, Trainer, losses_of_all, make_trainer

OnProgress = Callable[[dict[str, Any]], None]
_SECONDS_BETWEEN_EVENTS = 0.1  # reading a loss waits for the GPU, so not after every step


def train_rank(
    config: TrainConfig, corpus: Corpus, found: tuple[Path, int] | None, backend: str, on_progress: OnProgress
) -> TrainResult | None:
    """Train this rank's share of the configuration; rank 0 writes the result and returns it.

    Args:
        config: the same on every rank.
        corpus: the same on every rank.
        found: the checkpoint to go on from, and the steps behind it; none begins anew.
        backend: which devices compute and which backend carries messages, in a sentence.
        on_progress: called with a dictionary about ten times a second.
    """
    start = time.perf_counter()
    reset_peak_memory()  # what an earlier run in this process held is not this one's
    with closing(make_trainer(config, corpus.tokenizer.vocab_size)) as trainer:
        loop = _Loop(config, corpus, on_progress, trainer)
        epochs, steps = loop.run(found)
        result = _result(loop, epochs, steps, backend, start)
        if comm.rank() == 0:
            result.save()
        if config.checkpoint:
            loop.save()  # last of all: a run that ends before it has a result is not complete
        return result if comm.rank() == 0 else None


@dataclass
class _Loop:
    """The training loop of one rank, and the state of the epoch that it is in."""

    config: TrainConfig
    corpus: Corpus
    on_progress: OnProgress
    trainer: Trainer

    def __post_init__(self) -> None:
        """Encode every text once, before the clock of the epochs runs."""
        self.share = self.config.share_of(comm.rank()), self.config.dp
        self.collate = Collate(self.corpus.tokenizer, self.config.max_length)
        rows = [self.collate.encode(example) for example in self.corpus.training]
        has_targets = any(label != IGNORED for row in rows for label in row.labels[1:])
        require(has_targets, f"max_length {self.config.max_length} cuts off every target; give a larger max_length")
        options: Any = {"collate_fn": self.collate, "seed": self.config.seed, "remainder": "drop"}
        self.loader = partition_dataset(*self.share, rows, self.config.batch_size, **options)
        self.validation = [self.collate.encode(example) for example in self.corpus.validation]

    def run(self, found: tuple[Path, int] | None) -> tuple[list[EpochMetrics], list[StepMetrics]]:
        """Train the steps that come after the checkpoint."""
        done, length, epochs, steps = 0, len(self.loader), list[EpochMetrics](), list[StepMetrics]()
        few = f"dp {self.config.dp} needs {self.config.dp} training examples at least, not {len(self.corpus.training)}"
        require(length > 0, f"{few}; give more samples_per_epoch, or a larger data set")
        if found:
            path, done = found
            load_checkpoint(path, self.trainer)
        self.trainer.updates.begin(self.config.num_epochs * length, done)
        self.recorded = (done + 2) // length  # the first epoch with three steps
        most = min(length, self.config.num_epochs * length - done)
        too_few = f"profile records the second and third step of an epoch, and none has more than {most} to take"
        require(self.config.profile is None or most >= 3, f"{too_few}; give more num_epochs or a smaller batch_size")
        for number in range(done // length, self.config.num_epochs):
            metrics, of_epoch = self.epoch(number, max(done, number * length))
            epochs.append(metrics)
            steps += of_epoch
            if self.config.tensorboard and comm.rank() == 0:
                log_epoch(self.config.folder / "tensorboard", metrics, of_epoch, max(done, number * length))
        return epochs, steps

    def epoch(self, number: int, done: int) -> tuple[EpochMetrics, list[StepMetrics]]:
        """Train an epoch of a run that has taken `done` steps."""
        self.number, self.done, self.records = number, done, list[StepRecord]()
        self.num_rows, self.num_tokens = list[int](), 0  # of each step, and of all without padding
        self.validation_losses = dict[int, float]()  # by the number of steps that the run had behind it
        skipped, last_event = done - number * len(self.loader), 0.0
        self.loader.set_epoch(number)
        self.trainer.model.train()
        synchronize()
        self.start = time.perf_counter()
        with profiled(self.config.profile if number == self.recorded else None) as end_step:
            for batch in islice(self.loader, skipped, None):
                self.step(batch)
                end_step()
                if self.is_last or time.perf_counter() - last_event > _SECONDS_BETWEEN_EVENTS:
                    last_event = time.perf_counter()
                    self.report()
                self.pause()
        return self.measured(time.perf_counter() - self.start)

    @property
    def at(self) -> int:
        """The steps that the run has taken."""
        return self.done + len(self.records)

    @property
    def is_last(self) -> bool:
        """Whether the epoch is at its end."""
        return self.at == (self.number + 1) * len(self.loader)

    def step(self, batch: dict[str, torch.Tensor]) -> None:
        """Train on a batch."""
        number, count = self.share
        # Dropout begins anew in every step, so that a resumed run needs no state of its generators.
        torch.manual_seed((self.config.seed + (self.at + 1) * count + number) % 2**63)
        self.records.append(self.trainer.step(batch))
        self.num_rows.append(len(batch["labels"]))
        self.num_tokens += int((batch["input_ids"] != self.collate.tokenizer.pad_id).sum())

    def report(self) -> None:
        """Tell the caller how far this epoch is; reading the loss waits for the device."""
        last = self.records[-1]
        self.on_progress(
            {
                "rank": comm.rank(),
                "epoch": self.number,
                "step": self.at - self.number * len(self.loader),
                "num_steps": len(self.loader),
                "tokens": self.num_tokens,
                "loss": last.loss_sum.item() / max(1, last.num_targets),
                "seconds": time.perf_counter() - self.start,
            }
        )

    def pause(self) -> None:
        """Save and validate when due, with the clock of the epoch stopped."""
        step, config = self.at - self.number * len(self.loader), self.config
        is_end = self.at == config.num_epochs * len(self.loader)  # then `train_rank` saves
        saves = config.checkpoint and not is_end and (self.is_last or _is_due(step, config.checkpoint_interval))
        validates = self.is_last or _is_due(self.at, config.eval_interval)
        if not (saves or validates):
            return
        synchronize()
        began = time.perf_counter()
        if saves:
            self.save()
        if validates:
            rows = config.batch_size // config.dp
            loss = validation_loss(self.trainer, self.validation, self.collate, rows, self.share)
            self.validation_losses[self.at] = loss
        self.start += time.perf_counter() - began

    def save(self) -> None:
        """Write a checkpoint."""
        save_checkpoint(self.config.folder, self.trainer, self.at, self.corpus.identity(self.config))

    def measured(self, seconds: float) -> tuple[EpochMetrics, list[StepMetrics]]:
        """The epoch of this rank, and its steps over all ranks."""
        records, (_, count) = self.records, self.share
        losses, training_loss = losses_of_all(records, count)
        timelines = self.trainer.timelines(records) if isinstance(self.trainer, Pipelined) else []
        metrics = EpochMetrics(
            rank=comm.rank(),
            epoch=self.number,
            training_time_s=seconds,
            num_tokens=self.num_tokens,
            num_samples=sum(self.num_rows),
            training_loss=training_loss,
            validation_loss=self.validation_losses[self.at],  # an epoch ends with one
            bubble_fraction=_idle_share(timelines) if timelines else None,
        )
        return metrics, [
            StepMetrics(loss, rows * count, one.learning_rate, one.gradient_norm, self.validation_losses.get(number))
            for number, (loss, rows, one) in enumerate(zip(losses, self.num_rows, records, strict=True), self.done + 1)
        ]


@contextmanager
def profiled(folder: str | None) -> Iterator[Callable[[], None]]:
    """Record the second and third step of the block; yields what to call after each of its steps.

    Example: `with profiled("traces") as end_step: ...` writes torch's own trace to traces/rank0.json; without a
    folder nothing happens. Lanes are threads of one process, so all threads are recorded.
    """
    if folder is None:
        yield lambda: None
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    file = Path(folder, f"rank{comm.rank()}.json")
    with profile(
        activities=supported_activities(),
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda recorded: recorded.export_chrome_trace(str(file)),
        experimental_config=every_lane(),
    ) as running:
        yield running.step


def _is_due(step: int, interval: int) -> bool:
    return interval > 0 and step % interval == 0


def _idle_share(timelines: Sequence[Timeline]) -> float:
    """Of the devices' time from the first action of a step to the last."""
    return sum(each.idle for each in timelines) / sum(each.idle + each.busy for each in timelines)


def _result(
    loop: _Loop, epochs: list[EpochMetrics], steps: list[StepMetrics], backend: str, start: float
) -> TrainResult:
    """Translate, and gather what all ranks have measured; all of them call it."""
    config, corpus, trainer, bleu = loop.config, loop.corpus, loop.trainer, None
    if config.bleu and any(example.source for example in corpus.validation):
        bleu = bleu_score(trainer, corpus, config.max_length, config.batch_size // config.dp)
    wall_time_s, order = time.perf_counter() - start, trainer.schedule
    most_bytes = peak_memory_bytes(trainer.device)  # before the matrices that measure the device's peak
    peak = config.peak_flops or measured_peak_flops(trainer.device, getattr(torch, config.dtype))
    mine = tuple(epochs), most_bytes, peak * len(set(devices_of(config)))  # lanes may share a GPU
    of_ranks, bytes_of_ranks, peaks = zip(*comm.all_gather_object(mine), strict=True)
    ranks = first_of_each_share(config, of_ranks)
    samples, tokens, seconds, bubble_fraction = counted(ranks)
    whole = meta_model(config, corpus.tokenizer.vocab_size)
    multiplied = sum(p.numel() for name, p in whole.named_parameters() if "wpe" not in name)  # positions are added
    needed = model_flops(multiplied, config.n_layer, config.n_embd, tokens, samples)
    metrics = RunMetrics(
        samples_per_s=samples / seconds,
        goodput=len(steps) / wall_time_s,
        wall_time_s=wall_time_s,
        peak_memory_bytes=bytes_of_ranks,
        bubble_fraction=bubble_fraction,
        predicted_bubble_fraction=simulate(order).bubble_fraction if order else None,
        model_flops_utilisation=needed / seconds / sum(peaks),
    )
    about = "; ".join(filter(None, (backend, trainer.reason)))
    given: Any = {"config": config, "machine": describe_machine(), "backend": about, "metrics": metrics, "bleu": bleu}
    return TrainResult(ranks=ranks, steps=tuple(steps), **given)


def first_of_each_share(config: TrainConfig, of_ranks: Sequence[Any]) -> tuple[Any, ...]:
    """What the first of the ranks with each share of the data has; ranks of one model have the same rows."""
    return tuple(of_ranks[: config.dp * config.tp : config.tp])
