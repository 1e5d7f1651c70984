"""Wrong solutions of lesson 15, each with the hint that must refuse it."""

import statistics
from collections import Counter
from dataclasses import replace
from time import sleep

from tests.lesson.variants_15 import asks_in_order, by_first_unfinished, counts_kinds

# 15.1 first_difference(records)


def forgets_to_return(records):
    counts_kinds(records)


def returns_a_word(records):
    return f"rank {counts_kinds(records)}" if counts_kinds(records) else None


def call_before_rank(records):
    found = counts_kinds(records)
    return found and found[::-1]


def _numbers(records, kind_of, numbered=lambda place, call: call.number, asked=lambda call: call.is_collective):
    """A solution with another idea of what a kind is, what a number is, and which calls count."""
    made = {}
    for record in records:
        for place, call in enumerate(record.calls):
            if asked(call):
                made.setdefault(numbered(place, call), {})[record.rank] = kind_of(call)
    return made


def _first(made, ordered=sorted):
    for number in ordered(made):
        counts = Counter(made[number].values())
        if len(counts) > 1:
            return next(rank for rank in made[number] if counts[made[number][rank]] == 1), number
    return None


def names_only(records):
    return _first(_numbers(records, lambda call: call.name))


def by_place(records):
    return _first(_numbers(records, lambda call: call.kind, lambda place, _: place))


def numbers_as_they_come(records):
    return _first(_numbers(records, lambda call: call.kind), ordered=list)


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
    return _first(_numbers(records, lambda call: call.kind, asked=lambda call: True))


# 15.2 who_waits(records)


def nothing(records):
    by_first_unfinished(records)


def without_the_idle(records):
    return {rank: others for rank, others in by_first_unfinished(records).items() if others}


def for_everybody(records):
    everybody = {one.rank for one in records}
    return {one.rank: everybody - {one.rank} if one.standing else set() for one in records}


def _waiting_for(absent):
    """Right for messages; who stands in a collective waits for those who are absent by another idea."""

    def waits(records):
        found = by_first_unfinished(records)
        for one in records:
            if one.standing is not None and one.standing.is_collective:
                found[one.rank] = {other.rank for other in records if other is not one and absent(one, other)}
        return found

    waits.__name__ = absent.__name__
    return waits


def made_no_call_of_its_number(one, other):
    return one.standing.number not in {call.number for call in other.calls}


def does_not_stand_there_too(one, other):
    return other.standing is None or (other.standing.number, other.standing.kind) != (
        one.standing.number,
        one.standing.kind,
    )


def has_another_call_at_its_place(one, other):
    place = list(one.calls).index(one.standing)
    return [call.kind for call in other.calls[place : place + 1]] != [one.standing.kind]


def sends_wait_for_all(records):
    waits = by_first_unfinished(records)
    for one in records:
        if one.standing is not None and not one.standing.is_collective:
            waits[one.rank] = {other.rank for other in records} - {one.rank}
    return waits


def waits_for_oneself(records):
    return {rank: others and others | {rank} for rank, others in by_first_unfinished(records).items()}


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


def last_nan(records):
    rank, call, cause = asks_in_order(records)
    if cause == "NaN on one rank":
        call = max(c.number for one in records for c in one.calls if c.has_nan)
    return rank, call, cause


def last_nan_of_all(records):
    rank, call, cause = asks_in_order(records)
    if cause == "NaN on one rank":
        call, rank = max((c.number, one.rank) for one in records for c in one.calls if c.has_nan)
    return rank, call, cause


def nan_of_the_first_record(records):
    rank, call, cause = asks_in_order(records)
    if cause == "NaN on one rank":
        rank, call = next((one.rank, c.number) for one in records for c in one.calls if c.has_nan)
    return rank, call, cause


def last_call_before_the_exception(records):
    rank, call, cause = asks_in_order(records)
    return rank, call - (cause == "swallowed exception"), cause


def receive_of_the_step_before(records):
    rank, call, cause = asks_in_order(records)
    return rank, call - 4 if cause == "send-send deadlock" else call, cause


def reads_no_exceptions(records):
    return asks_in_order([replace(one, caught=()) for one in records])


def reads_no_nan(records):
    calls = [tuple(replace(call, has_nan=False) for call in one.calls) for one in records]
    return asks_in_order([replace(one, calls=mine) for one, mine in zip(records, calls, strict=True)])


def blames_the_even_rank(records):
    rank, call, cause = asks_in_order(records)
    return (rank - 1 if cause == "send-send deadlock" else rank), call, cause


WRONG = [
    ("15.1", "wrong", forgets_to_return),
    ("15.1", "wrong_form", returns_a_word),
    ("15.1", "reversed", call_before_rank),
    ("15.1", "shape_unseen", names_only),
    ("15.1", "raised", by_place),
    ("15.1", "wrong_rank", blames_the_majority),
    ("15.1", "blames_the_same", blames_who_made_fewer),
    ("15.1", "blames_messages", compares_messages_too),
    ("15.1", "wrong", numbers_as_they_come),
    ("15.2", "wrong_form", nothing),
    ("15.2", "rank_missing", without_the_idle),
    ("15.2", "wrong", for_everybody),
    ("15.2", "wrong", _waiting_for(made_no_call_of_its_number)),
    ("15.2", "not_the_peer", sends_wait_for_all),
    ("15.2", "waits_for_itself", waits_for_oneself),
    ("15.2", "wrong", _waiting_for(does_not_stand_there_too)),
    ("15.2", "wrong", _waiting_for(has_another_call_at_its_place)),
    ("15.3", "nothing", no_answer),
    ("15.3", "wrong_form", two_parts),
    ("15.3", "wrong_cause", own_words),
    ("15.3", "wrong_cause", _renamed("send-send deadlock", "straggler")),
    ("15.3", "wrong_cause", _renamed("swallowed exception", "uneven batches")),
    ("15.3", "wrong_cause", _renamed("NaN on one rank", "straggler")),
    ("15.3", "wrong_rank", names_who_stands_longest),
    ("15.3", "wrong_rank", blames_the_even_rank),
    ("15.3", "wrong_call", one_call_late),
    ("15.3", "wrong_call", last_nan),
    ("15.3", "wrong_call", last_call_before_the_exception),
    ("15.3", "nothing", reads_no_exceptions),
    ("15.3", "wrong_rank", nan_of_the_first_record),
    ("15.3", "wrong", last_nan_of_all),
    ("15.3", "nothing", reads_no_nan),
    ("15.3", "wrong_call", receive_of_the_step_before),
]


def straggler_that(since, limit=0.2):
    """The first call to which one rank comes too late, by another idea of since when, or of how late."""

    def named(records):
        rank, call, cause = asks_in_order(records)
        if cause != "straggler":
            return rank, call, cause
        for calls in zip(*(one.calls for one in records), strict=True):
            times = sorted((call.started_s, one.rank) for one, call in zip(records, calls, strict=True))
            if times[-1][0] - since([time for time, _ in times]) >= limit:
                return times[-1][1], calls[0].number, cause
        return None

    named.__name__ = f"straggler_since_{since.__name__}_by_{limit}".replace(".", "_")
    return named


def next_to_last(times):
    return times[-2]


def blames_the_highest_sender(records):
    rank, call, cause = asks_in_order(records)
    stuck = [one for one in records if one.standing is not None and one.standing.name == "send"]
    return (max(one.rank for one in stuck) if stuck else rank), call, cause


# Accepted once.
LET_THROUGH = [
    ("15.3", "wrong_rank", blames_the_highest_sender),
    ("15.3", "wrong_rank", straggler_that(min)),
    ("15.3", "wrong_rank", straggler_that(statistics.mean)),
    ("15.3", "wrong_rank", straggler_that(next_to_last, limit=0.1)),
    ("15.3", "wrong_call", straggler_that(next_to_last, limit=0.3)),
]


def walks_in_a_circle(records):
    at = records[0].rank
    while True:
        at = next(iter(by_first_unfinished(records).get(at) or {at}))
        sleep(0.01)  # who computes without end on a busy machine is not judged


HANGING = [
    ("15.2", "hang", walks_in_a_circle),
]
