"""All orders of a tiny pipeline, to hold clever ones against."""

import itertools
from collections.abc import Iterator

from pllab.schedule import Schedule, problems


def every_schedule(num_stages: int, num_microbatches: int, limit: float) -> Iterator[Schedule]:
    """Every legal split-backward schedule, one stage per rank, each kind in order of micro-batches."""
    for rows in itertools.product(_rows(num_microbatches), repeat=num_stages):
        schedule = spelled(rows)
        if not problems(schedule, limit):
            yield schedule


def spelled(rows: tuple[str, ...]) -> Schedule:
    """Rows of letters as a schedule: `FFIWIW` is F0 F1 I0 W0 I1 W1."""
    counted = [[f"{s}{kind}{row[:n].count(kind)}" for n, kind in enumerate(row)] for s, row in enumerate(rows)]
    return Schedule.of(counted)


def _rows(num_microbatches: int) -> list[str]:
    everything = {"".join(row) for row in itertools.permutations("FIW" * num_microbatches)}
    return sorted(row for row in everything if all(_in_turn(row[:n]) for n in range(len(row))))


def _in_turn(prefix: str) -> bool:
    return prefix.count("F") >= prefix.count("I") >= prefix.count("W")
