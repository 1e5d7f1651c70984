"""Ranks in one process, without a thread: a function on all of them, message by message.

Each rank is run until it sends; the sum is made when all have sent, and then each is run again from its start with the
sums known so far. So a function is called several times with equal arguments, and every run gives the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from pllab.lesson.exercise import Wrong

Gradient = tuple[torch.Tensor | None, tuple[str, ...], int]
"""A gradient or None, the axes over which it is split, and the number of stages with a copy."""
Norm = Callable[[list[Gradient], dict[str, int], Callable[[torch.Tensor], None]], Any]

_MOST_MESSAGES = 20


@dataclass
class Heard:
    """What became of a function on all ranks: what each returned, and the tensors that travelled."""

    values: list[Any]
    sent: list[torch.Tensor] = field(default_factory=list)


class _Sends(BaseException):  # no `except Exception` of the learner's catches it
    """A rank has come to its next message."""


def on_all_ranks(norm: Norm, ranks: Sequence[list[Gradient]], sizes: dict[str, int]) -> Heard:
    """Run the function on all ranks, message by message.

    Raises:
        Wrong: the ranks do not send the same messages, or there are too many.
    """
    sums: list[torch.Tensor] = []
    while len(sums) <= _MOST_MESSAGES:
        states = [_until_it_sends(norm, mine, sizes, sums) for mine in ranks]
        sending = [state for state in states if isinstance(state, _Sent)]
        if not sending:
            return Heard([state.value for state in states if isinstance(state, _Returned)], sums)
        if len(sending) < len(states):
            quiet = next(rank for rank, state in enumerate(states) if not isinstance(state, _Sent))
            raise Wrong(
                "not_all_join",
                f"Rank {quiet} came back without joining message {len(sums)} that others send, and they would wait for "
                "it for ever. Every rank makes the call, also one that has nothing to add.",
            )
        if len({(tuple(one.tensor.shape), one.tensor.dtype) for one in sending}) > 1:
            raise Wrong("shapes_differ", "The ranks send tensors of different shapes or types in one all-reduce.")
        sums.append(torch.stack([one.tensor for one in sending]).sum(0))
    raise Wrong("more_messages", f"Your ranks sent more than {_MOST_MESSAGES} messages; one number has to travel.")


@dataclass(frozen=True)
class _Sent:
    tensor: torch.Tensor


@dataclass(frozen=True)
class _Returned:
    value: Any


def _until_it_sends(
    norm: Norm, mine: list[Gradient], sizes: dict[str, int], sums: Sequence[torch.Tensor]
) -> _Sent | _Returned:
    """Run a rank up to the first message whose sum is not known, or to its end."""
    known, sent = iter(sums), []

    def all_reduce(tensor: torch.Tensor) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise Wrong(
                "no_tensor", f"You gave all_reduce {tensor!r}; a tensor travels, and the sum is written into it."
            )
        if (total := next(known, None)) is None:
            sent.append(tensor.detach().clone())
            raise _Sends
        tensor.copy_(total.view_as(tensor))

    given = [(None if one is None else one.clone(), split, stages) for one, split, stages in mine]
    try:
        return _Returned(norm(given, dict(sizes), all_reduce))
    except _Sends:
        return _Sent(sent[0])
