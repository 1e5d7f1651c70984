"""Ranks in one process, without a thread: a function on all of them, message by message.

Each rank is run until it sends; the sum is made when all have sent, and then each is run again from its start with the
sums known so far. So a function is called several times with equal arguments, and every run gives the same.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pllab.lesson.exercise import Wrong

Gradient = tuple[torch.Tensor | None, tuple[str, ...], int]
"""A gradient or None, the axes over which it is split, and the number of stages with a copy."""
Norm = Callable[[list[Gradient], dict[str, int], Callable[[torch.Tensor], None]], Any]

_MOST_MESSAGES = 20


class _Sends(BaseException):  # no `except Exception` of the learner's catches it
    """A rank has come to its next message."""


def on_all_ranks(
    norm: Norm, ranks: Sequence[list[Gradient]], sizes: dict[str, int]
) -> tuple[list[Any], list[torch.Tensor]]:
    """What the function returns on each rank, and the sums that travelled.

    Raises:
        Wrong: the ranks do not send the same messages, or there are too many.
    """
    sums: list[torch.Tensor] = []
    while len(sums) <= _MOST_MESSAGES:
        runs = [_until_it_sends(norm, mine, sizes, sums) for mine in ranks]
        sent = [tensor for tensor, _ in runs if tensor is not None]
        if not sent:
            return [value for _, value in runs], sums
        if len(sent) < len(runs):
            quiet = next(rank for rank, (tensor, _) in enumerate(runs) if tensor is None)
            told = f"Rank {quiet} returned without joining message {len(sums)}; the others would wait for ever."
            raise Wrong("not_all_join", f"{told} Every rank makes the call, also one that has nothing to add.")
        if len({(tensor.shape, tensor.dtype) for tensor in sent}) > 1:
            raise Wrong("form", "The ranks send tensors of different shapes or types in one all_reduce.")
        sums.append(torch.stack(sent).sum(0))
    raise Wrong("more_messages", f"Your ranks sent more than {_MOST_MESSAGES} messages; right is one number, once.")


def _until_it_sends(
    norm: Norm, mine: list[Gradient], sizes: dict[str, int], sums: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, Any]:
    """Run a rank up to the first message whose sum is not known, or to its end: what it sends, or what it returns."""
    known, sent = iter(sums), []

    def all_reduce(tensor: torch.Tensor) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise Wrong("form", f"You gave all_reduce {tensor!r}; give it a tensor, into which the sum is written.")
        if (total := next(known, None)) is None:
            sent.append(tensor.detach().clone())
            raise _Sends
        tensor.copy_(total.view_as(tensor))

    given = [(None if one is None else one.clone(), split, stages) for one, split, stages in mine]
    try:
        return None, norm(given, dict(sizes), all_reduce)
    except _Sends:
        return sent[0], None
