"""The moments a player stops at, and what it says there.

A measured run has hundreds of slightly different times; a frame is a moment in which something new begins,
and starts that nearly coincide are one moment.
"""

from typing import Any

from pllab.show.theme import paint_of, round_step, write_seconds
from pllab.show.timeline_text import has_several_stages, label_of
from pllab.timeline import Span, Timeline

_TOGETHER = 0.005  # starts closer than this share of the makespan are one moment


def frames_of(timeline: Timeline) -> list[dict[str, Any]]:
    """The moments of a timeline that starts at zero: time, indices of the running spans, and the sentence.

    Example, device 1 waiting for its first micro-batch:
    `{"time": 0.0, "running": [0], "sentence": "t = 0 s: device 0 runs F0, device 1 is idle"}`.
    The last frame is the end of the run.
    """
    staged = has_several_stages(timeline)
    frames = []
    for time in _moments(timeline):
        running = [index for index, span in enumerate(timeline.spans) if span.start <= time < span.end]
        sentence = _say(timeline, running, time, staged)
        frames.append({"time": time, "running": running, "sentence": sentence})
    done = f"t = {write_seconds(timeline.makespan)}: every device is done"
    return [*frames, {"time": timeline.makespan, "running": [], "sentence": done}]


def rows_of(timeline: Timeline) -> list[dict[str, Any]]:
    """The spans as the browser needs them: where, what colour, and the texts of the box and of the table."""
    staged = has_several_stages(timeline)
    return [
        {
            "rank": span.rank,
            "kind": str(span.action.kind),
            "label": label_of(span, staged),
            "name": paint_of(span.action.kind).name,
            "start": span.start,
            "end": span.end,
            "from": write_seconds(span.start),
            "to": write_seconds(span.end),
            "lasts": write_seconds(span.duration),
        }
        for span in timeline.spans
    ]


def ticks_of(makespan: float, most: int = 7) -> list[dict[str, Any]]:
    """Round times for the axis, about `most` of them: `0.412` -> 0, 100, 200, 300 and 400 ms."""
    size = round_step(makespan, most)
    return [{"time": n * size, "text": write_seconds(n * size)} for n in range(int(makespan / size * 1.0001) + 1)]


def _moments(timeline: Timeline) -> list[float]:
    """The last start of each group of starts that lie close together and still run."""
    moments: list[float] = []
    group: list[Span] = []
    reach = _TOGETHER * timeline.makespan
    for span in timeline.spans:
        if group and (span.start - group[0].start > reach or min(one.end for one in group) <= span.start):
            moments.append(group[-1].start)
            group = []
        group.append(span)
    return [*moments, *(span.start for span in group[-1:])]


def _say(timeline: Timeline, running: list[int], time: float, staged: bool) -> str:
    doing: dict[int, list[str]] = {rank: [] for rank in range(timeline.num_ranks)}
    for index in running:
        span = timeline.spans[index]
        doing[span.rank].append(label_of(span, staged))
    told = [
        f"device {rank} runs {' and '.join(labels)}" if labels else f"device {rank} is idle"
        for rank, labels in doing.items()
    ]
    return f"t = {write_seconds(time)}: {', '.join(told)}"
