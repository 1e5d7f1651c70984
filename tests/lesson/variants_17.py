"""Right solutions of lesson 17 that look different."""

import heapq
from itertools import accumulate

from pllab.schedule import Action, Kind, needs, peak_in_flight, zb_h1

# 17.1


def walks_and_counts(schedule):
    share = {Kind.F: 1, Kind.B: -1, Kind.I: -0.5, Kind.W: -0.5}
    present, home = set(schedule.actions()), schedule.rank_of_stage
    holds, messages = [], 0
    for rank, row in enumerate(schedule.rows):
        held = most = 0
        for action in row:
            held += share[action.kind]
            most = max(most, held)
            messages += sum(home[need.stage] != rank for need in needs(action, schedule.num_stages, present))
        holds.append(most)
    return holds, messages


def counts_boundaries(schedule):
    held = [list(accumulate({"F": 2, "B": -2}.get(str(a.kind), -1) for a in row)) for row in schedule.rows]
    home = [schedule.rank_of_stage[stage] for stage in range(schedule.num_stages)]
    crossed = sum(a != b for a, b in zip(home, home[1:], strict=False))
    return tuple(max(steps) / 2 for steps in held), 2 * crossed * schedule.num_microbatches


def looks_before_and_after(schedule):
    """Without needs: the stage below of an F and the stage above of a backward."""
    home = {action.stage: rank for rank, row in enumerate(schedule.rows) for action in row}
    messages = 0
    for stage, kind, _ in schedule.actions():
        other = {"F": stage - 1, "B": stage + 1, "I": stage + 1}.get(str(kind), stage)
        messages += other in home and home[other] != home[stage]
    return {rank: peak for rank, peak in enumerate(peak_in_flight(schedule))}, float(messages)


# 17.2


def depth_first(schedule):
    present = set(schedule.actions())
    before = {late: early for row in schedule.rows for early, late in zip(row, row[1:], strict=False)}
    finished, path = set(), []

    def visit(action):
        if action in path:
            return path[path.index(action) :]
        if action in finished:
            return []
        path.append(action)
        waited_for = [*needs(action, schedule.num_stages, present), *([before[action]] if action in before else [])]
        for other in waited_for:
            if circle := visit(other):
                return circle
        path.pop()
        finished.add(action)
        return []

    for action in present:
        if circle := visit(action):
            return circle
    return []


def _run_dry(heads, missing, done):
    while any(row and not missing(row[0]) for row in heads):
        for row in heads:
            while row and not missing(row[0]):
                done.add(row.pop(0))


def follows_the_heads(schedule):
    present = set(schedule.actions())
    done, heads = set(), [list(row) for row in schedule.rows]

    def missing(action):
        return [need for need in needs(action, schedule.num_stages, present) if need not in done]

    _run_dry(heads, missing, done)
    stuck = [row[0] for row in heads if row]
    if not stuck:
        return []
    walk = [stuck[0]]
    while True:
        head = walk[-1]
        need = missing(head)[0]
        steps = [need, heads[schedule.rank_of_stage[need.stage]][0]]
        for step in dict.fromkeys(steps):
            if step in walk:
                return walk[walk.index(step) :]
            walk.append(step)


def peels_and_walks(schedule):
    present = set(schedule.actions())
    waits = {}
    for row in schedule.rows:
        for place, action in enumerate(row):
            waits[action] = {*needs(action, schedule.num_stages, present), *row[:place]}
    while free := [action for action, others in waits.items() if not others & waits.keys()]:
        for action in free:
            del waits[action]
    seen, action = [], min(waits, default=None)
    while waits and action not in seen:
        seen.append(action)
        action = min(waits[action] & waits.keys())
    return [str(step) for step in seen[seen.index(action) :]] if seen else []


def with_all_before_it(schedule):
    """Waits for everything before it in its row; a generator of texts."""
    present = set(schedule.actions())
    waits = {
        action: [*row[:place], *needs(action, schedule.num_stages, present)]
        for row in schedule.rows
        for place, action in enumerate(row)
    }
    while free := {action for action, others in waits.items() if not any(other in waits for other in others)}:
        waits = {action: others for action, others in waits.items() if action not in free}
    walk, action = [], next(iter(waits), None)
    while action and action not in walk:
        walk.append(action)
        action = next(other for other in waits[action] if other in waits)
    yield from (str(step) for step in (walk[walk.index(action) :] if walk else []))


# 17.3


def greedy(memory_limit):
    """Every rank: I when it can, then F when it fits, then W; a W first where it ends before the next I arrives."""
    p, m = 3, 4
    if memory_limit < 2 * p:
        return zb_h1(p, m)
    rows = [[] for _ in range(p)]
    done, clock, events = {}, [0.0] * p, [(0.0, rank) for rank in range(p)]
    seconds = {"F": 3.0, "I": 3.0, "W": 2.0}
    while events:
        now, rank = heapq.heappop(events)
        if now < clock[rank]:
            continue
        arrived = {(k, s, i) for (k, s, i), end in done.items() if end <= now}
        count = {kind: sum(k == kind for _, k, _ in rows[rank]) for kind in "FIW"}
        can_f = count["F"] < m and (rank == 0 or ("F", rank - 1, count["F"]) in arrived)
        above = rank == p - 1 or ("I", rank + 1, count["I"]) in arrived
        can_i = count["I"] < count["F"] and above
        kind = "I" if can_i else "F" if can_f else "W" if count["W"] < count["I"] else None
        if rank == p - 1 and can_f and count["F"] == count["I"]:
            kind = "F"
        if kind is None:
            later = [end for end in done.values() if end > now]
            if later:
                heapq.heappush(events, (min(later), rank))
            elif count["W"] < m:
                heapq.heappush(events, (now + 1.0, rank))
            continue
        rows[rank].append((rank, kind, count[kind]))
        clock[rank] = done[kind, rank, count[kind]] = now + seconds[kind]
        heapq.heappush(events, (clock[rank], rank))
    return rows


def by_hand(memory_limit):
    if memory_limit == 3:
        return """0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3
1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3
2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3"""
    return {
        0: "0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3",
        1: "1F0 1F1 1F2 1I0 1F3 1I1 1W0 1I2 1W1 1I3 1W2 1W3",
        2: "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3",
    }


def other_names(limit):
    """Which micro-batch comes first is free."""
    order = [2, 0, 3, 1]
    rows = (
        greedy(limit).rows
        if limit == 3
        else [[Action.parse(text) for text in row.split()] for row in by_hand(6).values()]
    )
    return [[(stage, str(kind), order[microbatch]) for stage, kind, microbatch in row] for row in rows]


def whole_where_nobody_waits(limit):
    """Nobody waits for rank 0, so its backwards need not be split."""
    if limit == 3:
        return zb_h1(3, 4).to_csv()
    rows = by_hand(limit)
    return {**rows, 0: "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3"}


RIGHT = {
    "17.1": [walks_and_counts, counts_boundaries, looks_before_and_after],
    "17.2": [depth_first, follows_the_heads, peels_and_walks, with_all_before_it],
    "17.3": [greedy, by_hand, other_names, whole_where_nobody_waits],
}
