"""The one small exercise of lesson 00: which items of a job does a rank take?"""

from collections.abc import Callable, Sequence
from typing import Any

from pllab.lesson.exercise import Exercise, Wrong, case

MyShare = Callable[[list[str], int, int], Any]

_SIZES = [(number, world_size) for world_size in (1, 2, 3, 4, 8) for number in (0, 1, 7, 8, 64)]


@case("all items are done")
def nothing_lost(my_share: MyShare) -> None:
    for number, world_size in _SIZES:
        done = {item for share in _shares(my_share, number, world_size) for item in share}
        if missing := number - len(done):
            raise Wrong("lost", f"With {number} items on {world_size} ranks, {missing} are done by nobody.")


@case("no item is done twice")
def nothing_twice(my_share: MyShare) -> None:
    for number, world_size in _SIZES:
        total = sum(len(share) for share in _shares(my_share, number, world_size))
        if total > number:
            raise Wrong(
                "twice", f"With {number} items on {world_size} ranks, {total - number} are done more than once."
            )


@case("shares differ by one item at most")
def balanced(my_share: MyShare) -> None:
    for number, world_size in _SIZES:
        sizes = [len(share) for share in _shares(my_share, number, world_size)]
        if max(sizes) - min(sizes) > 1:
            raise Wrong(
                "unbalanced",
                f"With {number} items the {world_size} ranks get {sizes}; all wait for the rank with {max(sizes)}.",
            )


def _shares(my_share: MyShare, number: int, world_size: int) -> list[Sequence[str]]:
    items = [f"item {index}" for index in range(number)]
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
        cases=(nothing_lost, nothing_twice, balanced),
        hints=(
            "Write the shares of 7 items on 2 ranks on paper: who takes the seventh?",
            "Dealing cards never goes wrong: rank 0 takes the first item, rank 1 the second, then rank 0 again.",
            "A slice with a step deals cards: items[start::step]. Start at your own rank.",
        ),
    ),
)
