"""The one small exercise of lesson 00: which items of a job does a rank take?"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pllab.lesson.exercise import Asked, Exercise, Wrong, case

MyShare = Callable[[list[Any], int, int], Any]

_SIZES = [(number, world_size) for world_size in (1, 2, 3, 4, 6, 8) for number in (0, 1, 6, 7, 8, 9, 10, 64, 257)]


class _Incomparable:
    """An item that cannot be compared, as a tensor cannot be with one answer."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("comparing these items has no one answer")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "an item that cannot be compared"


@case("all items are done")
def nothing_lost(my_share: MyShare) -> None:
    for number, world_size in _SIZES:
        done = {item for share in _shares(my_share, _items(number), world_size) for item in share}
        if missing := number - len(done):
            raise Wrong("lost", f"With {number} items on {world_size} ranks, {missing} are done by nobody.")


@case("no item is done twice")
def nothing_twice(my_share: MyShare) -> None:
    for number, world_size in _SIZES:
        total = sum(len(share) for share in _shares(my_share, _items(number), world_size))
        if total > number:
            raise Wrong(
                "twice", f"With {number} items on {world_size} ranks, {total - number} are done more than once."
            )


@case("shares differ by one item at most")
def balanced(my_share: MyShare) -> None:
    for number, world_size in _SIZES:
        sizes = [len(share) for share in _shares(my_share, _items(number), world_size)]
        if max(sizes) - min(sizes) > 1:
            raise Wrong(
                "unbalanced",
                f"With {number} items the {world_size} ranks get {sizes}; all wait for the rank with {max(sizes)}.",
            )


@case("items may be equal, and may be anything")
def equal_items(my_share: Asked) -> None:
    for number, items in enumerate(_odd_items()):
        try:
            places = my_share.inside(places_of_odd_items, number)
        except (Wrong, NotImplementedError):
            raise
        except Exception as error:
            raise Wrong("equal_items", f"{items} are items too, and your function raised {error}.") from None
        _judge_items(items, places)


def _odd_items() -> list[list[Any]]:
    return [
        [7] * 9,
        [5, 3, 5, 1, 3, 5, 5],
        [[2], [1], [2], [1], [2]],
        [None, 0, None, 0.5],
        [1, "a", 2],
        [(1, 2), (3, 4), (5, 6)],
        [float("nan"), 1.5, object()],
        [_Incomparable() for _ in range(3)],
    ]


def places_of_odd_items(my_share: MyShare, number: int) -> list[list[tuple[int, str]]]:
    """In the process of the function: of each share the items as they show themselves, with their places.

    Items are told apart by identity: equal ones are separate, and a copy is another one, at place -1. An object that
    stands at several places is at the first.
    """
    items = _odd_items()[number]
    first = _first_places(items)
    shares = _shares(my_share, items, 2)
    return [[(first.get(id(item), -1), repr(item)) for item in share] for share in shares]


def _first_places(items: list[Any]) -> dict[int, int]:
    return {id(item): place for place, item in reversed([*enumerate(items)])}


def _judge_items(items: list[Any], shares: list[list[tuple[int, str]]]) -> None:
    done = [item for share in shares for item in share]
    shown = ", ".join(f"[{', '.join(text for _, text in share)}]" for share in shares)
    what = f"{items} on 2 ranks became [{shown}]"
    for place, text in done:
        if place < 0:
            raise Wrong("no_item", f"{what}: {text} is none of the items. Hand on the items themselves, not copies.")
    first = _first_places(items)
    missing = Counter(first[id(item)] for item in items) - Counter(place for place, _ in done)
    still_there = {text for _, text in done}
    for place in missing:
        if repr(items[place]) not in still_there:
            raise Wrong("item_lost", f"{what}: {items[place]!r} is an item too, and nobody does it.")
    sizes = [len(share) for share in shares]
    if missing or len(done) != len(items) or max(sizes) - min(sizes) > 1:
        raise Wrong(
            "equal_items",
            f"{what}: equal items are still separate ones. Go by their places in the list and not by what they are.",
        )


@case("the list that is given stays as it is")
def leaves_the_list(my_share: MyShare) -> None:
    items = ["d", "a", "c", "b", "e"]
    for rank in (0, 1):
        given = list(items)
        my_share(given, rank, 2)
        if given != items:
            raise Wrong("changed", f"The list {items} was {given} after the call of rank {rank}; others still need it.")


def _items(number: int) -> list[str]:
    return [f"item {index}" for index in range(number)]


def _shares(my_share: MyShare, items: list[Any], world_size: int) -> list[Sequence[Any]]:
    shares = [my_share(list(items), rank, world_size) for rank in range(world_size)]
    for share in shares:
        if not isinstance(share, Sequence) or isinstance(share, str):
            raise Wrong("no_list", f"my_share should return a list of items, and it returned {share!r}.")
    return shares


EXERCISES = (
    Exercise(
        id="00.1",
        title="My share of the work",
        minutes=4,
        difficulty=1,
        cases=(nothing_lost, nothing_twice, balanced, equal_items, leaves_the_list),
        hints=(
            "Write the shares of 7 items on 2 ranks on paper: who takes the seventh?",
            "Look at how a pack of cards is dealt. It always comes out even: rank 0 takes the first, rank 1 the "
            "second, then rank 0 again.",
            "Every rank begins at the place that has its own number and from there takes one item in each round of "
            "dealing. A slice of a list has a start and a step, and that is all you need.",
        ),
        package=("pllab.data.DataPartitioner",),
        lends=False,
    ),
)
