"""Save a run and resume it, on any number of ranks and with any axes.

A checkpoint is a folder `step-00000096` that `GPT2LMHeadModel.from_pretrained` reads:

    model.safetensors        the weights
    optimizer.safetensors    moments and counts of steps, by parameter
    config.json              the sizes of the model, for transformers
    checkpoint.json          what was trained on which data, and how far

Its tensors are whole, so that no later run needs to know how ranks shared the model. All ranks help to join them;
rank 0 writes them under another name and moves the folder into place, so a reader sees all of it or nothing; then older
ones are removed. Reading it runs no code.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from pllab import comm
from pllab.arguments import require
from pllab.parallel.shards import join, part_of
from pllab.train.trainers import Trainer

_WEIGHTS, _STATES, _ABOUT = "model.safetensors", "optimizer.safetensors", "checkpoint.json"


def save_checkpoint(folder: Path, trainer: Trainer, steps: int, identity: Mapping[str, Any]) -> Path:
    """Write `folder/step-NNNNNNNN`; remove older ones and the remains of a killed save. All ranks call it.

    Args:
        folder: the run's folder, which all ranks see.
        trainer: this rank's parameters and their optimizer.
        steps: how many the run has taken, which names the checkpoint.
        identity: what decides what is learned; a resumed run must have the same.

    Raises:
        OSError: rank 0 could not write; the older checkpoint is still there.
        ValueError: weights are not finite, so no run could go on from them; it is there too.
    """
    target = folder / f"step-{steps:08d}"
    problem: Exception | None = None
    files = {
        file: {key: whole.cpu().contiguous() for key, whole in tensors if comm.rank() == 0}
        for file, tensors in ((_WEIGHTS, whole_weights(trainer)), (_STATES, whole_states(trainer)))
    }
    if comm.rank() == 0:
        is_finite = all(bool(whole.isfinite().all()) for whole in files[_WEIGHTS].values())
        kept = "the checkpoint before it is kept, so"
        try:
            diverged = f"the weights after step {steps} are not finite, because the run has diverged"
            require(is_finite, f"{diverged}; {kept} go on with --resume and a smaller --learning-rate")
            _write(target, files, trainer, {**identity, "steps": steps})
        except ValueError as error:
            problem = error
        except (OSError, RuntimeError, SafetensorError) as error:
            problem = OSError(f"{str(target)!r} could not be saved ({error}); {kept} make room and go on with --resume")
    if (problem := comm.all_gather_object(problem)[0]) is not None:
        raise problem
    return target


def whole_weights(trainer: Trainer) -> Iterator[tuple[str, torch.Tensor]]:
    """Each weight, whole and on every rank, under its name in transformers; all ranks must iterate over all of them.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    mine = {name: (parameter, parameter.detach()) for name, parameter in trainer.updates.parameters.items()}
    return _joined(mine, trainer.mesh)


def whole_states(trainer: Trainer) -> Iterator[tuple[str, torch.Tensor]]:
    """The same for each state of the optimizers, as `transformer.ln_f.bias.exp_avg`."""
    mine = {
        f"{name}.{kind}": (parameter, value)
        for name, parameter in trainer.updates.parameters.items()
        for kind, value in trainer.updates.optimizer.state[parameter].items()
    }
    return _joined(mine, trainer.mesh)


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints of a run, the oldest first; other names are ignored."""
    return sorted(folder.glob("step-" + 8 * "[0-9]"))


def open_checkpoint(folder: Path, identity: Mapping[str, Any]) -> tuple[Path, int]:
    """Check that the newest checkpoint is of this run; return it with the steps that the run has taken.

    Raises:
        ValueError: there is none, its record is damaged, or it is of a run with another identity; the sentence names
            the difference.
    """
    checkpoints = checkpoints_in(folder)
    if not checkpoints:
        raise ValueError(f"{str(folder)!r} holds no checkpoint to resume; train with --checkpoint first")
    path = checkpoints[-1]
    steps = int(path.name.removeprefix("step-"))
    try:
        saved = dict(json.loads((path / _ABOUT).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise _damaged(path, f"{_ABOUT} cannot be read ({type(error).__name__})") from error
    own = {**identity, "steps": steps}
    for name in {**saved, **own}:
        if saved.get(name) != own.get(name):
            same = "data, batch size and dp" if name == "steps_per_epoch" else name
            raise ValueError(
                f"{str(path)!r} is of a run with {name} {saved.get(name)!r}, and this one has {own.get(name)!r}; "
                f"give the same {same}, or train anew in another --workdir"
            )
    return path, steps


def load_checkpoint(path: Path, trainer: Trainer) -> None:
    """Fill this rank's part of the parameters and of the optimizer's state; no message is sent.

    Raises:
        ValueError: the checkpoint cannot be read, or is of a model of another shape.
    """
    try:
        with torch.no_grad(), safe_open(path / _WEIGHTS, "pt") as weights, safe_open(path / _STATES, "pt") as states:
            kinds: dict[str, list[str]] = {}  # of states, by weight; plain gradient descent has none
            for key in states.keys():  # noqa: SIM118 - it is a file and no dictionary
                owner, _, kind = key.rpartition(".")
                kinds.setdefault(owner, []).append(kind)
            for name, parameter in trainer.updates.parameters.items():
                parameter.copy_(part_of(parameter, weights.get_tensor(name), trainer.mesh))
                lacks_state = bool(kinds) and name not in kinds and parameter.requires_grad
                require(not lacks_state, f"{_STATES} has no state of {name}")  # AdamW would go on from empty moments
                for kind in kinds.get(name, []):
                    whole = states.get_tensor(f"{name}.{kind}")  # a count of steps is the same on every rank
                    mine = part_of(parameter, whole, trainer.mesh) if whole.ndim else whole
                    # Only a fused optimizer counts its steps on the GPU; another would wait for it in each.
                    moves = whole.ndim or trainer.updates.optimizer.defaults["fused"]
                    state = trainer.updates.optimizer.state[parameter]
                    state[kind] = (mine.to(parameter.device) if moves else mine).clone()
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise _damaged(path, str(error).partition("\n")[0]) from error


def _joined(
    mine: Mapping[str, tuple[nn.Parameter, torch.Tensor]], mesh: comm.Mesh | None
) -> Iterator[tuple[str, torch.Tensor]]:
    """Whole tensors from parts that are cut like their parameters, one at a time, including those of other stages."""
    group = comm.group_of(mesh, "pp")
    for key in dict.fromkeys(key for keys in comm.all_gather_object(list(mine), group) for key in keys):
        whole = None
        if key in mine:
            parameter, part = mine[key]
            whole = join(parameter, part, mesh) if part.ndim else part
        yield key, _of_any_stage(whole, group)


def _of_any_stage(whole: torch.Tensor | None, group: comm.Group | None) -> torch.Tensor:
    """Send a tensor that the ranks of one or several stages have to the ranks of all stages."""
    outlines = comm.all_gather_object(None if whole is None else (whole.shape, whole.dtype), group)
    holder, (shape, dtype) = next((number, each) for number, each in enumerate(outlines) if each is not None)
    if whole is None:
        whole = torch.empty(shape, dtype=dtype, device=comm.own_device())
    if len(outlines) > 1:
        comm.broadcast(whole, holder, group)
    return whole


def _write(
    target: Path, files: Mapping[str, dict[str, torch.Tensor]], trainer: Trainer, about: Mapping[str, Any]
) -> None:
    folder, config = target.parent, trainer.model.config
    config = type(config).from_dict(config.to_dict() | {"architectures": ["GPT2LMHeadModel"]})
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(".draft-*"):
        shutil.rmtree(stale, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(dir=folder, prefix=".draft-"))
    try:
        draft.chmod(0o755)
        config.save_pretrained(draft)
        for name, tensors in files.items():
            save_file(tensors, draft / name, metadata={"format": "pt"})  # transformers asks for the format
        (draft / _ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
        for file in draft.iterdir():
            with file.open("rb") as written:
                os.fsync(written)  # the older checkpoint is about to go
        shutil.rmtree(target, ignore_errors=True)
        os.replace(draft, target)  # noqa: PTH105 - one atomic move of a whole folder
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    for older in checkpoints_in(folder)[:-1]:
        shutil.rmtree(older, ignore_errors=True)


def _damaged(path: Path, what: str) -> ValueError:
    sentence = f"checkpoint {str(path)!r} cannot be used ({what})"
    return ValueError(f"{sentence}; restore the file, or remove it and train anew")
