"""Gradients stored in the message: flat tensors of which every gradient is a view.

A message has a fixed cost, so few large ones are cheaper than one per parameter. If gradients were collected
into a buffer before sending and spread again afterwards, each byte would be copied twice and held twice. Here
`parameter.grad` *is* a piece of the buffer: one pass puts a fresh gradient there and divides it by the number
of ranks, the buffer is summed in place, and the optimizer reads the result where it lies.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn

from pllab.arguments import require


class Bucket:
    """The gradients of some parameters side by side in one flat tensor.

    Drawn, for a weight of 2 x 3 and a bias of 2 in the last bucket of a model with two parameters:

        flat    | w w w w w w | b b | u u |      one message
        views    (2, 3)        (2,)               weight.grad, bias.grad
        used                          (2,)        1 where this rank has a gradient

    The last bucket also carries a number per parameter of the model, at the end of `flat`. So ranks learn which
    parameters no rank used, without another message.

    Source: `gradient_as_bucket_view=True` of `torch.nn.parallel.DistributedDataParallel`.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], flat: torch.Tensor) -> None:
        self.parameters = tuple(parameters)
        self.flat = flat
        sizes = [parameter.numel() for parameter in self.parameters]
        *pieces, self.used = flat.split([*sizes, flat.numel() - sum(sizes)])
        self.views = tuple(piece.view_as(parameter) for piece, parameter in zip(pieces, self.parameters, strict=True))
        self._stored: set[int] = set()

    @property
    def is_full(self) -> bool:
        """Whether every gradient was stored since the last `empty`."""
        return len(self._stored) == len(self.parameters)

    def empty(self) -> None:
        """Begin a new backward: no gradient is stored yet. The values in `flat` stay."""
        self._stored.clear()

    def keep(self, index: int) -> None:
        """Move a parameter's gradient into its view unchanged, for a later backward to add to."""
        self._move(index, 1)

    def store(self, index: int, num_ranks: int) -> None:
        """Move a parameter's gradient into its view, divided by the number of ranks, ready to be summed."""
        self._move(index, num_ranks)
        self._stored.add(index)

    def store_rest(self, num_ranks: int) -> None:
        """Prepare the gradients that this backward did not touch: divide earlier ones, write zeros for missing ones."""
        for index, parameter in enumerate(self.parameters):
            if index in self._stored:
                continue
            if parameter.grad is None:
                self.views[index].zero_()
            else:
                self.store(index, num_ranks)

    def write_used(self, has_gradient: Sequence[bool]) -> None:
        """Write ones and zeros; all ones, the usual case, costs no copy from the host."""
        if all(has_gradient):
            self.used.fill_(1)
        else:
            self.used.copy_(torch.tensor(has_gradient, dtype=self.used.dtype))

    @torch.no_grad()
    def _move(self, index: int, divisor: int) -> None:
        """One pass over one gradient; autograd has already added to the view if the gradient lived there."""
        parameter, view = self.parameters[index], self.views[index]
        gradient = parameter.grad
        assert gradient is not None, "the hook runs after the gradient was accumulated"
        if gradient is view and divisor == 1:
            return
        torch.div(dense(gradient), divisor, out=view)
        parameter.grad = view


def dense(gradient: torch.Tensor) -> torch.Tensor:
    """The gradient, which a flat tensor is to hold.

    Raises:
        ValueError: it is the sparse gradient of an Embedding.
    """
    told = f"a parameter of shape {list(gradient.shape)} has a sparse gradient, which no flat tensor can hold"
    require(not gradient.is_sparse, f"{told}; build the Embedding with sparse=False")
    return gradient


def plan_buckets(
    parameters: Iterable[nn.Parameter], bucket_bytes: float, new_flat: Callable[..., torch.Tensor] = torch.zeros
) -> list[Bucket]:
    """Fill buckets in reverse order of the parameters, which is roughly the order of their gradients.

    A bucket holds one data type on one device, and at most `bucket_bytes` unless one parameter is larger. Its
    memory is `new_flat(numel, dtype=..., device=...)`.

    Example: parameters of 4, 4, 4 and 8 bytes, buckets of 8 bytes -> [8], [4, 4], [4].
    """
    ordered = [parameter for parameter in parameters if parameter.requires_grad][::-1]
    groups: list[list[nn.Parameter]] = []
    latest: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for parameter in ordered:
        kind = (parameter.dtype, parameter.device)
        group = latest.get(kind)
        if group is None or sum(each.nbytes for each in [*group, parameter]) > bucket_bytes:
            group = latest[kind] = []
            groups.append(group)
        group.append(parameter)
    buckets = []
    for group in groups:
        numel = sum(parameter.numel() for parameter in group) + (len(ordered) if group is groups[-1] else 0)
        buckets.append(Bucket(group, new_flat(numel, dtype=group[0].dtype, device=group[0].device)))
    return buckets
