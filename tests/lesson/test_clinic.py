"""The wards on real ranks: each is diagnosed from its records, ends in seconds and leaves nothing.

`PLLAB_CLINIC_SEEDS=50 python -m pytest tests/lesson/test_clinic.py -m exhaustive` tries that many seeds of each ward.
"""

import json
import os
import re
import tempfile
from html import unescape

import pytest

from pllab.autopsy import CAUSES, diagnose, wait_for_graph
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, STRAGGLER, SWALLOWED, SWAPPED, UNEVEN
from pllab.lesson.clinic import Visit, WardRound, _progress, admit, mark
from pllab.lesson.faults import CALLS_PER_STEP, NUM_STEPS, Fault, rehearse
from tests.lesson.committed import FOLDER, read

SEEDS = int(os.environ.get("PLLAB_CLINIC_SEEDS", "2"))


def named(visit: Visit):
    found = diagnose(visit.records)
    return found.rank, found.call, found.cause


def test_a_ward_ends_is_diagnosed_marked_and_shown_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    visit = admit(SKIPPED, 0)
    assert visit.stuck and named(visit) == visit._truth
    rank, call, cause = named(visit)
    assert str(mark(visit, rank=rank, call=call, cause=cause)) == "right: rank, call and cause"
    off = mark(visit, rank=rank, call=call + 1, cause=SWAPPED)
    assert str(off).startswith("rank right, call not yet, cause not yet.")
    assert wait_for_graph(visit.records)[(rank + 1) % len(visit.records)] >= {rank}
    told = repr(visit)
    assert cause not in told, "a visit does not say what the fault was"
    assert told.count("called: 8 all_reduce(768)") == len(visit.records) and "ward_training.py" in told
    assert not [*tmp_path.glob("pllab-clinic-*")]


def rows_of(jobs: dict[str, Visit]) -> dict[str, list[list[str]]]:
    """The row of each job as a reader sees it: its cells, each a list of lines."""
    rows = re.findall(r"<tr>(<td.*?)</tr>", WardRound(jobs)._repr_html_(), re.DOTALL)
    cells = [[unescape(cell) for cell in re.findall(r"<td .*?>(.*?)</td>", row, re.DOTALL)] for row in rows]
    return {job: [cell.split("\n") for cell in others] for job, *others in cells}


@pytest.mark.parametrize("seed", range(3))
def test_what_differs_in_a_job_is_seen_in_its_row_and_its_cause_is_not(seed):
    """As the cause shows: in another call of that number, in who waits, in a NaN, a caught error or a late rank."""
    rehearsed = {ward: rehearse(ward, seed) for ward in CAUSES}
    jobs = {
        str(number): Visit(tuple(records), (), ("step 0: loss 0.3\nstep 1: loss 0.2\n",) * len(records))
        for number, (records, _) in enumerate(rehearsed.values())
    }
    rows = rows_of(jobs)
    assert [*rows] == [*jobs]
    for (ward, (records, truth)), (*ranks, waits, late, printed, states) in zip(
        rehearsed.items(), rows.values(), strict=True
    ):
        ranks = ranks[: len(records)]
        made = [{int(line.partition(" ")[0]): line for line in lines if line} for lines in ranks]
        mine, others = made[truth.rank], [calls for rank, calls in enumerate(made) if rank != truth.rank]
        assert {min(calls) for calls in made if calls} == {max(one.next_number for one in records) - CALLS_PER_STEP}
        if ward in (SKIPPED, SWAPPED, SHAPE, UNEVEN):
            assert all(calls[truth.call] != mine[truth.call] for calls in others)
        elif ward == SENDS:
            assert mine[truth.call] == f"{truth.call} send(8, 16) to rank {truth.rank ^ 1} ..."
        elif ward == SWALLOWED:
            assert truth.call not in mine and f"{truth.rank}: -" in waits
            assert [line for line in states if "caught" in line] == [states[truth.rank]]
        elif ward == NAN:
            assert f"NaN at {truth.call}" in states[truth.rank]
        else:
            assert max(late, key=lambda line: float(line.split()[1])) == late[truth.rank]
        assert printed == [f"{rank}: step 1: loss 0.2" for rank in range(len(records))]
    assert [ward for ward in CAUSES if ward in repr(WardRound(jobs))] == []


def test_the_lesson_has_each_cause_once_and_names_those_of_its_jobs_only_in_a_folded_answer():
    cells = read(FOLDER / "15_break_it_clinic.ipynb").cells
    source = {cell.id: cell.source for cell in cells}
    letters, seeds = re.search(r'zip\("(\w+)", \((.*?)\)', source["15-jobs"]).groups()
    drawn = [Fault.drawn(None, int(seed)).truth for seed in seeds.split(",")]
    assert sorted([SKIPPED, *(truth.cause for truth in drawn)]) == sorted(CAUSES)
    answers = re.findall(r"\*\*(\w)\*\* rank (\d), call (\d+), ([^.]+)\.", source["15-diagnoses"])
    assert answers == [(job, str(t.rank), str(t.call), t.cause) for job, t in zip(letters, drawn, strict=True)]
    before = cells[: [cell.id for cell in cells].index("15-ex1")]
    seen = [re.sub(r"<details>.*?</details>", "", cell.source, flags=re.DOTALL) for cell in before]
    seen += [str(output) for cell in before for output in cell.get("outputs", [])]
    told = re.compile(rf"\bjobs?[\s*_]+[B-H]\b.{{,200}}?({'|'.join(CAUSES)})", re.IGNORECASE | re.DOTALL)
    assert [text for text in seen if told.search(text)] == []


def test_each_beginning_and_each_end_of_a_call_is_progress_of_a_ward(tmp_path):
    file = tmp_path / "flight-0.json"
    seen = [_progress(file)]
    for finished in ([False], [True], [True, False]):
        file.write_text(json.dumps({"calls": [{"finished": one} for one in finished]}))
        seen.append(_progress(file))
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("ward", [*CAUSES, None])
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


def test_an_unknown_ward_and_an_unknown_cause_are_refused():
    with pytest.raises(ValueError, match="there is no ward 'flu'; choose one of skipped collective"):
        admit("flu")
    with pytest.raises(ValueError, match="there is no cause 'flu'; choose one of skipped collective"):
        mark(Visit((), (), ()), rank=0, call=0, cause="flu")
    assert "waits for rank" in repr(WardRound({})), "no job is a table of no rows"


@pytest.mark.exhaustive
@pytest.mark.parametrize("ward", CAUSES)
def test_each_ward_on_real_ranks_is_diagnosed_from_its_records_alone(ward):
    wrong = []
    for seed in range(SEEDS):
        visit = admit(ward, seed)
        stuck = {STRAGGLER: False, SENDS: True}.get(ward, visit.stuck)  # who is slow is not taken for stuck
        if named(visit) != visit._truth or visit.stuck != stuck:
            wrong.append((seed, visit._truth, diagnose(visit.records)))
    assert len(wrong) <= SEEDS // 100, wrong


@pytest.mark.exhaustive
def test_torchs_own_record_of_gloo_says_the_same_where_it_can():
    """Its numbers are ours plus two: it counts from 1, and the barrier of the meeting is one. It has no NaN, no times
    of waiting and no exceptions."""
    visit = admit(SKIPPED, 1)
    assert len(visit.torchs) == len(visit.records)
    ours, theirs = diagnose(visit.records), diagnose(visit.torchs)
    assert (theirs.rank, theirs.call, theirs.cause) == (ours.rank, ours.call + 2, ours.cause)
