"""`pllab autopsy FILES`: read the flight records of a job's ranks and say which rank, which call and which cause."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pllab.arguments import printable
from pllab.autopsy import Diagnosis, Record, diagnose, read_records, wait_for_graph
from pllab.autopsy.diagnosis import SHAPE
from pllab.cli.flags import parse
from pllab.cli.measuring import check_file
from pllab.files import write_whole

_FRAMES = 4  # of a stack; the innermost ones are those of a library that waits
_ENDED = (
    "rank {} stands in an earlier call, with call {} under way too: when sizes differ, gloo ends a process, and what "
    "was under way stays unfinished"
)


@dataclass(frozen=True, kw_only=True)
class AutopsyOptions:
    """Say which rank, which call and which cause stopped a job or spoiled it, from the flight records of its ranks."""

    records: tuple[Path, ...] = ()
    """Files, one per rank: of pllab.comm.record_flight, or dumps of torch's flight recorder; also without the flag."""
    json: Path | None = None
    """File for the diagnosis as JSON."""

    def __post_init__(self) -> None:
        if len(self.records) < 2:
            raise ValueError(
                f"{len(self.records) or 'no'} file is given, and ranks are compared; "
                "write python -m pllab autopsy with a file per rank, such as trace_*"
            )
        check_file("--json", self.json)


def run(words: Sequence[str]) -> int:
    """Read the records, print the finding, where each rank stands and the diagnosis, write it as JSON; returns 0.

    Raises:
        ValueError: an unknown flag, a file that is no flight record or would run something, or no place for a file.
    """
    options = parse(AutopsyOptions, _with_flags(words), "autopsy")
    records = read_records(options.records)
    found = diagnose(records)
    print("\n".join(map(printable, _lines(records, found))))
    if options.json is not None:
        write_whole(options.json, json.dumps(asdict(found), indent=1) + "\n")
        print(f"diagnosis in {options.json}")
    return 0


def _lines(records: Sequence[Record], found: Diagnosis) -> Iterator[str]:
    at = "" if found.rank is None else f"rank {found.rank}, call {found.call}, "
    yield _line("finding", f"{at}{found.cause}")
    for record in records:
        yield _line(f"rank {record.rank}", _place(record))
        if record.state == "running" and record.stack:
            yield _line("stack", " < ".join(record.stack[:_FRAMES]))
    size = max(record.world_size for record in records)
    for rank in sorted({*range(size)} - {record.rank for record in records}):
        yield _line(f"rank {rank}", f"no file, of {size} ranks; it may have ended first, so look for its own error")
    yield from _at_the_finding(records, found)
    for rank, others in wait_for_graph(records).items():
        if others:
            yield _line("waits", f"rank {rank} for rank{'s' * (len(others) > 1)} {', '.join(map(str, sorted(others)))}")
    yield _line("cause", found.cause)
    yield _line("diagnosis", found.sentence)


def _at_the_finding(records: Sequence[Record], found: Diagnosis) -> Iterator[str]:
    """What every rank called where they part, which may be later than the call in which a rank stands."""
    theirs = next(
        (call for one in records if one.rank == found.rank for call in one.calls if call.number == found.call), None
    )
    if theirs is None or not theirs.is_collective:
        return
    calls = {one.rank: one.collectives(theirs.group).get(theirs.order) for one in records}
    if len({call.kind for call in calls.values() if call is not None}) < 2:
        return
    made = ", ".join(f"rank {rank} {call or 'nothing'}" for rank, call in calls.items())
    yield _line(f"call {theirs.number}", made)
    earlier = [one for one in records if one.standing is not None and one.standing.order < theirs.order]
    if found.cause == SHAPE and earlier:
        yield _line("", _ENDED.format(", ".join(str(one.rank) for one in earlier), theirs.number))


def _place(record: Record) -> str:
    """Example: `at call 12, all_reduce(768), not finished; train.py:12 in step`."""
    call = record.standing or record.last
    if call is None:
        return "no call"
    at = call.where or (record.stack[0] if record.stack else "")
    state = "finished" if call.finished else "not finished"
    ended = "" if record.state == "running" else f"; {record.state.partition(';')[0]}"
    return f"at call {call.number}, {call}, {state}{f'; {at}' if at else ''}{ended}"


def _with_flags(words: Sequence[str]) -> list[str]:
    """Words that stand alone are records: `trace_0 trace_1 --json x.json` -> `--json x.json --records trace_0 ...`."""
    flags: list[str] = []
    alone: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            alone.append(word)
        elif word == "--json":
            flags += [word, *(value for value in [next(rest, None)] if value is not None)]
        elif word != "--records":
            flags.append(word)
    return [*flags, *(["--records", *alone] if alone else [])]


def _line(name: str, text: str) -> str:
    return f"{name:<10} {text}"
