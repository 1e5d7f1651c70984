"""The cases of exercise 14.1: `arrange(sizes)`, the coordinates of all ranks and the groups along each axis.

The oracle is a tensor of the ranks in the shape of the sizes: a group is a line of it.
"""

import math
from collections.abc import Sequence
from itertools import permutations

import torch

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare, whole

Sizes = dict[str, int]
Place = dict[str, int]
Groups = list[list[int]]

_MESHES: tuple[Sizes, ...] = (
    {"pp": 2, "dp": 2, "tp": 2},
    {"pp": 4, "dp": 3, "tp": 2},
    *({axis: {"pp": 2, "dp": 3, "tp": 4}[axis] for axis in order} for order in permutations(("pp", "dp", "tp"))),
    {"pp": 1, "dp": 5, "tp": 1},
)
_OTHER_AXES: tuple[Sizes, ...] = ({"dp": 6}, {"tp": 1}, {"x": 2, "pp": 3, "dp": 1, "tp": 2})


def _box(sizes: Sizes) -> torch.Tensor:
    return torch.arange(math.prod(sizes.values())).view(tuple(sizes.values()))


def _place(sizes: Sizes, rank: int) -> Place:
    return dict(zip(sizes, (_box(sizes) == rank).nonzero()[0].tolist(), strict=True))


def _groups(sizes: Sizes, axis: str) -> Groups:
    return sorted(_box(sizes).movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist())


def _planes(sizes: Sizes, axis: str) -> Groups:
    return sorted(_box(sizes).movedim(list(sizes).index(axis), 0).reshape(sizes[axis], -1).tolist())


def _place_if_turned(sizes: Sizes, rank: int) -> Place:
    return _place(dict(reversed(sizes.items())), rank)


def _place_in_fixed_order(sizes: Sizes, rank: int) -> Place:
    return _place({name: sizes[name] for name in ("pp", "dp", "tp")}, rank)


def _neighbours(sizes: Sizes, axis: str) -> Groups:
    return sorted(_box(sizes).reshape(-1, sizes[axis]).tolist())


def _in_another_order(groups: Groups, sizes: Sizes, axis: str) -> bool:
    return sorted(map(sorted, groups)) == _groups(sizes, axis)


def _is_no_partition(groups: Groups, sizes: Sizes, _: str) -> bool:
    return sorted(sum(groups, [])) != list(range(math.prod(sizes.values())))


_PLACE_MISTAKES = [
    Mistake("first_is_fastest", "Your first axis counts fastest; the last one should.", like=_place_if_turned),
    Mistake("fixed_order", "Your order is pp, dp, tp; take that of the argument.", like=_place_in_fixed_order),
]
_GROUP_MISTAKES = [
    Mistake("planes", "Yours share their coordinate along the axis; the others must be equal.", like=_planes),
    Mistake("neighbours", "Only along the last axis are the ranks of a group neighbours.", like=_neighbours),
    Mistake("unordered", "Within a group the ranks come in the order of their coordinate.", when=_in_another_order),
    Mistake("no_partition", "Together the groups along an axis contain each rank once.", when=_is_no_partition),
]


def _read(arrange: Function, sizes: Sizes) -> tuple[list[Place], dict[str, Groups]]:
    """The answer as plain lists and dicts, with a place for each rank; groups sorted, as they come in any order."""
    given = dict(sizes)
    answer = arrange(given)
    if list(given.items()) != list(sizes.items()):
        raise Wrong("changed", f"You changed the sizes that you were given, {sizes}, to {given}.")
    try:
        places, groups = answer
        places = [{str(name): whole(number) for name, number in place.items()} for place in places]
        groups = {str(name): sorted([whole(rank) for rank in group] for group in mine) for name, mine in groups.items()}
    except (TypeError, ValueError, AttributeError):
        told = "return a list with a dict for each rank and a dict with a list of lists for each axis, of whole numbers"
        raise Wrong("no_pair", f"With {sizes} your function returned {str(answer)[:200]}; {told}.") from None
    if len(places) != math.prod(sizes.values()) or set(groups) != set(sizes):
        told = f"{len(places)} coordinates and groups along {', '.join(groups)}"
        right = f"{math.prod(sizes.values())} and {', '.join(sizes)}"
        raise Wrong("no_pair", f"With {sizes} your function returned {told}; right is {right}.")
    return places, groups


def _judge_places(arrange: Function, many: Sequence[Sizes]) -> None:
    answers = {str(sizes): _read(arrange, sizes)[0] for sizes in many}
    questions = [(sizes, rank) for sizes in many for rank in range(math.prod(sizes.values()))]
    asked = "sizes {} and rank {}"
    compare(lambda sizes, rank: answers[str(sizes)][rank], questions, _place, _PLACE_MISTAKES, asked=asked)


def _judge_groups(arrange: Function, many: Sequence[Sizes]) -> None:
    answers = {str(sizes): _read(arrange, sizes)[1] for sizes in many}
    questions = [(sizes, axis) for sizes in many for axis in sizes]
    asked = "sizes {} and groups along {}"
    compare(lambda sizes, axis: answers[str(sizes)][axis], questions, _groups, _GROUP_MISTAKES, asked=asked)


@case("every rank has a coordinate along every axis, the last axis counting fastest")
def coordinates(arrange: Function) -> None:
    _judge_places(arrange, _MESHES)


@case("a group has the ranks that differ only along its axis, in every order of the axes")
def lines(arrange: Function) -> None:
    _judge_groups(arrange, _MESHES)


@case("other names and other numbers of axes have coordinates and groups as well")
def other_axes(arrange: Function) -> None:
    _judge_places(arrange, _OTHER_AXES)
    _judge_groups(arrange, _OTHER_AXES)
