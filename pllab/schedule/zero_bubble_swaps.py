"""Small repairs of a finished order: swap neighbours on its critical path, where alone a swap can make it shorter.

A policy treats every micro-batch alike, so with unequal stages it leaves single misfits, such as a W that starts
just before the gradient everyone waits for. Swaps that make the order a little longer are taken too at first, ever
less so later on (threshold accepting), because two misfits can hold each other in place.
"""

import random
from collections.abc import Iterator
from math import inf

from pllab.schedule.zero_bubble_clock import Played, replay
from pllab.schedule.zero_bubble_floor import is_reached
from pllab.schedule.zero_bubble_search import Key
from pllab.schedule.zero_bubble_workload import Workload

_DETOUR = 0.02  # the most a swap may cost at first, as a share of all
_SAME = 1e-12


def improved(work: Workload, start: Played, key: Key, floor: tuple[float, ...], num_tries: int) -> Played:
    """The best order met in `num_tries` swaps from `start`, which is `start` if none is better."""
    dice = random.Random(0)
    best = current = start
    for tried in range(num_tries):
        swaps = list(_swaps(work, current))
        if not swaps or is_reached(key(best), floor):
            break
        other = replay(work, _swapped(current.rows, *dice.choice(swaps)))
        if other is None:
            continue  # a circle of waiting
        detour = _DETOUR * (1 - tried / num_tries) ** 2
        if _seconds(key(other)) <= _seconds(key(current)) * (1 + detour):
            current = other
        best = min(best, other, key=key)
    return best


def _seconds(key: tuple[float, ...]) -> float:
    """A key as one number: its first time, with a little of its second."""
    is_refused, first, second = key
    return inf if is_refused else first + second / 1000


def _swaps(work: Workload, played: Played) -> Iterator[tuple[int, int]]:
    """The swaps that keep a row legal, of an action on a critical path with the one before it: rank and position."""
    ends = [_ends(work, played, rank) for rank in range(work.num_stages)]
    spans = [row[-1] - starts[0] for row, starts in zip(ends, played.starts, strict=True)]
    finishes = [row[-1] for row in ends]
    for rank in sorted({spans.index(max(spans)), finishes.index(max(finishes))}):
        yield from (at for at in _critical(played, ends, rank) if _may_swap(work, played.rows[at[0]], at[1]))


def _ends(work: Workload, played: Played, rank: int) -> list[float]:
    costs = work.costs(rank)
    return [at + costs[kind] for at, kind in zip(played.starts[rank], played.rows[rank], strict=True)]


def _critical(played: Played, ends: list[list[float]], rank: int) -> Iterator[tuple[int, int]]:
    """Walk back from the end of a rank: each pair of actions of which the second waited for the first."""
    position = len(ends[rank]) - 1
    while position > 0 or rank > 0:
        begin = played.starts[rank][position]
        if position > 0 and ends[rank][position - 1] >= begin * (1 - _SAME):
            position -= 1
            yield rank, position
        else:
            kind = played.rows[rank][position]
            count = played.rows[rank].count(kind, 0, position)
            rank += -1 if kind == "F" else 1
            position = _find(played.rows[rank], kind, count)


def _find(row: str, kind: str, count: int) -> int:
    """Where the action of that kind and micro-batch is."""
    position = row.index(kind)
    for _ in range(count):
        position = row.index(kind, position + 1)
    return position


def _may_swap(work: Workload, row: str, position: int) -> bool:
    """Whether the row with two neighbours swapped still has I after its F, W after its I, and room for every F."""
    first, then = row[position], row[position + 1]
    before = row[:position] + then
    num_f, num_i, num_w = map(before.count, "FIW")
    fits = then != "F" or work.fits(num_f - num_i, num_i - num_w)
    return first != then and num_f >= num_i >= num_w and fits


def _swapped(rows: tuple[str, ...], rank: int, position: int) -> tuple[str, ...]:
    row = rows[rank]
    row = row[:position] + row[position + 1] + row[position] + row[position + 2 :]
    return (*rows[:rank], row, *rows[rank + 1 :])
