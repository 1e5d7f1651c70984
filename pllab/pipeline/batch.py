"""A batch cut for a schedule, and the loss of its micro-batches weighed so that it is the loss of the batch."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from pllab.pipeline.microbatch import Tensors, scatter
from pllab.pipeline.stage import as_tuple
from pllab.timeline import Timeline

Loss = Callable[[Any, Any], torch.Tensor]
Count = Callable[[Any], float]
Batch = torch.Tensor | Tensors


class Step(NamedTuple):
    """What a step returns: the loss of the batch, and what ran when."""

    loss: float
    timeline: Timeline


def cut_batch(batch: Batch, num_microbatches: int, where: str = "the batch") -> list[Tensors]:
    """Cut a batch along its rows into exactly as many micro-batches as the schedule has, as even as can be.

    Example: 7 rows for 3 micro-batches -> 3, 2 and 2 rows.

    Raises:
        ValueError: there are fewer rows than micro-batches, or the tensors differ in their rows.
    """
    tensors = as_tuple(batch, where)
    num_rows = len(scatter(tensors, 1))
    if num_rows < num_microbatches:
        raise ValueError(
            f"{num_rows} rows cannot be cut into the schedule's {num_microbatches} micro-batches; "
            "give a larger batch or make a schedule of fewer micro-batches"
        )
    return list(zip(*(tensor.tensor_split(num_microbatches) for tensor in tensors), strict=True))


class Score:
    """The loss of each micro-batch, weighed by its share of what the loss is a mean over.

    `loss(output, target)` is a mean over the rows it is given, or over what `mean_over(target)` counts. The mean over
    the batch is the sum of those means, each times count of the micro-batch / count of the batch; the same weights
    are the gradients backward begins with.

    Raises:
        ValueError: there is nothing in the whole batch to take a mean over.
    """

    def __init__(self, loss: Loss, targets: Sequence[Tensors], mean_over: Count | None = None) -> None:
        self._loss = loss
        self._targets = targets
        self._num_rows = sum(len(part[0]) for part in targets)
        counts = [_counted(mean_over, part) for part in targets]
        if not sum(counts) > 0 or min(counts) < 0:
            raise ValueError(
                f"mean_over counts {counts} in the micro-batches; a mean needs at least one, and none below 0"
            )
        self._weights = [count / sum(counts) for count in counts]
        self._losses: dict[int, torch.Tensor] = {}

    def check_rows(self, num_rows: int) -> None:
        """Refuse a batch that has not as many rows as the targets: a loss may stretch the shorter one.

        Raises:
            ValueError: naming both.
        """
        if num_rows != self._num_rows:
            raise ValueError(f"the batch has {num_rows} rows and the targets {self._num_rows}; give one for each row")

    def of(self, microbatch: int, outputs: Tensors) -> torch.Tensor:
        """The loss of one micro-batch.

        Raises:
            ValueError: the loss is no tensor, not one number, or without a way back to the outputs.
        """
        if not self._weights[microbatch]:  # a mean over nothing is not a number, and neither is its gradient
            loss = torch.stack([output.sum() for output in outputs]).sum() * 0
        else:
            loss = self._loss(_single(outputs), _single(self._targets[microbatch]))
        if not isinstance(loss, torch.Tensor):
            raise ValueError(f"the loss is of type {type(loss).__name__}; return a tensor, the mean over the rows")
        if loss.numel() != 1:
            raise ValueError(f"the loss has shape {tuple(loss.shape)}; return one number, the mean over the rows")
        if any(output.requires_grad for output in outputs) and not loss.requires_grad:
            raise ValueError(
                f"the loss, {loss.item():g}, leads back to no output; compute it with torch from the output"
            )
        self._losses[microbatch] = loss.detach()
        return loss

    def gradient(self, microbatch: int) -> torch.Tensor:
        """The gradient of the batch's loss by this micro-batch's: its weight."""
        return torch.full_like(self._losses[microbatch], self._weights[microbatch])

    def total(self) -> float:
        """The loss of the batch; on a GPU this waits for it."""
        return sum(loss.item() * self._weights[microbatch] for microbatch, loss in sorted(self._losses.items()))


def _counted(mean_over: Count | None, part: Tensors) -> float:
    count = mean_over(_single(part)) if mean_over else len(part[0])
    try:
        return float(count)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"mean_over gives {count!r} for a micro-batch; return how many the mean is over") from error


def _single(values: Tensors) -> Batch:
    return values[0] if len(values) == 1 else values
