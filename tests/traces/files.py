"""Kineto files of made-up runs: what torch.profiler would have written, with times that are known."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pllab.timeline import Timeline

BASE_NS = 1_790_857_026_000_000_000
Json = dict[str, Any]


def trace_of(timeline: Timeline, rank: int, *, steps: int = 1, profiled: bool = True, late_us: float = 0.0) -> Json:
    """The content of one rank's file: `steps` steps of a timeline, one after another.

    Every file has its own base, so that equal times are different numbers; `late_us` is the error of its clock.
    """
    base = BASE_NS + 1_000_000_000 * rank
    zero_us = 4_000_000_000.0 - 1e6 * rank + late_us
    made = [
        event
        for number in range(steps)
        for event in _step(timeline, rank, number, zero_us + number * (timeline.makespan * 1e6 + 1000))
        if profiled or not event["name"].startswith("ProfilerStep")
    ]
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": timeline.num_ranks, "pg_count": 1},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base,
        "traceEvents": [{"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}}, *made],
        "traceName": f"rank{rank}.json",
    }


def _step(timeline: Timeline, rank: int, number: int, zero_us: float) -> Iterator[Json]:
    yield annotation(f"ProfilerStep#{number + 3}", zero_us - 400, timeline.makespan * 1e6 + 800)
    yield annotation(f"PP:{rank}UNSHARD", zero_us - 300, 5.0)
    for span in timeline.of_rank(rank):
        start, length = zero_us + span.start * 1e6, span.duration * 1e6
        yield annotation(f"PP:{span.action}", start, length)
        if span.action.kind in "FBI":
            kind = "F" if span.action.kind == "F" else "B"
            yield annotation(f"PP:{span.action.stage}SEND_{kind}{span.action.microbatch}", start + length, 0.001)


def annotation(name: str, start: float, length: float, **more: Any) -> Json:
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 7, "tid": 7, "ts": start, "dur": length, **more}


def write(folder: Path, contents: Sequence[Json], packed: bool = False) -> list[Path]:
    """One file a rank; returns the paths."""
    paths = [folder / f"rank{number}.json{'.gz' * packed}" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        text = json.dumps(content).encode()
        path.write_bytes(gzip.compress(text, 1) if packed else text)
    return paths


def write_run(folder: Path, timeline: Timeline) -> list[Path]:
    """The files of all ranks of a run."""
    return write(folder, [trace_of(timeline, rank) for rank in range(timeline.num_ranks)])


def same_times(read: Timeline, written: Timeline) -> float:
    """The largest difference of a start or a duration, in seconds; both runs begin at zero."""
    one, other = (
        {(span.rank, span.action): span for span in run.spans if span.action.kind != "C"}
        for run in (read, written.from_zero())
    )
    assert one.keys() == other.keys()
    return max(max(abs(one[at].start - other[at].start), abs(one[at].duration - other[at].duration)) for at in one)
