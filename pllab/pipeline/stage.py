"""One stage: it runs its layers forward and backward on one micro-batch. It knows nothing of its neighbours."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import nn
from torch.func import functional_call

from pllab.pipeline.dropout import SeededDropout, has_dropout, seed_of
from pllab.pipeline.in_place import overwrites_input

Value = torch.Tensor | tuple[torch.Tensor, ...]


class Saved(NamedTuple):
    """What a stage keeps of one micro-batch until its backward; no outputs when they are recomputed."""

    inputs: list[torch.Tensor]
    outputs: tuple[torch.Tensor, ...] | None


class Stage(NamedTuple):
    """Consecutive layers on one device.

    `shadows` are this stage's own leaves for parameters that live on an earlier stage (tied embeddings), by name:
    the same values, but their gradient is collected apart and added once the whole batch is through. A stage that
    begins in place works on a copy of its input.
    """

    number: int
    module: nn.Sequential
    device: torch.device
    shadows: dict[str, torch.Tensor]

    def forward(self, inputs: Sequence[torch.Tensor], batch_seed: int, micro_batch: int) -> tuple[torch.Tensor, ...]:
        """Run the layers; a single tensor goes in as it is, several as one tuple, as `nn.Sequential` passes them on."""
        if overwrites_input(self.module):
            inputs = [tensor.clone() for tensor in inputs]
        value = inputs[0] if len(inputs) == 1 else tuple(inputs)
        with self._masks(batch_seed, micro_batch), self._telling_of_leaves():
            result = functional_call(self.module, self.shadows, (value,)) if self.shadows else self.module(value)
        return as_tuple(result, f"stage {self.number}")

    def backward(
        self,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor | None],
    ) -> list[torch.Tensor | None]:
        """Add to the parameters' gradients and return the gradients of the inputs (None where there is none)."""
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=True)
            if output.requires_grad and grad is not None
        ]
        if pairs:
            torch.autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])
        return [tensor.grad for tensor in inputs]

    @contextmanager
    def _telling_of_leaves(self) -> Iterator[None]:
        """Autograd says that a leaf was overwritten; which one it was, and what to do, is known here."""
        try:
            yield
        except RuntimeError as error:
            if "a leaf Variable that requires grad" in str(error):
                error.add_note(
                    f"if it is the input of stage {self.number}, begin the stage with x = x.clone(), "
                    "or write x = x + y for x += y"
                )
            raise

    def _masks(self, batch_seed: int, micro_batch: int) -> AbstractContextManager[object]:
        if not has_dropout(self.module):
            return nullcontext()
        return SeededDropout(seed_of(batch_seed, self.number, micro_batch), self.device)


def as_tuple(value: object, where: str) -> tuple[torch.Tensor, ...]:
    """A tensor or a tuple of tensors as a tuple.

    Raises:
        ValueError: the value is something else, for example the output object of a transformers block.
    """
    values = value if isinstance(value, tuple) else (value,)
    wrong = [type(part).__name__ for part in values if not isinstance(part, torch.Tensor)]
    if wrong or not values:
        kind = wrong[0] if wrong else "nothing"
        found = f"a tuple with {kind} in it" if isinstance(value, tuple) else kind
        raise ValueError(f"{where} has {found}; a pipeline passes a tensor or a tuple of tensors")
    return values


def as_inputs(tensors: Sequence[torch.Tensor | None], needs_grad: Sequence[bool]) -> list[torch.Tensor]:
    """Fresh leaves with the same values: the graph of each stage begins here."""
    pairs = zip(tensors, needs_grad, strict=True)
    return [tensor.detach().requires_grad_(flag) for tensor, flag in pairs if tensor is not None]
