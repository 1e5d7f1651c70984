"""Solutions of lesson 15 by somebody who read the lesson alone."""

# ruff: noqa

from collections import Counter, defaultdict
from itertools import combinations


# ---------------------------------------------------------------- 15.1
def r1_lookup(records):
    table = {rec.rank: {c.number: c for c in rec.calls} for rec in records}
    numbers = sorted({n for calls in table.values() for n in calls})
    for n in numbers:
        row = [(rank, calls[n].kind) for rank, calls in table.items() if n in calls and calls[n].is_collective]
        kinds = [kind for _, kind in row]
        if len(set(kinds)) < 2:
            continue
        for rank, kind in row:
            if kinds.count(kind) == 1:
                return (rank, n)
    return None


def r1_pairs(records):
    worst = None
    for a, b in combinations(records, 2):
        theirs = {c.number: c.kind for c in b.calls if c.is_collective}
        for c in a.calls:
            if c.is_collective and c.number in theirs and theirs[c.number] != c.kind:
                if worst is None or c.number < worst:
                    worst = c.number
                break
    if worst is None:
        return None
    owners = defaultdict(list)
    for rec in records:
        for c in rec.calls:
            if c.number == worst and c.is_collective:
                owners[c.kind].append(rec.rank)
    return min(owners.values(), key=len)[0], worst


def r1_flat_sorted(records):
    flat = [(c.number, rec.rank, c.kind) for rec in records for c in rec.calls if c.is_collective]
    flat.sort(key=lambda t: t[0])
    i = 0
    while i < len(flat):
        j = i
        while j < len(flat) and flat[j][0] == flat[i][0]:
            j += 1
        group = flat[i:j]
        how_often = Counter(kind for _, _, kind in group)
        if len(how_often) >= 2:
            rare = how_often.most_common()[-1][0]
            for number, rank, kind in group:
                if kind == rare:
                    return rank, number
        i = j
    return None


def r1_sets(records):
    last = max((c.number for r in records for c in r.calls), default=-1)
    for n in range(last + 1):
        who = {}
        for r in records:
            for c in r.calls:
                if c.number == n and c.is_collective:
                    who.setdefault(c.kind, set()).add(r.rank)
        if len(who) > 1:
            (rank,) = next(s for s in who.values() if len(s) == 1)
            return rank, n


# ---------------------------------------------------------------- 15.2
def r2_comprehension(records):
    made = {r.rank: {(c.number, c.kind) for c in r.calls} for r in records}

    def held(r):
        s = r.standing
        if s is None:
            return set()
        if s.name in ("send", "receive"):
            return {s.peer}
        return {other for other in made if other != r.rank and (s.number, s.kind) not in made[other]}

    return {r.rank: held(r) for r in records}


def r2_loops(records):
    graph = {}
    for me in records:
        graph[me.rank] = set()
        first = None
        for c in me.calls:
            if not c.finished and (first is None or c.number < first.number):
                first = c
        if first is None:
            continue
        if not first.is_collective:
            graph[me.rank].add(first.peer)
            continue
        for you in records:
            if you.rank == me.rank:
                continue
            there = False
            for c in you.calls:
                if c.number == first.number and c.kind == first.kind:
                    there = True
            if not there:
                graph[me.rank].add(you.rank)
    return graph


def r2_by_meeting(records):
    everyone = {r.rank for r in records}
    meeting = defaultdict(set)
    for r in records:
        for c in r.calls:
            meeting[c.number, c.kind].add(r.rank)
    out = dict.fromkeys(everyone)
    for r in records:
        open_calls = sorted((c for c in r.calls if not c.finished), key=lambda c: c.number)
        match open_calls:
            case []:
                out[r.rank] = set()
            case [c, *_] if c.is_collective:
                out[r.rank] = everyone - meeting[c.number, c.kind]
            case [c, *_]:
                out[r.rank] = {c.peer}
    return out


# ---------------------------------------------------------------- 15.3
def r3_chain(records):
    for r in records:
        if len(r.caught) > 0:
            return r.rank, r.next_number, "swallowed exception"
    best = None
    for r in records:
        for c in r.calls:
            if c.has_nan and (best is None or c.number < best[1]):
                best = (r.rank, c.number)
    if best is not None:
        return best[0], best[1], "NaN on one rank"
    by_rank = {r.rank: {c.number: c for c in r.calls} for r in records}
    parted = r1_lookup(records)
    if parted is not None:
        rank, n = parted
        calls = by_rank[rank]
        here, expected, one_later = calls[n], calls[n - 4], calls[(n + 1) - 4]
        if here.name == expected.name and here.kind != expected.kind and here.kind != one_later.kind:
            return rank, n, "wrong shape"
        if here.kind == one_later.kind:
            if n + 1 in calls and calls[n + 1].kind == expected.kind:
                return rank, n, "swapped collectives"
            return rank, n, "skipped collective"
        return rank, n, "uneven batches"
    # sends
    for rank, calls in by_rank.items():
        for n, c in calls.items():
            if c.name == "send" and not c.finished and calls[n - 4].name == "receive":
                return rank, n, "send-send deadlock"
    # times
    for n in sorted(by_rank[records[0].rank]):
        came = sorted((calls[n].started_s, rank) for rank, calls in by_rank.items() if n in calls)
        if len(came) == len(records) and came[-1][0] - came[-2][0] >= 0.2:
            return came[-1][1], n, "straggler"


def r3_against_the_others(records):
    """What the majority called is what should have come; the step before is asked only for sends."""
    table = defaultdict(dict)
    for r in records:
        for c in r.calls:
            table[c.number][r.rank] = c
    by_rank = {r.rank: r for r in records}
    bad = [r for r in records if r.caught]
    if bad:
        return bad[0].rank, bad[0].next_number, "swallowed exception"
    for n in sorted(table):
        for rank, c in table[n].items():
            if c.has_nan:
                return rank, n, "NaN on one rank"
    for n in sorted(table):
        row = {rank: c for rank, c in table[n].items() if c.is_collective}
        counts = Counter(c.kind for c in row.values())
        if len(counts) < 2:
            continue
        rank = next(k for k, c in row.items() if counts[c.kind] == 1)
        mine = row[rank]
        own = {c.number: c for c in by_rank[rank].calls}
        seen_before = {c.kind for c in by_rank[rank].calls if c.number < n}
        if mine.kind not in seen_before:
            usual = own[n - 4]
            return rank, n, "wrong shape" if usual.name == mine.name else "uneven batches"
        following = own.get(n + 1)
        swapped = following is not None and following.kind == own[n - 4].kind
        return rank, n, "swapped collectives" if swapped else "skipped collective"
    for r in records:
        c = r.standing
        if c is not None and c.name == "send":
            before = [d for d in r.calls if d.number == c.number - 4]
            if before and before[0].name == "receive":
                return r.rank, c.number, "send-send deadlock"
    for n in sorted(table):
        if len(table[n]) < len(records):
            continue
        order = sorted(table[n], key=lambda k: table[n][k].started_s)
        if table[n][order[-1]].started_s - table[n][order[-2]].started_s > 0.19:
            return order[-1], n, "straggler"
    return None


def r3_small_functions(records):
    calls = {r.rank: {c.number: c for c in r.calls} for r in records}

    def exception():
        return next(((r.rank, r.next_number) for r in records if r.caught), None)

    def nan():
        return min(
            ((r.rank, c.number) for r in records for c in r.calls if c.has_nan), key=lambda t: t[1], default=None
        )

    def send():
        for rank, mine in calls.items():
            for n, c in mine.items():
                if c.name == "send" and not c.finished and n >= 4 and mine[n - 4].name == "receive":
                    return rank, n

    def late():
        for n in sorted(set.intersection(*(set(m) for m in calls.values()))):
            times = {rank: m[n].started_s for rank, m in calls.items()}
            slow = max(times, key=times.get)
            if all(times[slow] - t >= 0.2 for rank, t in times.items() if rank != slow):
                return slow, n

    if found := exception():
        return (*found, "swallowed exception")
    if found := nan():
        return (*found, "NaN on one rank")
    if found := r1_sets(records):
        rank, n = found
        mine = calls[rank]
        expect = lambda k: mine[n - 4 + k].kind
        if mine[n].kind == expect(1):
            if (n + 1) in mine and mine[n + 1].kind == expect(0):
                return (*found, "swapped collectives")
            return (*found, "skipped collective")
        if mine[n].name == mine[n - 4].name:
            return (*found, "wrong shape")
        return (*found, "uneven batches")
    if found := send():
        return (*found, "send-send deadlock")
    return (*late(), "straggler")


RIGHT = {
    "15.1": [r1_lookup, r1_pairs, r1_flat_sorted, r1_sets],
    "15.2": [r2_comprehension, r2_loops, r2_by_meeting],
    "15.3": [r3_chain, r3_against_the_others, r3_small_functions],
}
