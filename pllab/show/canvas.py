"""What the studio and the editor share: schedules drawn on a canvas, fed with numbers instead of JSON.

A timeline travels to the browser as one block of bytes. Drawing tens of thousands of boxes at the speed of a slider
leaves no time for a dictionary each.
"""

from collections.abc import Iterable
from operator import attrgetter, itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pllab.show.widget import read_source
from pllab.timeline import Timeline

KINDS = "FBIWCUR"  # a kind travels as its place in here

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
        map(KINDS.index, map(attrgetter("kind"), actions)),
        map(attrgetter("microbatch"), actions),
        map(itemgetter(2), spans),
        map(itemgetter(3), spans),
    ]
    table = np.stack([np.fromiter(row, np.float64, len(spans)) for row in rows])
    table[4:] -= table[4].min(initial=np.inf) if len(spans) else 0.0
    return table[:, np.lexsort((table[4], table[0]))]


def busy_of(columns: Columns) -> float:
    """What `Timeline.busy` says, in a hundredth of the time: device-seconds of work, overlaps counted once."""
    rank, _, kind, _, start, end = columns[:, columns[2] != KINDS.index("C")]
    apart = rank * (end.max(initial=0.0) + 1.0)  # a clock of its own for each rank, so that one sweep does them all
    reached = np.maximum.accumulate(end + apart)
    before = np.concatenate([[-np.inf], reached[:-1]])[: len(start)]
    return float(np.maximum(end + apart - np.maximum(start + apart, before), 0.0).sum())


def pack(columns: Columns | None) -> bytes:
    """Columns as bytes, for `readActions` in canvas.js: float32 keeps seven digits, enough to draw."""
    return b"" if columns is None else columns.astype("<f4").tobytes()
