"""What the cases of lesson 15 ask about: records of rehearsed wards, changed ones, and answers read with care."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pllab.autopsy import Call, Record
from pllab.lesson.exercise import Wrong
from pllab.lesson.faults import Truth, rehearse

NUM_SEEDS = 8


def of_ward(ward: str, num_seeds: int = NUM_SEEDS) -> Iterator[tuple[list[Record], Truth]]:
    """Records of a ward under several seeds, with the ranks in any order."""
    draw = random.Random(ward)
    for seed in range(1000, 1000 + num_seeds):
        records, truth = rehearse(ward, seed)
        yield draw.sample(records, len(records)), truth


def healthy(num_ranks: int, num_calls: int, finished: int | None = None) -> list[Record]:
    """Ranks that all made the same calls; the last one is not finished unless `finished` says more."""
    kinds = [("all_reduce", (768,)), ("all_gather", (1,)), ("all_reduce", (2,)), ("barrier", ())]
    done = num_calls - 1 if finished is None else finished
    calls = tuple(
        Call(n, *kinds[n % 4], "float32" if kinds[n % 4][1] else "", finished=n < done, started_s=n * 0.01, order=n)
        for n in range(num_calls)
    )
    return [Record(rank, num_ranks, calls) for rank in range(num_ranks)]


def changed(record: Record, number: int, **parts: Any) -> Record:
    """The record with another call of this number."""
    calls = tuple(replace(call, **parts) if call.number == number else call for call in record.calls)
    return replace(record, calls=calls)


def told(records: Sequence[Record], last: int = 4) -> str:
    """The ends of the records, for a sentence; with dtypes where they are not all one."""
    lines = []
    dtypes = {call.dtype for one in records for call in one.calls if call.dtype}
    for one in sorted(records, key=lambda record: record.rank):
        ends = [(call, f" {call.dtype}" if len(dtypes) > 1 and call.dtype else "") for call in one.calls[-last:]]
        calls = [f"{call.number} {call}{dtype}{'' if call.finished else ' ...'}" for call, dtype in ends]
        lines.append(f"  rank {one.rank}: {', '.join(calls) or 'no call'}")
    return "\n".join(["The records end so (... not finished):", *lines])


def whole_numbers(answer: Any, what: str, length: int, where: str) -> list[Any]:
    """The parts of an answer that should be a tuple of this length, whose first two are whole numbers."""
    if answer is None:
        raise Wrong("nothing", f"{where}\nYour function returned None for them; return {what}.")
    try:
        parts = list(answer)
    except TypeError:
        parts = []
    numbers = [part for part in parts[:2] if isinstance(part, int) and not isinstance(part, bool)]
    if isinstance(answer, str | dict | set | frozenset) or len(parts) != length or len(numbers) != 2:
        raise Wrong("wrong_form", f"Your function returned {answer!r}; return {what}.")
    return parts
