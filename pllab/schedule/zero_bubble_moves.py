"""Small repairs of a finished order: move one action of a row a little earlier or later, mostly where somebody waits.

A policy treats every micro-batch alike, so it leaves single misfits, such as a W that starts just before the gradient
everyone waits for. Moves that make the order a little longer are taken too at first, ever less so later on (threshold
accepting), because two misfits can hold each other in place: a forward that comes too late may have no room until a W
that nobody waits for has made some. For that W, a move starts anywhere now and then.
"""

import random
from collections.abc import Iterator

from pllab.schedule.zero_bubble_clock import Played, replay
from pllab.schedule.zero_bubble_floor import is_reached
from pllab.schedule.zero_bubble_search import Judge, Key
from pllab.schedule.zero_bubble_workload import Workload

_DETOUR = 2.0  # the most a move may cost at first, in actions of average length
_TRIES_PER_ACTION = 32  # with fewer, too few are left to come back from the whole detour
_ANYWHERE = 0.1  # the share of moves that start off the critical path
_FAR, _FARTHEST = 0.3, 13  # the share of moves by more than one place, and by how many
_SAME = 1e-12


def improved(work: Workload, start: Played, key: Judge, floor: Key, num_tries: int) -> Played:
    """The best order met in `num_tries` moves from `start`, which is `start` if none is better."""
    dice = random.Random(0)
    best = current = start
    spots = list(_spots(work, start))
    detour = _longest_detour(work, num_tries)
    for tried in range(num_tries):
        if is_reached(key(best), floor):
            break
        other = _moved(work, current.rows, spots, dice)
        if other is None:
            continue
        allowed = detour * (1 - tried / num_tries) ** 2
        if key(other).seconds <= key(current).seconds + allowed:
            current, spots = other, list(_spots(work, other))
        best = min(best, other, key=key)
    return best


def _longest_detour(work: Workload, num_tries: int) -> float:
    num_actions = 3 * work.num_stages * work.num_microbatches
    return work.everything / num_actions * min(_DETOUR, _DETOUR * num_tries / num_actions / _TRIES_PER_ACTION)


def _moved(work: Workload, rows: tuple[str, ...], spots: list[tuple[int, int]], dice: random.Random) -> Played | None:
    """One action of a neighbouring pair moved past the other one, or farther; None if that is no order."""
    if spots and dice.random() >= _ANYWHERE:
        rank, position = dice.choice(spots)
    else:
        rank, position = dice.randrange(len(rows)), dice.randrange(len(rows[0]) - 1)
    steps = 1 if dice.random() >= _FAR else 2 + int((_FARTHEST - 1) * dice.random() ** 2)
    row = _earlier(rows[rank], position + 1, steps) if dice.random() < 0.5 else _later(rows[rank], position, steps)
    if row == rows[rank] or not _is_legal(work, row):
        return None
    return replay(work, (*rows[:rank], row, *rows[rank + 1 :]))


def _earlier(row: str, position: int, steps: int) -> str:
    goal = max(0, position - steps)
    return row[:goal] + row[position] + row[goal:position] + row[position + 1 :]


def _later(row: str, position: int, steps: int) -> str:
    goal = position + steps + 1
    return row[:position] + row[position + 1 : goal] + row[position] + row[goal:]


def _is_legal(work: Workload, row: str) -> bool:
    """Whether every I has its F and every W its I before it, and every F finds room."""
    in_flight = pending = 0
    for kind in row:
        if kind == "F":
            in_flight += 1
            if not work.fits(in_flight, pending):
                return False
        elif kind == "I":
            in_flight, pending = in_flight - 1, pending + 1
        else:
            pending -= 1
        if in_flight < 0 or pending < 0:
            return False
    return True


def _spots(work: Workload, played: Played) -> Iterator[tuple[int, int]]:
    """The pairs of unlike neighbours on a critical path, where alone a move can win: rank and position of the first."""
    ends = [_ends(work, played, rank) for rank in range(work.num_stages)]
    spans = [row[-1] - starts[0] for row, starts in zip(ends, played.starts, strict=True)]
    finishes = [row[-1] for row in ends]
    for last in sorted({spans.index(max(spans)), finishes.index(max(finishes))}):
        for rank, position in _critical(played, ends, last):
            if played.rows[rank][position] != played.rows[rank][position + 1]:
                yield rank, position


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
