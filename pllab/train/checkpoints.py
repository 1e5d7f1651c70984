"""Save a run and go on from it: weights as Hugging Face writes them, optimizer state, epochs done, the run's identity.

A checkpoint is a folder `epoch-0003`, written under another name and moved into place, so a reader sees a whole one or
none. Then older checkpoints are removed. A checkpoint belongs to a run: `checkpoint.json` says what was trained on
which data, and has the checksum of every file.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pllab.models import GPT2LMHeadModelParallel
from pllab.train.results import write_json

_ABOUT_FILE = "checkpoint.json"
_OPTIMIZER_FILE = "optimizer.pt"
_WEIGHTS_FILE = "model.safetensors"
_SPENT_FILE = "spent.json"
_EMBEDDING, _TIED_HEAD = "transformer.wte.weight", "lm_head.weight"
_NAME = re.compile(r"epoch-\d{4,}")


def save_checkpoint(
    folder: Path,
    model: GPT2LMHeadModelParallel,
    states: Mapping[str, Any],
    epochs_done: int,
    identity: Mapping[str, Any],
) -> Path:
    """Write `folder/epoch-NNNN`; remove older ones and the remains of a killed save.

    Args:
        folder: the run's folder.
        model: with all weights up to date.
        states: the optimizer's state of each parameter, by its name.
        epochs_done: the number of epochs, which names the checkpoint.
        identity: the settings that decide what is learned; a resumed run must have the same.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(".draft-*"):
        shutil.rmtree(stale, ignore_errors=True)
    target = folder / f"epoch-{epochs_done:04d}"
    draft = Path(tempfile.mkdtemp(dir=folder, prefix=".draft-"))
    try:
        _save_weights(draft, model)
        torch.save(dict(states), draft / _OPTIMIZER_FILE)
        sums = {name: _checksum(draft / name) for name in (_WEIGHTS_FILE, _OPTIMIZER_FILE)}
        about = {"epochs_done": epochs_done, "identity": dict(identity), "sha256": sums}
        (draft / _ABOUT_FILE).write_text(json.dumps(about, indent=1), encoding="utf-8")
        draft.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(draft, target)  # noqa: PTH105 - one atomic move of a whole folder
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    for older in checkpoints_in(folder)[:-1]:
        shutil.rmtree(older, ignore_errors=True)
    return target


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints of a run, the oldest first; other names are ignored."""
    return sorted(path for path in folder.glob("epoch-*") if _NAME.fullmatch(path.name))


def open_checkpoint(folder: Path, identity: Mapping[str, Any]) -> tuple[Path, int]:
    """Check that the newest checkpoint is whole and of this run; return it with its number of epochs.

    Raises:
        ValueError: there is none, it is damaged, or it is of a run with another identity; the sentence names the
            difference.
    """
    checkpoints = checkpoints_in(folder)
    if not checkpoints:
        raise ValueError(f"{str(folder)!r} holds no checkpoint to resume; train with --checkpoint first")
    path = checkpoints[-1]
    about = _read_about(path)
    for name, expected in about["sha256"].items():
        if _checksum(path / name) != expected:
            raise _damaged(path, f"{name} is not what was saved")
    for name in {**about["identity"], **identity}:
        if (saved := about["identity"].get(name)) != identity.get(name):
            raise ValueError(
                f"{str(path)!r} is of a run with {name} {saved!r}, and this one has {identity.get(name)!r}; "
                f"give the same {name}, or train anew in another --workdir"
            )
    return path, int(about["epochs_done"])


def load_checkpoint(path: Path, model: GPT2LMHeadModelParallel) -> dict[str, Any]:
    """Fill the model, on any devices; return the optimizer's state of each parameter, by its name.

    Raises:
        ValueError: the checkpoint cannot be read, has values that are not numbers, or is of a model of another shape.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path / _WEIGHTS_FILE)
        states: dict[str, Any] = torch.load(path / _OPTIMIZER_FILE, map_location="cpu", weights_only=True)
        _copy_weights(weights, model)
    except (OSError, RuntimeError, KeyError, ValueError, EOFError, SafetensorError) as error:
        raise _damaged(path, str(error).partition("\n")[0]) from error
    return states


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
    write_json(folder / _SPENT_FILE, {"wall_s": seconds})


def spent_s(folder: Path) -> float:
    """The wall seconds of the attempts so far, of which a kill loses the last moment; 0 before the first."""
    file = folder / _SPENT_FILE
    return float(json.loads(file.read_text(encoding="utf-8"))["wall_s"]) if file.exists() else 0.0


def _save_weights(folder: Path, model: GPT2LMHeadModelParallel) -> None:
    """Write what `GPT2LMHeadModel.from_pretrained(folder)` reads; the tied head is not written twice."""
    from safetensors.torch import save_file

    plain = plain_model(model)
    weights = {name: value for name, value in plain.state_dict().items() if name != _TIED_HEAD}
    save_file(weights, folder / _WEIGHTS_FILE, metadata={"format": "pt"})
    plain.config.architectures = [type(plain).__name__]
    plain.config.save_pretrained(folder)


def _copy_weights(weights: dict[str, torch.Tensor], model: GPT2LMHeadModelParallel) -> None:
    """Copy by name; the head takes the embedding, to which it is tied."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            source = weights[_EMBEDDING if name == _TIED_HEAD else name]
            if source.shape != parameter.shape:
                raise ValueError(f"{name} has shape {tuple(source.shape)}, not {tuple(parameter.shape)}")
            if not source.isfinite().all():
                raise ValueError(f"{name} holds numbers that are not finite, so the run had diverged")
            parameter.copy_(source)


def _read_about(path: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads((path / _ABOUT_FILE).read_text(encoding="utf-8"))
        named = f"epoch-{about['epochs_done']:04d}"
        is_whole = {_WEIGHTS_FILE, _OPTIMIZER_FILE} == about["sha256"].keys() and isinstance(about["identity"], dict)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, f"{_ABOUT_FILE} cannot be read ({type(error).__name__})") from error
    if not is_whole or named != path.name:
        raise _damaged(path, f"{_ABOUT_FILE} is not what was saved")
    return about


def _checksum(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise _damaged(file.parent, f"{file.name}: {error.strerror or type(error).__name__}") from error


def _damaged(path: Path, what: str) -> ValueError:
    sentence = f"checkpoint {str(path)!r} cannot be used ({what})"
    return ValueError(f"{sentence}; restore the file, or remove it and train anew")
