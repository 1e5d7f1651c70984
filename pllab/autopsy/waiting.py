"""Who waits for whom: the arrows between stuck ranks."""

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
