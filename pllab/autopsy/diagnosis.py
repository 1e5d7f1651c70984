"""Say which rank, which call and which cause stopped a job or spoiled it, using only the records of its ranks.

    calls that differ     skipped, swapped, of another shape, or of a program that has left its loop
    sends in a circle     no rank reaches its receive
    a call not made       an exception that nobody saw, a loop that ended early, or a call of one group left out
    no rank is stuck      a value that is not a number, or a rank that others wait for every time

Asked in this order, because a rank that is stuck explains why others never came.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pllab.autopsy.records import Call, Kind, Record

SKIPPED = "skipped collective"
SWAPPED = "swapped collectives"
SHAPE = "wrong shape"
UNEVEN = "uneven batches"
SWALLOWED = "swallowed exception"
SENDS = "send-send deadlock"
NAN = "NaN on one rank"
STRAGGLER = "straggler"
CAUSES = (SKIPPED, SWAPPED, SHAPE, UNEVEN, SWALLOWED, SENDS, NAN, STRAGGLER)
"""The eight causes, in the order in which lesson 15 practises them."""

# What a diagnosis says where the records name no cause.
NO_FAULT = "no fault found"
OTHER_CALLS = "different calls"
ABSENT = "never came"

_LATE_S = 0.15  # less is the noise of a busy machine
_LEAST_TIMES = 4  # one pause of a rank makes it late to all calls of a step that are started together


@dataclass(frozen=True)
class Diagnosis:
    """The rank, the number of its call and the cause, one of `pllab.autopsy.CAUSES`, and a sentence for people.

    `rank` and `call` are None where nothing was found; then, and where the records name no cause, `cause` says so.
    """

    rank: int | None
    call: int | None
    cause: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def diagnose(records: Sequence[Record]) -> Diagnosis:
    """Name rank, call and cause from the records of the ranks, in any order.

    Worked example with two ranks, whose steps are all_reduce(768) and barrier:

        rank 0   ... all_reduce(768)   barrier   all_reduce(768) not finished
        rank 1   ... all_reduce(768)   barrier   barrier not finished
        ->       rank 1 skipped all_reduce(768), its call 6

    Raises:
        ValueError: fewer than two records, or two of one rank.
    """
    records = sorted(records, key=lambda record: record.rank)
    ranks = [record.rank for record in records]
    if len(records) < 2 or len({*ranks}) < len(ranks):
        raise ValueError(f"the records are of ranks {ranks}; give one record of each rank, of two ranks or more")
    for ask in (_parting, _circle_of_sends, _absence, _without_record, _not_a_number, _straggler):
        if (found := ask(records)) is not None:
            return found
    under_way = [f"rank {one.rank} in {one.standing}" for one in records if one.standing is not None]
    rest = f"some are under way: {', '.join(under_way)}" if under_way else "no rank waits for another"
    return Diagnosis(None, None, NO_FAULT, f"The records name no rank to blame, and {rest}.")


def _parting(records: Sequence[Record]) -> Diagnosis | None:
    """The first place in a group where the ranks made different calls."""
    for group in dict.fromkeys(call.group for record in records for call in record.calls):
        by_rank = {record.rank: record.collectives(group) for record in records}
        for place in sorted({place for calls in by_rank.values() for place in calls}):
            made = {rank: calls[place] for rank, calls in by_rank.items() if place in calls}
            if len({call.kind for call in made.values()}) > 1:
                return _explain_parting(records, by_rank, made, place)
    return None


def _explain_parting(
    records: Sequence[Record], by_rank: dict[int, dict[int, Call]], made: dict[int, Call], place: int
) -> Diagnosis:
    before = {rank: [call for at, call in calls.items() if at < place] for rank, calls in by_rank.items()}
    culprit = _minority(made, before)
    right = max((rank for rank in made if made[rank].kind != made[culprit].kind), key=lambda rank: len(by_rank[rank]))
    mine, wanted = made[culprit], made[right]
    told = f"rank {culprit} made {mine} as its call {mine.number}, where rank {right} made {wanted}"
    record = next(record for record in records if record.rank == culprit)
    from_here = ([call.kind for at, call in by_rank[rank].items() if at >= place] for rank in (culprit, right))
    return _another_call(record, mine, _cause_of_parting(before[right], *from_here), told)


def _another_call(record: Record, made: Call, cause: str, told: str) -> Diagnosis:
    if heard := [caught for caught in record.caught if caught.before_call <= made.number]:
        return _swallowed(record, heard[0].before_call)
    return Diagnosis(record.rank, made.number, cause, f"{_SENTENCES[cause].format(rank=record.rank)}: {told}.")


_SENTENCES = {
    SKIPPED: "Rank {rank} skipped a collective",
    SWAPPED: "Rank {rank} swapped two collectives",
    SHAPE: "Rank {rank} has a tensor of another shape or dtype",
    UNEVEN: "Rank {rank} had fewer batches and has left the loop",
    OTHER_CALLS: "Rank {rank} made another call than the others",
}


def _minority(made: dict[int, Call], before: dict[int, list[Call]]) -> int:
    """The rank that made the rarest call; on a tie, the rank that broke its own habit."""
    counts = Counter(call.kind for call in made.values())
    fewest = [rank for rank in made if counts[made[rank].kind] == min(counts.values())]
    unusual = [rank for rank in fewest if [made[rank].kind] != expected(before[fewest[0]])]
    return (unusual or fewest)[-1]


def _cause_of_parting(before: list[Call], mine: list[Kind], wanted: list[Kind]) -> str:
    """From the calls before the ranks part, and the kinds of those that the culprit and the others make from there."""
    by_habit = expected(before, len(wanted) + 1)
    after = [*wanted[1:], *by_habit[len(wanted) :]]  # what comes after the call that the others made
    if after and mine[0] == after[0]:
        return SWAPPED if len(mine) > 1 and mine[1] == wanted[0] and mine[1:2] != after[1:2] else SKIPPED
    if mine[0][0] == wanted[0][0]:
        return SHAPE
    if before and mine[0] not in [call.kind for call in before]:
        return UNEVEN
    return OTHER_CALLS


def _circle_of_sends(records: Sequence[Record]) -> Diagnosis | None:
    """Ranks of which each stands in a send to the next.

    The one to blame is the rank whose habit is another call at this place; without habits, the last one.
    """
    sends = {one.rank: call for one in records if (call := one.standing) is not None and call.name == "send"}
    for start in sends:
        circle, at = [start], sends[start].peer
        while at in sends and at not in circle:
            circle.append(at)
            at = sends[at].peer
        if at == start:
            break
    else:
        return None
    stands = {one.rank: sends[one.rank] for one in records if one.rank in circle}
    before = {one.rank: one.calls[: one.calls.index(sends[one.rank])] for one in records if one.rank in circle}
    unusual = [rank for rank, call in stands.items() if expected(before[rank]) not in ([], [call.kind])]
    rank = (unusual or list(stands))[-1]
    places = ", ".join(f"rank {number} in {call} (call {call.number})" for number, call in stands.items())
    why = "made another call here in the steps before" if unusual else "is the last of them, and no habit tells more"
    sentence = f"Every rank of a circle stands in a send, so nobody receives: {places}; rank {rank} {why}."
    return Diagnosis(rank, stands[rank].number, SENDS, sentence)


def _absence(records: Sequence[Record]) -> Diagnosis | None:
    """A rank that has not made a call in which others wait: it is elsewhere, or it went on to one of another group."""
    standing = [(record, call) for record in records if (call := record.standing) is not None and call.is_collective]
    missing = [
        (record, waiting, call)
        for waiting, call in sorted(standing, key=lambda pair: pair[1].order)
        # Those that are known to be in its group come first; a rank that has made no call there may be.
        for record in sorted(records, key=lambda one: not one.collectives(call.group))
        if call.order not in record.collectives(call.group)
    ]
    for record, waiting, call in missing:
        if record.standing is None:
            return _explain_absence(record, waiting, call)
    for record, waiting, call in missing:
        last = max((at for at, one in enumerate(record.calls) if one.group == call.group), default=0)
        for at, made in enumerate(record.calls[last + 1 : 2 * last + 1], last + 1):  # a habit has come twice
            if expected(record.calls[:at], 2) == [call.kind, made.kind]:
                told = f"rank {record.rank} made {made} as its call {made.number}, where it made {call} before"
                told += f", and rank {waiting.rank} stands in {call} (call {call.number})"
                return _another_call(record, made, SKIPPED, told)
    return None


def _explain_absence(record: Record, waiting: Record, call: Call) -> Diagnosis:
    told = f"rank {waiting.rank} stands in {call} (call {call.number})"
    if record.caught:
        return _swallowed(record, record.next_number, f", and {told}")
    if record.state == "returned":
        sentence = f"Rank {record.rank} had fewer batches and has returned, and {told}."
        return Diagnosis(record.rank, record.next_number, UNEVEN, sentence)
    where = f" It was at {record.stack[0]}." if record.stack else ""
    ended = "" if record.state == "running" else f" It ended: {record.state}."
    sentence = f"Rank {record.rank} never came to its call {record.next_number}, and {told}.{where}{ended}"
    return Diagnosis(record.rank, record.next_number, ABSENT, sentence)


def _without_record(records: Sequence[Record]) -> Diagnosis | None:
    """All records are the same, and yet ranks are stuck: they wait for one that left no record."""
    standing = [(call.number, record) for record in records if (call := record.standing) is not None]
    size = max(record.world_size for record in records)
    missing = sorted({*range(size)} - {record.rank for record in records})
    if not standing or not missing:
        return None
    number, waiting = min(standing, key=lambda one: (one[0], one[1].rank))
    told = f"rank {waiting.rank} stands in {waiting.standing} (call {number})"
    sentence = f"Rank {missing[0]} left no record, and {told}: look for the error of rank {missing[0]}."
    return Diagnosis(missing[0], number, ABSENT, sentence)


def _swallowed(record: Record, call: int, told: str = "") -> Diagnosis:
    rank, caught = record.rank, record.caught[-1]
    sentence = f"Rank {rank} swallowed an exception before its call {call}: {caught.text} at {caught.where}{told}."
    return Diagnosis(rank, call, SWALLOWED, sentence)


def _not_a_number(records: Sequence[Record]) -> Diagnosis | None:
    """The first call into which a rank put a value that is not a number; the sum carries it to all."""
    found = [(call.number, record.rank, call) for record in records for call in record.calls if call.has_nan]
    if not found:
        return None
    number, rank, call = min(found, key=lambda one: one[:2])
    sentence = f"Rank {rank} put a value that is not a number into {call}, its call {number}, as the first of all."
    return Diagnosis(rank, number, NAN, sentence)


def _straggler(records: Sequence[Record]) -> Diagnosis | None:
    """The rank that comes last most of the time, of the calls in which the others waited long."""
    late = lateness(records)
    times = {rank: sum(seconds >= _LATE_S for seconds in late[rank].values()) for rank in late}
    rank = max(times, key=lambda one: times[one])
    if times[rank] < _LEAST_TIMES or times[rank] < 0.6 * sum(times.values()):
        return None
    most = max(late[rank].values())
    calls = next([*one.collectives(one.calls[0].group).values()] for one in records if one.rank == rank)
    call = calls[_change([late[rank].get(call.number, 0.0) > most / 2 for call in calls])]
    told = f"from {call}, its call {call.number}, on the others wait up to {most:.2f} s"
    return Diagnosis(rank, call.number, STRAGGLER, f"Rank {rank} is a straggler: {told}.")


def _change(is_late: Sequence[bool]) -> int:
    """Where a sequence becomes late for good: after it, late calls exceed the overall average by the most.

    So one pause in the first step, while a rank still warms up, does not count as the beginning.
    """
    share = sum(is_late) / len(is_late)
    above = [sum(is_late[at:]) - share * (len(is_late) - at) for at in range(len(is_late))]
    return max((at for at, late in enumerate(is_late) if late), key=lambda at: (above[at], -at))


def _period(kinds: Sequence[Kind]) -> int | None:
    """After how many calls a sequence repeats itself: 2 for A B A B A; None if it has not repeated itself in full.

    A start that comes once, such as the broadcast of the weights, is left out: only the end has to repeat.
    """
    for period in range(1, len(kinds) // 2 + 1):
        if all(kinds[-1 - back] == kinds[-1 - back - period] for back in range(period)):
            return period
    return None


def expected(calls: Sequence[Call], ahead: int = 1) -> list[Kind]:
    """The kinds of the next `ahead` calls by habit; none without a habit."""
    kinds = [call.kind for call in calls]
    period = _period(kinds)
    return [] if period is None else [kinds[len(kinds) - period + step % period] for step in range(ahead)]


def lateness(records: Sequence[Record]) -> dict[int, dict[int, float]]:
    """For each rank the calls to which it came as the last one, with the seconds after the one before it.

    Worked example: ranks 0 and 1 came to call 4 at 1.0 s and 1.1 s, and rank 2 at 1.5 s:

        {0: {}, 1: {}, 2: {4: 0.4}}

    It counts each rank's first group, and the calls that all made; for a rank alone in its group nobody waits. All
    ranks must share a clock, as on one machine.
    """
    late: dict[int, dict[int, float]] = {record.rank: {} for record in records}
    calls = {record.rank: record.collectives(call.group) for record in records for call in record.calls[:1]}
    if len(calls) < len(records):
        return late
    for place in sorted(set.intersection(*map(set, calls.values()))):
        (before, _), (last, rank) = sorted((calls[rank][place].started_s, rank) for rank in calls)[-2:]
        if sum(of_rank[place].group == calls[rank][place].group for of_rank in calls.values()) > 1:
            late[rank][calls[rank][place].number] = last - before
    return late


def wait_for_graph(records: Sequence[Record]) -> dict[int, set[int]]:
    """For each rank the ranks that its first unfinished call waits for; empty for one that waits for none.

    Worked example: ranks 0 and 2 wait in all_reduce(768), their call 8, and rank 1 has made seven calls:

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
