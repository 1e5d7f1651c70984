"""Cut a batch into micro-batches along its rows, and put the results together again."""

from collections.abc import Sequence

import torch

Tensors = tuple[torch.Tensor, ...]


def scatter(batch: Tensors, split_size: int) -> list[Tensors]:
    """Cut every tensor of the batch into slices of at most `split_size` rows.

    Example: 7 rows with `split_size=3` -> micro-batches of 3, 3 and 1 rows.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    rows = {tensor.shape[0] if tensor.dim() else None for tensor in batch}
    if len(rows) != 1 or None in rows:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in batch)
        raise ValueError(f"the tensors of a batch must have the same number of rows, not shapes {shapes}")
    if 0 in rows:
        raise ValueError("the batch has no rows; a pipeline needs at least one")
    return list(zip(*(tensor.split(split_size) for tensor in batch), strict=True))


def gather(micro_batches: Sequence[Tensors]) -> Tensors:
    """Put micro-batches together along their rows, in order: the inverse of `scatter`."""
    return tuple(torch.cat(column) for column in zip(*micro_batches, strict=True))


def split_size_for(num_rows: int, num_microbatches: int) -> int:
    """Rows of a micro-batch so that at most `num_microbatches` come out: 7 rows, 3 micro-batches -> 3 rows.

    A batch with fewer rows than micro-batches has one row in each.
    """
    return max(1, -(-num_rows // num_microbatches))
