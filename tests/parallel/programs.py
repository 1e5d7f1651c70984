"""A small problem whose batches ranks share, and the state of models that they share; for tests here and of GPT-2."""

import torch
from torch import nn

from pllab import comm
from pllab.parallel.tensor import split_of, whole_of


def batch(step: int, rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (rows, 5) and targets (rows * 5), the same in every process."""
    generator = torch.Generator().manual_seed(step)
    return (
        torch.randint(0, 11, (rows, 5), generator=generator),
        torch.randint(0, 11, (rows * 5,), generator=generator),
    )


def share(step: int, rank: int, world_size: int, rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """A rank's part of a batch."""
    tokens, targets = batch(step, rows)
    return tokens.chunk(world_size)[rank], targets.chunk(world_size)[rank]


def loss_of(model: nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets)


def whole_state(model: nn.Module, group: comm.Group | None = None) -> dict[str, torch.Tensor]:
    """The state dict of the whole of a split model, on every rank; one message for each parameter, tied ones once."""
    state, wholes = model.state_dict(keep_vars=True), dict[int, torch.Tensor]()
    for value in state.values():
        if id(value) not in wholes:
            split = split_of(value)
            wholes[id(value)] = whole_of(value.detach(), split, group) if split else value.detach()
    return {name: wholes[id(value)] for name, value in state.items()}


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def gradients(model: nn.Module) -> dict[str, torch.Tensor | None]:
    return {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
