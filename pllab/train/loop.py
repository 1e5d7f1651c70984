"""The training of one rank: a trainer, epochs of steps, a validation loss after each epoch, translations.

A run in one process is a rank in a world of one. Under data_parallel every rank has a share of the data; in a pipeline
every rank reads all of it.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pllab import comm
from pllab.data import (
    Collate,
    Example,
    ShareLoader,
    Tokenizer,
    load_examples,
    partition_dataset,
    texts_of,
    train_tokenizer,
)
from pllab.data.corpora import FILE_TYPES
from pllab.parallel import global_sum, num_target_tokens
from pllab.train.checkpoints import load_checkpoint, open_checkpoint, restore_optimizer, save_checkpoint
from pllab.train.config import TrainConfig
from pllab.train.metrics import EpochMetrics, log_epoch
from pllab.train.trainers import StepRecord, Trainer, make_trainer
from pllab.train.translation import bleu_score

OnProgress = Callable[[dict[str, Any]], None]
_SECONDS_BETWEEN_EVENTS = 0.1  # reading a loss waits for the GPU, so not after every step
_NAMES = ("docs", "numbers", "iwslt14-de-en", "tinyshakespeare", "openwebtext")


@dataclass(frozen=True)
class Corpus:
    """Training and validation examples with their tokenizer.

    Every rank reads the examples itself; the tokenizer is trained once and passed on as a file.
    """

    training: Sequence[Example]
    validation: Sequence[Example]
    tokenizer: Tokenizer

    @property
    def is_translation(self) -> bool:
        """Whether the examples have a source to translate."""
        return any(example.source for example in self.validation)

    @property
    def digest(self) -> str:
        """A checksum of the training examples, in twelve digits."""
        return hashlib.sha256("\0".join(texts_of(self.training)).encode()).hexdigest()[:12]


def load_corpus(config: TrainConfig, tokenizer_path: Path | None = None) -> Corpus:
    """Load the data set of the configuration and load or train its tokenizer.

    Raises:
        ValueError: the data set or its columns are missing, or it has fewer examples than one batch.
    """
    training = _load(config, "train", config.samples_per_epoch)
    validation = _load(config, "validation", config.validation_samples)
    if len(training) < config.batch_size:
        raise ValueError(
            f"dataset {config.dataset!r} gives {len(training)} training examples, fewer than batch_size "
            f"{config.batch_size}; give a smaller batch_size or more samples_per_epoch"
        )
    if tokenizer_path is not None:
        return Corpus(training, validation, Tokenizer.load(tokenizer_path))
    return Corpus(training, validation, train_tokenizer(texts_of(training), config.vocab_size))


def _load(config: TrainConfig, split: str, limit: int | None) -> list[Example]:
    """Load the examples; a name that is not known is a path if it exists or looks like one."""
    path = Path(config.dataset)
    is_path = config.dataset not in _NAMES and (path.exists() or path.is_absolute() or path.suffix in FILE_TYPES)
    return load_examples(config.dataset, split, path=path if is_path else None, columns=config.columns, limit=limit)


@dataclass(frozen=True)
class RankOutcome:
    """The result of one rank."""

    epochs: tuple[EpochMetrics, ...]
    step_losses: tuple[float, ...]
    bleu: float | None
    reason: str
    """How the work is shared, in a sentence; empty for one device."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    """All that the steps of one rank need; `share` is the number of its share of the data, and the count of shares."""

    config: TrainConfig
    corpus: Corpus
    trainer: Trainer
    collate: Collate
    loader: ShareLoader
    share: tuple[int, int]
    on_progress: OnProgress

    @property
    def rows_per_share(self) -> int:
        """This rank's rows of a batch."""
        return self.config.batch_size // self.share[1]


def train_rank(config: TrainConfig, corpus: Corpus, folder: Path, on_progress: OnProgress) -> RankOutcome:
    """Train this rank's share of the configuration and return its measurements.

    Args:
        config: the same on every rank.
        corpus: the same on every rank.
        folder: the run's folder, for checkpoints.
        on_progress: called with a dictionary about ten times a second.
    """
    trainer = make_trainer(config, corpus.tokenizer.vocab_size)
    try:
        run = _prepare(config, corpus, trainer, on_progress)
        done = _resume(run, folder) if config.resume else 0
        epochs, losses = [], []
        for epoch in range(done, config.num_epochs):
            metrics, step_losses = _run_epoch(run, epoch)
            epochs.append(metrics)
            losses += step_losses
            _keep(run, folder, metrics, step_losses)
        return RankOutcome(tuple(epochs), tuple(losses), _translate(run), trainer.reason)
    finally:
        trainer.close()


def _prepare(config: TrainConfig, corpus: Corpus, trainer: Trainer, on_progress: OnProgress) -> _Run:
    share = (comm.rank(), comm.world_size()) if config.mode == "data_parallel" else (0, 1)
    collate = Collate(corpus.tokenizer, config.max_length)
    loader = partition_dataset(*share, corpus.training, config.batch_size, collate, seed=config.seed, remainder="drop")
    return _Run(
        config=config,
        corpus=corpus,
        trainer=trainer,
        collate=collate,
        loader=loader,
        share=share,
        on_progress=on_progress,
    )


def _resume(run: _Run, folder: Path) -> int:
    """Fill model and optimizer from the newest checkpoint; return the number of epochs already done."""
    path, done = open_checkpoint(folder, run.config.identity | {"data": run.corpus.digest})
    states = load_checkpoint(path, run.trainer.model)
    restore_optimizer(run.trainer.optimizer, run.trainer.names, states)
    return done


def _run_epoch(run: _Run, epoch: int) -> tuple[EpochMetrics, list[float]]:
    """Train one epoch, which is timed, then validate, which is not."""
    number, count = run.share
    torch.manual_seed(run.config.seed + 1 + epoch * count + number)  # dropout
    run.loader.set_epoch(epoch)
    run.trainer.model.train()
    _wait_for_device(run.trainer.device)
    start = time.perf_counter()
    records, num_tokens = _run_steps(run, epoch, start)
    _wait_for_device(run.trainer.device)
    seconds = time.perf_counter() - start
    step_losses, training_loss = _losses_of_all(records, count)
    metrics = EpochMetrics(
        rank=comm.rank(),
        epoch=epoch,
        training_time_s=seconds,
        num_tokens=num_tokens,
        training_loss=training_loss,
        validation_loss=validation_loss(run.trainer, run.corpus.validation, run.collate, run.rows_per_share, run.share),
    )
    return metrics, step_losses


def _run_steps(run: _Run, epoch: int, start: float) -> tuple[list[StepRecord], int]:
    """Run every step of an epoch and report progress now and then."""
    records: list[StepRecord] = []
    num_tokens, last_event = 0, 0.0
    num_steps = len(run.loader)
    for step, batch in enumerate(run.loader, start=1):
        records.append(run.trainer.step(batch))
        num_tokens += int((batch["input_ids"] != run.corpus.tokenizer.pad_id).sum())
        now = time.perf_counter()
        if step == num_steps or now - last_event > _SECONDS_BETWEEN_EVENTS:
            last_event = now
            run.on_progress(
                {
                    "name": run.config.run_name,
                    "mode": run.config.mode,
                    "rank": comm.rank(),
                    "epoch": epoch,
                    "step": step,
                    "num_steps": num_steps,
                    "tokens": num_tokens,
                    "loss": records[-1].mean_loss,
                    "seconds": time.perf_counter() - start,
                }
            )
    return records, num_tokens


def _losses_of_all(records: list[StepRecord], num_shares: int) -> tuple[list[float], float]:
    """Loss per target token over all shares, for every step and for the epoch, with one message in all."""
    sums = torch.stack([record.loss_sum.double() for record in records])
    counts = torch.tensor([record.num_targets for record in records], dtype=torch.float64, device=sums.device)
    table = torch.stack([sums, counts])
    if num_shares > 1:
        comm.all_reduce(table)
    sums, counts = table.cpu()
    return (sums / counts).tolist(), float(sums.sum() / counts.sum())


def validation_loss(
    trainer: Trainer,
    examples: Sequence[Example],
    collate: Collate,
    batch_size: int,
    share: tuple[int, int] = (0, 1),
) -> float:
    """Mean loss per target token over all examples; every token has the same weight. NaN without targets.

    Args:
        trainer: computes the losses, with dropout off.
        examples: all examples, the same on every rank; each rank takes its share.
        collate: makes `input_ids` and `labels` from a list of examples.
        batch_size: rows at a time, on this rank.
        share: the number of this rank's share of the data, and the count of shares.
    """
    number, count = share
    loss_sum, num_targets = 0.0, 0
    trainer.model.eval()
    for rows in batches(examples[number::count], batch_size):
        batch = collate(rows)
        loss_sum += trainer.loss_sum(batch)
        num_targets += num_target_tokens(batch["labels"])
    trainer.model.train()
    if count > 1:
        loss_sum, num_targets = global_sum(loss_sum), int(global_sum(num_targets))
    return loss_sum / num_targets if num_targets else float("nan")


def batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Cut a sequence into lists of `size`, the last one shorter: 5 items by 2 -> 2, 2, 1."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def _keep(run: _Run, folder: Path, metrics: EpochMetrics, step_losses: list[float]) -> None:
    """Let rank 0 write the checkpoint and the TensorBoard files of an epoch, if configured."""
    if run.config.checkpoint:
        run.trainer.gather()
        states = run.trainer.state_of_optimizer()
        if comm.rank() == 0:
            identity = run.config.identity | {"data": run.corpus.digest}
            save_checkpoint(folder, run.trainer.model, states, metrics.epoch + 1, identity)
    if run.config.tensorboard and comm.rank() == 0:
        log_epoch(folder / "tensorboard", run.config.learning_rate, metrics, step_losses)


def _translate(run: _Run) -> float | None:
    if not (run.config.bleu and run.corpus.is_translation):
        return None
    run.trainer.gather()
    model, device = run.trainer.model, run.trainer.device
    examples, tokenizer = run.corpus.validation, run.corpus.tokenizer
    return bleu_score(model, examples, tokenizer, run.config.max_length, run.rows_per_share, device)


def _wait_for_device(device: torch.device) -> None:
    """Let the GPUs finish all queued work, so that the clock stops after it."""
    if device.type == "cuda":
        for index in range(torch.cuda.device_count()):
            torch.cuda.synchronize(index)
