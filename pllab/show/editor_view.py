"""Everything the editor shows, as plain data: the browser and the printed twin draw the same dictionary."""

from dataclasses import dataclass
from typing import Any

from pllab.schedule import Schedule
from pllab.show.editor_judge import Judgement, Rules, staircase
from pllab.show.editor_words import (
    Par,
    block_of,
    change_of,
    counted_of,
    held_of,
    measured_in_units_of,
    measured_of,
    numbers_of,
    score_of,
    sentence_of,
    title_of,
    verdict_of,
)
from pllab.show.theme import round_step, write_number
from pllab.timeline import Timeline


@dataclass(frozen=True)
class Extras:
    """What is known besides the order: the par, the run of this very order, and the scale of both clocks.

    A run is in seconds, `unit_s` for one unit of the costs, or `in_units` of the costs.
    """

    par: Par | None = None
    measured: Timeline | None = None
    unit: str = ""
    unit_s: float | None = None
    in_units: bool = False


def view_of(judgement: Judgement, rules: Rules, extras: Extras) -> dict[str, Any]:
    """The rows with blocks, measured blocks and memory; edges; sentences; numbers; axis.

    Times are in the unit of the costs; measured times are brought to it.
    """
    schedule, timeline = judgement.schedule, judgement.timeline
    measured, told = _measured(judgement, extras)
    rows = [_row(judgement, rules, rank, measured) for rank in range(schedule.num_ranks)]
    drawn = [block["end"] for row in rows for block in (*row["blocks"], *row["measured"])]
    end = max(drawn, default=0.0) or 1.0
    return {
        "title": schedule.name,
        "summary": title_of(schedule, rules.memory_limit),
        "counted": counted_of(schedule),
        "rows": rows,
        "end": end,
        "ticks": _ticks(end),
        "axis": _axis(judgement, extras.unit),
        "edges": [[str(need), str(waiting)] for need, waiting in judgement.edges],
        "circle": [[str(front), str(behind)] for front, behind in judgement.circle],
        "is_legal": judgement.is_legal,
        "has_times": timeline is not None,
        "verdict": verdict_of(judgement, rules.memory_limit),
        "numbers": numbers_of(timeline, extras.unit) if timeline else [],
        "score": score_of(timeline.makespan, extras.par) if timeline and judgement.is_legal and extras.par else "",
        "par": extras.par.words if extras.par else "",
        "measured": told,
        "most": _most(rows, rules.memory_limit),
        "limit": rules.memory_limit,
        "csv": schedule.to_csv(),
    }


def _row(judgement: Judgement, rules: Rules, rank: int, measured: Timeline | None) -> dict[str, Any]:
    order = judgement.schedule.rows[rank]
    spans = {span.action: span for span in judgement.drawn.of_rank(rank)}
    staged = _is_staged(judgement.schedule)
    points = staircase(judgement, rank, rules.held)
    peak = max((count for _, count in points), default=0.0)
    limit = rules.memory_limit
    ran = measured.of_rank(rank) if measured else ()
    return {
        "blocks": [
            {
                "id": str(action),
                "kind": str(action.kind),
                "text": _label(action, staged),
                "start": spans[action].start,
                "end": spans[action].end,
                "said": block_of(action, place, len(order), rank),
                "change": change_of(action),
            }
            for place, action in enumerate(order)
        ],
        "measured": [
            {
                "kind": str(span.action.kind),
                "text": _label(span.action, staged),
                "start": span.start,
                "end": span.end,
            }
            for span in ran
            if span.action.kind != "C"
        ],
        "memory": points,
        "peak": peak,
        "held": held_of(peak, limit),
        "ran": measured.engine if measured else "",
        "is_over": limit is not None and peak > limit + 1e-9,
    }


def _measured(judgement: Judgement, extras: Extras) -> tuple[Timeline | None, str]:
    """The measured run on the clock of the costs, and its sentence."""
    run, predicted = extras.measured, judgement.timeline
    if run is None or predicted is None or not run.spans:
        return None, ""
    if extras.in_units:
        return run.from_zero(), measured_in_units_of(run, predicted, extras.unit)
    unit_s = extras.unit_s or (run.busy / predicted.busy if run.busy and predicted.busy else 1.0)
    words = measured_of(run, predicted, unit_s, extras.unit, is_derived=extras.unit_s is None)
    return _scaled(run.from_zero(), 1 / unit_s), words


def _scaled(timeline: Timeline, factor: float) -> Timeline:
    spans = [type(span)(span.rank, span.action, span.start * factor, span.end * factor) for span in timeline.spans]
    return Timeline.of(spans, timeline.engine, timeline.num_ranks)


def _is_staged(schedule: Schedule) -> bool:
    """Whether a label must name the stage, because some rank has several."""
    return any(len(schedule.stages_of_rank(rank)) > 1 for rank in range(schedule.num_ranks))


def _label(action: Any, staged: bool) -> str:
    return f"{action.stage if staged else ''}{action.kind}{action.microbatch}"


def _most(rows: list[dict[str, Any]], limit: float | None) -> float:
    """Top of the memory axis, the same for every rank."""
    return max(1.0, limit or 0.0, *(row["peak"] for row in rows))


def _ticks(end: float) -> list[dict[str, Any]]:
    size = round_step(end, 12)
    return [{"at": n * size, "text": write_number(n * size)} for n in range(int(end / size * 1.0001) + 1)]


def _axis(judgement: Judgement, unit: str) -> str:
    if judgement.timeline is None:
        lines = "dashed arrows come from what must run first"
        lines += ", dotted brackets from what stands in front" if judgement.circle else ""
        return f"this order cannot run, so it has no times: each row is drawn without gaps, {lines}"
    return f"simulated time{f' ({unit})' if unit else ', in the unit of the costs'}"


def summary_of(view: dict[str, Any]) -> str:
    """The whole view in sentences: the text alternative of the picture."""
    told = [f"Schedule {view['title']}: {view['summary']}. {' '.join(view['verdict'])}"]
    if view["numbers"]:
        told.append(sentence_of(", ".join(view["numbers"])))
    if view["par"]:
        told.append(f"{view['score'] or 'no score while illegal'}; {view['par']}.")
    held = [f"rank {rank} {row['held']}" for rank, row in enumerate(view["rows"])]
    told.append(f"Memory, in {view['counted']}: {', '.join(held)}.")
    if view["measured"]:
        told.append(view["measured"])
    return " ".join(told)
