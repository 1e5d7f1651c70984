"""Recomputation for one stage, in the fewest lines that are right: keep the input, run the layers again in backward.

`Pipe(recompute=True)` does the same with a seed for each stage and micro-batch, because its lanes share a generator.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pllab.pipeline.in_place import unchanged


def checkpointed(stage: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Run a stage and keep nothing but its input; the activations are made again when backward needs them.

    Example: `checkpointed(stage, x).sum().backward()` leaves the gradients of `stage(x).sum().backward()`, bit for
    bit, with dropout on. The forward runs twice, so a step takes about a third longer where a backward is twice a
    forward. Dropout draws the masks of the first run again, from the state its generator had, and the generator goes
    on afterwards as if nothing had happened.

    Args:
        stage: layers with one tensor in and one out; its parameters must not change before backward.
        x: (rows, ...); it may need no gradient, as the ids of a first stage.

    Raises:
        ValueError: the stage overwrites its input.

    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost (2016); `torch.utils.checkpoint`. Lesson 10.
    """
    # The parameters are passed so that the output has a graph, also where the input needs no gradient.
    output: torch.Tensor = _Checkpoint.apply(stage, x, *stage.parameters())
    return output


class _Checkpoint(torch.autograd.Function):
    """Without a graph forward; with one, and the same random numbers, in backward."""

    @staticmethod
    def forward(ctx: Any, stage: nn.Module, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        ctx.stage, ctx.num_parameters = stage, len(parameters)
        ctx.generator_states = [generator.get_state() for generator in _generators(x)]
        ctx.save_for_backward(x)
        with unchanged([x], "the stage"):
            output: torch.Tensor = stage(x)  # inside a Function autograd is off: nothing is kept
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (saved,) = ctx.saved_tensors
        x = saved.detach().requires_grad_(saved.requires_grad)  # a leaf: backward must not go on into its past
        with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []), torch.enable_grad():
            for generator, state in zip(_generators(x), ctx.generator_states, strict=True):
                generator.set_state(state)
            output = ctx.stage(x)
        torch.autograd.backward(output, gradient)  # adds to the parameters' gradients
        return None, x.grad, *[None] * ctx.num_parameters


def _generators(x: torch.Tensor) -> list[torch.Generator]:
    """What dropout draws from where `x` lives."""
    return [torch.default_generator, *([torch.cuda.default_generators[x.device.index]] if x.is_cuda else [])]
