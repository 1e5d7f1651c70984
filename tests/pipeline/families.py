"""Every generator of pllab.schedule, and a small GPT-2 to run its schedules on."""

import copy
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from pllab.models import gpt2_config
from pllab.models.gpt2 import GPT2LMHeadModelParallel
from pllab.models.layers import cut, layers_of
from pllab.pipeline import balance
from pllab.schedule import FAMILIES, Schedule, one_f_one_b, split_backwards, zero_bubble
from pllab.simulate import Costs

GENERATORS: dict[str, Callable[[int, int], Schedule]] = {
    **{name: family.make for name, family in FAMILIES.items()},
    "split 1F1B": lambda ranks, m: split_backwards(one_f_one_b(ranks, m)),
    "zero_bubble": lambda ranks, m: zero_bubble(ranks, m, Costs(1.0, 1.2, 0.7, 0.1), memory_limit=2 * ranks),
    "zero_bubble in little memory": lambda ranks, m: zero_bubble(ranks, m, Costs(), memory_limit=ranks),
}


def tiny_gpt2() -> GPT2LMHeadModelParallel:
    torch.manual_seed(0)
    return GPT2LMHeadModelParallel(gpt2_config("tiny", vocab_size=32, n_embd=16, n_head=2, n_positions=16))


def stages_of(model: nn.Module, num_stages: int) -> list[nn.Sequential]:
    layers = layers_of(model)
    return cut(layers, balance([1.0] * len(layers), num_stages))


def tokens(num_rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 32, (num_rows, 8), generator=torch.Generator().manual_seed(seed))


def next_token_loss(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def plain_copy(model: nn.Module, *batches: tuple[torch.Tensor, torch.Tensor]) -> tuple[nn.Module, list[float]]:
    """A copy of the model after a plain backward of each batch with its labels, and the losses."""
    plain, losses = copy.deepcopy(model), []
    for ids, labels in batches:
        loss = next_token_loss(plain(ids).logits, labels)
        loss.backward()
        losses.append(loss.item())
    return plain, losses


def worst(model: nn.Module, plain: nn.Module, only: set[str] | None = None) -> float:
    """The largest difference of a gradient; a gradient that is missing counts as infinite."""
    theirs = dict(plain.named_parameters())
    differences = [
        float("inf") if parameter.grad is None else (parameter.grad - theirs[name].grad).abs().max().item()
        for name, parameter in model.named_parameters()
        if only is None or name in only
    ]
    return max(differences)
