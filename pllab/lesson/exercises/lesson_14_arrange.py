"""The cases of exercise 14.1: `arrange(sizes)`, the coordinates of all ranks and the groups along each axis.

The oracle is a tensor of the ranks in the shape of the sizes: a group is a line of it.
"""

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

import torch

from pllab.lesson.exercise import Wrong, case

Arrange = Callable[[dict[str, int]], Any]
Sizes = dict[str, int]

_CUBE: Sizes = {"pp": 2, "dp": 2, "tp": 2}
_ALL: tuple[Sizes, ...] = (
    _CUBE,
    {"pp": 4, "dp": 3, "tp": 2},
    *({axis: {"pp": 2, "dp": 3, "tp": 4}[axis] for axis in order} for order in permutations(("pp", "dp", "tp"))),
    {"pp": 1, "dp": 5, "tp": 1},
    {"dp": 6},
    {"tp": 1},
    {"x": 2, "pp": 3, "dp": 1, "tp": 2},
)


@case("every rank has a coordinate along every axis, the last axis counting fastest")
def coordinates(arrange: Arrange) -> None:
    for sizes in _ALL:
        places, _ = _asked(arrange, sizes)
        right = _places(sizes)
        if places == right:
            continue
        if places == _places(dict(reversed(sizes.items()))):
            raise Wrong(
                "first_is_fastest",
                f"With {sizes} you count the first axis fastest: rank 1 is at {places[1]}. It is the outermost, and "
                f"rank 1 differs from rank 0 in the last axis: {right[1]}.",
            )
        if places == _places({name: sizes[name] for name in ("pp", "dp", "tp") if name in sizes}):
            raise Wrong(
                "fixed_order",
                f"With {sizes} your coordinates are those of the order pp, dp, tp. The order is that of the argument.",
            )
        off = next(rank for rank, place in enumerate(right) if places[rank] != place)
        if any(not 0 <= number < sizes[name] for name, number in places[off].items() if name in sizes):
            raise Wrong(
                "outside", f"With {sizes} rank {off} is at {places[off]}; a coordinate is from 0 to below its size."
            )
        raise Wrong("wrong_coordinates", f"With {sizes} rank {off} is at {places[off]}; counted it is at {right[off]}.")


@case("along each axis the groups have every rank of the world once")
def partition(arrange: Arrange) -> None:
    for sizes in _ALL:
        _, groups = _asked(arrange, sizes)
        everybody = list(range(_count(sizes)))
        for axis, size in sizes.items():
            mine = groups[axis]
            if sorted(rank for group in mine for rank in group) != everybody:
                raise Wrong(
                    "no_partition",
                    f"With {sizes} your groups along {axis} are {mine}; together they have each of the "
                    f"{len(everybody)} ranks once.",
                )
            if size > 1 and size < len(everybody) and sorted(map(sorted, mine)) == _planes(sizes, axis):
                raise Wrong(
                    "planes",
                    f"With {sizes} you put ranks with the same {axis} coordinate together: {mine}. A group along "
                    f"{axis} has one rank for each {axis} coordinate; it is the other coordinates that are the same.",
                )
            if any(len(group) != size for group in mine):
                raise Wrong("wrong_size", f"With {sizes} a group along {axis} has {size} ranks; yours are {mine}.")


@case("the ranks of a group differ in one coordinate alone, in every order of the axes")
def lines(arrange: Arrange) -> None:
    for sizes in _ALL:
        _, groups = _asked(arrange, sizes)
        for axis in sizes:
            right = _lines(sizes, axis)
            if sorted(groups[axis]) != right:
                raise _not_lines(sizes, axis, groups[axis], right)


def _not_lines(sizes: Sizes, axis: str, mine: list[list[int]], right: list[list[int]]) -> Wrong:
    what = f"With {sizes} your groups along {axis} are {mine}"
    if sorted(map(sorted, mine)) == right:
        return Wrong("unordered", f"{what}; within a group the ranks come in the order of their {axis} coordinate.")
    size = sizes[axis]
    if sorted(mine) == [list(range(first, first + size)) for first in range(0, _count(sizes), size)]:
        return Wrong("neighbours", f"{what}: neighbours. Only along the last axis are the ranks of a group neighbours.")
    if sorted(mine) == [
        list(range(first, _count(sizes), _count(sizes) // size)) for first in range(_count(sizes) // size)
    ]:
        return Wrong("strides", f"{what}: as far apart as they can be. Only along the first axis are they.")
    return Wrong("wrong_groups", f"{what}; the ranks that differ in {axis} alone are {right}.")


def _asked(arrange: Arrange, sizes: Sizes) -> tuple[list[dict[str, int]], dict[str, list[list[int]]]]:
    """The answer as plain lists and dicts, with an entry for each rank and each axis."""
    given = dict(sizes)
    answer = arrange(given)
    if given != sizes or list(given) != list(sizes):
        raise Wrong("changed", f"You changed the sizes that you were given, {sizes}, to {given}.")
    try:
        places, groups = answer
        places = [{str(name): int(number) for name, number in place.items()} for place in places]
        groups = {str(name): [[int(rank) for rank in group] for group in mine] for name, mine in groups.items()}
    except (TypeError, ValueError, AttributeError):
        told = "return a pair: a list with a dict for each rank, and a dict with a list of lists of ranks for each axis"
        raise Wrong("no_pair", f"With {sizes} your function returned {str(answer)[:200]}; {told}.") from None
    if len(places) != _count(sizes):
        raise Wrong(
            "number_of_ranks", f"With {sizes} there are {_count(sizes)} ranks; you have {len(places)} coordinates."
        )
    for named, what in ((groups, "groups"), (places[0], "coordinates")):
        if set(named) != set(sizes):
            raise Wrong(
                "axis_missing",
                f"With {sizes} you give {what} along {sorted(named)}; each axis has them, also one of size 1.",
            )
    return places, groups


def _count(sizes: Mapping[str, int]) -> int:
    return _box(sizes).numel()


def _box(sizes: Mapping[str, int]) -> torch.Tensor:
    shape = tuple(sizes.values())
    return torch.arange(int(torch.tensor(shape).prod())).view(shape)


def _places(sizes: Mapping[str, int]) -> list[dict[str, int]]:
    box = _box(sizes)
    return [dict(zip(sizes, (box == rank).nonzero()[0].tolist(), strict=True)) for rank in range(box.numel())]


def _lines(sizes: Sizes, axis: str) -> list[list[int]]:
    found: list[list[int]] = _box(sizes).movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist()
    return sorted(found)


def _planes(sizes: Sizes, axis: str) -> list[list[int]]:
    found: list[list[int]] = _box(sizes).movedim(list(sizes).index(axis), 0).reshape(sizes[axis], -1).tolist()
    return sorted(map(sorted, found))
