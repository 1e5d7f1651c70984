"""Records from files: ours, torch's as JSON and as a pickle; and files that are none, or that would do harm."""

import json
import pickle
from pathlib import Path

import pytest

from pllab.autopsy import Record, diagnose, read_records
from pllab.autopsy.diagnosis import SKIPPED
from pllab.lesson.faults import rehearse


def entry(number, name="nccl:all_reduce", size=768, **more):
    """What is read of an entry as torch 2.13 writes it."""
    return {
        "record_id": number,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1,
        "profiling_name": name,
        "time_created_ns": 1_795_449_814_000_000_000 + number,
        "input_sizes": [[size]] if size else [],
        "input_dtypes": ["Float"] if size else [],
        "output_sizes": [[size]] if size else [],
        "output_dtypes": ["Float"] if size else [],
        "state": "completed",
        "time_discovered_completed_ns": None,
        "retired": True,
        "is_p2p": False,
        "frames": [
            {"name": "all_reduce", "filename": "/x/torch/distributed/distributed_c10d.py", "line": 3245},
            {"name": "step", "filename": "train.py", "line": 12},
        ],
    } | more


def dump_of(entries):
    return {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "", "ranks": "[0, 1]"}}, "entries": entries}


def stuck(name, size):
    return entry(4, name, size, state="scheduled", retired=False)


def healthy():
    return [entry(n, "nccl:barrier" if n % 2 else "nccl:all_reduce", 0 if n % 2 else 768) for n in range(4)]


DUMPS = [dump_of([*healthy(), stuck("nccl:all_reduce", 768)]), dump_of([*healthy(), stuck("nccl:barrier", 0)])]


@pytest.mark.parametrize("write", [lambda dump: json.dumps(dump).encode(), pickle.dumps])
def test_torchs_dumps_give_calls_states_lines_and_a_diagnosis(tmp_path, write):
    paths = [tmp_path / f"nccl_trace_rank_{rank}" for rank in range(2)]
    for path, dump in zip(paths, (DUMPS[0], DUMPS[1] | {"pg_config": {}}), strict=True):  # torch may not know the size
        path.write_bytes(write(dump))
    records = read_records(paths[::-1])
    assert [one.rank for one in records] == [0, 1] and records[0].world_size == 2
    last = records[0].calls[-1]
    assert (str(last), last.number, last.dtype, last.finished) == ("all_reduce(768)", 5, "Float", False)
    assert last.where == "train.py:12 in step" and records[0].calls[0].finished
    found = diagnose(records)
    assert (found.rank, found.call, found.cause) == (1, 5, SKIPPED)


def test_messages_between_two_ranks_have_their_other_end(tmp_path):
    entries = [entry(0, "nccl:send 0->1", is_p2p=True), entry(1, "nccl:recv 0<-1", is_p2p=True)]
    (tmp_path / "trace_0.json").write_text(json.dumps(dump_of(entries)))
    (one,) = read_records([tmp_path / "trace_0.json"])
    assert list(map(str, one.calls)) == ["send(768) to rank 1", "receive(768) from rank 1"]


def test_our_records_come_back_as_they_were(tmp_path):
    for ward in ("swallowed exception", "NaN on one rank", "send-send deadlock"):
        records, _ = rehearse(ward, 0)
        assert read_records(written(tmp_path, records)) == records


def written(folder: Path, records: list[Record]) -> list[Path]:
    paths = [folder / f"{one.rank}.json" for one in records]
    for path, one in zip(paths, records, strict=True):
        path.write_text(json.dumps(one.to_json()))
    return paths


class Harm:
    """As an attacker would: unpickled by Python's own pickle, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_something_is_refused_and_runs_nothing(tmp_path, protocol):
    made, dump = tmp_path / "harm", tmp_path / "trace_0"
    poison = pickle.dumps({"entries": [entry(0), Harm(made)]}, protocol)
    pickle.loads(poison)
    assert made.exists(), "the pickle does harm when it is read carelessly"
    made.unlink()
    dump.write_bytes(poison)
    words = r"it is not JSON or a pickle|the pickle asks for [\w.]+, and .* plain values only; nothing of it ran$"
    with pytest.raises(ValueError, match=f"'.*trace_0' is no flight record: ({words})"):
        read_records([dump])
    assert not made.exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is not JSON or a pickle"),
        (b"[" * 100_000, "it is not JSON or a pickle"),
        (b"3", "a part of it is missing or has another form than torch's or ours (TypeError"),
        (b"{}", "a part of it is missing or has another form than torch's or ours (KeyError('entries'))"),
        (b'{"entries": [{}]}', "a part of it is missing"),
        (b'{"pllab_flight": 9}', "a record of version 9"),
        (b'{"pllab_flight": 1, "rank": 0}', "a part of it is missing"),
        (b'{"pllab_flight": 1, "rank": 0, "world_size": "2"}', "world_size is '2'"),
        # What asks for every rank would count up to it.
        (b'{"pllab_flight": 1, "rank": 0, "world_size": 10000000}', "world_size is 10000000; give a whole number from"),
        (pickle.dumps({"entries": []})[:-3], "it is no whole pickle"),
        (b"\x80\xff", "it is no whole pickle of plain values (ValueError: unsupported pickle protocol: 255)"),
        (pickle.dumps([print]), "record: the pickle asks for builtins.print, and a dump holds plain values only"),
    ],
)
def test_what_is_no_record_is_told_in_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "trace_0"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is no flight record") as error:
        read_records([path])
    assert sentence in str(error.value) and "\n" not in str(error.value)


NO_NUMBERS = ["Infinity", "NaN", "1e999"]


def told_of(path: Path, content: dict, number: str) -> str:
    """What is said of a record in which a number takes the place of "NUMBER"."""
    path.write_text(json.dumps(content).replace('"NUMBER"', number))
    with pytest.raises(ValueError, match=r"'.*trace_0' is no flight record: [^\n]{1,300}$") as error:
        read_records([path])
    return str(error.value)


@pytest.mark.parametrize("number", NO_NUMBERS)
@pytest.mark.parametrize(
    ("name", "said"),
    {
        "time_created_ns": "a time is not finite",
        "time_discovered_completed_ns": "a time is not finite",
        "record_id": "the number of a call is",
        "collective_seq_id": "the order of a call is",
    }.items(),
)
def test_a_number_of_torchs_that_is_none_is_told_in_a_sentence(tmp_path, name, said, number):
    message = entry(0, "nccl:send 0->1", is_p2p=True) | {name: "NUMBER"}
    assert said in told_of(tmp_path / "trace_0", dump_of([message]), number)


@pytest.mark.parametrize("number", NO_NUMBERS)
def test_a_number_of_ours_that_is_none_is_told_in_a_sentence(tmp_path, number):
    record = rehearse("straggler", 0)[0][0].to_json()
    assert "rank is" in told_of(tmp_path / "trace_0", record | {"rank": "NUMBER"}, number)
    for name in ("started_s", "finished_s", "number", "order"):
        said = "a time is not finite" if name.endswith("_s") else f"the {name} of a call is"
        wrong = record | {"calls": [record["calls"][0] | {name: "NUMBER"}]}
        assert said in told_of(tmp_path / "trace_0", wrong, number)


def test_a_missing_file_and_a_name_without_a_number(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        read_records([tmp_path / "trace_0"])
    (tmp_path / "dump").write_text(json.dumps(DUMPS[0]))
    with pytest.raises(ValueError, match="its name has no number"):
        read_records([tmp_path / "dump"])
