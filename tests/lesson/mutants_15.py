"""Wrong solutions of lesson 15, each with the hint that must refuse it."""

from collections import Counter
from time import sleep

from pllab.autopsy import diagnose, wait_for_graph
from tests.lesson.variants_15 import asks_in_order, by_first_unfinished, counts_kinds

# 15.1 first_difference(records)


def forgets_to_return(records):
    counts_kinds(records)


def returns_a_word(records):
    return f"rank {counts_kinds(records)}" if counts_kinds(records) else None


def call_before_rank(records):
    found = counts_kinds(records)
    return found and found[::-1]


def _numbers(records, kind_of, numbered=lambda place, call: call.number):
    """A solution with another idea of what a kind and what a number is."""
    made = {}
    for record in records:
        for place, call in enumerate(record.calls):
            if call.is_collective:
                made.setdefault(numbered(place, call), {})[record.rank] = kind_of(call)
    return made


def _first(made):
    for number in sorted(made):
        counts = Counter(made[number].values())
        if len(counts) > 1:
            return next(rank for rank in made[number] if counts[made[number][rank]] == 1), number
    return None


def names_only(records):
    return _first(_numbers(records, lambda call: call.name))


def shapes_without_dtypes(records):
    return _first(_numbers(records, lambda call: (call.name, call.shape, call.peer)))


def by_place(records):
    return _first(_numbers(records, lambda call: call.kind, lambda place, _: place))


def last_difference(records):
    made = _numbers(records, lambda call: call.kind)
    parted = [number for number in made if len({*made[number].values()}) > 1]
    if not parted:
        return None
    found = _first({max(parted): made[max(parted)]})
    return found or (0, max(parted))


def blames_the_majority(records):
    found = counts_kinds(records)
    return found and (next(one.rank for one in records if one.rank != found[0]), found[1])


def blames_who_made_fewer(records):
    if found := counts_kinds(records):
        return found
    fewest = min(records, key=lambda one: len(one.calls))
    most = max(len(one.calls) for one in records)
    return (fewest.rank, len(fewest.calls)) if len(fewest.calls) < most else None


def compares_messages_too(records):
    made = {}
    for record in records:
        for call in record.calls:
            made.setdefault(call.number, {})[record.rank] = call.kind
    for number in sorted(made):
        if len({*made[number].values()}) > 1:
            counts = Counter(made[number].values())
            return next(rank for rank in made[number] if counts[made[number][rank]] == 1), number
    return None


# 15.2 who_waits(records)


def nothing(records):
    by_first_unfinished(records)


def pairs(records):
    return [(one, other) for one, others in by_first_unfinished(records).items() for other in others]


def lists(records):
    return {rank: sorted(others) for rank, others in by_first_unfinished(records).items()}


def without_the_idle(records):
    return {rank: others for rank, others in by_first_unfinished(records).items() if others}


def for_everybody(records):
    everybody = {one.rank for one in records}
    return {one.rank: everybody - {one.rank} if one.standing else set() for one in records}


def only_for_the_absent(records):
    waits = {}
    for one in records:
        call = one.standing
        if call is None:
            waits[one.rank] = set()
        elif not call.is_collective:
            waits[one.rank] = {call.peer}
        else:
            waits[one.rank] = {r.rank for r in records if call.number not in {c.number for c in r.calls}}
    return waits


def only_for_the_different(records):
    waits = by_first_unfinished(records)
    for one in records:
        call = one.standing
        if call is not None and call.is_collective:
            made = {r.rank for r in records if call.number in {c.number for c in r.calls}}
            waits[one.rank] &= made
    return waits


def from_the_last_call(records):
    waits = {}
    for one in records:
        call = one.last
        if call is None or call.finished:
            waits[one.rank] = set()
        elif not call.is_collective:
            waits[one.rank] = {call.peer}
        else:
            same = {r.rank for r in records for c in r.calls if (c.number, c.kind) == (call.number, call.kind)}
            waits[one.rank] = {r.rank for r in records} - same
    return waits


def sends_wait_for_all(records):
    waits = by_first_unfinished(records)
    for one in records:
        if one.standing is not None and not one.standing.is_collective:
            waits[one.rank] = {other.rank for other in records} - {one.rank}
    return waits


def waits_for_oneself(records):
    return {rank: others and others | {rank} for rank, others in by_first_unfinished(records).items()}


def waits_though_it_came(records):
    """The misconception: who has not finished the call keeps the others waiting, although all have come."""
    waits = by_first_unfinished(records)
    for one in records:
        call = one.standing
        if call is not None and call.is_collective:
            finished = {r.rank for r in records for c in r.calls if c.number == call.number and c.finished}
            waits[one.rank] = {r.rank for r in records} - finished - {one.rank}
    return waits


def handed_through(records):
    return {rank: {r for r in others} for rank, others in wait_for_graph(records).items() if rank >= 0 and others}


def turned_round(records):
    waits = by_first_unfinished(records)
    return {rank: {other for other in waits if rank in waits[other]} for rank in waits}


# 15.3 diagnose_visit(records)


def no_answer(records):
    asks_in_order(records)


def two_parts(records):
    return asks_in_order(records)[1:]


def own_words(records):
    rank, call, cause = asks_in_order(records)
    return rank, call, cause.upper()


def _renamed(wrong, right):
    def renamed(records):
        rank, call, cause = asks_in_order(records)
        return rank, call, right if cause == wrong else cause

    renamed.__name__ = f"takes_{wrong}_for_{right}".replace(" ", "_").replace("-", "_")
    return renamed


def names_who_stands_longest(records):
    """The misconception: the rank that stands longest is the one at fault."""
    rank, call, cause = asks_in_order(records)
    waiting = [one for one in records if one.standing is not None and one.rank != rank]
    return (waiting[0].rank if waiting else rank), call, cause


def one_call_late(records):
    rank, call, cause = asks_in_order(records)
    return rank, call + 1, cause


def last_call_of_the_rank(records):
    rank, _, cause = asks_in_order(records)
    return rank, next(one for one in records if one.rank == rank).calls[-1].number, cause


def last_nan(records):
    rank, call, cause = asks_in_order(records)
    if cause == "NaN on one rank":
        call = max(c.number for one in records for c in one.calls if c.has_nan)
    return rank, call, cause


def blames_the_even_rank(records):
    rank, call, cause = asks_in_order(records)
    return (rank - 1 if cause == "send-send deadlock" else rank), call, cause


def latest_of_all(records):
    """The straggler's largest delay in place of its first one."""
    rank, call, cause = asks_in_order(records)
    if cause == "straggler":
        call = max(next(one for one in records if one.rank == rank).calls, key=lambda c: c.started_s).number
    return rank, call, cause


def the_packages_own(records):
    found = diagnose(records)
    return found.rank, (found.call or 0) + 1, found.cause


WRONG = [
    ("15.1", "found_none", forgets_to_return),
    ("15.1", "wrong_form", returns_a_word),
    ("15.1", "reversed", call_before_rank),
    ("15.1", "shape_unseen", names_only),
    ("15.1", "shape_unseen", shapes_without_dtypes),
    ("15.1", "place_for_number", by_place),
    ("15.1", "wrong_call", last_difference),
    ("15.1", "wrong_rank", blames_the_majority),
    ("15.1", "blames_the_same", blames_who_made_fewer),
    ("15.1", "blames_messages", compares_messages_too),
    ("15.2", "nothing", nothing),
    ("15.2", "wrong_form", pairs),
    ("15.2", "no_set", lists),
    ("15.2", "rank_missing", without_the_idle),
    ("15.2", "absent_unseen", for_everybody),
    ("15.2", "different_unseen", only_for_the_absent),
    ("15.2", "absent_unseen", only_for_the_different),
    ("15.2", "different_unseen", from_the_last_call),
    ("15.2", "not_the_peer", sends_wait_for_all),
    ("15.2", "waits_for_itself", waits_for_oneself),
    ("15.2", "absent_unseen", waits_though_it_came),
    ("15.2", "rank_missing", handed_through),
    ("15.2", "absent_unseen", turned_round),
    ("15.3", "nothing", no_answer),
    ("15.3", "wrong_form", two_parts),
    ("15.3", "no_cause", own_words),
    ("15.3", "not_swapped", _renamed("swapped collectives", "skipped collective")),
    ("15.3", "not_skipped", _renamed("skipped collective", "swapped collectives")),
    ("15.3", "not_wrong", _renamed("wrong shape", "skipped collective")),
    ("15.3", "not_uneven", _renamed("uneven batches", "skipped collective")),
    ("15.3", "not_send-send", _renamed("send-send deadlock", "straggler")),
    ("15.3", "not_swallowed", _renamed("swallowed exception", "uneven batches")),
    ("15.3", "not_nan", _renamed("NaN on one rank", "straggler")),
    ("15.3", "not_straggler", _renamed("straggler", "NaN on one rank")),
    ("15.3", "wrong_rank", names_who_stands_longest),
    ("15.3", "wrong_rank", blames_the_even_rank),
    ("15.3", "wrong_call", one_call_late),
    ("15.3", "wrong_call", last_call_of_the_rank),
    ("15.3", "wrong_call", last_nan),
    ("15.3", "wrong_call", latest_of_all),
    ("15.3", "wrong_call", the_packages_own),
]


def walks_in_a_circle(records):
    at = records[0].rank
    while True:
        at = next(iter(by_first_unfinished(records).get(at) or {at}))
        sleep(0.01)  # who computes without end on a busy machine is not judged


HANGING = [("15.2", "hang", walks_in_a_circle)]
