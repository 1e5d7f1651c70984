"""The eight faults, rehearsed on a virtual clock, and records that none of them leaves."""

from dataclasses import replace

import pytest

from pllab.autopsy import CAUSES, Call, Caught, Diagnosis, Record, diagnose, diagnosis
from pllab.lesson.faults import rehearse

STEP = ["all_reduce 768", "all_gather 1", "barrier"]


def record(rank, words, *, finished=None, size=2, **more):
    """A record of calls written as `name shape`; the last one is not finished by default."""
    finished = len(words) - 1 if finished is None else finished
    calls = []
    for number, word in enumerate(words):
        name, *shape = word.split()
        shape = tuple(map(int, shape))
        calls.append(Call(number, name, shape, order=number, finished=number < finished, started_s=number / 1000))
    return Record(rank, size, tuple(calls), **more)


def in_groups(rank, words, **more):
    """A record of calls written as `group: name shape`, each with its place in its group."""
    groups, words = zip(*(word.split(": ") for word in words), strict=True)
    one = record(rank, words, **more)
    calls = (replace(c, group=groups[c.number], order=groups[: c.number].count(groups[c.number])) for c in one.calls)
    return replace(one, calls=tuple(calls))


def changed(record, change):
    """The record with other values in each of its calls."""
    return replace(record, calls=tuple(replace(call, **change(call)) for call in record.calls))


def named(found: Diagnosis):
    return found.rank, found.call, found.cause


@pytest.mark.parametrize("ward", CAUSES)
def test_each_ward_is_diagnosed_right_over_fifty_seeds(ward):
    for seed in range(50):
        records, truth = rehearse(ward, seed)
        assert named(diagnose(records)) == truth, seed
        assert named(diagnose(records[::-1])) == truth, "the order of the files does not matter"
        for one in records:
            backwards = replace(one, calls=one.calls[::-1])
            assert list(backwards.collectives("")) == list(one.collectives("")), "nor does that of the calls"


def test_a_rank_is_late_by_the_time_since_the_one_before_it():
    """The worked example of the docstring, as a record has it."""
    calls = [Call(4, "all_reduce", (768,), started_s=second) for second in (1.0, 1.125, 1.5)]
    records = [Record(rank, 3, (call,)) for rank, call in enumerate(calls)]
    assert diagnosis.lateness(records) == {0: {}, 1: {}, 2: {4: 0.375}}


def test_a_rank_waits_for_those_of_its_group_that_have_not_come():
    """Rank 2 has made calls, and none in that group, so it is in another one; who has made none may be in any."""
    stuck, late = in_groups(0, ["a: barrier"] * 2), in_groups(1, ["a: barrier"], finished=1)
    other = in_groups(2, ["b: barrier"], finished=1)
    assert diagnosis.wait_for_graph([stuck, late, other]) == {0: {1}, 1: set(), 2: set()}
    assert diagnosis.wait_for_graph([stuck, record(1, [])]) == {0: {1}, 1: set()}


def test_a_straggler_is_late_to_calls_of_its_first_group():
    """In torch's dumps each group numbers its calls from 1, so one number stands for several calls of a rank."""
    words = ["dp: all_reduce 768", "tp: all_gather 16", "tp: all_gather 16"] * 12
    records = [in_groups(rank, words, finished=36) for rank in (0, 1)]
    records[1] = late(records[1], range(18, 36, 3))
    found = diagnose([changed(one, lambda call: {"number": call.order}) for one in records])
    assert named(found) == (1, 6, diagnosis.STRAGGLER) and "from all_reduce(768), its call 6" in found.sentence


START = ["broadcast 768", "barrier"]  # comes once, and does not hide the habit


@pytest.mark.parametrize("culprit", [0, 1])
@pytest.mark.parametrize(
    ("start", "end", "cause"),
    [
        ([], ["all_gather 1"], diagnosis.SKIPPED),
        ([], ["all_gather 1", "all_reduce 768"], diagnosis.SWAPPED),
        ([], ["all_reduce 767"], diagnosis.SHAPE),
        ([], ["broadcast 768"], diagnosis.UNEVEN),
        (START, ["all_gather 1"], diagnosis.SKIPPED),
    ],
)
def test_two_ranks_are_told_apart_by_habit(start, end, cause, culprit):
    words = [*start, *STEP, *STEP]
    records = [record(culprit, [*words, *end]), record(1 - culprit, [*words, "all_reduce 768"])]
    assert named(diagnose(records)) == (culprit, len(words), cause)


def late(record, calls):
    """The record of a rank that came half a second late to these calls."""
    return changed(record, lambda call: {"started_s": call.started_s + 0.5 * (call.number in calls)})


HABIT = [*STEP, *STEP, "all_reduce 768"]
HEALTHY = [record(rank, HABIT, size=3) for rank in range(3)]
DONE = [record(rank, STEP * 6, finished=18, size=3) for rank in range(3)]
HALF = replace(HEALTHY[1], calls=(*HEALTHY[1].calls[:-1], replace(HEALTHY[1].calls[-1], dtype="Half")))
CIRCLE = [Record(rank, 3, (Call(0, "send", (4,), peer=(rank + 1) % 3),)) for rank in range(3)]
RING_BUFFER = record(1, [*HABIT[:-1], "all_gather 1"])
NOTHING = None, None, diagnosis.NO_FAULT


@pytest.mark.parametrize(
    ("records", "truth"),
    {
        "no habit": ([record(0, ["all_reduce 4"]), record(1, ["barrier"])], (1, 0, diagnosis.OTHER_CALLS)),
        "another dtype": ([HEALTHY[0], HALF, HEALTHY[2]], (1, 6, diagnosis.SHAPE)),
        "own shapes": ([record(0, ["scatter 3 4"], finished=1), record(1, ["scatter"], finished=1)], NOTHING),
        "beginning lost": (
            [record(0, HABIT), replace(RING_BUFFER, calls=RING_BUFFER.calls[2:])],
            (1, 6, diagnosis.SKIPPED),
        ),
        "circle of sends, and the last is named": (CIRCLE, (2, 0, diagnosis.SENDS)),
        "send to a busy rank": ([Record(0, 2, CIRCLE[0].calls), Record(1, 2, ())], NOTHING),
        "one pause of a step": ([DONE[0], late(DONE[1], range(6, 9)), DONE[2]], NOTHING),
        "late, alone in its group": (
            [*DONE[:2], changed(late(DONE[2], range(18)), lambda _: {"group": "alone"})],
            NOTHING,
        ),
    }.values(),
)
def test_what_few_records_show(records, truth):
    assert named(diagnose(records)) == truth


def test_groups_are_compared_each_by_itself():
    """Two pairs of ranks; the pairs make different calls, and that is no fault."""
    records = [record(rank, words, finished=3, size=4) for rank, words in enumerate([STEP] * 2 + [["barrier"] * 3] * 2)]
    paired = [changed(one, lambda _, one=one: {"group": f"pair {one.rank // 2}"}) for one in records]
    assert diagnose(records).cause != diagnosis.NO_FAULT == diagnose(paired).cause


def test_a_rank_that_hangs_is_looked_for_in_the_group_that_waits():
    """Also before its first call there, where no record says that it belongs to the group."""
    records = [record(rank, STEP, finished=3, size=4, state="returned") for rank in range(4)]
    records = [changed(one, lambda _, one=one: {"group": f"pair {one.rank // 2}"}) for one in records]
    records[2] = changed(record(2, [*STEP, "all_reduce 768"], size=4), lambda _: {"group": "pair 1"})
    records[3] = replace(records[3], state="running")
    assert named(diagnose(records)) == (3, 3, diagnosis.ABSENT)
    alone = [record(0, STEP, finished=0, size=3), record(1, STEP, finished=0, size=3), record(2, [], size=3)]
    assert named(diagnose(alone)) == (2, 0, diagnosis.ABSENT)


@pytest.mark.parametrize("size", [768, 16])
def test_a_rank_that_left_out_a_call_of_one_group_stands_in_another(size):
    """Two by two ranks. The calls of each group are the same on its ranks, and the ranks wait in a circle."""
    steps = [
        [f"dp {rank % 2}: all_reduce {size}", f"tp {rank // 2}: all_reduce 16", "all: barrier"] for rank in range(4)
    ]
    last = (steps[0][:2], steps[1][:1], steps[2], steps[3][1:])
    records = [in_groups(rank, 2 * step + last[rank], size=4) for rank, step in enumerate(steps)]
    assert named(diagnose(records)) == (3, 6, diagnosis.SKIPPED)
    assert f"all_reduce({size}) before, and rank 1 stands in all_reduce({size}) (call 6)" in diagnose(records).sentence
    for before_call, cause in ((6, diagnosis.SWALLOWED), (7, diagnosis.SKIPPED)):
        records[3] = replace(records[3], caught=(Caught("KeyError: 'x'", "train.py:3 in load", before_call),))
        assert named(diagnose(records)) == (3, 6, cause)


@pytest.mark.parametrize(("steps", "truth"), [(2, (1, 4, diagnosis.SKIPPED)), (0, NOTHING)])
def test_two_groups_entered_in_the_opposite_order_are_told_apart_by_habit(steps, truth):
    groups = ["dp: all_reduce 8", "tp: all_gather 8"]
    assert named(diagnose([in_groups(rank, [*groups * steps, groups[rank]]) for rank in (0, 1)])) == truth


def test_a_rank_that_never_came_and_what_its_record_says_of_it():
    waits = record(0, [*STEP, "all_reduce 768"])
    gone = record(1, STEP, finished=3, stack=("queue.py:171 in get",))
    found = diagnose([waits, gone])
    assert named(found) == (1, 3, diagnosis.ABSENT) and "It was at queue.py:171 in get." in found.sentence
    assert named(diagnose([waits, replace(gone, state="returned")])) == (1, 3, diagnosis.UNEVEN)
    caught = (Caught("KeyError: 'x'", "train.py:3 in load", 3),)
    found = diagnose([waits, replace(gone, caught=caught)])
    assert named(found) == (1, 3, diagnosis.SWALLOWED) and "KeyError: 'x' at train.py:3 in load" in found.sentence


def test_a_pause_in_the_first_step_is_not_the_beginning_of_a_straggler():
    for seed in range(50):
        records, truth = rehearse("straggler", seed)
        records[truth.rank] = changed(
            records[truth.rank], lambda call: {"started_s": call.started_s + 0.4 * (call.number in (1, 2))}
        )
        assert named(diagnose(records)) == truth, seed


def test_a_rank_that_left_no_record_is_the_finding_when_the_others_stand_still():
    records = [record(rank, [*STEP, *STEP], size=3) for rank in (0, 2)]
    found = diagnose(records)
    assert named(found) == (1, 5, diagnosis.ABSENT)
    assert "Rank 1 left no record, and rank 0 stands in barrier" in found.sentence
    done = [record(rank, [*STEP, *STEP], size=3, finished=6) for rank in (0, 2)]
    assert diagnose(done).cause == diagnosis.NO_FAULT
    under_way = [record(rank, [*STEP, *STEP]) for rank in (0, 1)]
    assert diagnose(under_way).sentence.endswith("some are under way: rank 0 in barrier, rank 1 in barrier.")


@pytest.mark.parametrize("records", [[], [record(0, STEP)], [record(1, STEP), record(1, STEP)]])
def test_fewer_than_two_ranks_cannot_be_compared(records):
    with pytest.raises(ValueError, match="give one record of each rank, of two ranks or more"):
        diagnose(records)
