"""Save a run and go on from it, on any number of ranks and under any axes.

A checkpoint is a folder `step-00000096` that `GPT2LMHeadModel.from_pretrained` reads. torch.distributed.checkpoint
writes it as safetensors, so that reading it runs no code. Each rank writes some of the tensors, all of them whole, so
that no later run needs to know how ranks shared the model:

    model-00001-of-00002.safetensors ...            weights, with their index
    optimizer/model-00001-of-00002.safetensors ...  moments and counts of steps, by parameter
    config.json                                     the sizes of the model, for transformers
    checkpoint.json                                 what was trained on which data, and a checksum of each file

It is written under another name and moved into place, so a reader sees a whole one or none; then older ones are
removed.
"""

import copy
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from pllab import comm
from pllab.arguments import is_number, require
from pllab.data import partition_dataset
from pllab.models import GPT2LMHeadModelParallel
from pllab.parallel.shards import part_of
from pllab.train.config import TrainConfig
from pllab.train.inputs import Corpus
from pllab.train.joining import Tensors, name_of, tensors_to_write
from pllab.train.results import write_json
from pllab.train.updates import Part, Updates

_ABOUT_FILE = "checkpoint.json"
_OPTIMIZER = "optimizer"
_SPENT_FILE = "spent.json"
_NAME = re.compile(r"step-\d{8,}")
_AT_ONCE = 2**28  # bytes that are whole on a rank at the same time while a checkpoint is read


class Progress(NamedTuple):
    """How far a run is: steps behind it, and steps of an epoch."""

    steps: int
    steps_per_epoch: int


def save_checkpoint(
    folder: Path,
    model: GPT2LMHeadModelParallel,
    updates: Updates,
    progress: Progress,
    identity: Mapping[str, Any],
    mesh: comm.Mesh | None = None,
) -> Path:
    """Write `folder/step-NNNNNNNN` on all ranks together; remove older ones and the remains of a killed save.

    Args:
        folder: the run's folder, which all ranks see.
        model: the model, for its sizes.
        updates: this rank's parameters and their optimizers.
        progress: the steps behind the run, which name the checkpoint.
        identity: the settings that decide what is learned; a resumed run must have the same.
        mesh: how the ranks share the model.

    Raises:
        OSError: a rank could not write; the older checkpoint is there.
    """
    draft = Path(comm.all_gather_object(_new_draft(folder) if comm.rank() == 0 else "")[0])
    target = folder / f"step-{progress.steps:08d}"
    try:
        weights, states = tensors_to_write(updates, mesh)
        _on_all(target, lambda: _write(draft, weights))
        _on_all(target, lambda: _write(draft / _OPTIMIZER, states))
        _on_all(target, lambda: _complete(draft, target, model, progress, identity) if comm.rank() == 0 else None)
    finally:
        if comm.rank() == 0:
            shutil.rmtree(draft, ignore_errors=True)
    return target


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints of a run, the oldest first; other names are ignored."""
    return sorted(path for path in folder.glob("step-*") if _NAME.fullmatch(path.name))


def find_checkpoint(config: TrainConfig, corpus: Corpus, folder: Path) -> tuple[Path, Progress] | None:
    """The checkpoint that a run goes on from, and what lies behind it; none if it begins anew.

    Raises:
        ValueError: as for `open_checkpoint`.
    """
    if not config.resume or (config.checkpoint and not checkpoints_in(folder)):
        return None
    num_steps = len(partition_dataset(0, config.dp, corpus.training, config.batch_size, remainder="drop"))
    return open_checkpoint(folder, corpus.identity(config), num_steps)


def open_checkpoint(
    folder: Path, identity: Mapping[str, Any], steps_per_epoch: int | None = None
) -> tuple[Path, Progress]:
    """Check that the newest checkpoint is whole and of this run; return it with what lies behind it.

    Raises:
        ValueError: there is none, it is damaged, or it is of a run with another identity or with epochs of another
            length; the sentence names the difference.
    """
    checkpoints = checkpoints_in(folder)
    if not checkpoints:
        raise ValueError(f"{str(folder)!r} holds no checkpoint to resume; train with --checkpoint first")
    path = checkpoints[-1]
    about = _read_about(path)
    for name, expected in about["sha256"].items():
        if _checksum(path, name) != expected:
            raise _damaged(path, f"{name} is not what was saved")
    for name in {**about["identity"], **identity}:
        if (saved := about["identity"].get(name)) != identity.get(name):
            raise ValueError(
                f"{str(path)!r} is of a run with {name} {saved!r}, and this one has {identity.get(name)!r}; "
                f"give the same {name}, or train anew in another --workdir"
            )
    progress = Progress(*about["progress"])
    if steps_per_epoch not in (None, progress.steps_per_epoch):
        has = f"{_ABOUT_FILE} has {progress.steps_per_epoch} steps in an epoch, and this run {steps_per_epoch}"
        raise _damaged(path, has)
    return path, progress


def load_checkpoint(path: Path, updates: Updates, mesh: comm.Mesh | None = None) -> None:
    """Fill this rank's part of the parameters and of the optimizer's state; no message is sent.

    Raises:
        ValueError: the checkpoint cannot be read, has values that are not numbers, or is of a model of another shape.
    """
    from safetensors import SafetensorError

    try:
        parts: dict[str, list[Part]] = {}
        for part in updates.parts():
            parts.setdefault(name_of(part), []).append(part)
        missing = set(parts)
        for name, whole in _read(path, lambda key: key in parts):
            for part in parts[name]:
                _fill(part, whole, mesh)
            missing.remove(name)
        if missing:
            raise KeyError(f"{min(missing)} is missing")
        for key, whole in _read(path / _OPTIMIZER, lambda key: key.rpartition(".")[0] in parts):
            name, _, kind = key.rpartition(".")
            for part in parts[name]:
                _restore(part, kind, whole, mesh)
    except (OSError, RuntimeError, KeyError, ValueError, SafetensorError, CheckpointException) as error:
        raise _damaged(path, str(error).partition("\n")[0]) from error


def plain_model(model: GPT2LMHeadModelParallel) -> Any:
    """A copy as transformers' GPT2LMHeadModel on the CPU, from a model on any devices."""
    from transformers import GPT2LMHeadModel

    plain: Any = GPT2LMHeadModel(model.config)
    names = plain.state_dict().keys()
    weights = model.state_dict()
    plain.load_state_dict({name: weights[name].float().cpu() for name in names})
    return plain.to(model.dtype)


def record_spent(folder: Path, seconds: float) -> None:
    """Write down, now and then, the wall seconds of a run so far; a later attempt goes on from there."""
    write_json(folder / _SPENT_FILE, {"wall_s": seconds, "began": time.time() - seconds, "job": _job()})


def spent_s(folder: Path) -> float:
    """The wall seconds of the attempts so far, 0 before the first.

    Where torchrun has started this attempt after a fault, they are all since the first one began; where a person has,
    only those that an attempt has written down.

    Raises:
        ValueError: they cannot be read.
    """
    file = folder / _SPENT_FILE
    if not file.exists():
        return 0.0
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        is_restarted = _job() is not None and record.get("job") == _job()
        seconds = time.time() - record["began"] if is_restarted else record["wall_s"]
        require(is_number(seconds) and 0 <= float(seconds) < math.inf, "no time")
    except (OSError, ArithmeticError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{str(file)!r} cannot be read ({type(error).__name__}); remove it, and goodput counts from now on"
        ) from error
    return float(seconds)


def _job() -> str | None:
    return os.environ.get("TORCHELASTIC_RUN_ID")


def _new_draft(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(".draft-*"):
        shutil.rmtree(stale, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(dir=folder, prefix=".draft-"))
    draft.chmod(0o755)
    return str(draft)


def _on_all(target: Path, action: Callable[[], object]) -> None:
    """Do something on every rank; if it fails on one, all raise the same sentence."""
    problem = None
    try:
        action()
    except CheckpointException as error:  # it is raised on all ranks; each says its own part
        problem = str(error.failures[comm.rank()][0]) if comm.rank() in error.failures else None
    except (OSError, RuntimeError) as error:
        problem = str(error)
    for rank, said in enumerate(comm.all_gather_object(problem)):
        if said is not None:
            raise OSError(
                f"{str(target)!r} could not be saved on rank {rank} ({said}); the checkpoint before it is kept, so "
                "make room and go on with --resume"
            )


def _write(folder: Path, tensors: Tensors) -> None:
    """Every rank its own file; rank 0 writes the index."""
    names = comm.all_gather_object(list(tensors))
    place = {name: rank + 1 for rank, those in enumerate(names) for name in those}
    folder.mkdir(exist_ok=True)
    if place:
        writer = HuggingFaceStorageWriter(str(folder), place)
        with _quiet():
            save(dict(tensors), storage_writer=writer, no_dist=comm.backend_name() is None)


def _complete(
    draft: Path, target: Path, model: GPT2LMHeadModelParallel, progress: Progress, identity: Mapping[str, Any]
) -> None:
    """Say what it is, move it into place, and remove older ones."""
    config = copy.deepcopy(model.config)
    config.architectures = ["GPT2LMHeadModel"]
    config.save_pretrained(draft)
    files = sorted(str(file.relative_to(draft)) for file in draft.rglob("*") if file.is_file())
    about = {"progress": progress, "identity": dict(identity), "sha256": {n: _checksum(draft, n) for n in files}}
    (draft / _ABOUT_FILE).write_text(json.dumps(about, indent=1), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    os.replace(draft, target)  # noqa: PTH105 - one atomic move of a whole folder
    for older in checkpoints_in(target.parent)[:-1]:
        shutil.rmtree(older, ignore_errors=True)


def _read(folder: Path, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, torch.Tensor]]:
    """The whole tensors of a folder that this rank has a part of, some at a time."""
    reader = HuggingFaceStorageReader(str(folder))
    found = reader.read_metadata().state_dict_metadata
    keys = [key for key in found if is_wanted(key)]
    while keys:
        batch, num_bytes = Tensors(), 0
        while keys and num_bytes < _AT_ONCE:
            about: Any = found[key := keys.pop()]
            batch[key] = torch.empty(about.size, dtype=about.properties.dtype)
            num_bytes += batch[key].nbytes
        with _quiet():
            load(batch, storage_reader=reader, no_dist=True)
        yield from batch.items()


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch warns whoever reads or writes alone, which is what is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        yield


def _fill(part: Part, whole: torch.Tensor, mesh: comm.Mesh | None) -> None:
    if not whole.isfinite().all():
        raise ValueError(f"{part.name} holds numbers that are not finite, so the run had diverged")
    try:
        mine = part_of(part.parameter, whole, mesh)
    except ValueError as error:
        raise ValueError(f"{part.name}: {error}") from error
    with torch.no_grad():
        part.parameter.copy_(mine)


def _restore(part: Part, kind: str, whole: torch.Tensor, mesh: comm.Mesh | None) -> None:
    if whole.ndim:
        part.state[kind] = part_of(part.parameter, whole, mesh).to(part.parameter.device).clone()
    else:  # a fused optimizer counts steps where its parameters are
        part.state[kind] = whole.to(part.parameter.device).clone()


def _read_about(path: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads((path / _ABOUT_FILE).read_text(encoding="utf-8"))
        steps, length = about["progress"]
        is_whole = type(steps) is type(length) is int and length > 0 and f"step-{steps:08d}" == path.name
        is_whole &= isinstance(about["identity"], dict) and isinstance(about["sha256"], dict)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, f"{_ABOUT_FILE} cannot be read ({type(error).__name__})") from error
    if not is_whole or "config.json" not in about["sha256"]:
        raise _damaged(path, f"{_ABOUT_FILE} is not what was saved")
    return about


def _checksum(path: Path, name: str) -> str:
    try:
        with (path / name).open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except (OSError, ValueError) as error:  # no file can have some names
        raise _damaged(path, f"{name!r}: {getattr(error, 'strerror', None) or type(error).__name__}") from error


def _damaged(path: Path, what: str) -> ValueError:
    sentence = f"checkpoint {str(path)!r} cannot be used ({what})"
    return ValueError(f"{sentence}; restore the file, or remove it and train anew")
