"""A timeline in words: the sentence beside every picture of it, and the letters in its boxes.

Pictures, widgets and text alternatives all take their words from here, so they cannot disagree.
"""

from collections.abc import Sequence

from pllab.show.theme import ENGINE_LABELS, write_number, write_percent, write_seconds
from pllab.timeline import Span, Timeline


def describe_timeline(timeline: Timeline) -> str:
    """Say a timeline in one sentence, made from its numbers.

    Example: `real, 2 devices, 8 micro-batches: makespan 412 ms, bubble fraction 11.8 %, bubble overhead
    13.4 %, at most 8 micro-batches in flight on device 0`.
    """
    engine = ENGINE_LABELS[timeline.engine]
    devices = _count(timeline.num_ranks, "device")
    if not timeline.spans:
        return f"{engine}, {devices}: nothing ran"
    computed = {span.action.microbatch for span in timeline.spans if span.action.kind not in ("C", "U")}
    microbatches = _count(len(computed), "micro-batch")
    parts = [
        f"makespan {write_seconds(timeline.makespan)}",
        f"bubble fraction {write_percent(timeline.bubble_fraction)}",
        f"bubble overhead {write_percent(timeline.bubble_overhead)}",
        *_describe_peak(timeline.peak_in_flight),
    ]
    return f"{engine}, {devices}, {microbatches}: {', '.join(parts)}"


def label_of(span: Span, with_stage: bool) -> str:
    """What a box says: `F3`, or `2F3` where a device holds several stages."""
    stage = span.action.stage if with_stage else ""
    return f"{stage}{span.action.kind}{span.action.microbatch}"


def has_several_stages(timeline: Timeline) -> bool:
    """Whether some device runs more than one stage, so that a label must name the stage."""
    return len({(span.rank, span.action.stage) for span in timeline.spans}) > len(
        {span.rank for span in timeline.spans}
    )


def _describe_peak(peaks: Sequence[float]) -> list[str]:
    highest = max(peaks, default=0.0)
    if not highest:
        return []
    where = "every device" if min(peaks) == highest and len(peaks) > 1 else f"device {peaks.index(highest)}"
    number = _count(highest, "micro-batch")
    return [f"at most {number} in flight on {where}"]


def _count(number: float, noun: str) -> str:
    plural = "" if number == 1 else "es" if noun.endswith("h") else "s"
    return f"{write_number(number)} {noun}{plural}"
