"""Save a run and go on from it: weights as Hugging Face writes them, optimizer state, epochs done.

A checkpoint is a folder `epoch-0003` that is written beside and moved into place at once, so a reader sees a
whole one or none. The older ones are removed after the new one is there.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pllab.models import GPT2LMHeadModelParallel

_OPTIMIZER_FILE = "optimizer.pt"
_WEIGHTS_FILE = "model.safetensors"
_EMBEDDING, _TIED_HEAD = "transformer.wte.weight", "lm_head.weight"


def save_checkpoint(
    folder: Path, model: GPT2LMHeadModelParallel, optimizer: torch.optim.Optimizer, epochs_done: int
) -> Path:
    """Write `folder/epoch-NNNN` (config.json, model.safetensors, optimizer.pt) and remove older ones."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"epoch-{epochs_done:04d}"
    draft = Path(tempfile.mkdtemp(dir=folder, prefix=".draft-"))
    try:
        _save_weights(draft, model)
        torch.save({"optimizer": optimizer.state_dict(), "epochs_done": epochs_done}, draft / _OPTIMIZER_FILE)
        draft.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(draft, target)  # noqa: PTH105 - one atomic move of a whole folder
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    for older in _checkpoints(folder)[:-1]:
        shutil.rmtree(older, ignore_errors=True)
    return target


def latest_checkpoint(folder: Path) -> Path:
    """Find the newest checkpoint of a run.

    Raises:
        ValueError: there is none.
    """
    found = _checkpoints(folder)
    if not found:
        raise ValueError(f"{str(folder)!r} holds no checkpoint to resume; train with --checkpoint first")
    return found[-1]


def load_checkpoint(path: Path, model: GPT2LMHeadModelParallel, optimizer: torch.optim.Optimizer) -> int:
    """Fill model and optimizer, wherever their parameters lie; returns the number of epochs already done.

    Raises:
        ValueError: a file is missing, or the checkpoint is of a model of another shape.
    """
    from safetensors.torch import load_file

    try:
        weights = load_file(path / _WEIGHTS_FILE)
        state = torch.load(path / _OPTIMIZER_FILE, map_location="cpu", weights_only=True)
        _copy_weights(weights, model)
        optimizer.load_state_dict(state["optimizer"])
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise ValueError(
            f"checkpoint {str(path)!r} does not fit this run ({first_line}); resume with the model sizes and "
            "optimizer it was saved with, or train anew"
        ) from error
    return int(state["epochs_done"])


def plain_model(model: GPT2LMHeadModelParallel) -> Any:
    """A copy as transformers' own GPT2LMHeadModel on the CPU, whatever devices the parallel one lies on."""
    from transformers import GPT2LMHeadModel

    plain: Any = GPT2LMHeadModel(model.config)
    names = plain.state_dict().keys()
    weights = model.state_dict()
    plain.load_state_dict({name: weights[name].float().cpu() for name in names})
    return plain.to(model.dtype)


def _save_weights(folder: Path, model: GPT2LMHeadModelParallel) -> None:
    """Write what `GPT2LMHeadModel.from_pretrained(folder)` reads; the tied head is not written twice."""
    from safetensors.torch import save_file

    plain = plain_model(model)
    weights = {name: value for name, value in plain.state_dict().items() if name != _TIED_HEAD}
    save_file(weights, folder / _WEIGHTS_FILE, metadata={"format": "pt"})
    plain.config.architectures = [type(plain).__name__]
    plain.config.save_pretrained(folder)


def _copy_weights(weights: dict[str, torch.Tensor], model: nn.Module) -> None:
    """Copy by name; the head takes the embedding, to which it is tied."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            source = weights[_EMBEDDING if name == _TIED_HEAD else name]
            if source.shape != parameter.shape:
                raise ValueError(f"{name} has shape {tuple(source.shape)}, not {tuple(parameter.shape)}")
            parameter.copy_(source)


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-*"))
