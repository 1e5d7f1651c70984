"""The wards on real ranks: each is diagnosed from its records, ends in seconds and leaves nothing.

`PLLAB_CLINIC_SEEDS=50 python -m pytest tests/lesson/test_clinic.py -m exhaustive` tries that many seeds of each ward.
"""

import json
import os
import tempfile
import time

import pytest

from pllab.autopsy import CAUSES, diagnose, read_records, wait_for_graph
from pllab.autopsy.diagnosis import SENDS, SKIPPED, STRAGGLER, SWAPPED, UNEVEN
from pllab.cli import main
from pllab.lesson.clinic import Visit, _progress, admit, mark
from pllab.lesson.faults import NUM_STEPS, Fault, rehearse

SEEDS = int(os.environ.get("PLLAB_CLINIC_SEEDS", "2"))


def named(visit: Visit):
    found = diagnose(visit.records)
    return found.rank, found.call, found.cause


def test_a_ward_ends_is_diagnosed_marked_and_shown_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    visit = admit(SKIPPED, 0)
    assert visit.stuck and named(visit) == visit._truth
    rank, call, cause = named(visit)
    assert mark(visit, rank=rank, call=call, cause=cause).right
    off = mark(visit, rank=rank, call=call + 1, cause=SWAPPED)
    assert (off.rank, off.call, off.cause) == (True, False, False)
    assert str(off).startswith("rank right, call not yet, cause not yet.")
    assert wait_for_graph(visit.records)[(rank + 1) % len(visit.records)] >= {rank}
    told, page = repr(visit), visit._repr_html_()
    assert cause not in told and cause not in page, "a visit does not say what the fault was"
    assert page.count('scope="col"') == len(visit.records) and told.count("last calls") == len(visit.records)
    assert "ward_training.py" in told
    assert not [*tmp_path.glob("pllab-clinic-*")]


def test_each_beginning_and_each_end_of_a_call_is_progress_of_a_ward(tmp_path):
    file = tmp_path / "flight-0.json"
    seen = [_progress(file)]
    for finished in ([False], [True], [True, False]):
        file.write_text(json.dumps({"calls": [{"finished": one} for one in finished]}))
        seen.append(_progress(file))
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("ward", CAUSES)
def test_faults_are_spread_over_ranks_and_steps_and_a_seed_is_always_the_same(ward):
    faults = [Fault.drawn(ward, seed) for seed in range(50)]
    assert faults == [Fault.drawn(ward, seed) for seed in range(50)]
    assert len({fault.rank for fault in faults}) > 1
    assert len({fault.step for fault in faults}) > 1 or ward == UNEVEN
    assert all(2 <= fault.step < NUM_STEPS and fault.rank < fault.world_size for fault in faults)


def test_stuck_wards_are_stuck_and_the_other_two_come_to_their_end():
    for ward in CAUSES:
        records, _ = rehearse(ward, 1)
        ended = all(one.state == "returned" for one in records)
        assert ended == (ward in (STRAGGLER, "NaN on one rank")), ward


def test_an_unknown_ward_is_refused():
    with pytest.raises(ValueError, match="there is no ward 'flu'; choose one of skipped collective"):
        rehearse("flu", 0)


def test_an_unknown_ward_and_an_unknown_cause_are_refused():
    with pytest.raises(ValueError, match="there is no ward 'flu'"):
        admit("flu")
    with pytest.raises(ValueError, match="there is no cause 'flu'; choose one of skipped collective"):
        mark(Visit((), (), ()), rank=0, call=0, cause="flu")


@pytest.mark.exhaustive
@pytest.mark.parametrize("ward", CAUSES)
def test_each_ward_on_real_ranks_is_diagnosed_from_its_records_alone(ward):
    wrong = []
    for seed in range(SEEDS):
        start = time.monotonic()
        visit = admit(ward, seed)
        assert time.monotonic() - start < 40
        if named(visit) != visit._truth:
            wrong.append((seed, visit._truth, diagnose(visit.records)))
    assert len(wrong) <= SEEDS // 100, wrong


@pytest.mark.exhaustive
def test_a_visit_without_a_name_is_the_same_ward_for_a_seed():
    assert admit(seed=5)._truth == admit(seed=5)._truth


@pytest.mark.exhaustive
def test_torchs_own_record_of_gloo_says_the_same_where_it_can(tmp_path, capsys):
    """Its numbers are ours plus two: it counts from 1, and the barrier of the meeting is one. It has no NaN, no times
    of waiting and no exceptions."""
    visit = admit(SKIPPED, 1)
    assert len(visit.torchs) == len(visit.records)
    ours, theirs = diagnose(visit.records), diagnose(visit.torchs)
    assert (theirs.rank, theirs.call, theirs.cause) == (ours.rank, ours.call + 2, ours.cause)
    for record in visit.torchs:
        (tmp_path / f"trace_{record.rank}.json").write_text(json.dumps(record.to_json()))
    assert main(["autopsy", *map(str, sorted(tmp_path.glob("trace_*")))]) == 0
    assert f"cause      {SKIPPED}" in capsys.readouterr().out
    assert read_records(sorted(tmp_path.glob("trace_*"))) == list(visit.torchs)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("ward", "stuck"), [(STRAGGLER, False), (SENDS, True)])
def test_a_slow_rank_is_not_taken_for_a_stuck_one(ward, stuck):
    assert admit(ward, 3).stuck == stuck
