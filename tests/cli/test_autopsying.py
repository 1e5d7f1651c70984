import pickle
from dataclasses import replace

import pytest

from pllab.autopsy import CAUSES
from pllab.cli import main
from pllab.lesson.faults import rehearse
from tests.autopsy.test_dumps import DUMPS, written


def told_of(tmp_path, capsys, records) -> list[str]:
    assert main(["autopsy", *map(str, written(tmp_path, records))]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("ward", CAUSES)
def test_the_first_line_names_rank_call_and_cause_and_each_rank_has_a_line(tmp_path, capsys, ward):
    records, truth = rehearse(ward, 1)
    lines = told_of(tmp_path, capsys, records)
    assert lines[0] == f"finding    rank {truth.rank}, call {truth.call}, {truth.cause}"
    ranks = [line[:7] for line in lines if line.startswith("rank ")]
    assert ranks == [f"rank {rank} " for rank in range(len(records))]
    assert lines[-1].startswith("diagnosis  ")


def test_a_rank_without_a_file_is_named(tmp_path, capsys):
    others = rehearse("wrong shape", 0)[0][1:]
    assert any(line.startswith("rank 0     no file, of") for line in told_of(tmp_path, capsys, others))


def test_torchs_dumps_are_read_and_say_where_ranks_stand_and_who_waits(tmp_path, capsys):
    for rank, dump in enumerate(DUMPS):
        (tmp_path / f"trace_{rank}").write_bytes(pickle.dumps(dump))
    assert main(["autopsy", *(str(tmp_path / f"trace_{rank}") for rank in range(2))]) == 0
    told = capsys.readouterr().out
    assert "rank 0     at call 5, all_reduce(768), not finished; train.py:12 in step" in told
    assert "rank 1     at call 5, barrier, not finished" in told
    assert "waits      rank 0 for rank 1" in told and "finding    rank 1, call 5, skipped collective" in told


def test_the_stack_of_each_rank_that_runs_is_printed_innermost_first(tmp_path, capsys):
    records, truth = rehearse("swallowed exception", 1)
    lines = told_of(tmp_path, capsys, records)
    at = next(at for at, line in enumerate(lines) if line.startswith(f"rank {truth.rank} "))
    assert lines[at + 1] == "stack      queue.py:171 in get < training.py:31 in train"
    assert sum(line.startswith("stack") for line in lines) == len(records)
    ended = rehearse("straggler", 1)[0]
    assert not [line for line in told_of(tmp_path, capsys, ended) if line.startswith("stack")]


def test_what_a_record_says_is_printed_without_control_characters(tmp_path, capsys):
    records = [replace(one, state="ValueError: \x1b[2J\nfinding") for one in rehearse("straggler", 0)[0]]
    lines = told_of(tmp_path, capsys, records)
    assert "\x1b" not in "".join(lines) and sum(line.startswith("finding") for line in lines) == 1
    (tmp_path / "\x1b[2J").write_text("")
    assert main(["import", str(tmp_path / "\x1b[2J")]) == 2
    assert "\x1b" not in capsys.readouterr().err
