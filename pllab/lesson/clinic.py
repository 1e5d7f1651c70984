"""The break-it clinic: start real ranks with a fault in them, watch until they are stuck or done, keep their records.

A ward ends in seconds and leaves no process behind. A waiting rank can be told from one that is only slow: its record
is still being written, but nothing in it changes. A busy machine writes no records, so it is not taken for a deadlock.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from html import escape
from itertools import takewhile
from pathlib import Path
from textwrap import shorten

from pllab.arguments import require
from pllab.autopsy import CAUSES, Call, Record, lateness, read_records, wait_for_graph
from pllab.comm.fork_server import warm_server
from pllab.comm.processes import Child, end_children, how_it_ended
from pllab.lesson.faults import CALLS_PER_STEP, Fault, Truth
from pllab.lesson.verdict import Lines

_BEATS = 13  # how often each record must have been written without a new call, in 1.2 s; a straggler takes 0.4 s
_LATE_S = 30.0
_ENTRY = "pllab.lesson.ward_training:run_rank"
_CELL = "border:1px solid #999999;padding:4px 6px;text-align:left;vertical-align:top;white-space:pre"


@dataclass(frozen=True)
class Visit:
    """What the ranks of a ward left: the record of each, what torch's own recorder knew, and what they printed.

    It does not say what the fault was; `mark` compares your diagnosis with the truth.
    """

    records: tuple[Record, ...]
    torchs: tuple[Record, ...] = field(repr=False)
    """The same ranks by torch's flight recorder of gloo: it numbers calls from 1, and the meeting's barrier is one."""
    printed: tuple[str, ...] = field(repr=False)
    stuck: bool = True
    _truth: Truth | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        told = [f"{len(self.records)} ranks, {'stuck' if self.stuck else 'ended'} (real)"]
        for record, printed in zip(self.records, self.printed, strict=True):
            calls = [_shown(call) for call in record.calls]
            steps = [", ".join(calls[at : at + CALLS_PER_STEP]) for at in range(0, len(calls), CALLS_PER_STEP)]
            stands = takewhile(lambda line: "run_rank" not in line, record.stack)
            told += [
                f"rank {record.rank}: {record.state}",
                *(f"  printed: {line}" for line in printed.strip().splitlines()),
                *(f"  called: {step}" for step in steps),
                *(f"  caught: {one.text} at {one.where}" for one in record.caught),
                f"  stands at: {' < '.join(stands) or '-'}",
            ]
        return "\n".join(told)


def _shown(call: Call) -> str:
    named = str(call).partition(" with root")[0]
    return f"{call.number} {named}{' NaN' if call.has_nan else ''}{'' if call.finished else ' ...'}"


@dataclass(frozen=True)
class WardRound:
    """Jobs side by side, a row for each: the last calls of its ranks, who waits for whom, and what else they left.

    Example: `WardRound({"A": admit(seed=11), "B": admit(seed=21)})`. The calls in one line have the same number.
    """

    jobs: Mapping[str, Visit]

    def __repr__(self) -> str:
        return "\n".join(" | ".join(cell.replace("\n", "; ") for cell in row) for row in self._rows())

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        body = "".join(_html_row(row, "td") for row in rows)
        return f"<table><thead>{_html_row(head, 'th')}</thead><tbody>{body}</tbody></table>"

    def _rows(self) -> Iterator[list[str]]:
        num_ranks = max((len(visit.records) for visit in self.jobs.values()), default=0)
        ranks = [f"rank {rank}" for rank in range(num_ranks)]
        yield ["job", *ranks, "waits for rank", "came last by (real)", "printed last", "state (real)"]
        for job, visit in self.jobs.items():
            first = max(record.next_number for record in visit.records) - CALLS_PER_STEP
            calls = [[_shown(call) for call in record.calls if call.number >= first] for record in visit.records]
            columns = [
                [", ".join(map(str, sorted(others))) for others in wait_for_graph(visit.records).values()],
                [f"{max(late.values(), default=0.0):.2f} s" for late in lateness(visit.records).values()],
                [shorten(printed.strip().rpartition("\n")[2], 24, placeholder=" ...") for printed in visit.printed],
                [_state(record) for record in visit.records],
            ]
            by_rank = ["\n".join(f"{rank}: {text or '-'}" for rank, text in enumerate(texts)) for texts in columns]
            yield [job, *map("\n".join, calls), *[""] * (num_ranks - len(calls)), *by_rank]


def _html_row(cells: Sequence[str], tag: str) -> str:
    """A row of a table; the lines of its cells stay apart."""
    row = "".join(f'<{tag} style="{_CELL}">{escape(cell)}</{tag}>' for cell in cells)
    return f"<tr>{row}</tr>"


def _state(record: Record) -> str:
    """How a rank ended, and what it knows of an error."""
    nan = [f"NaN at {call.number}" for call in record.calls if call.has_nan][:1]
    caught = [f"caught {one.text.partition(':')[0]}" for one in record.caught]
    return ", ".join([record.state.partition(":")[0], *nan, *caught])


def admit(ward: str | None = None, seed: int = 0) -> Visit:
    """Train a small model on two to four ranks with a fault in it; return what they left when stuck or done.

    Example: `admit("straggler", 3)`, or `admit(seed=3)` for a random ward without its name. Seed 3 is always the
    same fault on the same rank, in the same step. No rank is left when this returns.

    Raises:
        ValueError: there is no such ward.
        RuntimeError: the ranks did not start, because other programs had the machine.
    """
    fault = Fault.drawn(ward, seed)
    with tempfile.TemporaryDirectory(prefix="pllab-clinic-", ignore_cleanup_errors=True) as name:
        folder, ranks = Path(name), list[Child]()
        server = warm_server(_ENTRY.partition(":")[0])
        try:
            for number in range(fault.world_size):
                words = str(folder), str(number), json.dumps(asdict(fault))
                with (folder / f"printed-{number}").open("wb") as log:
                    ranks.append(server.start(folder, _ENTRY, *words, log=log))
            stuck = _watch(folder, ranks)
            codes = [rank.poll() for rank in ranks]  # None for one that runs and is ended now
        finally:
            end_children(ranks)
        return _leave(folder, codes, stuck, fault.truth)


def _watch(folder: Path, ranks: Sequence[Child]) -> bool:
    """Wait until all ranks have ended, or none has made a call for some time; return whether they are stuck."""
    files = [folder / f"flight-{number}.json" for number in range(len(ranks))]
    end, seen = time.monotonic() + _LATE_S, [-1] * len(ranks)
    beats = [set[int]() for _ in ranks]
    while time.monotonic() < end:
        running = [number for number, rank in enumerate(ranks) if rank.poll() is None]
        if not running:
            return False
        now = [_progress(file) for file in files]
        if now != seen or -1 in now:
            seen, beats = now, [set() for _ in ranks]
        for number in running:
            with suppress(OSError):
                beats[number].add(files[number].stat().st_mtime_ns)
        if all(len(beats[number]) >= _BEATS for number in running):
            return True
        time.sleep(0.05)
    return True


def _progress(file: Path) -> int:
    """A number that grows with every call that begins or ends; -1 before there is a record."""
    try:
        calls = json.loads(file.read_bytes())["calls"]
    except (OSError, ValueError):
        return -1
    return len(calls) + sum(call["finished"] for call in calls)


def _leave(folder: Path, codes: Sequence[int | None], stuck: bool, truth: Truth) -> Visit:
    files = [folder / f"flight-{number}.json" for number in range(len(codes))]
    if not all(file.exists() for file in files):
        raise RuntimeError("a rank of the ward did not begin; run the cell again when the machine is less busy")
    torchs = [file for file in sorted(folder.glob("gloo_trace_*.json")) if file.stat().st_size]
    printed = tuple((folder / f"printed-{number}").read_text() for number in range(len(codes)))
    records = tuple(map(_with_end, read_records(files), codes))
    return Visit(records, tuple(read_records(torchs)), printed, stuck, truth)


def _with_end(record: Record, code: int | None) -> Record:
    """A rank that was killed could not write that it ended."""
    killed = record.state == "running" and code is not None
    return replace(record, state=how_it_ended(code)) if killed else record


def mark(visit: Visit, *, rank: int, call: int, cause: str) -> Lines:
    """Mark a diagnosis of a visit: say which of rank, call and cause are right.

    The call is the first one of that rank that the fault changed; if a thread or a loop ended early, it is the first
    missing call.

    Raises:
        ValueError: the cause is none of the eight.
    """
    require(cause in CAUSES, f"there is no cause {cause!r}; choose one of {', '.join(CAUSES)}")
    truth = visit._truth
    assert truth is not None, "a visit comes from admit"
    if truth == (rank, call, cause):
        return Lines("right: rank, call and cause")
    pairs = zip(truth._fields, truth, (rank, call, cause), strict=True)
    told = ", ".join(f"{name} {'right' if right == given else 'not yet'}" for name, right, given in pairs)
    return Lines(
        f"{told}. Look for the first thing in which one rank differs: a call, what it caught, a NaN, its times."
    )
