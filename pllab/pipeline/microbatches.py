"""Cut a batch into micro-batches along its rows, and put them together again."""

from collections.abc import Sequence

import torch

Tensors = tuple[torch.Tensor, ...]
Batch = torch.Tensor | Tensors


def scatter(batch: Tensors, split_size: int) -> list[Tensors]:
    """Cut every tensor of the batch into slices of at most `split_size` rows.

    Example: 7 rows with `split_size=3` -> micro-batches of 3, 3 and 1 rows.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    size = min(split_size, num_rows(batch))  # torch counts in 64 bits
    return list(zip(*(tensor.split(size) for tensor in batch), strict=True))


def scatter_evenly(batch: Tensors, num_microbatches: int) -> list[Tensors]:
    """Cut every tensor of the batch into `num_microbatches` slices whose sizes differ by one row at most.

    Example: 7 rows and 3 micro-batches -> 3, 2 and 2 rows. A batch with fewer rows gets one micro-batch per row.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    count = min(num_microbatches, num_rows(batch))
    return list(zip(*(tensor.tensor_split(count) for tensor in batch), strict=True))


def gather(micro_batches: Sequence[Tensors]) -> Tensors:
    """Put micro-batches together along their rows, in order: the inverse of `scatter`."""
    return tuple(torch.cat(column) for column in zip(*micro_batches, strict=True))


def num_rows(batch: Tensors) -> int:
    """The number of rows of a batch, the same in all its tensors.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    rows = {tensor.shape[0] if tensor.dim() else None for tensor in batch}
    if len(rows) != 1 or None in rows:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in batch)
        raise ValueError(f"the tensors of a batch must have the same number of rows, not shapes {shapes}")
    if 0 in rows:
        raise ValueError("the batch has no rows; a pipeline needs at least one")
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
