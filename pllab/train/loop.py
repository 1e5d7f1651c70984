"""The training of one rank: a trainer, epochs of steps, a validation loss after each epoch, translations.

A run in one process is a rank in a world of one. Under data_parallel every rank has a share of the data; in a pipeline
every rank reads all of it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from pllab import comm
from pllab.comm.devices import is_gpu, synchronize
from pllab.data import Collate, Row, ShareLoader, partition_dataset
from pllab.pipeline.streams import GpuStream, HostStream, Mark
from pllab.simulate import simulate
from pllab.train.checkpoints import Progress, find_checkpoint, load_checkpoint, save_checkpoint
from pllab.train.config import TrainConfig
from pllab.train.corpus import Corpus
from pllab.train.metrics import (
    EpochMetrics,
    RankOutcome,
    StepMetrics,
    log_epoch,
    measured_peak_flops,
    peak_memory_bytes,
    reset_peak_memory,
)
from pllab.train.placing import meta_model
from pllab.train.profiling import profiled
from pllab.train.trainers import StepRecord, Trainer, make_trainer
from pllab.train.translation import bleu_score
from pllab.train.validation import validation_loss

OnProgress = Callable[[dict[str, Any]], None]
_SECONDS_BETWEEN_EVENTS = 0.1  # reading a loss waits for the GPU, so not after every step


@dataclass(frozen=True, kw_only=True)
class _Run:
    """All that the steps of one rank need; `share` is the number of its share of the data, and the count of shares."""

    config: TrainConfig
    corpus: Corpus
    folder: Path
    trainer: Trainer
    collate: Collate
    loader: ShareLoader
    validation: Sequence[Row]
    share: tuple[int, int]
    on_progress: OnProgress

    @property
    def rows_per_share(self) -> int:
        """This rank's rows of a batch."""
        return self.config.batch_size // self.share[1]

    def validate(self) -> float:
        """The validation loss now."""
        return validation_loss(self.trainer, self.validation, self.collate, self.rows_per_share, self.share)


@dataclass
class _Epoch:
    """What an epoch has done so far."""

    number: int
    start: float
    records: list[StepRecord] = field(default_factory=list)
    num_rows: list[int] = field(default_factory=list)
    """Rows of each step on this rank."""
    done: int = 0
    """Steps of this epoch behind an earlier run."""
    num_tokens: int = 0
    """On this rank, without padding."""
    clock: HostStream = field(default_factory=HostStream)
    marks: list[tuple[Mark, Mark]] = field(default_factory=list)
    """Begin and end of each step on that clock, from the making of its batch."""
    validation: dict[int, float] = field(default_factory=dict)
    """The validation losses in between, by the step before them, from 0."""
    apart_s: float = 0.0
    """Seconds of validating and saving."""

    @property
    def seconds(self) -> float:
        """Training time until now, which leaves out what was validated and saved in between."""
        return time.perf_counter() - self.start - self.apart_s


def train_rank(config: TrainConfig, corpus: Corpus, folder: Path, on_progress: OnProgress) -> RankOutcome:
    """Train this rank's share of the configuration and return its measurements.

    Args:
        config: the same on every rank.
        corpus: the same on every rank.
        folder: the run's folder, for checkpoints.
        on_progress: called with a dictionary about ten times a second.
    """
    start = time.perf_counter()
    reset_peak_memory()  # what an earlier run in this process held is not this one's
    trainer = make_trainer(config, corpus.tokenizer.vocab_size)
    try:
        run = _prepare(config, corpus, folder, trainer, on_progress)
        done, num_steps = _resume(run), len(run.loader)
        trainer.updates.begin(config.num_epochs * num_steps, done)
        epochs, steps = [], []
        for epoch in range(done // num_steps, config.num_epochs):
            metrics, steps_of_epoch = _run_epoch(run, epoch, max(0, done - epoch * num_steps))
            epochs.append(metrics)
            steps += steps_of_epoch
            if config.tensorboard and comm.rank() == 0:
                first = (epoch + 1) * num_steps - len(steps_of_epoch)  # a resumed epoch has only its rest
                log_epoch(folder / "tensorboard", metrics, steps_of_epoch, first)
        return _outcome(run, epochs, steps, start)
    finally:
        trainer.close()


def _prepare(config: TrainConfig, corpus: Corpus, folder: Path, trainer: Trainer, on_progress: OnProgress) -> _Run:
    """Encode every text once, before the clock of the epochs runs."""
    share = (config.share_of(comm.rank()), config.dp)
    collate = Collate(corpus.tokenizer, config.max_length)
    rows = [collate.encode(example) for example in corpus.training]
    return _Run(
        config=config,
        corpus=corpus,
        folder=folder,
        trainer=trainer,
        collate=collate,
        loader=partition_dataset(*share, rows, config.batch_size, collate, seed=config.seed, remainder="drop"),
        validation=[collate.encode(example) for example in corpus.validation],
        share=share,
        on_progress=on_progress,
    )


def _resume(run: _Run) -> int:
    """Fill model and optimizer from a checkpoint, if asked to; return the number of steps behind it."""
    if (found := find_checkpoint(run.config, run.corpus, run.folder)) is None:
        return 0
    path, done = found
    load_checkpoint(path, run.trainer.updates, run.trainer.mesh)
    return done.steps


def _run_epoch(run: _Run, number: int, done: int) -> tuple[EpochMetrics, list[StepMetrics]]:
    """Train what is left of one epoch, which is timed, then validate, which is not."""
    trainer, (_, count) = run.trainer, run.share
    run.loader.set_epoch(number)
    trainer.model.train()
    synchronize()
    epoch = _Epoch(number, time.perf_counter(), done=done)
    with profiled(run.config.profile if number == 0 else None, len(run.loader) - done) as end_step:
        _run_steps(run, epoch, end_step)
    synchronize()
    seconds = epoch.seconds
    step_losses, training_loss = _losses_of_all(epoch.records, count)
    epoch.validation[len(epoch.records) - 1] = run.validate()
    times = trainer.device_time(epoch.records)
    metrics = EpochMetrics(
        rank=comm.rank(),
        epoch=number,
        training_time_s=seconds,
        num_tokens=epoch.num_tokens,
        num_samples=sum(epoch.num_rows),
        training_loss=training_loss,
        validation_loss=epoch.validation[len(epoch.records) - 1],
        bubble_fraction=1 - sum(each.busy for each in times) / sum(each.total for each in times) if times else None,
    )
    return metrics, _steps(run, epoch, step_losses)


def _run_steps(run: _Run, epoch: _Epoch, end_step: Callable[[], None]) -> None:
    """Run every step of an epoch that is not done; report progress, validate, and save, now and then."""
    last_event, num_steps, interval = 0.0, len(run.loader), run.config.eval_interval
    clock = epoch.clock = _clock_of(run.trainer.device)
    start = clock.mark()
    for step, batch in islice(enumerate(run.loader, start=1), epoch.done, None):
        torch.manual_seed(_seed_of(run, epoch.number * num_steps + step))
        epoch.records.append(run.trainer.step(batch))
        end_step()
        epoch.num_rows.append(len(batch["labels"]))
        epoch.num_tokens += int((batch["input_ids"] != run.corpus.tokenizer.pad_id).sum())
        now = time.perf_counter()
        if step == num_steps or now - last_event > _SECONDS_BETWEEN_EVENTS:
            last_event = now
            _report(run, epoch)
        epoch.marks.append((start, clock.mark()))
        now = time.perf_counter()
        if interval and step < num_steps and (epoch.number * num_steps + step) % interval == 0:
            synchronize()
            now = time.perf_counter()
            epoch.validation[len(epoch.records) - 1] = run.validate()
        if run.config.checkpoint and (step == num_steps or _is_due(step, run.config.checkpoint_interval)):
            _save(run, epoch, Progress(epoch.number * num_steps + step, num_steps))
        epoch.apart_s += time.perf_counter() - now
        start = clock.mark()


def _clock_of(device: torch.device) -> HostStream:
    """The host's clock, or events on the current stream of a GPU, so that a mark does not wait for it."""
    if not is_gpu(device):
        return HostStream()
    clock = GpuStream(device, torch.accelerator.current_stream(device))
    clock.start_clock(None)
    return clock


def _is_due(step: int, interval: int) -> bool:
    return interval > 0 and step % interval == 0


def _seed_of(run: _Run, step: int) -> int:
    """Dropout begins anew in every step, so that a resumed run needs no state of its generators."""
    share, count = run.share
    return (run.config.seed + step * count + share) % 2**63


def _save(run: _Run, epoch: _Epoch, progress: Progress) -> None:
    """Write a checkpoint, unless a loss was no number: what was learned since the one before is lost then."""
    first = progress.steps - len(epoch.records) + 1
    wrong = [first + n for n, record in enumerate(epoch.records) if not record.loss_sum.isfinite()]
    for rank, steps in enumerate(comm.all_gather_object(wrong)):
        if steps:
            raise ValueError(
                f"the loss of step {steps[0]} is not finite on rank {rank}; the checkpoint before it is kept, so go on "
                "with --resume and a smaller --learning-rate, or look at the data of that step"
            )
    trainer = run.trainer
    whose = run.corpus.identity(run.config)
    save_checkpoint(run.folder, trainer.model, trainer.updates, progress, whose, trainer.mesh)


def _report(run: _Run, epoch: _Epoch) -> None:
    """Tell the caller how far this epoch is."""
    run.on_progress(
        {
            "name": run.config.run_name,
            "mode": run.config.mode,
            "rank": comm.rank(),
            "epoch": epoch.number,
            "step": epoch.done + len(epoch.records),
            "num_steps": len(run.loader),
            "tokens": epoch.num_tokens,
            "loss": epoch.records[-1].mean_loss,
            "seconds": epoch.seconds,
        }
    )


def _steps(run: _Run, epoch: _Epoch, losses: Sequence[float]) -> list[StepMetrics]:
    """The steps of an epoch over all ranks, on this rank's clock."""
    seconds = [epoch.clock.seconds(end) - epoch.clock.seconds(start) for start, end in epoch.marks]
    table = zip(losses, seconds, epoch.num_rows, epoch.records, strict=True)
    return [
        StepMetrics(
            loss=loss,
            training_time_s=step_s,
            num_samples=num_rows * run.share[1],
            learning_rate=record.learning_rate,
            gradient_norm=None if record.gradient_norm is None else float(record.gradient_norm),
            validation_loss=epoch.validation.get(step),
        )
        for step, (loss, step_s, num_rows, record) in enumerate(table)
    ]


def _losses_of_all(records: list[StepRecord], num_shares: int) -> tuple[list[float], float]:
    """Loss per target token over all shares, for every step and for the epoch, with one message in all."""
    sums = torch.stack([record.loss_sum.double() for record in records])
    counts = torch.tensor([record.num_targets for record in records], dtype=torch.float64, device=sums.device)
    table = torch.stack([sums, counts])
    if num_shares > 1:
        comm.all_reduce(table)
    sums, counts = table.cpu()
    return (sums / counts).tolist(), float(sums.sum() / counts.sum())


def _outcome(run: _Run, epochs: Sequence[EpochMetrics], steps: Sequence[StepMetrics], start: float) -> RankOutcome:
    """What this rank has measured, after it has translated."""
    config, trainer, schedule = run.config, run.trainer, run.trainer.schedule
    bleu, end = _translate(run), time.perf_counter()
    most_bytes = peak_memory_bytes(trainer.device)  # before the matrices that measure the device's peak
    peak = config.peak_flops or measured_peak_flops(trainer.device, getattr(torch, config.dtype))
    whole = meta_model(config, run.corpus.tokenizer.vocab_size)
    return RankOutcome(
        epochs=tuple(epochs),
        steps=tuple(steps),
        bleu=bleu,
        reason=trainer.reason,
        num_parameters=sum(p.numel() for name, p in whole.named_parameters() if "wpe" not in name),
        num_updates=len(steps),
        wall_time_s=end - start,
        peak_memory_bytes=most_bytes,
        peak_flops=peak * config.tp * (schedule.num_ranks if schedule else 1),
        predicted_bubble_fraction=simulate(schedule).bubble_fraction if schedule else None,
    )


def _translate(run: _Run) -> float | None:
    if not (run.config.bleu and run.corpus.is_translation):
        return None
    model, device = run.trainer.gather(), run.trainer.device
    examples, tokenizer = run.corpus.validation, run.corpus.tokenizer
    return bleu_score(model, examples, tokenizer, run.config.max_length, run.rows_per_share, device)
