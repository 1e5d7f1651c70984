"""The cases of exercise 14.3: `norm_over_ranks(gradients, sizes, all_reduce)`, the norm of a whole model on every rank.

The ranks are a double in this process, without a thread: each is run until it sends, the sum is made when all have
sent, and then each is run again from its start with the sums known so far. So a function is called several times with
equal arguments, and every run gives the same.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from pllab.lesson.exercise import Wrong, case

Gradient = tuple[torch.Tensor | None, tuple[str, ...], int]
Norm = Callable[[list[Gradient], dict[str, int], Callable[[torch.Tensor], None]], Any]

_MOST_MESSAGES = 20
_AXES = ("pp", "dp", "tp")


@dataclass(frozen=True)
class _Model:
    """The sizes of the mesh, and what each rank has of the gradients."""

    sizes: dict[str, int]
    ranks: list[list[Gradient]]
    parameters: list[torch.Tensor]
    """All gradients whole, each once."""

    @property
    def norm(self) -> float:
        """Of all numbers, each counted once."""
        return math.sqrt(sum(float((one.double() ** 2).sum()) for one in self.parameters))


@dataclass
class Heard:
    """What became of a function on all ranks: what each returned, and the tensors that travelled."""

    values: list[Any]
    sent: list[torch.Tensor] = field(default_factory=list)


class _Sends(BaseException):  # no `except Exception` of the learner's catches it
    """A rank has come to its next message."""


@case("with nothing shared the norm is that of all ranks together")
def split_only(norm: Norm) -> None:
    """Stages alone: every rank has parameters of its own."""
    for pp in (1, 2, 3):
        _judge(norm, _model({"pp": pp, "dp": 1, "tp": 1}, [()]))


@case("what dp or tp ranks have alike counts once, and what they share out counts in full")
def replicas(norm: Norm) -> None:
    for sizes, splits in (
        ({"pp": 1, "dp": 2, "tp": 1}, [()]),
        ({"pp": 1, "dp": 1, "tp": 2}, [("tp",)]),
        ({"pp": 1, "dp": 1, "tp": 2}, [(), ("tp",)]),
        ({"pp": 2, "dp": 3, "tp": 2}, [(), ("tp",), ("tp",)]),
        ({"pp": 2, "dp": 2, "tp": 2}, [(), ("tp",), ("dp",), ("dp", "tp")]),
    ):
        _judge(norm, _model(sizes, splits))


@case("a weight that two stages share counts once")
def tied(norm: Norm) -> None:
    for sizes in ({"pp": 2, "dp": 1, "tp": 1}, {"pp": 3, "dp": 2, "tp": 2}):
        _judge(norm, _model(sizes, [(), ("tp",)], tied=("tp",)))


@case("one number travels, once, on every rank: also on one without gradients")
def one_message(norm: Norm) -> None:
    model = _model({"pp": 2, "dp": 2, "tp": 1}, [()])
    empty = _Model(model.sizes, [[(None, (), 1)] if rank < 2 else mine for rank, mine in enumerate(model.ranks)], [])
    for one in (model, empty):
        sent = _run(norm, one).sent
        if len(sent) != 1 or sent[0].numel() != 1:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in sent) or "none"
            raise Wrong(
                "more_messages",
                f"Your ranks send {len(sent)} messages, of shapes {shapes}. Sum up on each rank first: one number "
                "has to travel.",
            )


@case("squares of float16 gradients do not overflow, and a missing gradient is skipped")
def small_types(norm: Norm) -> None:
    big = torch.full((4,), 300.0, dtype=torch.float16)
    _judge(norm, _Model({"pp": 2, "dp": 1, "tp": 1}, [[(big, (), 1), (None, (), 1)], [(big, (), 1)]], [big, big]))
    many = torch.ones(5000, dtype=torch.float16)
    _judge(norm, _Model({"pp": 1, "dp": 2, "tp": 1}, [[(many, (), 1)]] * 2, [many]))


def _model(sizes: dict[str, int], splits: Sequence[tuple[str, ...]], tied: tuple[str, ...] | None = None) -> _Model:
    """On each stage a parameter for each way to split it; and one that the first and the last stage share."""
    generator = torch.Generator().manual_seed(1403)
    places = list(itertools.product(*(range(sizes[axis]) for axis in _AXES)))
    ranks: list[list[Gradient]] = [[] for _ in places]
    parameters = []
    for stages, split in _parameters(sizes["pp"], splits, tied):
        whole = torch.randint(-9, 10, (12,), generator=generator).float()
        parameters.append(whole)
        for mine, place in zip(ranks, places, strict=True):
            at = dict(zip(_AXES, place, strict=True))
            if at["pp"] in stages:
                mine.append((_part(whole, split, sizes, at), split, len(stages)))
    return _Model(sizes, ranks, parameters)


def _parameters(
    num_stages: int, splits: Sequence[tuple[str, ...]], tied: tuple[str, ...] | None
) -> Iterator[tuple[set[int], tuple[str, ...]]]:
    if tied is not None:
        yield {0, num_stages - 1}, tied
    yield from (({stage}, split) for stage in range(num_stages) for split in splits)


def _part(whole: torch.Tensor, split: tuple[str, ...], sizes: dict[str, int], at: dict[str, int]) -> torch.Tensor:
    for axis in split:
        whole = whole.chunk(sizes[axis])[at[axis]]
    return whole


def _judge(norm: Norm, model: _Model) -> None:
    values = _run(norm, model).values
    mesh = " x ".join(f"{axis} {size}" for axis, size in model.sizes.items())
    for rank, value in enumerate(values):
        try:
            mine = float(value)
        except (TypeError, ValueError):
            raise Wrong("no_number", f"Rank {rank} returned {value!r}; every rank returns the norm.") from None
        if not math.isclose(mine, model.norm, rel_tol=1e-5):
            raise _mistaken(model, rank, mine, mesh)


def _mistaken(model: _Model, rank: int, mine: float, mesh: str) -> Wrong:
    """Name the mistake that gives this number."""
    for hint_id, value, sentence in _suspects(model, rank):
        if math.isclose(mine, value, rel_tol=1e-4) or (mine == value == math.inf):
            return Wrong(hint_id, f"On {mesh} you get {mine:.6g}, and the norm is {model.norm:.6g}. {sentence}")
    return Wrong(
        "wrong_norm", f"On {mesh} rank {rank} gets {mine:.6g}, and the norm of all numbers is {model.norm:.6g}."
    )


def _suspects(model: _Model, rank: int) -> Iterator[tuple[str, float, str]]:
    sizes = model.sizes
    world = math.prod(sizes.values())

    def total(copies: Callable[[Gradient], float], ranks: Sequence[list[Gradient]] = model.ranks) -> float:
        return math.sqrt(sum(_square(one) / copies(one) for mine in ranks for one in mine))

    def over(one: Gradient, *axes: str) -> int:
        return math.prod(sizes[axis] for axis in axes if axis not in one[1])

    yield "own_alone", total(lambda _: 1, [model.ranks[rank]]), "That is this rank's own gradients alone."
    yield (
        "own_shares",
        total(lambda one: over(one, "dp", "tp") * one[2], [model.ranks[rank]]),
        "The sum never travelled.",
    )
    yield "replicas_counted", total(lambda _: 1), "You count what several ranks have alike as often as they have it."
    yield "tied_twice", total(lambda one: over(one, "dp", "tp")), "A weight that two stages share counts twice."
    yield "dp_counted", total(lambda one: over(one, "tp") * one[2]), "The replicas of dp count each."
    yield (
        "tp_counted",
        total(lambda one: over(one, "dp") * one[2]),
        "What tp ranks have alike, such as a norm, counts each.",
    )
    yield (
        "all_divided",
        total(lambda _: world),
        "You divide everything by all ranks; what is split is on each only once.",
    )
    yield (
        "split_divided",
        total(lambda one: sizes["dp"] * sizes["tp"] * one[2]),
        "You divide what is split by the ranks that split it: each of them has other numbers.",
    )
    yield (
        "norms_added",
        sum(math.sqrt(sum(_square(one) / (over(one, "dp", "tp") * one[2]) for one in mine)) for mine in model.ranks),
        "You add norms. Squares add up, and one root is taken at the end.",
    )
    yield "no_root", model.norm**2, "That is the square of the norm; take the root of the sum."
    yield "overflow", math.inf, "The square of 300 is more than float16 holds: square in a wider type."


def _square(one: Gradient) -> float:
    return 0.0 if one[0] is None else float((one[0].double() ** 2).sum())


def _run(norm: Norm, model: _Model) -> Heard:
    """Run the function on all ranks, message by message.

    Raises:
        Wrong: the ranks do not send the same messages, or there are too many.
    """
    sums: list[torch.Tensor] = []
    while len(sums) <= _MOST_MESSAGES:
        states = [_until_it_sends(norm, mine, model.sizes, sums) for mine in model.ranks]
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
