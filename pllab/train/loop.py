"""The life of one rank: a model on its devices, epochs of steps, a validation loss after each, translations.

A run in one process is a rank in a world of one, so this file serves all four modes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pllab import comm
from pllab.data import Collate, ShareLoader, partition_dataset
from pllab.models import GPT2LMHeadModelParallel
from pllab.parallel import DataParallel
from pllab.train.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from pllab.train.config import TrainConfig
from pllab.train.corpus import Corpus
from pllab.train.evaluate import validation_loss
from pllab.train.metrics import EpochMetrics
from pllab.train.model import build_model, place_model
from pllab.train.step import StepRecord, make_optimizer, train_step
from pllab.train.tensorboard import log_epoch
from pllab.train.translate import bleu_score

OnProgress = Callable[[dict[str, Any]], None]
_SECONDS_BETWEEN_EVENTS = 0.1  # reading a loss waits for the GPU, so not after every step


@dataclass(frozen=True)
class RankOutcome:
    """What one rank hands back."""

    epochs: tuple[EpochMetrics, ...]
    step_losses: tuple[float, ...]
    bleu: float | None
    reason: str
    """How gradients are shared, in a sentence; empty in a run of one process."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    """All that the steps of one rank need."""

    config: TrainConfig
    corpus: Corpus
    model: GPT2LMHeadModelParallel
    replica: nn.Module
    device: torch.device
    optimizer: torch.optim.Optimizer
    collate: Collate
    loader: ShareLoader
    rows_per_rank: int
    on_progress: OnProgress


def train_rank(config: TrainConfig, corpus: Corpus, folder: Path, on_progress: OnProgress) -> RankOutcome:
    """Train this rank's share of the configuration and return what it measured.

    Args:
        config: the same on every rank.
        corpus: the same on every rank.
        folder: of the run, for checkpoints.
        on_progress: gets a dictionary about ten times a second.
    """
    model = build_model(config, corpus.tokenizer.vocab_size)
    try:
        run = _prepare(config, corpus, model, on_progress)
        done = load_checkpoint(latest_checkpoint(folder), model, run.optimizer) if config.resume else 0
        epochs, losses = [], []
        for epoch in range(done, config.num_epochs):
            metrics, step_losses = _run_epoch(run, epoch)
            epochs.append(metrics)
            losses += step_losses
            _keep(run, folder, metrics, step_losses)
        bleu = _translate(run)
        return RankOutcome(tuple(epochs), tuple(losses), bleu, getattr(run.replica, "reason", ""))
    finally:
        model.close()


def _prepare(config: TrainConfig, corpus: Corpus, model: GPT2LMHeadModelParallel, on_progress: OnProgress) -> _Run:
    rank, world_size = comm.rank(), comm.world_size()
    device = place_model(model, config)
    collate = Collate(corpus.tokenizer, config.max_length)
    return _Run(
        config=config,
        corpus=corpus,
        model=model,
        replica=DataParallel(model) if config.mode == "data_parallel" else model,
        device=device,
        optimizer=make_optimizer(model, config),
        collate=collate,
        loader=partition_dataset(
            rank, world_size, corpus.training, config.batch_size, collate, seed=config.seed, remainder="drop"
        ),
        rows_per_rank=config.batch_size // world_size,
        on_progress=on_progress,
    )


def _run_epoch(run: _Run, epoch: int) -> tuple[EpochMetrics, list[float]]:
    """Train one epoch on the clock, then validate off it."""
    torch.manual_seed(run.config.seed + 1 + epoch * comm.world_size() + comm.rank())  # dropout
    run.loader.set_epoch(epoch)
    run.replica.train()
    _wait_for_device(run.device)
    start = time.perf_counter()
    records, num_tokens = _run_steps(run, epoch, start)
    _wait_for_device(run.device)
    seconds = time.perf_counter() - start
    step_losses, training_loss = _losses_of_all_ranks(records)
    metrics = EpochMetrics(
        rank=comm.rank(),
        epoch=epoch,
        training_time_s=seconds,
        num_tokens=num_tokens,
        training_loss=training_loss,
        validation_loss=validation_loss(run.model, run.corpus.validation, run.collate, run.rows_per_rank, run.device),
    )
    return metrics, step_losses


def _run_steps(run: _Run, epoch: int, start: float) -> tuple[list[StepRecord], int]:
    """Do every step of an epoch and tell now and then how it goes."""
    records: list[StepRecord] = []
    num_tokens, last_event = 0, 0.0
    num_steps = len(run.loader)
    for step, batch in enumerate(run.loader, start=1):
        records.append(train_step(run.replica, run.optimizer, batch, run.device, run.config))
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


def _losses_of_all_ranks(records: list[StepRecord]) -> tuple[list[float], float]:
    """Loss per target token of all ranks, of every step and of the epoch; one message for the whole epoch."""
    sums = torch.stack([record.loss_sum.double() for record in records])
    counts = torch.tensor([record.num_targets for record in records], dtype=torch.float64, device=sums.device)
    table = torch.stack([sums, counts])
    comm.all_reduce(table)
    sums, counts = table.cpu()
    return (sums / counts).tolist(), float(sums.sum() / counts.sum())


def _keep(run: _Run, folder: Path, metrics: EpochMetrics, step_losses: list[float]) -> None:
    """Rank 0 writes what the configuration wants kept of an epoch."""
    if comm.rank() != 0:
        return
    if run.config.checkpoint:
        save_checkpoint(folder, run.model, run.optimizer, metrics.epoch + 1)
    if run.config.tensorboard:
        log_epoch(folder / "tensorboard", run.config, metrics, step_losses)


def _translate(run: _Run) -> float | None:
    if not (run.config.bleu and run.corpus.is_translation):
        return None
    return bleu_score(
        run.model, run.corpus.validation, run.corpus.tokenizer, run.config.max_length, run.rows_per_rank, run.device
    )


def _wait_for_device(device: torch.device) -> None:
    """Let the GPUs finish what is queued, so that the clock stops after the work and not before it."""
    if device.type == "cuda":
        for index in range(torch.cuda.device_count()):
            torch.cuda.synchronize(index)
