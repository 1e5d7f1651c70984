"""The stage of exercise 10.3, and what happens when micro-batches go through it.

A layer of it keeps a tensor for its backward and counts its calls: if that tensor is alive after the forward,
activations were kept.
"""

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercise import Wrong

Checkpointed = Callable[[nn.Module, torch.Tensor], Any]

_WIDTH = 6

NOT_DETACHED = (
    "not_detached",
    "Your backward goes on past the input of the stage, into what made it. It must stop there and return the input's "
    "gradient: run the second forward on x.detach().requires_grad_().",
)


class _Keeper(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, kept: "list[weakref.ref[torch.Tensor]]") -> torch.Tensor:
        copy = x * 1.0
        ctx.save_for_backward(copy)
        kept.append(weakref.ref(copy))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        ctx.saved_tensors  # noqa: B018 - as a layer that needs what it kept
        return gradient, None


class Witness(nn.Module):
    """Passes its input on, keeps a copy for backward, and remembers every call."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[weakref.ref[torch.Tensor]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Keep a copy where autograd is on."""
        result: torch.Tensor = _Keeper.apply(x, self.kept)
        return result

    @property
    def alive(self) -> int:
        """How many of the kept copies are still there."""
        return sum(reference() is not None for reference in self.kept)


class Run(NamedTuple):
    """Outputs, then the gradients of every parameter and of every input, after one pass over all micro-batches."""

    outputs: list[torch.Tensor]
    parameters: list[torch.Tensor | None]
    inputs: list[torch.Tensor | None]
    calls: list[int]
    state: torch.Tensor


def plain(stage: nn.Module, x: torch.Tensor) -> Any:
    """The stage as it is."""
    return stage(x)


def dropping_stage(seed: int = 1) -> nn.Sequential:
    """Linear, witness, tanh, dropout, linear; the same weights for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Linear(_WIDTH, 16), Witness(), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, _WIDTH)]
        return nn.Sequential(*layers)


def token_stage() -> nn.Sequential:
    """Embedding, tanh, linear: its input is whole numbers below 6."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return nn.Sequential(nn.Embedding(6, _WIDTH), nn.Tanh(), nn.Linear(_WIDTH, 2))


def frozen_stage() -> nn.Sequential:
    """A stage without dropout: its last weight is frozen, and the one before that is not used."""
    stage = dropping_stage().eval()
    stage[2].register_parameter("unused", nn.Parameter(torch.ones(2)))
    for weight in stage[-1].parameters():
        weight.requires_grad_(False)
    return stage


def witness_of(stage: nn.Module) -> Witness:
    """The layer of a stage that keeps and counts."""
    return next(module for module in stage.modules() if isinstance(module, Witness))


def inputs_of(count: int) -> list[torch.Tensor]:
    """Micro-batches of 5 rows; of several, the last has fewer."""
    generator = torch.Generator().manual_seed(4)
    sizes = [5] * count if count == 1 else [5] * (count - 1) + [3]
    return [torch.randn(rows, _WIDTH, generator=generator) for rows in sizes]


def large_tensors(x: torch.Tensor) -> list[torch.Tensor]:
    """The tensors as large as x that Python code holds now; bytes are the state of a generator, no activation."""
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    return [tensor for tensor in tensors if tensor.dtype is not torch.uint8 and tensor.numel() >= x.numel()]


def go_through(call: Checkpointed, stages: list[nn.Sequential], order: Sequence[int] = (0,)) -> Run:
    """Forward of all micro-batches through all stages, then their backwards in this order; inputs come from a scale."""
    count = len(order)
    torch.manual_seed(7)
    scales = [torch.ones(_WIDTH, requires_grad=True) for _ in range(count)]
    outputs = []
    for x, scale in zip(inputs_of(count), scales, strict=True):
        value = x * scale
        for stage in stages:
            value = call(stage, value)
        outputs.append(value)
    for number in order:
        try:
            outputs[number].square().sum().backward()
        except RuntimeError as error:
            if "second time" in str(error):
                raise Wrong(*NOT_DETACHED) from None
            raise Wrong(
                "no_graph_in_backward",
                f"Backward raised: {error}. Inside a Function's backward autograd is off; turn it on for the second "
                "forward with torch.enable_grad(), and give it a detached input.",
            ) from None
    parameters = [weight.grad for stage in stages for weight in stage.parameters()]
    calls = [len(witness_of(stage).kept) for stage in stages]
    grads = [scale.grad for scale in scales]
    return Run([output.detach() for output in outputs], parameters, grads, calls, torch.get_rng_state())
