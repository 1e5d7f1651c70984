"""The cases of exercise 14.3: `norm_over_ranks(gradients, sizes, all_reduce)`, the norm of a whole model on every rank.

A model is drawn whole and dealt out to the ranks of a mesh; its norm is the oracle.

All ranks are in one process, without a thread: each is run until it sends; the sum is made when all have sent, and then
each is run again from its start with the sums known so far. So a function is called several times with equal arguments,
and every run gives the same.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare, numbers_close

Gradient = tuple[torch.Tensor | None, tuple[str, ...], int]
"""A gradient or None, the axes over which it is split, and the number of stages with a copy."""
Copies = Callable[[dict[str, int], tuple[str, ...], int], float]
"""By how much a square is divided, from the sizes of the mesh, the axes that split it, and the stages with a copy."""
Total = Callable[[list[float]], float]

_AXES = ("pp", "dp", "tp")


@dataclass(frozen=True)
class _Model:
    """The sizes of the mesh, and what each rank has of the gradients."""

    sizes: dict[str, int]
    ranks: list[list[Gradient]]
    parameters: list[torch.Tensor]
    """All gradients whole, each once."""

    def squares(self, copies: Copies) -> list[float]:
        """The sum of each rank's squares, each divided by its copies."""
        return [
            sum(_square(one) / copies(self.sizes, split, stages) for one, split, stages in mine if one is not None)
            for mine in self.ranks
        ]

    def __str__(self) -> str:
        mesh = " x ".join(f"{axis} {size}" for axis, size in self.sizes.items())
        kinds = {(split, stages) for mine in self.ranks for one, split, stages in mine if one is not None}
        return f"{mesh} and {self.parameters[0].dtype} gradients whose (axes, stages) are {sorted(kinds)}"


def _model(pp: int, dp: int, tp: int, *splits: tuple[str, ...], tied: Sequence[tuple[str, ...]] = ()) -> _Model:
    """On each stage a parameter for each way to split it; and those of `tied` on the first and the last stage."""
    generator, sizes = torch.Generator().manual_seed(1403), {"pp": pp, "dp": dp, "tp": tp}
    places = [dict(zip(_AXES, place, strict=True)) for place in itertools.product(range(pp), range(dp), range(tp))]
    ranks: list[list[Gradient]] = [[] for _ in places]
    parameters = []
    on_stages = [({0, pp - 1}, split) for split in tied] + [({stage}, split) for stage in range(pp) for split in splits]
    for stages, split in on_stages:
        whole = torch.randint(-9, 10, (12,), generator=generator).float()
        parameters.append(whole)
        for mine, place in zip(ranks, places, strict=True):
            part = whole
            for axis in split:
                part = part.chunk(sizes[axis])[place[axis]]
            if place["pp"] in stages:
                mine.append((part, split, len(stages)))
    return _Model(sizes, ranks, parameters)


def _square(tensor: torch.Tensor) -> float:
    return float((tensor.double() ** 2).sum())


def _right_norms(model: _Model) -> list[float]:
    return [math.sqrt(sum(map(_square, model.parameters)))] * len(model.ranks)


def _norms(model: _Model, copies: Copies, total: Total = lambda squares: math.sqrt(sum(squares))) -> list[float]:
    """The norm on every rank, if squares are divided by these copies and the ranks' sums are put together so."""
    return [total(model.squares(copies))] * len(model.ranks)


def _one(*_: Any) -> int:
    return 1


def _replicas(sizes: dict[str, int], split: tuple[str, ...], _: int) -> int:
    """How many ranks of a stage have the same numbers."""
    return math.prod(sizes[axis] for axis in ("dp", "tp") if axis not in split)


def _all(sizes: dict[str, int], split: tuple[str, ...], stages: int) -> int:
    """How many ranks of all stages have the same numbers."""
    return _replicas(sizes, split, 1) * stages


def _whole_stage(sizes: dict[str, int], _: tuple[str, ...], stages: int) -> int:
    return sizes["dp"] * sizes["tp"] * stages


_REPLICAS = "Ranks that do not split a gradient have the same numbers; count those once."
_SPLIT = "Ranks that split a gradient have different numbers: do not divide by them."
_OWN = "Those are only each rank's own gradients."
_ADDED = "Add squares, not norms, and take one root at the end."
_MISTAKES = [
    Mistake("own_alone", _OWN, like=lambda model: list(map(math.sqrt, model.squares(_one)))),
    Mistake("replicas_counted", _REPLICAS, like=partial(_norms, copies=_one)),
    Mistake("tied_twice", "Count a weight that two stages share once.", like=partial(_norms, copies=_replicas)),
    Mistake("split_divided", _SPLIT, like=partial(_norms, copies=_whole_stage)),
    Mistake(
        "norms_added", _ADDED, like=partial(_norms, copies=_all, total=lambda squares: sum(map(math.sqrt, squares)))
    ),
]


class _Sends(BaseException):  # no `except Exception` of the learner's catches it
    """A rank has come to its next message."""


def _on_all_ranks(
    norm: Function, ranks: Sequence[list[Gradient]], sizes: dict[str, int]
) -> tuple[list[Any], list[torch.Tensor]]:
    """What the function returns on each rank, and the sums that travelled.

    Raises:
        Wrong: the ranks do not send the same messages.
    """
    sums: list[torch.Tensor] = []
    while True:
        runs = [_until_it_sends(norm, mine, sizes, sums) for mine in ranks]
        sent = [tensor for tensor, _ in runs if tensor is not None]
        if not sent:
            return [value for _, value in runs], sums
        if len(sent) < len(runs):
            quiet = next(rank for rank, (tensor, _) in enumerate(runs) if tensor is None)
            told = f"Rank {quiet} returned without joining message {len(sums)}; the others would wait forever."
            raise Wrong("not_all_join", f"{told} Every rank makes the call, even one that has nothing to add.")
        if len({(tensor.shape, tensor.dtype) for tensor in sent}) > 1:
            raise Wrong("form", "The ranks send tensors of different shapes or types in one all_reduce.")
        sums.append(torch.stack(sent).sum(0))


def _until_it_sends(
    norm: Function, mine: list[Gradient], sizes: dict[str, int], sums: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, Any]:
    """Run a rank up to the first message whose sum is not known, or to its end: what it sends, or what it returns."""
    known, sent = iter(sums), []

    def all_reduce(tensor: torch.Tensor) -> None:
        if (total := next(known, None)) is None:
            sent.append(tensor.detach().clone())
            raise _Sends
        tensor.copy_(total.view_as(tensor))

    given = [(None if one is None else one.clone(), split, stages) for one, split, stages in mine]
    try:
        return None, norm(given, dict(sizes), all_reduce)
    except _Sends:
        return sent[0], None


def _numbers(values: list[Any], _: _Model) -> list[float]:
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        raise Wrong("form", f"Return a number on every rank; your function gave {values}.") from None


def _judge(norm: Function, *models: _Model) -> None:
    compare(
        lambda model: _on_all_ranks(norm, model.ranks, model.sizes)[0],
        [(model,) for model in models],
        _right_norms,
        _MISTAKES,
        asked="{}",
        read=_numbers,
        same=partial(numbers_close, rel_tol=1e-5),
        show=lambda norms: " or ".join(dict.fromkeys(f"{norm:.6g}" for norm in norms)),
    )


@case("with nothing shared the norm is that of all ranks together")
def split_only(norm: Function) -> None:
    """Stages alone, then what tp splits: every rank has numbers of its own."""
    _judge(norm, *(_model(pp, 1, 1, ()) for pp in (1, 2, 3)), _model(2, 1, 2, ("tp",)))


@case("numbers that dp or tp ranks have in common count once, and numbers that they split count in full")
def replicas(norm: Function) -> None:
    small = [_model(1, 2, 1, ()), _model(1, 1, 2, ("tp",)), _model(1, 1, 2, (), ("tp",))]
    _judge(norm, *small, _model(2, 3, 2, (), ("tp",), ("tp",)), _model(2, 2, 2, (), ("tp",), ("dp",), ("dp", "tp")))


@case("a weight that two stages share counts once")
def tied(norm: Function) -> None:
    _judge(norm, *(_model(*sizes, (), ("tp",), tied=[("tp",)]) for sizes in ((2, 1, 1), (3, 2, 2))))


@case("every rank sends one number, once, even a rank without gradients")
def one_message(norm: Function) -> None:
    model = _model(2, 2, 1, ())
    nothing: list[Gradient] = [(None, (), 1)]
    for ranks in (model.ranks, [nothing, nothing, *model.ranks[2:]]):
        sums = _on_all_ranks(norm, ranks, model.sizes)[1]
        if [one.numel() for one in sums] != [1]:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in sums) or "none"
            raise Wrong("more_messages", f"Your ranks send messages of shapes {shapes}; right is one number, once.")


@case("squares of float16 gradients do not overflow, and a missing gradient is skipped")
def small_types(norm: Function) -> None:
    big = torch.full((4,), 300.0, dtype=torch.float16)
    many = torch.ones(5000, dtype=torch.float16)
    _judge(
        norm,
        _Model({"pp": 2, "dp": 1, "tp": 1}, [[(big, (), 1), (None, (), 1)], [(big, (), 1)]], [big, big]),
        _Model({"pp": 1, "dp": 2, "tp": 1}, [[(many, (), 1)]] * 2, [many]),
    )
