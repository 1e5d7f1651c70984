"""The start of a run: check, open its folder, start the ranks that the axes need, and write the result."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pllab import comm
from pllab.arguments import require
from pllab.comm.devices import compute_threads, describe_machine, gpu_backend, is_gpu
from pllab.data import partition_dataset
from pllab.show.theme import count_of
from pllab.train.checkpoints import checkpoints_in, open_checkpoint
from pllab.train.config import TrainConfig, recompute_between_ranks
from pllab.train.inputs import Corpus, devices_of, load_corpus
from pllab.train.loop import OnProgress, train_rank
from pllab.train.metrics import RankOutcome, RunMetrics
from pllab.train.results import TrainResult, open_workdir, save_result

_TOKENIZER = "tokenizer.json"
_OF_A_HOST = {"workdir", "profile", "num_threads", "peak_flops"}  # these may differ between the ranks of a run


class NothingLeftError(ValueError):
    """A run that should be resumed is already complete."""


def train(config: TrainConfig, on_progress: OnProgress | None = None) -> TrainResult:
    """Train as configured and write `WORKDIR/NAME.json`, by default of the mode and the number of devices.

    Example: `train(TrainConfig(mode="data_parallel", world_size=2)).tokens_per_s.mean` is the throughput of
    both ranks together.

    Losses do not depend on the mode: all modes take the same batches in the same order from the same weights. Two
    things differ: what dropout drops, and an epoch whose examples dp does not divide, of which the rest is left out.
    A pipeline alone runs in this process, on lanes; over dp or tp every device gets a process.

    Args:
        config: what to train, and on what.
        on_progress: called in this process about ten times a second per rank, with a dictionary of rank, epoch
            (from 0), step (from 1), num_steps, tokens and seconds of this epoch so far, and the rank's last loss.

    Raises:
        ValueError: the data set, work folder, device or checkpoint is missing or does not fit.
        NothingLeftError: a resumed run has already trained all its epochs.
        RankError: a rank failed; all others were ended.
    """
    backend, report = _describe_backend(config), on_progress or (lambda _: None)
    corpus, folder, found = _open_run(config)
    corpus.tokenizer.save(folder / _TOKENIZER)
    if config.needs_ranks:
        result = comm.launch(
            _in_rank,
            config.world_size,
            config,
            folder,
            found,
            backend,
            backend="gloo" if config.device == "cpu" else None,
            num_threads=config.num_threads,
            timeout_s=config.timeout_s,
            on_report=lambda _, event: report(event),
        )[0]
    else:
        with compute_threads(config.num_threads):
            result = train_rank(config, corpus, folder, found, report, lambda mine: _save(config, backend, [mine]))
    assert isinstance(result, TrainResult), "rank 0 returns it"
    return result


def train_as_rank(config: TrainConfig, backend: str, on_progress: OnProgress | None = None) -> TrainResult | None:
    """Train as one rank of an existing group, as under torchrun; rank 0 returns the result.

    Args:
        config: the same on every rank, with axes whose product is the number of ranks.
        backend: name of the messages' backend, for the result.
        on_progress: as for `train`, but only for this rank.

    Raises:
        ValueError: mode, world size or device do not fit the group, or ranks differ in what they are given or find,
            which all of them refuse; or as for `train`.
    """
    corpus, folder, found = _open_together(config)
    if comm.rank() == 0:  # other hosts may not see its tokenizer; the same texts give the same one
        corpus.tokenizer.save(folder / _TOKENIZER)
    with compute_threads(config.num_threads):
        report = on_progress or (lambda _: None)
        return train_rank(config, corpus, folder, found, report, partial(_save_together, config, backend))


def _open_together(config: TrainConfig) -> tuple[Corpus, Path, tuple[Path, int] | None]:
    """`_open_run` on every rank of a group, each perhaps on a host of its own, before any of them writes or waits."""
    mine = {name: value for name, value in asdict(config).items() if name not in _OF_A_HOST}
    mine |= {"refusal": None, "data": None, "newest checkpoint": None}
    problem: Exception | None = None
    try:
        _check_group(config)
        opened = corpus, _, found = _open_run(config)
        mine |= {"data": corpus.identity(config, 0)["data"], "newest checkpoint": found and found[0].name}
    except (OSError, ValueError) as error:
        problem, mine["refusal"] = error, str(error)
    everyone = comm.all_gather_object(mine)
    if problem is not None and all(theirs["refusal"] for theirs in everyone):
        raise problem
    for rank, theirs in enumerate(everyone):
        for name, value in everyone[0].items():
            differs = f"{name} is {value!r} on rank 0 and {theirs[name]!r} on rank {rank}"
            require(theirs[name] == value, f"{differs}; give all ranks the same flags, data and --workdir")
    return opened


def _check_group(config: TrainConfig) -> None:
    """Refuse a configuration that the ranks of this group cannot train."""
    is_twice, sentence = recompute_between_ranks(config)
    require(not is_twice, sentence)
    on_lanes = "mode model_parallel runs on lanes, not between ranks; take mode pipeline"
    require(config.mode != "model_parallel", on_lanes)
    axes, number = f"dp {config.dp} x tp {config.tp} x pp {config.pp} is {config.world_size}", comm.world_size()
    wrong_size = f"the group has {count_of(number, 'rank')}, but {axes}; give axes whose product is {number}"
    require(config.world_size == number, wrong_size)
    device = comm.own_device()
    told = f"device is {config.device!r}, and this group computes on {device} ({comm.backend_name()})"
    fits = config.device in ("auto", "cuda" if is_gpu(device) else "cpu")
    require(fits, f"{told}; take 'auto', or set up a group on that device")


def _describe_backend(config: TrainConfig) -> str:
    """Say which devices compute and which backend carries messages; refuses devices that are not there."""
    if config.needs_ranks:
        backend = {"cpu": "gloo", "cuda": gpu_backend(), "auto": None}[config.device]
        return comm.plan_backend(0, config.world_size, backend).reason
    return f"one process on {', '.join(map(str, devices_of(config)))}"


def _open_run(config: TrainConfig) -> tuple[Corpus, Path, tuple[Path, int] | None]:
    """The data, the folder of this run's own files, and the checkpoint to go on from; no other run is touched.

    Raises:
        ValueError: the work folder cannot be used, or files in it are in the way.
        NothingLeftError: the run is complete; its result is not changed.
    """
    folder = open_workdir(config.workdir) / config.run_name
    result = folder.with_name(f"{folder.name}.json")
    told = f"{str(result)!r} is a folder, and the results go into a file of that name; move it away"
    require(not result.is_dir(), told)
    if config.checkpoint and not config.resume and (checkpoints := checkpoints_in(folder)):
        raise ValueError(
            f"{str(folder)!r} holds checkpoints of an earlier run (up to {checkpoints[-1].name}); go on from them with "
            "--resume, or name another --workdir"
        )
    open_workdir(str(folder))
    corpus = load_corpus(config)
    if not config.resume or (config.checkpoint and not checkpoints_in(folder)):
        return corpus, folder, None
    num_steps = len(partition_dataset(0, config.dp, corpus.training, config.batch_size, remainder="drop"))
    path, steps = found = open_checkpoint(folder, corpus.identity(config, num_steps))
    if steps >= config.num_epochs * num_steps:
        see = f", or see the result {str(result)!r}" if result.exists() else ""
        raise NothingLeftError(
            f"nothing left to do: num_epochs is {config.num_epochs}, and {str(path)!r} has {steps // num_steps} "
            f"behind it; give more to go on{see}"
        )
    return corpus, folder, found


def _save(config: TrainConfig, backend: str, outcomes: Sequence[RankOutcome]) -> TrainResult:
    """The result of all ranks, with epochs for each share of the data: ranks of one model have the same rows."""
    first = outcomes[0]
    ranks = tuple(outcome.epochs for outcome in outcomes[: config.dp * config.tp : config.tp])
    return save_result(
        TrainResult(
            config=config,
            machine=describe_machine(),
            backend="; ".join(filter(None, (backend, first.reason))),
            ranks=ranks,
            steps=first.steps,
            metrics=RunMetrics.of(config, ranks, outcomes),
            bleu=first.bleu,
        )
    )


def _save_together(config: TrainConfig, backend: str, mine: RankOutcome) -> TrainResult | None:
    """The same on every rank of a group; rank 0 writes it."""
    outcomes = comm.all_gather_object(mine)
    return _save(config, backend, outcomes) if comm.rank() == 0 else None


def _in_rank(
    _rank: int, _world_size: int, config: TrainConfig, folder: Path, found: tuple[Path, int] | None, backend: str
) -> TrainResult | None:
    """The function of a launched rank, at module level so that a new process can import it."""
    corpus = load_corpus(config, folder / _TOKENIZER)
    return train_rank(config, corpus, folder, found, comm.report, partial(_save_together, config, backend))
