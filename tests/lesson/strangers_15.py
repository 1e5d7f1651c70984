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


def w1_zip(records):
    for calls in zip(*[r.calls for r in records]):
        counts = Counter(c.kind for c in calls)
        if len(counts) > 1:
            for r, c in zip(records, calls):
                if counts[c.kind] == 1:
                    return r.rank, c.number
    return None


def w1_names_only(records):
    made = {}
    for r in records:
        for c in r.calls:
            if c.is_collective:
                made.setdefault(c.number, {})[r.rank] = c.name
    for n in sorted(made):
        counts = Counter(made[n].values())
        if len(counts) > 1:
            return next(k for k, v in made[n].items() if counts[v] == 1), n
    return None


def w1_str_call(records):
    made = {}
    for r in records:
        for c in r.calls:
            if c.is_collective:
                made.setdefault(c.number, {})[r.rank] = str(c)
    for n in sorted(made):
        counts = Counter(made[n].values())
        if len(counts) > 1:
            return next(k for k, v in made[n].items() if counts[v] == 1), n
    return None


def w1_first_record_is_right(records):
    truth = {c.number: c.kind for c in records[0].calls if c.is_collective}
    for r in records[1:]:
        for c in r.calls:
            if c.is_collective and c.number in truth and truth[c.number] != c.kind:
                return r.rank, c.number
    return None


def w1_position_is_rank(records):
    made = {}
    for i, r in enumerate(records):
        for c in r.calls:
            if c.is_collective:
                made.setdefault(c.number, {})[i] = c.kind
    for n in sorted(made):
        counts = Counter(made[n].values())
        if len(counts) > 1:
            return next(k for k, v in made[n].items() if counts[v] == 1), n
    return None


def w1_sends_too(records):
    made = {}
    for r in records:
        for c in r.calls:
            made.setdefault(c.number, {})[r.rank] = c.kind
    for n in sorted(made):
        counts = Counter(made[n].values())
        if len(counts) > 1:
            return next(k for k, v in made[n].items() if counts[v] == 1), n
    return None


def w1_missing_is_none(records):
    table = {r.rank: {c.number: c.kind for c in r.calls if c.is_collective} for r in records}
    for n in sorted(set().union(*table.values())):
        row = {rank: calls.get(n) for rank, calls in table.items()}
        counts = Counter(row.values())
        if len(counts) > 1:
            return next(k for k, v in row.items() if counts[v] == 1), n
    return None


def w1_stops_at_first_incomplete(records):
    table = {r.rank: {c.number: c.kind for c in r.calls if c.is_collective} for r in records}
    for n in sorted(set.intersection(*(set(t) for t in table.values()))):
        row = {rank: calls[n] for rank, calls in table.items()}
        counts = Counter(row.values())
        if len(counts) > 1:
            return next(k for k, v in row.items() if counts[v] == 1), n
    return None


def w1_unsorted_numbers(records):
    made = {}
    for r in records:
        for c in r.calls:
            if c.is_collective:
                made.setdefault(c.number, {})[r.rank] = c.kind
    for n in made:
        counts = Counter(made[n].values())
        if len(counts) > 1:
            return next(k for k, v in made[n].items() if counts[v] == 1), n
    return None


def w1_most_common(records):
    made = {}
    for r in records:
        for c in r.calls:
            if c.is_collective:
                made.setdefault(c.number, {})[r.rank] = c.kind
    for n in sorted(made):
        counts = Counter(made[n].values())
        if len(counts) > 1:
            usual = counts.most_common(1)[0][0]
            return next(k for k, v in made[n].items() if v == usual), n
    return None


def w1_last_difference(records):
    found = None
    made = {}
    for r in records:
        for c in r.calls:
            if c.is_collective:
                made.setdefault(c.number, {})[r.rank] = c.kind
    for n in sorted(made):
        counts = Counter(made[n].values())
        for rank, kind in made[n].items():
            if len(counts) > 1 and counts[kind] == 1:
                found = rank, n
    return found


def w1_index_of_list(records):
    made = {}
    for r in records:
        for i, c in enumerate(c for c in r.calls if c.is_collective):
            made.setdefault(i, {})[r.rank] = c
    for i in sorted(made):
        counts = Counter(c.kind for c in made[i].values())
        if len(counts) > 1:
            return next((k, c.number) for k, c in made[i].items() if counts[c.kind] == 1)
    return None


def w1_unfinished_only(records):
    made = {}
    for r in records:
        for c in r.calls:
            if c.is_collective and not c.finished:
                made.setdefault(c.number, {})[r.rank] = c.kind
    for n in sorted(made):
        counts = Counter(made[n].values())
        if len(counts) > 1:
            return next(k for k, v in made[n].items() if counts[v] == 1), n
    return None


def w1_alone_parted(records):
    made = {}
    for r in records:
        for c in r.calls:
            if c.is_collective:
                made.setdefault(c.number, {})[r.rank] = c.kind
    for n in sorted(made):
        counts = Counter(made[n].values())
        for k, v in made[n].items():
            if counts[v] == 1:
                return k, n
    return None


def w1_number_first(records):
    made = {}
    for r in records:
        for c in r.calls:
            if c.is_collective:
                made.setdefault(c.number, {})[r.rank] = c.kind
    for n in sorted(made):
        counts = Counter(made[n].values())
        if len(counts) > 1:
            return n, next(k for k, v in made[n].items() if counts[v] == 1)
    return None


def w1_name_shape(records):
    made = {}
    for r in records:
        for c in r.calls:
            if c.is_collective:
                made.setdefault(c.number, {})[r.rank] = (c.name, c.shape)
    for n in sorted(made):
        counts = Counter(made[n].values())
        if len(counts) > 1:
            return next(k for k, v in made[n].items() if counts[v] == 1), n
    return None


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


def w2_last_unfinished(records):
    made = {r.rank: {(c.number, c.kind) for c in r.calls} for r in records}
    out = {}
    for r in records:
        pending = [c for c in r.calls if not c.finished]
        if not pending:
            out[r.rank] = set()
        elif not pending[-1].is_collective:
            out[r.rank] = {pending[-1].peer}
        else:
            c = pending[-1]
            out[r.rank] = {o for o in made if o != r.rank and (c.number, c.kind) not in made[o]}
    return out


def w2_last_call(records):
    made = {r.rank: {(c.number, c.kind) for c in r.calls} for r in records}
    out = {}
    for r in records:
        c = r.last
        if c is None or c.finished:
            out[r.rank] = set()
        elif not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            out[r.rank] = {o for o in made if o != r.rank and (c.number, c.kind) not in made[o]}
    return out


def w2_number_only(records):
    made = {r.rank: {c.number for c in r.calls} for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            out[r.rank] = {o for o in made if o != r.rank and c.number not in made[o]}
    return out


def w2_kind_only(records):
    made = {r.rank: {c.kind for c in r.calls} for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            out[r.rank] = {o for o in made if o != r.rank and c.kind not in made[o]}
    return out


def w2_same_standing(records):
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            out[r.rank] = set()
            for o in records:
                s = o.standing
                if o.rank != r.rank and (s is None or (s.number, s.kind) != (c.number, c.kind)):
                    out[r.rank].add(o.rank)
    return out


def w2_unfinished_there(records):
    made = {r.rank: {(c.number, c.kind) for c in r.calls if not c.finished} for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            out[r.rank] = {o for o in made if o != r.rank and (c.number, c.kind) not in made[o]}
    return out


def w2_name_only(records):
    made = {r.rank: {(c.number, c.name) for c in r.calls} for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            out[r.rank] = {o for o in made if o != r.rank and (c.number, c.name) not in made[o]}
    return out


def w2_no_entry(records):
    made = {r.rank: {(c.number, c.kind) for c in r.calls} for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            continue
        if not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            out[r.rank] = {o for o in made if o != r.rank and (c.number, c.kind) not in made[o]}
    return out


def w2_send_as_collective(records):
    made = {r.rank: {(c.number, c.kind) for c in r.calls} for r in records}
    out = {}
    for r in records:
        c = r.standing
        out[r.rank] = set() if c is None else {o for o in made if o != r.rank and (c.number, c.kind) not in made[o]}
    return out


def w2_peer_of_broadcast(records):
    made = {r.rank: {(c.number, c.kind) for c in r.calls} for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif c.peer is not None:
            out[r.rank] = {c.peer}
        else:
            out[r.rank] = {o for o in made if o != r.rank and (c.number, c.kind) not in made[o]}
    return out


def w2_peer_if_not_sent(records):
    made = {r.rank: {(c.number, c.kind) for c in r.calls} for r in records}
    standing = {r.rank: r.standing for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif not c.is_collective:
            s = standing[c.peer]
            out[r.rank] = {c.peer} if s is not None and s.peer == r.rank else set()
        else:
            out[r.rank] = {o for o in made if o != r.rank and (c.number, c.kind) not in made[o]}
    return out


def w2_waits_for_itself(records):
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            same = {o.rank for o in records for d in o.calls if o is not r and (d.number, d.kind) == (c.number, c.kind)}
            out[r.rank] = {o.rank for o in records} - same
    return out


def w2_range_world(records):
    made = {i: {(c.number, c.kind) for c in r.calls} for i, r in enumerate(records)}
    out = {}
    for i, r in enumerate(records):
        c = r.standing
        if c is None:
            out[i] = set()
        elif not c.is_collective:
            out[i] = {c.peer}
        else:
            out[i] = {o for o in made if o != i and (c.number, c.kind) not in made[o]}
    return out


def w2_lists(records):
    made = {r.rank: {(c.number, c.kind) for c in r.calls} for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = []
        elif not c.is_collective:
            out[r.rank] = [c.peer]
        else:
            out[r.rank] = [o for o in made if o != r.rank and (c.number, c.kind) not in made[o]]
    return out


def w2_by_position(records):
    made = {r.rank: {(i, c.kind) for i, c in enumerate(r.calls)} for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            at = list(r.calls).index(c)
            out[r.rank] = {o for o in made if o != r.rank and (at, c.kind) not in made[o]}
    return out


def w2_behind(records):
    reached = {r.rank: max((c.number for c in r.calls), default=-1) for r in records}
    out = {}
    for r in records:
        c = r.standing
        if c is None:
            out[r.rank] = set()
        elif not c.is_collective:
            out[r.rank] = {c.peer}
        else:
            out[r.rank] = {o for o in reached if reached[o] < c.number}
    return out


# ---------------------------------------------------------------- 15.3
def r3_chain(records):
    by_rank = {r.rank: {c.number: c for c in r.calls} for r in records}
    # caught
    for r in records:
        if len(r.caught) > 0:
            return r.rank, r.next_number, "swallowed exception"
    # nan
    best = None
    for r in records:
        for c in r.calls:
            if c.has_nan and (best is None or c.number < best[1]):
                best = (r.rank, c.number)
    if best is not None:
        return best[0], best[1], "NaN on one rank"
    # different calls
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


def r3_library(records):
    from pllab.autopsy import diagnose

    found = diagnose(records)
    return found.rank, found.call, found.cause


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


def _variant(
    records, *, exception="next", nan="first", parted=r1_lookup, order="right", send="habit", gap=0.2, late="first"
):
    """A solution with one decision taken wrongly."""
    calls = {r.rank: {c.number: c for c in r.calls} for r in records}
    for r in records:
        if r.caught and exception == "next":
            return r.rank, r.next_number, "swallowed exception"
        if r.caught and exception == "last":
            return r.rank, r.last.number, "swallowed exception"
    spoiled = [(c.number, r.rank) for r in records for c in r.calls if c.has_nan]
    if spoiled and nan == "first":
        return min(spoiled)[1], min(spoiled)[0], "NaN on one rank"
    if spoiled and nan == "any":
        return spoiled[0][1], spoiled[0][0], "NaN on one rank"
    if spoiled and nan == "last":
        return max(spoiled)[1], max(spoiled)[0], "NaN on one rank"
    found = parted(records)
    if found:
        rank, n = found
        mine, after = calls[rank][n], calls[rank].get(n + 1)
        wanted, later = calls[rank][n - 4], calls[rank][n - 3]
        if order == "name first":
            if mine.name == wanted.name:
                return rank, n, "wrong shape"
        if order == "names only":
            if mine.name == later.name:
                swapped = after is not None and after.name == wanted.name
                return rank, n, "swapped collectives" if swapped else "skipped collective"
        if order == "never swapped":
            if mine.kind == later.kind:
                return rank, n, "skipped collective"
        if order == "after by shape":
            if mine.kind == later.kind:
                swapped = after is not None and after.kind != calls[rank][n - 2].kind
                return rank, n, "swapped collectives" if swapped else "skipped collective"
        if order == "always swapped":
            if mine.kind == later.kind:
                return rank, n, "swapped collectives" if after is not None else "skipped collective"
        if order == "uneven if broadcast":
            if mine.name == "barrier":
                return rank, n, "uneven batches"
        if order == "call of the other":
            if mine.kind == later.kind and not (after is not None and after.kind == wanted.kind):
                return rank, n + 1, "skipped collective"
        if mine.kind == later.kind:
            swapped = after is not None and after.kind == wanted.kind
            return rank, n, "swapped collectives" if swapped else "skipped collective"
        return rank, n, "wrong shape" if mine.name == wanted.name else "uneven batches"
    for r in records:
        c = r.standing
        if c is None or c.name != "send":
            continue
        if send == "first":
            return r.rank, c.number, "send-send deadlock"
        if send == "odd" and r.rank % 2 == 1:
            return r.rank, c.number, "send-send deadlock"
        if send == "habit" and calls[r.rank][c.number - 4].name == "receive":
            return r.rank, c.number, "send-send deadlock"
        if send == "peer" and calls[r.rank][c.number - 4].name == "receive":
            return c.peer, c.number, "send-send deadlock"
        if send == "receive" and calls[r.rank][c.number - 4].name == "receive":
            return r.rank, c.number - 4, "send-send deadlock"
    best = None
    for n in sorted(set.intersection(*(set(m) for m in calls.values()))):
        came = sorted((m[n].started_s, rank) for rank, m in calls.items())
        base = came[0][0] if late == "spread" else came[-2][0]
        if late == "most":
            if best is None or came[-1][0] - base > best[0]:
                best = (came[-1][0] - base, came[-1][1], n)
        elif came[-1][0] - base >= gap:
            return came[-1][1], n, "straggler"
    if best:
        return best[1], best[2], "straggler"
    return None


def w3_last_call_of_swallowed(records):
    return _variant(records, exception="last")


def w3_no_exception(records):
    return _variant(records, exception="none")


def w3_nan_of_first_record(records):
    return _variant(records, nan="any")


def w3_nan_last(records):
    return _variant(records, nan="last")


def w3_nan_unknown(records):
    return _variant(records, nan="none")


def w3_name_before_skip(records):
    return _variant(records, order="name first")


def w3_never_swapped(records):
    return _variant(records, order="never swapped")


def w3_swapped_if_it_goes_on(records):
    return _variant(records, order="always swapped")


def w3_skip_one_later(records):
    return _variant(records, order="call of the other")


def w3_parted_zip(records):
    return _variant(records, parted=w1_most_common)


def w3_parted_names(records):
    return _variant(records, parted=w1_names_only)


def w3_first_sender(records):
    return _variant(records, send="first")


def w3_names_of_kinds(records):
    return _variant(records, order="names only")


def w3_peer_of_sender(records):
    return _variant(records, send="peer")


def w3_call_of_receive(records):
    return _variant(records, send="receive")


def w3_slowest_once(records):
    return _variant(records, late="most")


def w3_after_the_first(records):
    return _variant(records, gap=0.0)


def w3_finish_times(records):
    calls = {r.rank: {c.number: c for c in r.calls} for r in records}
    answer = _variant(records)
    if answer is None or answer[2] != "straggler":
        return answer
    for n in sorted(set.intersection(*(set(m) for m in calls.values()))):
        took = {rank: (m[n].finished_s or 0) - m[n].started_s for rank, m in calls.items()}
        slow = max(took, key=took.get)
        if took[slow] >= 0.2:
            return slow, n, "straggler"
    return None


def w3_dead_is_shape(records):
    for r in records:
        if "killed" in r.state or "raised" in r.state:
            return r.rank, r.standing.number if r.standing else r.last.number, "wrong shape"
    return _variant(records)


def w3_rank_as_index(records):
    answer = _variant(records)
    if answer is None:
        return None
    return [i for i, r in enumerate(records) if r.rank == answer[0]][0], answer[1], answer[2]


def w3_order_of_answer(records):
    answer = _variant(records)
    return None if answer is None else (answer[2], answer[0], answer[1])


def w3_straggler_of_graph(records):
    """Everybody who waits for nobody is a straggler, asked before the sends."""
    answer = _variant(records)
    if answer is None:
        return None
    idle = [r for r in records if r.standing is None]
    if len(idle) == 1:
        return idle[0].rank, idle[0].next_number, "straggler"
    return answer


def r3_late_from_its_call_on(records):
    """The straggler as the statement says it: late by 0.2 s from its call on, so in every later call too."""
    answer = r3_chain(records)
    if answer is not None and answer[2] != "straggler":
        return answer
    calls = {r.rank: {c.number: c for c in r.calls} for r in records}
    numbers = sorted(set.intersection(*(set(m) for m in calls.values())))
    for start, n in enumerate(numbers):
        for rank, mine in calls.items():
            others = [m for other, m in calls.items() if other != rank]
            if all(mine[k].started_s - max(m[k].started_s for m in others) >= 0.2 for k in numbers[start:]):
                return rank, n, "straggler"
    return None


def w3_most_often_last(records):
    """The rank that is most often the last, from the first call to which it was."""
    answer = r3_chain(records)
    if answer is None or answer[2] != "straggler":
        return answer
    calls = {r.rank: {c.number: c for c in r.calls} for r in records}
    last = {}
    for n in sorted(set.intersection(*(set(m) for m in calls.values()))):
        last[n] = max(calls, key=lambda rank: calls[rank][n].started_s)
    rank = Counter(last.values()).most_common(1)[0][0]
    return rank, min(n for n, who in last.items() if who == rank), "straggler"


RIGHT = [
    ("15.1", r1_lookup),
    ("15.1", r1_pairs),
    ("15.1", r1_flat_sorted),
    ("15.1", r1_sets),
    ("15.2", r2_comprehension),
    ("15.2", r2_loops),
    ("15.2", r2_by_meeting),
    ("15.3", r3_chain),
    ("15.3", r3_against_the_others),
    ("15.3", r3_small_functions),
]
WRONG = [
    ("15.1", w1_zip, "by place in the list"),
    ("15.1", w1_names_only, "names alone"),
    ("15.1", w1_str_call, "without the dtype"),
    ("15.1", w1_first_record_is_right, "the first record is the truth"),
    ("15.1", w1_position_is_rank, "place of the record for its rank"),
    ("15.1", w1_sends_too, "sends count"),
    ("15.1", w1_missing_is_none, "no call is a difference"),
    ("15.1", w1_stops_at_first_incomplete, "numbers that all have alone"),
    ("15.1", w1_unsorted_numbers, "numbers not in order"),
    ("15.1", w1_most_common, "names the majority"),
    ("15.1", w1_last_difference, "last difference"),
    ("15.1", w1_index_of_list, "place among the collectives"),
    ("15.1", w1_unfinished_only, "unfinished calls alone"),
    ("15.1", w1_alone_parted, "who is alone has parted"),
    ("15.1", w1_number_first, "number before rank"),
    ("15.1", w1_name_shape, "without dtype and root"),
    ("15.2", w2_last_unfinished, "the last unfinished"),
    ("15.2", w2_last_call, "the last call"),
    ("15.2", w2_number_only, "any call of the number"),
    ("15.2", w2_kind_only, "the kind under any number"),
    ("15.2", w2_same_standing, "who does not stand there too"),
    ("15.2", w2_unfinished_there, "who has finished it is waited for"),
    ("15.2", w2_name_only, "names alone"),
    ("15.2", w2_no_entry, "no entry for who waits for nobody"),
    ("15.2", w2_send_as_collective, "a send waits for all"),
    ("15.2", w2_peer_of_broadcast, "a broadcast waits for its root"),
    ("15.2", w2_peer_if_not_sent, "a peer elsewhere is not waited for"),
    ("15.2", w2_waits_for_itself, "waits for itself"),
    ("15.2", w2_range_world, "place of the record for its rank"),
    ("15.2", w2_lists, "lists"),
    ("15.2", w2_by_position, "by place in the list"),
    ("15.2", w2_behind, "who is behind"),
    ("15.3", w3_last_call_of_swallowed, "last call before the exception"),
    ("15.3", w3_no_exception, "exceptions not read"),
    ("15.3", w3_nan_of_first_record, "NaN of the first record"),
    ("15.3", w3_nan_last, "last NaN"),
    ("15.3", w3_nan_unknown, "NaN not read"),
    ("15.3", w3_never_swapped, "swapped is skipped"),
    ("15.3", w3_swapped_if_it_goes_on, "skipped is swapped"),
    ("15.3", w3_skip_one_later, "call after the skipped one"),
    ("15.3", w3_parted_zip, "majority has parted"),
    ("15.3", w3_parted_names, "names alone"),
    ("15.3", w3_names_of_kinds, "names in place of kinds"),
    ("15.3", w3_first_sender, "first sender"),
    ("15.3", w3_peer_of_sender, "the other sender"),
    ("15.3", w3_call_of_receive, "receive of the step before"),
    ("15.3", w3_slowest_once, "latest call of all"),
    ("15.3", w3_after_the_first, "any lateness"),
    ("15.3", w3_finish_times, "longest call"),
    ("15.3", w3_dead_is_shape, "who died sent the wrong shape"),
    ("15.3", w3_rank_as_index, "place of the record for its rank"),
    ("15.3", w3_most_often_last, "first time it was last"),
    ("15.3", w3_order_of_answer, "cause first"),
    ("15.3", w3_straggler_of_graph, "who waits for nobody is a straggler"),
    ("15.3", r3_late_from_its_call_on, "late to every later call too"),
]
