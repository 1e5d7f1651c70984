"""The entry point: check, start the ranks that the mode needs, train, write the result."""

from dataclasses import replace
from pathlib import Path

from pllab import comm
from pllab.comm.devices import compute_threads, describe_machine, gpu_backend
from pllab.train.checkpoints import checkpoints_in, find_checkpoint
from pllab.train.config import TrainConfig
from pllab.train.corpus import Corpus, load_corpus
from pllab.train.loop import OnProgress, train_rank
from pllab.train.metrics import RankOutcome, RunMetrics
from pllab.train.placing import devices_of
from pllab.train.results import TrainResult, open_workdir, save_result


class NothingLeftError(ValueError):
    """A run that was to go on is complete."""


def train(config: TrainConfig, on_progress: OnProgress | None = None) -> TrainResult:
    """Train as configured and write `WORKDIR/<mode>-<world size>.json`.

    Example: `train(TrainConfig(mode="data_parallel", world_size=2)).tokens_per_s.mean` is the throughput of
    both ranks together.

    Losses do not depend on the mode: all modes take the same batches in the same order from the same weights.
    A pipeline alone runs in this process, on lanes; over dp or tp every device gets a process.

    Args:
        config: what to train, and on what.
        on_progress: called in this process about ten times a second per rank, with a dictionary of name, mode, rank,
            epoch (from 0), step (from 1), num_steps, tokens and seconds of this epoch so far, and the rank's last loss.

    Raises:
        ValueError: the data set, work folder, device or checkpoint is missing or does not fit.
        NothingLeftError: a resumed run has all its epochs behind it.
        RankError: a rank failed; all others were ended.
    """
    backend = _describe_backend(config)
    folder = _open_run(config)
    corpus = load_corpus(config)
    _check_left(config, corpus, folder)
    tokenizer_path = folder / "tokenizer.json"
    corpus.tokenizer.save(tokenizer_path)
    report = on_progress or (lambda _: None)
    if config.needs_ranks:
        outcomes = of_shares(_launch(config, folder, tokenizer_path, report), config)
    else:
        with compute_threads(config.num_threads):
            outcomes = [train_rank(config, corpus, folder, report)]
    return save_result(_result(config, backend, outcomes))


def train_as_rank(config: TrainConfig, backend: str, on_progress: OnProgress | None = None) -> TrainResult | None:
    """Train as one rank of an existing group, as under torchrun; rank 0 returns the result.

    Args:
        config: the same on every rank, with axes whose product is the number of ranks.
        backend: name of the messages' backend, for the result.
        on_progress: as for `train`, but only for this rank.

    Raises:
        ValueError: mode or world size do not fit the group, or as for `train`.
    """
    if config.mode in ("single", "model_parallel") or config.world_size != comm.world_size():
        raise ValueError(
            f"this process is one of {comm.world_size()} ranks, but the mode is {config.mode} and dp {config.dp} x tp "
            f"{config.tp} x pp {config.pp} is {config.world_size}; give axes whose product is {comm.world_size()}"
        )
    folder = _open_run(config)
    corpus = load_corpus(config)  # other hosts may not see rank 0's tokenizer, and the same texts give the same one
    _check_left(config, corpus, folder)
    if comm.rank() == 0:
        corpus.tokenizer.save(folder / "tokenizer.json")
    with compute_threads(config.num_threads):
        outcome = train_rank(config, corpus, folder, on_progress or (lambda _: None))
    outcomes = of_shares(comm.all_gather_object(outcome), config)
    return save_result(_result(config, backend, outcomes)) if comm.rank() == 0 else None


def of_shares(outcomes: list[RankOutcome], config: TrainConfig) -> list[RankOutcome]:
    """One outcome for each share of the data, with the memory of the rank of that share that held most."""
    of_share = [[o for rank, o in enumerate(outcomes) if config.share_of(rank) == d] for d in range(config.dp)]
    return [replace(ranks[0], peak_memory_bytes=max(rank.peak_memory_bytes for rank in ranks)) for ranks in of_share]


def _open_run(config: TrainConfig) -> Path:
    """The folder of this run's own files; nothing of another run is touched.

    Raises:
        ValueError: the work folder cannot be used, or checkpoints of another run are there.
    """
    folder = open_workdir(config.workdir) / config.run_name
    result = folder.with_suffix(".json")
    if result.is_dir():
        raise ValueError(f"{str(result)!r} is a folder, and the results go into a file of that name; move it away")
    checkpoints = checkpoints_in(folder)
    if config.checkpoint and not config.resume and checkpoints:
        raise ValueError(
            f"{str(folder)!r} holds checkpoints of an earlier run (up to {checkpoints[-1].name}); go on from them with "
            "--resume, or name another --workdir"
        )
    return open_workdir(str(folder))


def _result(config: TrainConfig, backend: str, outcomes: list[RankOutcome]) -> TrainResult:
    return TrainResult(
        config=config,
        machine=describe_machine(),
        backend="; ".join(filter(None, (backend, outcomes[0].reason))),
        ranks=tuple(outcome.epochs for outcome in outcomes),
        steps=outcomes[0].steps,
        metrics=RunMetrics.of(config, outcomes),
        bleu=outcomes[0].bleu,
    )


def _launch(config: TrainConfig, folder: Path, tokenizer_path: Path, report: OnProgress) -> list[RankOutcome]:
    return comm.launch(
        _in_rank,
        config.world_size,
        config,
        str(folder),
        str(tokenizer_path),
        backend="gloo" if config.device == "cpu" else None,
        num_threads=config.num_threads,
        timeout_s=config.timeout_s,
        on_report=lambda _, event: report(event),
    )


def _in_rank(
    rank: int,  # noqa: ARG001 - what launch calls
    world_size: int,  # noqa: ARG001
    config: TrainConfig,
    folder: str,
    tokenizer_path: str,
) -> RankOutcome:
    """The function of a launched rank, at module level so that a new process can import it."""
    corpus: Corpus = load_corpus(config, Path(tokenizer_path))
    return train_rank(config, corpus, Path(folder), comm.report)


def _describe_backend(config: TrainConfig) -> str:
    """Say who computes and who carries messages; refuses devices that are not there."""
    if config.needs_ranks:
        backend = {"cpu": "gloo", "cuda": gpu_backend(), "auto": None}[config.device]
        return comm.plan_backend(0, config.world_size, backend).reason
    devices = ", ".join(str(device) for device in devices_of(config))
    return f"one process on {devices}"


def _check_left(config: TrainConfig, corpus: Corpus, folder: Path) -> None:
    """Stop a complete run before it makes a model; its result stays as it is."""
    if (found := find_checkpoint(config, corpus, folder)) is None:
        return
    path, done = found
    if done.steps >= config.num_epochs * done.steps_per_epoch:
        result = folder.with_suffix(".json")
        raise NothingLeftError(
            f"nothing left to do: num_epochs is {config.num_epochs}, and {str(path)!r} has "
            f"{done.steps // done.steps_per_epoch} behind it; give more to go on"
            + (f", or see the result {str(result)!r}" if result.exists() else "")
        )
