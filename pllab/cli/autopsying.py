"""`pllab autopsy FILES`: read the flight records of a job's ranks and say which rank, which call and which cause."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pllab.arguments import printable, require
from pllab.autopsy import Diagnosis, Record, diagnose, read_records, wait_for_graph

_FRAMES = 4  # of a stack; the innermost ones are those of a library that waits


def autopsy(records: tuple[Path, ...] = ()) -> None:
    """Say which rank, which call and which cause stopped a job or spoiled it, from the flight records of its ranks.

    Args:
        records: Files, one per rank: of pllab.comm.record_flight, or dumps of torch's flight recorder.

    Raises:
        ValueError: there are fewer than two, or one is no flight record or would run something.
    """
    given = f"{len(records) or 'no'} file is given, and ranks are compared"
    require(len(records) > 1, f"{given}; write python -m pllab autopsy with a file per rank, such as trace_*")
    read = read_records(records)
    print("\n".join(f"{name:<10} {printable(text)}" for name, text in _lines(read, diagnose(read))))


def _lines(records: Sequence[Record], found: Diagnosis) -> Iterator[tuple[str, str]]:
    """Name and text of each line."""
    at = "" if found.rank is None else f"rank {found.rank}, call {found.call}, "
    yield "finding", f"{at}{found.cause}"
    for record in records:
        yield f"rank {record.rank}", _place(record)
        if record.state == "running" and record.stack:
            yield "stack", " < ".join(record.stack[:_FRAMES])
    size = max(record.world_size for record in records)
    for rank in sorted({*range(size)} - {record.rank for record in records}):
        yield f"rank {rank}", f"no file, of {size} ranks; it may have ended first, so look for its own error"
    for rank, others in wait_for_graph(records).items():
        if others:
            yield "waits", f"rank {rank} for rank{'s' * (len(others) > 1)} {', '.join(map(str, sorted(others)))}"
    yield "diagnosis", found.sentence


def _place(record: Record) -> str:
    """Example: `at call 12, all_reduce(768), not finished; train.py:12 in step`."""
    call = record.standing or record.last
    if call is None:
        return "no call"
    at = call.where or (record.stack[0] if record.stack else "")
    state = "finished" if call.finished else "not finished"
    ended = "" if record.state == "running" else f"; {record.state.partition(';')[0]}"
    return f"at call {call.number}, {call}, {state}{f'; {at}' if at else ''}{ended}"
