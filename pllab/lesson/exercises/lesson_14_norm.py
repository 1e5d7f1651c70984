"""The cases of exercise 14.3: `norm_over_ranks(gradients, sizes, all_reduce)`, the norm of a whole model on every rank.

A model is drawn whole and dealt out to the ranks of a mesh; its norm is the oracle.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_14_double import Gradient, Norm, on_all_ranks

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


@case("with nothing shared the norm is that of all ranks together")
def split_only(norm: Norm) -> None:
    """Stages alone, then what tp splits: every rank has numbers of its own."""
    stages = [_model({"pp": pp, "dp": 1, "tp": 1}, [()]) for pp in (1, 2, 3)]
    _judge(norm, *stages, _model({"pp": 2, "dp": 1, "tp": 2}, [("tp",)]))


@case("what dp or tp ranks have alike counts once, and what they share out counts in full")
def replicas(norm: Norm) -> None:
    meshes: list[tuple[dict[str, int], list[tuple[str, ...]]]] = [
        ({"pp": 1, "dp": 2, "tp": 1}, [()]),
        ({"pp": 1, "dp": 1, "tp": 2}, [("tp",)]),
        ({"pp": 1, "dp": 1, "tp": 2}, [(), ("tp",)]),
        ({"pp": 2, "dp": 3, "tp": 2}, [(), ("tp",), ("tp",)]),
        ({"pp": 2, "dp": 2, "tp": 2}, [(), ("tp",), ("dp",), ("dp", "tp")]),
    ]
    _judge(norm, *(_model(sizes, splits) for sizes, splits in meshes))


@case("a weight that two stages share counts once")
def tied(norm: Norm) -> None:
    meshes = ({"pp": 2, "dp": 1, "tp": 1}, {"pp": 3, "dp": 2, "tp": 2})
    _judge(norm, *(_model(sizes, [(), ("tp",)], tied=("tp",)) for sizes in meshes))


@case("one number travels, once, on every rank: also on one without gradients")
def one_message(norm: Norm) -> None:
    model = _model({"pp": 2, "dp": 2, "tp": 1}, [()])
    empty = _Model(model.sizes, [[(None, (), 1)] if rank < 2 else mine for rank, mine in enumerate(model.ranks)], [])
    for one in (model, empty):
        sent = on_all_ranks(norm, one.ranks, one.sizes).sent
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


def _judge(norm: Norm, *models: _Model) -> None:
    """Compare the norms of all models, and if one differs name the mistake that gives the numbers of all of them."""
    seen = [(model, *_worst(model, on_all_ranks(norm, model.ranks, model.sizes).values)) for model in models]
    off = [one for one in seen if not _near(one[2], one[0].norm)]
    if not off:
        return
    model, rank, mine = off[0]
    mesh = " x ".join(f"{axis} {size}" for axis, size in model.sizes.items())
    told = f"On {mesh} rank {rank} gets {mine:.6g}, and the norm is {model.norm:.6g}."
    tables = [{hint_id: value for hint_id, value, _ in _suspects(*one[:2])} for one in seen]
    for hint_id, _, sentence in _suspects(model, rank):
        if all(_near(one[2], table[hint_id]) for one, table in zip(seen, tables, strict=True)):
            raise Wrong(hint_id, f"{told} {sentence}")
    raise Wrong("wrong_norm", f"{told} Each number of each parameter counts once, on whichever ranks it is.")


def _worst(model: _Model, values: Sequence[Any]) -> tuple[int, float]:
    """A rank with a wrong number and that number, if there is one."""
    numbers = []
    for rank, value in enumerate(values):
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            raise Wrong("no_number", f"Rank {rank} returned {value!r}; every rank returns the norm.") from None
    wrong = (rank for rank, number in enumerate(numbers) if not _near(number, model.norm))
    rank = next(wrong, 0)
    return rank, numbers[rank]


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-5)


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
        "What tp ranks have alike, such as a LayerNorm, counts each.",
    )
    by_pp = total(lambda one: over(one, "pp", "dp", "tp") * one[2])
    yield "pp_divided", by_pp, "You divide by pp too; but each stage has other parameters, except a tied weight."
    by_all = total(lambda _: world)
    yield "all_divided", by_all, "You divide everything by all ranks; what is split is on each only once."
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
