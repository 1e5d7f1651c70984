"""Everything the editor shows, as plain data and words: the browser and the printed twin draw the same dictionary.

Each sentence is made from the numbers it names.
"""

from typing import Any

from pllab.schedule import Action, Kind, Schedule
from pllab.show.boxes import label_of
from pllab.show.editor.judgement import BoardRules, Judgement, Par
from pllab.show.theme import (
    ENGINE_LABELS,
    count_of,
    name_of,
    ticks_of,
    write_number,
    write_percent,
    write_seconds,
)
from pllab.timeline import Span, Timeline

GUIDE = (
    "Drag a block along its rank. Keys: arrows choose a block; Alt+Left or Right moves it one place; Space picks it "
    "up, arrows carry it, Enter drops it, Escape puts it back; S splits a B or merges I and W; Ctrl+Z and Ctrl+Y undo "
    "and redo."
)


def view_of(judgement: Judgement, rules: BoardRules, par: Par | None, run: Timeline | None) -> dict[str, Any]:
    """The rows with blocks, measured blocks and memory; edges; sentences; numbers; axis.

    Times are in the unit of the costs; the times of a measured run of this order are converted to it.
    """
    schedule, timeline = judgement.schedule, judgement.timeline
    measured, compared = _measured(judgement, rules, run)
    rows = [_row_of(judgement, rules, rank, measured) for rank in range(schedule.num_ranks)]
    drawn = [block["end"] for row in rows for block in (*row["blocks"], *row["measured"])]
    end = max(drawn, default=0.0) or 1.0
    return {
        "title": schedule.name,
        "summary": _title_of(schedule, rules.memory_limit),
        "counted": _counted_in(schedule),
        "rows": rows,
        "digits": len(str(schedule.num_microbatches - 1)),
        "end": end,
        "ticks": ticks_of(end, 12, write_number),
        "axis": _axis_of(judgement, rules.unit),
        "edges": [[str(need), str(waiting)] for need, waiting in judgement.edges],
        "circle": [[str(front), str(behind)] for front, behind in judgement.circle],
        "is_legal": judgement.is_legal,
        "has_times": timeline is not None,
        "verdict": _verdict_of(judgement, rules.memory_limit),
        "numbers": _numbers_of(timeline, rules.unit) if timeline else [],
        "score": par.score(timeline.makespan) if timeline and judgement.is_legal and par else "",
        "par": par.words(rules.prefer_whole_backwards(schedule.num_stages)) if par else "",
        "measured": compared,
        "most": max(1.0, rules.memory_limit or 0.0, *(row["peak"] for row in rows)),  # one axis for every rank
        "limit": rules.memory_limit,
        "csv": schedule.to_csv(),
    }


def _row_of(judgement: Judgement, rules: BoardRules, rank: int, measured: Timeline | None) -> dict[str, Any]:
    order = judgement.schedule.rows[rank]
    spans = {span.action: span for span in judgement.drawn.of_rank(rank)}
    staged = any(len(judgement.schedule.stages_of_rank(each)) > 1 for each in range(judgement.schedule.num_ranks))
    first = min(judgement.schedule.stages_of_rank(rank), default=0)
    points = judgement.staircase(rank, rules.held)
    peak = max((count for _, count in points), default=0.0)
    limit = rules.memory_limit
    is_over = limit is not None and peak > limit + 1e-9
    of_limit = "" if limit is None else f" of {write_number(limit)}" + (": too many" if is_over else "")
    return {
        "blocks": [
            {
                "id": str(action),
                **_box_of(spans[action], staged, first),
                "said": _described(action, place, len(order), rank),
                "change": _change_of(action),
            }
            for place, action in enumerate(order)
        ],
        "measured": [_box_of(span, staged, first) for span in _work_of(measured, rank)],
        "memory": points,
        "peak": peak,
        "held": f"holds {write_number(peak)}{of_limit}",
        "ran": measured.engine if measured else "",
        "is_over": is_over,
    }


def _work_of(measured: Timeline | None, rank: int) -> list[Span]:
    return [span for span in measured.of_rank(rank) if span.action.kind != "C"] if measured else []


def _box_of(span: Span, staged: bool, first: int) -> dict[str, Any]:
    """What is drawn for a span on a rank whose lowest stage is `first`."""
    kind, is_later = str(span.action.kind), span.action.stage > first
    return {"kind": kind, "is_later": is_later, "text": label_of(span, staged), "start": span.start, "end": span.end}


def _measured(judgement: Judgement, rules: BoardRules, run: Timeline | None) -> tuple[Timeline | None, str]:
    """The measured run in the unit of the costs, and its sentence.

    Without `unit_s`, a run in seconds is scaled so that it is busy as long as the prediction.
    """
    predicted = judgement.timeline
    if run is None or predicted is None or not run.spans:
        return None, ""
    busy = f"bubble fraction {write_percent(run.bubble_fraction)}"
    measured = f"Measured, engine {ENGINE_LABELS[run.engine]}"
    if rules.in_units:
        compared = _compared(run.makespan, predicted.makespan, rules.unit)
        return run.from_zero(), f"{measured}, in the unit of the costs: {busy}, makespan {compared}."
    unit_s = rules.unit_s or (run.busy / predicted.busy if run.busy and predicted.busy else 1.0)
    scale = f"{f'1 {rules.unit}' if rules.unit else 'one unit'} of cost = {write_seconds(unit_s)}"
    how = scale if rules.unit_s else f"{scale}, so that both are busy as long"
    return _scaled(run.from_zero(), 1 / unit_s), (
        f"{measured}: makespan {write_seconds(run.makespan)}, {busy}. Drawn under the prediction with {how}: "
        f"{_compared(run.makespan / unit_s, predicted.makespan, rules.unit)}."
    )


def _scaled(timeline: Timeline, factor: float) -> Timeline:
    spans = [span._replace(start=span.start * factor, end=span.end * factor) for span in timeline.spans]
    return Timeline.of(spans, timeline.engine, timeline.num_ranks)


def _compared(measured: float, predicted: float, unit: str) -> str:
    """`12.1 against 12, 0.8 % longer`."""
    off = (measured / predicted - 1) if predicted else 0.0
    how = f"{abs(off) * 100:.1f} % {'longer' if off >= 0 else 'shorter'}"
    return f"{with_unit(measured, unit)} against {with_unit(predicted, unit)}, {how}"


def _title_of(schedule: Schedule, limit: float | None) -> str:
    """`8 micro-batches on 4 ranks, memory limit 4`; the unit of the limit is named if ranks have several stages."""
    unit = f" {_counted_in(schedule)}" if schedule.stages_per_rank != 1 else ""
    under = "" if limit is None else f", memory limit {write_number(limit)}{unit}"
    return f"{count_of(schedule.num_microbatches, 'micro-batch')} on {count_of(schedule.num_ranks, 'rank')}{under}"


def _counted_in(schedule: Schedule) -> str:
    """The unit of memory: `micro-batches`, or `micro-batches of 2 stages` if a rank has two."""
    stages = schedule.stages_per_rank
    return "micro-batches" if stages == 1 else f"micro-batches of {write_number(stages)} stages"


def _axis_of(judgement: Judgement, unit: str) -> str:
    if judgement.timeline is None:
        lines = "dashed arrows come from what must run first"
        lines += ", dotted brackets from what stands in front" if judgement.circle else ""
        return f"this order cannot run, so it has no times: each row is drawn without gaps, {lines}"
    return f"simulated time{f' ({unit})' if unit else ', in the unit of the costs'}"


def _verdict_of(judgement: Judgement, limit: float | None) -> list[str]:
    """The problems as sentences, or one sentence that says there are none."""
    if judgement.problems:
        return [sentence_of(problem.sentence) for problem in judgement.problems]
    unit = _counted_in(judgement.schedule)
    under = "" if limit is None else f", and no rank holds more than {write_number(limit)} {unit}"
    return [f"Legal: every action can run in this order{under}."]


def _numbers_of(timeline: Timeline, unit: str) -> list[str]:
    """Makespan and both bubble numbers, each with its definition, and the engine that made them."""
    total = timeline.busy + timeline.idle
    idle, busy = write_number(max(timeline.idle, 0.0)), write_number(timeline.busy)
    return [
        f"makespan {with_unit(timeline.makespan, unit)}",
        f"bubble fraction, idle / all: {idle}/{write_number(total)} = {write_percent(timeline.bubble_fraction)}",
        f"bubble overhead, idle / busy: {idle}/{busy} = {write_percent(timeline.bubble_overhead)}",
        f"engine: {timeline.engine}",
    ]


def _described(action: Action, place: int, length: int, rank: int) -> str:
    """The text of a block for a screen reader: `1B0, backward of micro-batch 0 on stage 1, place 3 of 8 on rank 1`."""
    kind = name_of(action.kind)
    named = f"{action}, {kind} of micro-batch {action.microbatch} on stage {action.stage}"
    return f"{named}, place {place + 1} of {length} on rank {rank}"


def _change_of(action: Action) -> str:
    """The label of the split button for a block: `Split 1B0`, `Merge 1I0 and 1W0`, or nothing."""
    if action.kind is Kind.B:
        return f"Split {action}"
    if action.kind is Kind.F:
        return ""
    return f"Merge {action._replace(kind=Kind.I)} and {action._replace(kind=Kind.W)}"


def outcome_of(judgement: Judgement, unit: str) -> str:
    """`legal, makespan 14, bubble fraction 18.2 %`, or `illegal, 2 problems`."""
    timeline = judgement.timeline
    if not judgement.is_legal:
        return f"illegal, {count_of(len(judgement.problems), 'problem')}"
    assert timeline is not None
    bubble = write_percent(timeline.bubble_fraction)
    return f"legal, makespan {with_unit(timeline.makespan, unit)}, bubble fraction {bubble}"


def moved_of(schedule: Schedule, action: Action, rank: int) -> str:
    """`1B0 moved before 1F2 on rank 1`, or to the end of the row."""
    row = schedule.rows[rank]
    place = row.index(action)
    where = f"before {row[place + 1]} on" if place + 1 < len(row) else "to the end of"
    return f"{action} moved {where} rank {rank}"


def with_unit(value: float, unit: str) -> str:
    """`14`, or `14 ms`."""
    return f"{write_number(value)} {unit}".rstrip()


def sentence_of(text: str) -> str:
    """Add a full stop, and a capital unless the text starts with the name of an action or of code."""
    start = text[:1].upper() + text[1:] if text.partition(" ")[0].strip(",:;").isalpha() else text
    return start if start.endswith(".") else f"{start}."


def summary_of(view: dict[str, Any]) -> str:
    """The whole view in sentences: the text alternative of the picture."""
    parts = [f"Schedule {view['title']}: {view['summary']}. {' '.join(view['verdict'])}"]
    if view["numbers"]:
        parts.append(sentence_of(", ".join(view["numbers"])))
    if view["par"]:
        parts.append(f"{view['score'] or 'no score while illegal'}; {view['par']}.")
    held = [f"rank {rank} {row['held']}" for rank, row in enumerate(view["rows"])]
    parts.append(f"Memory, in {view['counted']}: {', '.join(held)}.")
    if view["measured"]:
        parts.append(view["measured"])
    return " ".join(parts)
