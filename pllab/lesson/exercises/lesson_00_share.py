"""The cases of exercise 00.1: `my_share(items, rank, world_size)`, the items of a job that a rank takes."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from pllab.lesson.exercise import Asked, Function, Wrong, case

_SIZES = [(number, world_size) for world_size in (2, 1, 3, 4, 6, 8) for number in (7, 0, 1, 6, 8, 9, 10, 64, 257)]


class _Incomparable:
    """An item that cannot be compared, as a tensor cannot be with one answer."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("these items cannot be compared")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "an item that cannot be compared"


_ODD_ITEMS: list[list[Any]] = [
    [7] * 9,
    [5, 3, 5, 1, 3, 5, 5],
    [[2], [1], [2], [1], [2]],
    [None, 0, None, 0.5],
    [1, "a", 2],
    [(1, 2), (3, 4), (5, 6)],
    [float("nan"), 1.5, object()],
    [_Incomparable() for _ in range(3)],
]


@case("every item is done once, and shares differ by at most one item")
def fair_shares(my_share: Function) -> None:
    for number, world_size in _SIZES:
        items = [f"item {index}" for index in range(number)]
        shares = _shares(my_share, items, world_size)
        sizes = ", ".join(str(len(share)) for share in shares)
        _judge(f"{number} items on {world_size} ranks became shares of {sizes}", items, shares)


@case("equal items count separately, and items may be anything")
def odd_items(my_share: Asked) -> None:
    for number in range(len(_ODD_ITEMS)):
        _judge(*my_share.inside(odd_shares, number))


def odd_shares(my_share: Function, number: int) -> tuple[str, list[int], list[list[int]]]:
    """In the process of the function: what became of the items in words, then all identities and those in each share.

    Items are told apart by identity: equal ones are separate, and a copy is another one.
    """
    items = _ODD_ITEMS[number]
    shares = _shares(my_share, items, 2)
    what = f"{items} on 2 ranks became {' and '.join(str(list(share)) for share in shares)}"
    return what, [id(item) for item in items], [[id(item) for item in share] for share in shares]


@case("the given list does not change")
def leaves_the_list(my_share: Function) -> None:
    items = ["d", "a", "c", "b", "e"]
    for rank in (0, 1):
        given = list(items)
        my_share(given, rank, 2)
        if given != items:
            raise Wrong("changed", f"The list {items} was {given} after the call of rank {rank}; others still need it.")


def _shares(my_share: Function, items: list[Any], world_size: int) -> list[Sequence[Any]]:
    shares = [my_share(list(items), rank, world_size) for rank in range(world_size)]
    for share in shares:
        if not isinstance(share, Sequence) or isinstance(share, str):
            raise Wrong("no_list", f"my_share should return a list of items, and it returned {share!r}.")
    return shares


def _judge(what: str, items: Sequence[Any], shares: Sequence[Sequence[Any]]) -> None:
    given, done = Counter(items), Counter(chain.from_iterable(shares))
    sizes = [len(share) for share in shares]
    if done.keys() - given.keys():
        raise Wrong("no_item", f"{what}, with something that is none of the items. Return the items, not copies.")
    if missing := (given - done).total():
        raise Wrong("lost", f"{what}; no rank does {missing} of the {len(items)}.")
    if sum(sizes) > len(items):
        raise Wrong("twice", f"{what}; that is {sum(sizes)} in all, so some are done more than once.")
    if max(sizes) - min(sizes) > 1:
        raise Wrong("unbalanced", f"{what}; one rank does {max(sizes)} and another only {min(sizes)}.")
