"""Who waits for whom: the arrows between stuck ranks, and how long the others had been there before the last came."""

from collections.abc import Sequence

from pllab.autopsy.records import Record


def wait_for_graph(records: Sequence[Record]) -> dict[int, set[int]]:
    """For each rank the ranks that its first unfinished call waits for; empty for one that waits for nobody.

    Worked example: ranks 0 and 2 stand in all_reduce(768), their call 8, and rank 1 has made seven calls:

        {0: {1}, 1: set(), 2: {1}}

    In a send or receive a rank waits for the other end. In a collective it waits for every rank of the group that has
    not made the same call at this place.
    """
    graph: dict[int, set[int]] = {}
    for record in sorted(records, key=lambda one: one.rank):
        call = record.standing
        if call is None or not call.is_collective:
            graph[record.rank] = set() if call is None or call.peer is None else {call.peer}
            continue
        others = {one.rank: one.collectives(call.group) for one in records if one.rank != record.rank}
        members = {rank: calls for rank, calls in others.items() if calls} or others
        same = {rank for rank, calls in members.items() if call.order in calls and calls[call.order].kind == call.kind}
        graph[record.rank] = set(members) - same
    return graph


def lateness(records: Sequence[Record]) -> dict[int, dict[int, float]]:
    """For each rank the calls to which it came as the last one, with the seconds after the one before it.

    Worked example: ranks 0 and 1 came to call 4 at 1.0 s and 1.1 s, and rank 2 at 1.5 s:

        {0: {}, 1: {}, 2: {4: 0.4}}

    Of each rank's first group, and of the calls that all made. The ranks' clocks must be one, as on one machine.
    """
    late: dict[int, dict[int, float]] = {record.rank: {} for record in records}
    calls = {record.rank: record.collectives(call.group) for record in records for call in record.calls[:1]}
    if len(calls) < len(records):
        return late
    for place in sorted(set.intersection(*map(set, calls.values()))):
        (before, _), (last, rank) = sorted((calls[rank][place].started_s, rank) for rank in calls)[-2:]
        late[rank][calls[rank][place].number] = last - before
    return late
