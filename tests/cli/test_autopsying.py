import json
import pickle

import pytest

from pllab.autopsy import rehearse
from pllab.cli import main
from tests.autopsy.test_dumps import DUMPS, Harm


def write(folder, records):
    paths = [folder / f"flight-{record.rank}.json" for record in records]
    for path, record in zip(paths, records, strict=True):
        path.write_text(json.dumps(record.to_json()))
    return list(map(str, paths))


def test_each_rank_stands_somewhere_who_waits_and_the_diagnosis(tmp_path, capsys):
    records, truth = rehearse("skipped collective", 2)
    written = tmp_path / "found.json"
    assert main(["autopsy", *write(tmp_path, records), "--json", str(written)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:7] for line in lines[: len(records)]] == [f"rank {rank} " for rank in range(len(records))]
    assert all("not finished" in line for line in lines[: len(records)])
    assert any(line.startswith("waits") and f"for rank {truth.rank}" in line for line in lines)
    assert f"cause      {truth.cause}" in lines and lines[-1] == f"diagnosis in {written}"
    found = json.loads(written.read_text())
    assert (found["rank"], found["call"], found["cause"]) == truth


@pytest.mark.parametrize("write_dump", [lambda dump: json.dumps(dump).encode(), pickle.dumps])
def test_torchs_dumps_are_read_and_the_issues_sentence_stands_there(tmp_path, capsys, write_dump):
    for rank, dump in enumerate(DUMPS):
        (tmp_path / f"trace_{rank}").write_bytes(write_dump(dump))
    assert main(["autopsy", *(str(tmp_path / f"trace_{rank}") for rank in range(2))]) == 0
    told = capsys.readouterr().out
    assert "rank 0     at call 5, all_reduce(768), not finished; train.py:12 in step" in told
    assert "rank 1     at call 5, barrier, not finished" in told
    assert "waits      rank 0 for rank 1" in told and "cause      skipped collective" in told


def test_a_rank_without_a_file_is_named(tmp_path, capsys):
    records, truth = rehearse("wrong shape", 0)
    paths = [p for p, record in zip(write(tmp_path, records), records, strict=True) if record.rank != 0]
    assert main(["autopsy", *paths]) == 0
    assert "rank 0     no file, of" in capsys.readouterr().out


def test_flags_may_stand_before_and_between_the_files(tmp_path, capsys):
    paths = write(tmp_path, rehearse("straggler", 0)[0])
    out = str(tmp_path / "out.json")
    told = []
    for words in ([*paths, "--json", out], ["--json", out, *paths], [f"--json={out}", "--records", *paths]):
        assert main(["autopsy", *words]) == 0
        told.append(capsys.readouterr().out)
    assert len(set(told)) == 1


def test_a_pickle_that_would_run_something_is_refused_in_a_sentence(tmp_path, capsys):
    made = tmp_path / "harm"
    for rank in range(2):
        (tmp_path / f"trace_{rank}").write_bytes(pickle.dumps({"entries": [Harm(made)]}))
    assert main(["autopsy", *(str(tmp_path / f"trace_{rank}") for rank in range(2))]) == 2
    error = capsys.readouterr().err
    assert "more than plain values" in error and "nothing of it ran" in error and error.count("\n") == 1
    assert not made.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no file is given, and ranks are compared"),
        (["trace_0"], "1 file is given, and ranks are compared"),
        (["trace_0", "trace_1"], "'trace_0' cannot be read (No such file or directory)"),
        (["text_0", "text_1"], "'text_0' is no flight record: it is not JSON or a pickle"),
        (["list_0", "list_1"], "'list_0' is no flight record: it holds a list"),
        ([".", "trace_1"], "'.' cannot be read (Is a directory)"),
        (["text_0", "text_1", "--json", "nowhere/x.json"], "lies in a folder that does not exist"),
        (["text_0", "text_1", "--colour", "red"], "--colour"),
    ],
)
def test_a_refusal_is_one_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rank in range(2):
        (tmp_path / f"text_{rank}").write_text("hello\nworld")
        (tmp_path / f"list_{rank}").write_text("[]")
    assert main(["autopsy", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
