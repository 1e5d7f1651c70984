"""A batch: cut into micro-batches along its rows and joined again, and its loss from those of its micro-batches.

The loss is a mean over the rows, or over what `mean_over` counts in the targets. The weight of a micro-batch is its
share of the batch, so that the weighted losses add up to the loss of the batch. Backward begins with these weights as
gradients.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]
Batch = torch.Tensor | Tensors
Loss = Callable[[Any, Any], torch.Tensor]
Count = Callable[[Any], float]


def scatter(batch: Tensors, split_size: int) -> list[Tensors]:
    """Cut every tensor of the batch into slices of at most `split_size` rows.

    Example: 7 rows with `split_size=3` -> micro-batches of 3, 3 and 1 rows.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    size = min(split_size, num_rows(batch))  # torch counts in 64 bits
    return list(zip(*(tensor.split(size) for tensor in batch), strict=True))


def scatter_evenly(batch: Tensors, num_microbatches: int) -> list[Tensors]:
    """Cut every tensor of the batch into `num_microbatches` slices whose sizes differ by at most one row.

    Example: 7 rows and 3 micro-batches -> 3, 2 and 2 rows. A batch with fewer rows gets one micro-batch per row.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    count = min(num_microbatches, num_rows(batch))
    return list(zip(*(tensor.tensor_split(count) for tensor in batch), strict=True))


def gather(micro_batches: Sequence[Tensors]) -> Tensors:
    """Join micro-batches along their rows, in order: the inverse of `scatter`."""
    return tuple(torch.cat(column) for column in zip(*micro_batches, strict=True))


def num_rows(batch: Tensors) -> int:
    """The number of rows of a batch, the same in all its tensors.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    rows = {tensor.shape[0] if tensor.dim() else None for tensor in batch}
    if len(rows) != 1 or rows & {None, 0}:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in batch)
        raise ValueError(f"the tensors of a batch must have the same number of rows, at least one, not shapes {shapes}")
    return len(batch[0])


def as_tuple(value: object, where: str) -> Tensors:
    """A tensor or a tuple of tensors as a tuple.

    Raises:
        ValueError: the value is something else, for example the output object of a transformers block.
    """
    values = value if isinstance(value, tuple) else (value,)
    wrong = [type(part).__name__ for part in values if not isinstance(part, torch.Tensor)]
    if wrong or not values:
        kind = wrong[0] if wrong else "nothing"
        contents = f"a tuple with {kind} in it" if isinstance(value, tuple) else kind
        raise ValueError(f"{where} has {contents}; a pipeline passes a tensor or a tuple of tensors")
    return values


def single(values: Tensors) -> Batch:
    """The argument of a layer: one tensor as it is, several as a tuple, as `nn.Sequential` passes them on."""
    return values[0] if len(values) == 1 else values


class Score:
    """The loss at the end of a pipeline, for one batch.

    Example: micro-batches of 3 and 1 rows with mean losses 1.0 and 5.0 have the weights 0.75 and 0.25 and the total
    loss 2.0.

    Raises:
        ValueError: the batch has nothing to take a mean over.
    """

    def __init__(self, loss: Loss, targets: Sequence[Tensors], mean_over: Count | None, device: torch.device) -> None:
        self._loss = loss
        counts = [float(mean_over(single(part)) if mean_over else len(part[0])) for part in targets]
        if not sum(counts) > 0 or min(counts) < 0:
            raise ValueError(
                f"mean_over counts {counts} in the micro-batches; a mean needs at least one, and none below 0"
            )
        self.weights = [count / sum(counts) for count in counts]
        # Counted where the caller has them, then moved: to count on a GPU would wait for it.
        self._targets = [tuple(tensor.to(device) for tensor in part) for part in targets]

    def of(self, microbatch: int, outputs: Tensors) -> torch.Tensor:
        """The loss of one micro-batch, a scalar.

        Raises:
            ValueError: the loss is no real number, or does not depend on the outputs.
        """
        if not self.weights[microbatch]:  # a mean over nothing is not a number, and neither is its gradient
            return torch.stack([output.sum() for output in outputs]).sum() * 0
        loss = self._loss(single(outputs), single(self._targets[microbatch])).reshape(())
        if loss.is_complex():
            raise ValueError("the loss is complex; return a real number, the mean over the rows")
        needs_graph = torch.is_grad_enabled() and any(output.requires_grad for output in outputs)
        if needs_graph and not loss.requires_grad:
            raise ValueError(
                f"the loss, {loss.item():g}, leads back to no output; compute it with torch from the output"
            )
        return loss

    def total(self, losses: Sequence[torch.Tensor]) -> float:
        """The loss of the batch from those of its micro-batches; waits for a GPU."""
        return float(sum(loss.double() * weight for loss, weight in zip(losses, self.weights, strict=True)))
