"""The models of exercise 06.2: a chain that tells when its last gradient is due, and branches in either order."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

WIDTH = 8


def nothing() -> None:
    """Look at nothing."""


class Look(torch.autograd.Function):
    """The identity; its backward calls a function."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, look: Callable[[], None]) -> torch.Tensor:
        """Remember whom to call."""
        ctx.look = look
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Call, then hand the gradient on."""
        ctx.look()
        return gradients[0], None


class Chain(nn.Module):
    """Four layers, one of them frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.layers[1].requires_grad_(requires_grad=False)
        self.look: Callable[[], None] = nothing

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The last step of backward is the first layer's gradient; the look comes right before it."""
        x = Look.apply(self.layers[0](x), self.look)
        for layer in list(self.layers)[1:]:
            x = layer(x).tanh()
        return x


PLACES = ("first", "between", "last")  # of the unused parameter of `Branches`


class Branches(nn.Module):
    """Two layers side by side, of which the one computed last gets its gradient first, and one not used at first."""

    def __init__(self, rank: int, place: str) -> None:
        super().__init__()
        names = ["left", "right"]
        names.insert(PLACES.index(place), "unused")
        for name in names:
            layer = nn.Linear(WIDTH, WIDTH, bias=False)
            self.add_module(name, layer)
        self.order = ["left", "right"] if rank == 0 else ["right", "left"]

    def use_all(self) -> None:
        """From now on the loss needs the unused one too."""
        self.order.insert(1, "unused")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sum the branches, in this rank's order."""
        total = torch.zeros(())
        for name in self.order:
            total = total + self.get_submodule(name)(x * (1 + (name == "left"))).tanh()
        return total
