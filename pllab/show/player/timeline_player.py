"""The player: a timeline that a student steps through by mouse and keyboard.

Its moments and all its words are made here, so they are tested without a browser, and the widget keeps working when
the kernel is busy or gone. A measured run has hundreds of slightly different times: starts that nearly coincide are one
moment.
"""

from typing import Any

import traitlets

from pllab.show.boxes import Labels, data_of, label_of
from pllab.show.figures import Figure
from pllab.show.theme import ENGINE_LABELS, NAMES, ticks_of, write_seconds
from pllab.show.timeline_picture import describe_timeline, draw_timeline
from pllab.show.widget import Widget, sources_of
from pllab.timeline import Span, Timeline

_TOGETHER = 0.005  # starts closer than this share of the makespan are one moment


class TimelinePlayer(Widget):
    """Step through a timeline: what does every rank do at this moment?

    Keys while the widget has the focus: left and right step, Home and End jump, space plays.

    Example: `TimelinePlayer(pipe.last_timeline)` at the end of a cell.
    """

    _esm, _css = sources_of(__file__, "view.js", "boxes.js")

    view = traitlets.Dict(help="the run, which stays as it is: its spans, moments and idle times, and its words").tag(
        sync=True
    )
    step = traitlets.Int(0, help="number of the moment shown, from 0").tag(sync=True)

    def __init__(self, timeline: Timeline, *, title: str = "", projector: bool = False) -> None:
        self._timeline = timeline.from_zero()
        self._name = title
        super().__init__(view=_view_of(self._timeline, title), projector=projector)

    def static(self) -> Figure:
        """The whole timeline as a figure."""
        return draw_timeline(self._timeline, titles=[self._name])


def _view_of(timeline: Timeline, title: str) -> dict[str, Any]:
    """A timeline that starts at zero, as the browser needs it."""
    engine = f"engine: {ENGINE_LABELS[timeline.engine]}"
    labels = Labels.of(timeline)
    idle = [(rank, *time) for rank in range(timeline.num_ranks) for time in timeline.idle_times(rank)]
    return {
        "title": f"{title}, {engine}" if title else engine,
        "summary": describe_timeline(timeline).partition(", ")[2],
        "num_ranks": timeline.num_ranks,
        "digits": labels.digits,  # of the number of the last micro-batch
        "spans": [_row_of(span, labels) for span in timeline.spans],
        "frames": frames_of(timeline),
        "gaps": [
            {"rank": rank, "start": start, "end": end, "lasts": write_seconds(end - start)}
            for rank, start, end, _ in idle
        ],
        "ticks": ticks_of(timeline.makespan, 7, write_seconds),
    }


def frames_of(timeline: Timeline) -> list[dict[str, Any]]:
    """The moments of a timeline that starts at zero: time, indices of the running spans, and the sentence.

    Example, rank 1 waiting for its first micro-batch:
    `{"time": 0.0, "running": [0], "sentence": "t = 0 s: rank 0 runs F0, rank 1 is idle"}`.
    The last frame is the end of the run.
    """
    staged = Labels.of(timeline).staged
    frames = []
    for time in _moments(timeline):
        running = [index for index, span in enumerate(timeline.spans) if span.start <= time < span.end]
        sentence = _sentence_at(timeline, running, time, staged)
        frames.append({"time": time, "running": running, "sentence": sentence})
    done = f"t = {write_seconds(timeline.makespan)}: every rank is done"
    return [*frames, {"time": timeline.makespan, "running": [], "sentence": done}]


def _moments(timeline: Timeline) -> list[float]:
    """The last start of each group of starts that lie close together, while all of the group still run."""
    moments: list[float] = []
    group: list[Span] = []
    reach = _TOGETHER * timeline.makespan
    for span in timeline.spans:
        if group and (span.start - group[0].start > reach or min(one.end for one in group) <= span.start):
            moments.append(group[-1].start)
            group = []
        group.append(span)
    return [*moments, *(span.start for span in group[-1:])]


def _sentence_at(timeline: Timeline, running: list[int], time: float, staged: bool) -> str:
    spans = [timeline.spans[index] for index in running]
    ranks = []
    for rank in range(timeline.num_ranks):
        labels = " and ".join(label_of(span.action, staged) for span in spans if span.rank == rank)
        ranks.append(f"rank {rank} runs {labels}" if labels else f"rank {rank} is idle")
    return f"t = {write_seconds(time)}: {', '.join(ranks)}"


def _row_of(span: Span, labels: Labels) -> dict[str, Any]:
    """A span as the browser needs it: where, what colour, and the texts of the box."""
    return data_of(span, labels) | {
        "rank": span.rank,
        "name": NAMES[span.action.kind],
        "from": write_seconds(span.start),
        "to": write_seconds(span.end),
        "lasts": write_seconds(span.duration),
    }
