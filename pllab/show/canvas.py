"""What the studio and the editor share: schedules drawn on a canvas, fed with numbers instead of JSON.

A timeline travels to the browser as one block of bytes. Drawing tens of thousands of boxes at the speed of a slider
leaves no time for a dictionary each.
"""

from collections.abc import Iterable
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pllab.schedule import Schedule
from pllab.schedule.pause import collector_paused
from pllab.show.widget import read_source
from pllab.simulate import Times
from pllab.timeline import Timeline

KINDS = "FBIWCUR"  # a kind travels as its place in here

_PLACES = {kind: place for place, kind in enumerate(KINDS)}

Columns = npt.NDArray[np.float64]


def read_canvas_source(*names: str) -> str:
    """The text of `common.js`, `canvas.js` and the widget's own files: `read_canvas_source("editor.js")`."""
    own = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names]
    return "\n".join([read_source("canvas.js"), *own])


def columns_of(timeline: Timeline) -> Columns:
    """Six rows, one column an action: rank, stage, kind, micro-batch, start, end.

    Actions are sorted by rank, then by start, and the clock starts at zero.
    """
    spans = timeline.spans
    actions = list(map(itemgetter(1), spans))
    rows: list[Iterable[float]] = [
        map(itemgetter(0), spans),
        map(attrgetter("stage"), actions),
        map(_PLACES.__getitem__, map(attrgetter("kind"), actions)),
        map(attrgetter("microbatch"), actions),
        map(itemgetter(2), spans),
        map(itemgetter(3), spans),
    ]
    table = np.stack([np.fromiter(row, np.float64, len(spans)) for row in rows])
    table[4:] -= table[4].min(initial=np.inf) if len(spans) else 0.0
    return table[:, np.lexsort((table[4], table[0]))]


@collector_paused()
def columns_of_times(schedule: Schedule, times: Times) -> Columns:
    """What `columns_of(simulate(...))` gives, in a third of the time: no span is made for an action."""
    actions = list(schedule.actions())
    if not actions:
        return np.zeros((6, 0))
    stages, kinds, microbatches = zip(*actions, strict=True)
    ranks = np.repeat(np.arange(schedule.num_ranks), list(map(len, schedule.rows)))
    rows: list[Iterable[float]] = [ranks, stages, map(_PLACES.__getitem__, kinds), microbatches]
    rows += map(chain.from_iterable, times)
    return np.stack([np.fromiter(row, np.float64, len(actions)) for row in rows])


def busy_of(columns: Columns) -> float:
    """What `Timeline.busy` says, in a hundredth of the time: device-seconds of work, overlaps counted once."""
    rank, _, kind, _, start, end = columns[:, columns[2] != KINDS.index("C")]
    apart = rank * (end.max(initial=0.0) + 1.0)  # a clock of its own for each rank, so that one sweep does them all
    reached = np.maximum.accumulate(end + apart)
    before = np.concatenate([[-np.inf], reached[:-1]])[: len(start)]
    return float(np.maximum(end + apart - np.maximum(start + apart, before), 0.0).sum())


def pack(columns: Columns | None) -> bytes:
    """Columns as bytes, for `readActions` in canvas.js, 13 an action; float32 keeps seven digits, enough to draw.

    All starts, all ends, then micro-batches in two bytes each, then ranks, stages and kinds in one.
    """
    if columns is None:
        return b""
    rank, stage, kind, microbatch, start, end = columns
    blocks = [(start, "<f4"), (end, "<f4"), (microbatch, "<u2"), (rank, "u1"), (stage, "u1"), (kind, "u1")]
    assert max(rank.max(initial=0), stage.max(initial=0)) < 256, "more ranks or stages than a byte can tell"
    assert microbatch.max(initial=0) < 65536, "more micro-batches than two bytes can tell"
    return b"".join(numbers.astype(width).tobytes() for numbers, width in blocks)
