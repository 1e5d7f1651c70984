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


def test_a_rank_is_late_by_the_time_since_the_one_before_it():
    """The worked example of the docstring, as a record has it."""
    records = [
        Record(rank, 3, (Call(4, "all_reduce", (768,), started_s=second),))
        for rank, second in enumerate((1.0, 1.125, 1.5))
    ]
    assert diagnosis.lateness(records) == {0: {}, 1: {}, 2: {4: 0.375}}


def test_a_rank_alone_in_its_first_group_is_not_late():
    records = [record(rank, ["all_reduce 8"] * 8, finished=8, size=3) for rank in range(3)]
    records[2] = changed(records[2], lambda call: {"group": "alone", "started_s": call.started_s + 0.5})
    assert diagnose(records).cause == diagnosis.NO_FAULT


def test_a_straggler_is_late_to_calls_of_its_first_group():
    """In torch's dumps each group numbers its calls from 1, so one number stands for several calls of a rank."""
    words = ["dp: all_reduce 768", "tp: all_gather 16", "tp: all_gather 16"] * 12
    records = [in_groups(rank, words, finished=36) for rank in (0, 1)]
    records[1] = changed(
        records[1], lambda call: {"started_s": call.started_s + 0.5 * (call.group == "dp" and call.order >= 6)}
    )
    found = diagnose([changed(one, lambda call: {"number": call.order}) for one in records])
    assert named(found) == (1, 6, diagnosis.STRAGGLER) and "from all_reduce(768), its call 6" in found.sentence


def test_two_ranks_are_told_apart_by_habit():
    healthy = [*STEP, *STEP, "all_reduce 768"]
    for words, cause, call in (
        ([*STEP, *STEP, "all_gather 1"], diagnosis.SKIPPED, 6),
        ([*STEP, *STEP, "all_gather 1", "all_reduce 768"], diagnosis.SWAPPED, 6),
        ([*STEP, *STEP, "all_reduce 767"], diagnosis.SHAPE, 6),
        ([*STEP, *STEP, "broadcast 768"], diagnosis.UNEVEN, 6),
    ):
        for culprit in (0, 1):
            records = [record(culprit, words), record(1 - culprit, healthy)]
            assert named(diagnose(records)) == (culprit, call, cause), (words, culprit)


def test_a_start_that_comes_once_does_not_hide_the_habit():
    words = ["broadcast 768", "barrier", *STEP, *STEP]
    healthy = record(0, [*words, "all_reduce 768"])
    assert named(diagnose([record(1, [*words, "all_gather 1"]), healthy])) == (1, 8, diagnosis.SKIPPED)
    assert diagnosis.expected(healthy.calls[:-1], 2) == [healthy.calls[2].kind, healthy.calls[3].kind]


def test_without_a_habit_different_calls_are_named_and_not_explained():
    one, other = record(0, ["all_reduce 4"]), record(1, ["barrier"])
    assert diagnose([one, other]).cause == diagnosis.OTHER_CALLS


def test_other_dtypes_and_roots_are_other_calls():
    records = [record(rank, [*STEP, *STEP, "all_reduce 768"], size=3) for rank in range(3)]
    calls = records[1].calls
    half = replace(records[1], calls=(*calls[:-1], replace(calls[-1], dtype="Half")))
    assert named(diagnose([records[0], half, records[2]])) == (1, 6, diagnosis.SHAPE)


def test_the_shapes_of_a_scatter_are_each_ranks_own():
    records = [record(0, ["scatter 3 4"], finished=1), record(1, ["scatter"], finished=1)]
    assert diagnose(records).cause == diagnosis.NO_FAULT


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
    records[3] = replace(records[3], caught=(Caught("KeyError: 'x'", "train.py:3 in load", 6),))
    assert named(diagnose(records)) == (3, 6, diagnosis.SWALLOWED)


def test_two_groups_entered_in_the_opposite_order_are_told_apart_by_habit():
    groups = ["dp: all_reduce 8", "tp: all_gather 8"]
    for steps, truth in ((2, (1, 4, diagnosis.SKIPPED)), (0, (None, None, diagnosis.NO_FAULT))):
        found = diagnose([in_groups(rank, [*groups * steps, groups[rank]]) for rank in (0, 1)])
        assert named(found) == truth and "Every rank made the same calls" not in found.sentence


def test_a_rank_that_never_came_and_what_its_record_says_of_it():
    waits = record(0, [*STEP, "all_reduce 768"])
    gone = record(1, STEP, finished=3, stack=("queue.py:171 in get",))
    found = diagnose([waits, gone])
    assert named(found) == (1, 3, diagnosis.ABSENT) and "It was at queue.py:171 in get." in found.sentence
    assert named(diagnose([waits, replace(gone, state="returned")])) == (1, 3, diagnosis.UNEVEN)
    caught = (Caught("KeyError: 'x'", "train.py:3 in load", 3),)
    found = diagnose([waits, replace(gone, caught=caught)])
    assert named(found) == (1, 3, diagnosis.SWALLOWED) and "KeyError: 'x' at train.py:3 in load" in found.sentence


def test_a_record_whose_beginning_was_overwritten_is_compared_by_number():
    """A ring buffer keeps the last calls: those of one rank may begin later."""
    long, short = record(0, [*STEP, *STEP, "all_reduce 768"]), record(1, [*STEP, *STEP, "all_gather 1"])
    assert named(diagnose([long, replace(short, calls=short.calls[2:])])) == (1, 6, diagnosis.SKIPPED)


def test_sends_in_a_circle_of_three():
    records = [Record(rank, 3, (Call(0, "send", (4,), peer=(rank + 1) % 3),)) for rank in range(3)]
    assert named(diagnose(records)) == (2, 0, diagnosis.SENDS)  # nobody broke a habit: the last one is named


def test_a_send_that_waits_for_a_busy_rank_is_no_circle():
    records = [Record(0, 2, (Call(0, "send", (4,), peer=1),)), Record(1, 2, ())]
    assert diagnose(records).cause != diagnosis.SENDS


def test_noise_is_no_straggler():
    records, _ = rehearse("straggler", 0)
    calm = [changed(one, lambda call, one=one: {"started_s": call.number + one.rank / 1000}) for one in records]
    assert diagnose(calm).cause == diagnosis.NO_FAULT


def test_one_pause_of_a_rank_makes_no_straggler():
    """It is late to the three calls of a step that are started together, once."""
    records = [record(rank, [*STEP] * 6, finished=18, size=3) for rank in range(3)]
    records[1] = changed(records[1], lambda call: {"started_s": call.started_s + 0.5 * (6 <= call.number < 9)})
    assert diagnose(records).cause == diagnosis.NO_FAULT


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
