"""What the families and searches share: the check of sizes, series of actions, and how a row mixes them."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from math import prod

from pllab.arguments import whole_number
from pllab.schedule.model import Action, Kind

_MOST_ACTIONS = 10**7  # more would fill the memory


def check_sizes(**sizes: int) -> tuple[int, ...]:
    """The sizes of a schedule as Python ints, in the same order.

    Example: `check_sizes(num_stages=4, num_microbatches=numpy.int64(8))` -> (4, 8).

    Raises:
        ValueError: a size is not a whole number of at least 1, or there are more actions than memory holds.
    """
    checked = tuple(whole_number(name, value) for name, value in sizes.items())
    if prod(checked) > _MOST_ACTIONS:
        product = " x ".join(f"{name} {value}" for name, value in zip(sizes, checked, strict=True))
        raise ValueError(f"{product} are more than {_MOST_ACTIONS:,} actions; give smaller sizes")
    return checked


def series(stage: int, kind: Kind, microbatches: Iterable[int]) -> list[Action]:
    """The same work on one micro-batch after another: `2F0 2F1 2F2` for stage 2, F and `range(3)`.

    A loop over `Action(...)` gives the same and takes twice as long, which shows in schedules of 100,000 actions.
    """
    return list(map(Action._make, zip(repeat(stage), repeat(kind), microbatches, strict=False)))


def in_turn(forwards: list[Action], backwards: list[Action], warm_up: int) -> tuple[Action, ...]:
    """`warm_up` forwards, then forward and backward in turn, then the backwards that are left."""
    warm_up = min(warm_up, len(forwards))
    steady = chain.from_iterable(zip(forwards[warm_up:], backwards, strict=False))
    return (*forwards[:warm_up], *steady, *backwards[len(forwards) - warm_up :])


def weights_late(
    forwards: list[Action], inputs: list[Action], weights: list[Action], warm_up: int, delay: int
) -> tuple[Action, ...]:
    """`warm_up` forwards, then in turn F, I and the W of `delay` turns ago, then the W's that are left."""
    row = forwards[:warm_up]
    for turn, item in enumerate(inputs):
        row += forwards[turn + warm_up : turn + warm_up + 1]
        row.append(item)
        if turn >= delay:
            row.append(weights[turn - delay])
    return (*row, *weights[max(0, len(weights) - delay) :])


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector while very many lasting values are made; afterwards it is as it was.

    Example: `with collector_paused(): spans = make_many()`, or `@collector_paused()` above a function.

    The collector searches all objects of the process repeatedly while their number grows. In a process with torch
    that takes several times as long as making a large schedule, and frees nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
