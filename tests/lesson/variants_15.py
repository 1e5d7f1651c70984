"""Right solutions of lesson 15, written in different ways."""

from collections import Counter, defaultdict

# 15.1 first_difference(records)


def counts_kinds(records):
    made = defaultdict(dict)
    for record in records:
        for call in record.calls:
            if call.is_collective:
                made[call.number][record.rank] = call.kind
    for number in sorted(made):
        counts = Counter(made[number].values())
        if len(counts) > 1:
            rank = next(rank for rank, kind in made[number].items() if counts[kind] == 1)
            return rank, number
    return None


def each_against_the_others(records):
    tables = {
        r.rank: {c.number: (c.name, c.shape, c.dtype, c.peer) for c in r.calls if c.is_collective} for r in records
    }
    found = []
    for rank, mine in tables.items():
        for number, kind in mine.items():
            others = [table[number] for other, table in tables.items() if other != rank and number in table]
            if len(others) > 1 and kind not in others and len(set(others)) == 1:
                found.append((number, rank))
    if not found:
        return None
    number, rank = min(found)
    return [rank, number]


def walks_with_pointers(records):
    queues = {record.rank: [call for call in record.calls if call.is_collective] for record in records}
    while any(queues.values()):
        number = min(queue[0].number for queue in queues.values() if queue)
        heads = {rank: queue.pop(0).kind for rank, queue in queues.items() if queue and queue[0].number == number}
        for rank, kind in heads.items():
            others = [other for peer, other in heads.items() if peer != rank]
            if len(others) > 1 and kind not in others:
                return rank, number
    return None


# 15.2 who_waits(records)


def by_first_unfinished(records):
    waits = {record.rank: set() for record in records}
    for record in records:
        call = record.standing
        if call is None:
            continue
        if not call.is_collective:
            waits[record.rank] = {call.peer}
            continue
        for other in records:
            same = any(one.number == call.number and one.kind == call.kind for one in other.calls)
            if other.rank != record.rank and not same:
                waits[record.rank].add(other.rank)
    return waits


def by_sets(records):
    everybody = {record.rank for record in records}
    came = defaultdict(set)
    for record in records:
        for call in record.calls:
            came[call.number, call.name, call.shape, call.dtype, call.peer].add(record.rank)

    def of(record):
        left = [call for call in record.calls if not call.finished]
        if not left:
            return frozenset()
        first = min(left, key=lambda call: call.number)
        if first.name in ("send", "receive"):
            return frozenset({first.peer})
        return frozenset(everybody - came[first.number, first.name, first.shape, first.dtype, first.peer])

    return {record.rank: of(record) for record in records}


def by_tables(records):
    answer = {}
    for one in sorted(records, key=lambda record: record.rank):
        call = next((c for c in one.calls if not c.finished), None)
        if call is None:
            answer[one.rank] = set()
        elif call.name in {"send", "receive"}:
            answer[one.rank] = {call.peer}
        else:
            tables = {r.rank: {c.number: c.kind for c in r.calls} for r in records}
            answer[one.rank] = {r for r, t in tables.items() if r != one.rank and t.get(call.number) != call.kind}
    return answer


# 15.3 diagnose_visit(records)


def asks_in_order(records):  # noqa: C901
    for one in records:
        if one.caught:
            return one.rank, one.next_number, "swallowed exception"
    spoiled = [(call.number, one.rank) for one in records for call in one.calls if call.has_nan]
    if spoiled:
        number, rank = min(spoiled)
        return rank, number, "NaN on one rank"
    calls = {one.rank: {call.number: call for call in one.calls} for one in records}
    if parted := counts_kinds(records):
        rank, number = parted
        mine, wanted, after = (calls[rank].get(n) for n in (number, number - 4, number - 3))
        following = calls[rank].get(number + 1)
        if mine.kind == after.kind:
            swapped = following is not None and following.kind == wanted.kind
            return rank, number, "swapped collectives" if swapped else "skipped collective"
        return rank, number, "wrong shape" if mine.name == wanted.name else "uneven batches"
    for one in records:
        call = one.standing
        if call and call.name == "send" and calls[one.rank][call.number - 4].name == "receive":
            return one.rank, call.number, "send-send deadlock"
    for number in sorted(set.intersection(*(set(table) for table in calls.values()))):
        came = sorted((table[number].started_s, rank) for rank, table in calls.items())
        if came[-1][0] - came[-2][0] >= 0.2:
            return came[-1][1], number, "straggler"


def stuck_or_not_first(records):  # noqa: C901
    calls = {one.rank: {call.number: call for call in one.calls} for one in records}
    if all(one.standing is None for one in records):
        spoiled = [(call.number, one.rank) for one in records for call in one.calls if call.has_nan]
        if spoiled:
            return min(spoiled)[1], min(spoiled)[0], "NaN on one rank"
        first = calls[records[0].rank]
        gaps = {}
        for number in first:
            came = sorted(calls, key=lambda rank: calls[rank][number].started_s)
            gaps[number] = (calls[came[-1]][number].started_s - calls[came[-2]][number].started_s, came[-1])
        number = next(n for n in sorted(gaps) if gaps[n][0] > max(gap for gap, _ in gaps.values()) / 2)
        return gaps[number][1], number, "straggler"
    idle = [one for one in records if one.standing is None]
    if idle:
        return idle[0].rank, idle[0].next_number, "swallowed exception"
    if any(one.standing.name == "send" for one in records):
        for one in records:
            names = [call.name for call in one.calls]
            if one.standing.name == "send" and names[0] == "receive":
                return one.rank, one.standing.number, "send-send deadlock"
    rank, number = each_against_the_others(records)
    step = [calls[rank][n].kind for n in range(4)]
    kinds = [calls[rank][n].kind for n in sorted(calls[rank]) if n >= number]
    expected = [step[(number + k) % 4] for k in range(3)]
    if kinds[0] not in step:
        same_name = kinds[0][0] == expected[0][0]
        return rank, number, "wrong shape" if same_name else "uneven batches"
    return rank, number, "swapped collectives" if kinds[1:2] == expected[:1] else "skipped collective"


def as_a_list(records):
    return list(asks_in_order(sorted(records, key=lambda one: one.rank)))


RIGHT = {
    "15.1": [counts_kinds, each_against_the_others, walks_with_pointers],
    "15.2": [by_first_unfinished, by_sets, by_tables],
    "15.3": [asks_in_order, stuck_or_not_first, as_a_list],
}
