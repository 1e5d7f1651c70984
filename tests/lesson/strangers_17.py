"""Solutions of lesson 17 by somebody who read the lesson alone."""

# ruff: noqa: B006, B023, B905, C901, E501

import graphlib
from itertools import accumulate

from pllab.schedule import Schedule, needs


# ---------------------------------------------------------------- 17.1
def price_plain(schedule):
    peaks = []
    for row in schedule.rows:
        held = most = 0
        for action in row:
            held += {"F": 1, "B": -1, "I": -0.5, "W": -0.5}[action.kind]
            most = max(most, held)
        peaks.append(most)
    present, messages = set(schedule.actions()), 0
    for action in schedule.actions():
        for need in needs(action, schedule.num_stages, present):
            messages += schedule.rank_of_stage[need.stage] != schedule.rank_of_stage[action.stage]
    return peaks, messages


def price_accumulate(schedule):
    change = dict(F=2, B=-2, I=-1, W=-1)
    peaks = [max(accumulate((change[str(a.kind)] for a in row), initial=0)) / 2 for row in schedule.rows]
    home = schedule.rank_of_stage
    cuts = [home[s] != home[s + 1] for s in range(schedule.num_stages - 1)]
    microbatches = {a.microbatch for a in schedule.actions()}
    return peaks, 2 * sum(cuts) * len(microbatches)


def price_where(schedule):
    where = {action: number for number, row in enumerate(schedule.rows) for action in row}
    messages = sum(
        where[need] != number for action, number in where.items() for need in needs(action, schedule.num_stages, where)
    )
    peaks = []
    for row in schedule.rows:
        counts, best = {"F": 0, "B": 0, "I": 0, "W": 0}, 0.0
        for _, kind, _ in row:
            counts[kind] += 1
            best = max(best, counts["F"] - counts["B"] - (counts["I"] + counts["W"]) / 2)
        peaks.append(best)
    return (peaks, messages)


# ---------------------------------------------------------------- 17.2
def _stuck(schedule):
    present, n = set(schedule.actions()), schedule.num_stages
    at, done, moved = [0] * len(schedule.rows), set(), True
    while moved:
        moved = False
        for r, row in enumerate(schedule.rows):
            while at[r] < len(row) and all(need in done for need in needs(row[at[r]], n, present)):
                done.add(row[at[r]])
                at[r] += 1
                moved = True
    heads = {r: row[at[r]] for r, row in enumerate(schedule.rows) if at[r] < len(row)}
    return present, n, done, heads


def _walk(schedule, need_of, head_of):
    """The circle of a walk that asks for the next need of a head, and for the head of the rank that has it."""
    present, n, done, heads = _stuck(schedule)
    if not heads:
        return []
    walk, here = [], next(iter(heads.values()))
    while here not in walk:
        walk.append(here)
        here = need_of(needs(here, n, present), done) if here in heads.values() else head_of(schedule, heads, here)
    return walk[walk.index(here) :]


def _open_need(wanted, done):
    return next(need for need in wanted if need not in done)


def _head_of_its_rank(schedule, heads, action):
    return heads.get(next(r for r, row in enumerate(schedule.rows) if action in row), action)


def circle_walk(schedule):
    return _walk(schedule, _open_need, _head_of_its_rank)


def circle_graphlib(schedule):
    present = set(schedule.actions())
    graph = {}
    for row in schedule.rows:
        for k, action in enumerate(row):
            graph[action] = list(needs(action, schedule.num_stages, present)) + list(row[max(0, k - 1) : k])
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [str(action) for action in error.args[1][:0:-1]]
    return []


def circle_stage_is_row(schedule):
    return _walk(schedule, _open_need, lambda schedule, heads, action: heads[action.stage % len(schedule.rows)])


def circle_twice_the_head(schedule):
    present, n, done, heads = _stuck(schedule)
    if not heads:
        return []
    where = {a: r for r, row in enumerate(schedule.rows) for a in row}
    walk, seen, here = [], [], next(iter(heads.values()))
    while here not in seen:
        seen.append(here)
        need = next(need for need in needs(here, n, present) if need not in done)
        walk.append((here, need))
        here = heads[where[need]]
    return [each for pair in walk[seen.index(here) :] for each in pair]


def circle_first_need(schedule):
    # takes the first need of a head, also if it has run
    return _walk(schedule, lambda wanted, done: next(iter(wanted)), _head_of_its_rank)


def circle_last_need(schedule):
    # the last need of a head: the gradient; it cannot have run where the forward has not
    return _walk(schedule, lambda wanted, done: list(wanted)[-1], _head_of_its_rank)


# ---------------------------------------------------------------- 17.3
_ZB_H1 = """
0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3
1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3
2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3
"""
_WIDE = """
0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3
1F0 1F1 1F2 1I0 1F3 1I1 1W0 1I2 1W1 1I3 1W2 1W3
2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3
"""


def _rows(text):
    return [line.split() for line in text.split("\n") if line]


def golf_rows(memory_limit):
    return _rows(_ZB_H1 if memory_limit < 6 else _WIDE)


def golf_schedule(memory_limit):
    if memory_limit == 3:
        return Schedule.of(
            [
                "0F0 0F2 0F1 0I0 0W0 0F3 0I2 0W2 0I1 0W1 0I3 0W3".split(),
                "1F0 1F2 1F1 1I0 1I2 1W0 1F3 1I1 1W2 1I3 1W1 1W3".split(),
                "2F0 2I0 2F2 2I2 2W0 2F1 2I1 2F3 2I3 2W1 2W3 2W2".split(),
            ],
            "mine",
        )
    return Schedule.of(
        [
            "0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3".split(),
            "1F0 1F1 1F2 1F3 1I0 1I1 1W0 1I2 1W1 1I3 1W3 1W2".split(),
            "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3".split(),
        ]
    )


def golf_csv(memory_limit):
    if memory_limit == 3:
        text = (
            "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3|1F0 1F1 1F2 1I0 1W0 1I1 1F3 1I2 1W1 1I3 1W3 1W2|"
            "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W3 2W1 2W2 2W0"
        )
    else:
        text = (
            "0F0 0F1 0F3 0F2 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3|1F0 1F1 1F3 1I0 1F2 1W0 1I1 1W1 1I2 1I3 1W3 1W2|"
            "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3"
        )
    return Schedule.of([row.split() for row in text.split("|")]).to_csv()


def golf_renamed(memory_limit):
    """The micro-batches the other way round: 3 goes first."""
    return tuple(tuple(a[:2] + str(3 - int(a[2])) for a in row) for row in golf_rows(memory_limit))


def golf_mixed(memory_limit):
    """Rank 0 leaves its last backwards whole: nobody waits for its I."""
    text = _ZB_H1 if memory_limit == 3 else _WIDE
    for i in range(4):
        text = text.replace(f"0I{i} 0W{i}", f"0B{i}")
    return [row.split() for row in text.strip().splitlines()]


RIGHT = {
    "17.1": [price_plain, price_accumulate, price_where],
    "17.2": [circle_walk, circle_graphlib, circle_last_need],
    "17.3": [golf_rows, golf_schedule, golf_csv, golf_renamed, golf_mixed],
}
