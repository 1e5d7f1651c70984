"""The start of a run: check, open its folder, and start the ranks that the axes need."""

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile

from pllab import comm
from pllab.arguments import require
from pllab.comm.devices import compute_threads, gpu_backend, is_gpu
from pllab.show.theme import count_of
from pllab.train.checkpoints import checkpoints_in, open_checkpoint
from pllab.train.config import TrainConfig
from pllab.train.inputs import Corpus, devices_of, load_corpus
from pllab.train.loop import OnProgress, train_rank
from pllab.train.metrics import TrainResult

_OF_A_HOST = {"workdir", "profile", "num_threads", "peak_flops"}  # these may differ between the ranks of a run


class NothingLeftError(ValueError):
    """A run that should be resumed is already complete."""


def train(config: TrainConfig, on_progress: OnProgress = lambda _: None) -> TrainResult:
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
        ValueError: the data set, device or checkpoint is missing or does not fit.
        OSError: the work folder cannot be written.
        NothingLeftError: a resumed run has already trained all its epochs.
        RankError: a rank failed; all others were ended.
    """
    if config.needs_ranks:
        backend = {"cpu": "gloo", "cuda": gpu_backend(), "auto": None}[config.device]
        reason = comm.plan_backend(0, config.world_size, backend).reason
        _open_run(config)  # what every rank would refuse is refused here
        result = comm.launch(
            _in_rank,
            config.world_size,
            config,
            reason,
            backend=backend,
            timeout_s=config.timeout_s,
            on_report=lambda _, event: on_progress(event),
        )[0]
    else:
        devices = ", ".join(map(str, devices_of(config)))
        corpus, found = _open_run(config)
        with compute_threads(config.num_threads):
            result = train_rank(config, corpus, found, f"one process on {devices}", on_progress)
    assert isinstance(result, TrainResult), "rank 0 returns it"
    return result


def train_as_rank(config: TrainConfig, backend: str, on_progress: OnProgress = lambda _: None) -> TrainResult | None:
    """Train as one rank of an existing group, as under torchrun; rank 0 returns the result.

    Args:
        config: the same on every rank, with axes whose product is the number of ranks.
        backend: name of the messages' backend, for the result.
        on_progress: as for `train`, but only for this rank.

    Raises:
        ValueError: axes or device do not fit the group, or ranks differ in what they are given or find, which all of
            them refuse; or as for `train`.
    """
    corpus, found = _open_run(config)
    _check_group(config)
    with compute_threads(config.num_threads):
        return train_rank(config, corpus, found, backend, on_progress)


def _check_group(config: TrainConfig) -> None:
    """Refuse axes of another size than the group, and a device that the group does not compute on."""
    axes, number = f"dp {config.dp} x tp {config.tp} x pp {config.pp} is {config.world_size}", comm.world_size()
    wrong_size = f"the group has {count_of(number, 'rank')}, but {axes}; give axes whose product is {number}"
    require(config.world_size == number, wrong_size)
    device = comm.own_device()
    told = f"device is {config.device!r}, and this group computes on {device} ({comm.backend_name()})"
    fits = config.device in ("auto", "cuda" if is_gpu(device) else "cpu")
    require(fits, f"{told}; take 'auto', or set up a group on that device")


def _open_run(config: TrainConfig) -> tuple[Corpus, tuple[Path, int] | None]:
    """Make the folder of this run's own files; return the data, and the checkpoint to go on from with its steps.

    In a group every rank calls it, each perhaps on a host of its own, before any of them writes or trains.

    Raises:
        OSError: the work folder cannot be written.
        ValueError: files in it are in the way, or ranks differ.
        NothingLeftError: the run is complete; its result is not changed.
    """
    folder, result = config.folder, config.result_file
    told = f"{str(result)!r} is a folder, and the results go into a file of that name; move it away"
    require(not result.is_dir(), told)
    checkpoints = checkpoints_in(folder)
    if config.checkpoint and not config.resume and checkpoints:
        raise ValueError(
            f"{str(folder)!r} holds checkpoints of an earlier run (up to {checkpoints[-1].name}); go on from them with "
            "--resume, or name another --workdir"
        )
    folder.mkdir(parents=True, exist_ok=True)
    TemporaryFile(dir=folder.parent).close()  # the result, after hours, goes there
    corpus, found = load_corpus(config), None
    identity = corpus.identity(config)
    num_steps = identity["steps_per_epoch"]
    if config.resume and (checkpoints or not config.checkpoint):
        found = open_checkpoint(folder, identity)
    given = {name: value for name, value in asdict(config).items() if name not in _OF_A_HOST}
    _refuse_differences(given | {"data": identity["data"], "newest checkpoint": found and found[0].name})
    if found and found[1] >= config.num_epochs * num_steps:
        see = f", or see the result {str(result)!r}" if result.exists() else ""
        raise NothingLeftError(
            f"nothing left to do: num_epochs is {config.num_epochs}, and {str(found[0])!r} has "
            f"{found[1] // num_steps} behind it; give more to go on{see}"
        )
    if comm.rank() == 0:  # other hosts may not see its tokenizer; the same texts give the same one
        corpus.tokenizer.save(folder / "tokenizer.json")
    return corpus, found


def _refuse_differences(mine: dict[str, object]) -> None:
    """Refuse, on all ranks, what a rank was given or has found unless all have it."""
    first, *others = comm.all_gather_object(mine)
    for rank, theirs in enumerate(others, start=1):
        for name, value in first.items():
            differs = f"{name} is {value!r} on rank 0 and {theirs[name]!r} on rank {rank}"
            require(theirs[name] == value, f"{differs}; give all ranks the same flags, data and --workdir")


def _in_rank(_rank: int, _world_size: int, config: TrainConfig, backend: str) -> TrainResult | None:
    """The function of a launched rank, at module level so that a new process can import it."""
    return train_as_rank(config, backend, comm.report)
