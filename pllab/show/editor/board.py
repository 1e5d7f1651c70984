"""Everything the editor shows: plain data and words for the browser, and the printed twin, which says the same.

Each sentence is made from the numbers it names. An action is called what its block is called: `B0`, with its rank where
that is not clear, or `2B0` where ranks have several stages.
"""

import re
from typing import Any

from pllab.memory import is_over
from pllab.schedule import Action, Kind, Schedule
from pllab.show.boxes import Labels, data_of, label_of
from pllab.show.editor.positions import Judgement, halves_of
from pllab.show.figures import Figure, figure
from pllab.show.theme import ENGINE_LABELS, LIGHT, NAMES, count_of, ticks_of, write_number, write_percent
from pllab.show.timeline_picture import ABOVE_MEMORY, Panel, draw_idle_times, draw_memory, draw_spans, panels
from pllab.timeline import ActionLike, Timeline

_ROW_IN = 0.62
_TIMES = "simulated time, in the unit of the costs"
_NO_TIMES = "cannot run, so it has no times: rows without gaps; dashed arrows come from what must run first"
_ACTION_NAMES = re.compile(r"(?P<at> at )?\b(?P<stage>\d+)(?P<block>[FBIW]\d+)\b(?P<on> on rank \d+)?")


def label_in(whole: Schedule, action: ActionLike) -> str:
    """What stands on the block of an action: `B0`, or `2B0` if a rank of the schedule has several stages."""
    return label_of(action, whole.num_stages > whole.num_ranks)


def sentence_of(text: str, whole: Schedule) -> str:
    """A problem as a sentence that calls actions what their blocks are called.

    Example: `0B0 waits for 1B0, which comes after 1F1 on rank 1` becomes `B0 of rank 0 waits for B0 of rank 1, which
    comes after F1 on rank 1.`
    """

    def called(match: re.Match[str]) -> str:
        at, stage, block, on = match.group("at", "stage", "block", "on")
        rank = whole.rank_of_stage.get(int(stage))
        if rank is None:
            return match.group()
        return f"{at}{block}" if at else f"{block}{on or f' of rank {rank}'}"

    text = text if whole.num_stages > whole.num_ranks else _ACTION_NAMES.sub(called, text)
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def view_of(judgement: Judgement, name: str, before: float | None, run: Timeline | None) -> dict[str, Any]:
    """The rows with blocks, measured blocks and memory; edges and marks; sentences; numbers; axis.

    Times are in the unit of the costs, also those of a measured run. `before` is the makespan of the order before.
    """
    whole, timeline, rules = judgement.whole, judgement.timeline, judgement.rules
    measured, compared = _measured(timeline, run)
    labels = _labels_of(whole)
    rows = [_row_of(judgement, labels, rank, measured) for rank in range(whole.num_ranks)]
    marks = _marks(judgement, before)
    drawn = [block["end"] for row in rows for block in (*row["blocks"], *row["measured"])]
    end = max([*drawn, *(mark["at"] for mark in marks)], default=0.0) or 1.0
    return {
        "title": name,
        "summary": _title_of(whole, rules.memory_limit),
        "rows": rows,
        "digits": labels.digits,
        "end": end,
        "marks": marks,
        "ticks": ticks_of(end, 12, write_number),
        "axis": _TIMES if timeline else _NO_TIMES,
        "edges": [[str(need), str(waiting)] for need, waiting in judgement.edges],
        "is_legal": judgement.is_legal,
        "has_times": timeline is not None,
        "verdict": _verdict_of(judgement),
        "numbers": _numbers_of(judgement),
        "score": _score_of(judgement.makespan, rules.par) if judgement.is_legal else "",
        "par": "" if rules.par is None else f"par {write_number(rules.par)}",
        "measured": compared,
        "most": max(1.0, rules.memory_limit or 0.0, *(row["peak"] for row in rows)),  # one axis for every rank
        "limit": rules.memory_limit,
    }


def _marks(judgement: Judgement, before: float | None) -> list[dict[str, Any]]:
    """The moments to mark on the time axis, if there is one: par, and where the order before ended."""
    if judgement.timeline is None:
        return []
    moments = {"par": judgement.rules.par, "before": None if before == judgement.makespan else before}
    return [
        {"at": at, "text": f"{what} {write_number(at)}", "look": what} for what, at in moments.items() if at is not None
    ]


def _row_of(judgement: Judgement, labels: Labels, rank: int, measured: Timeline | None) -> dict[str, Any]:
    order, whole = judgement.position.board.rows[rank], judgement.whole
    spans = {span.action: span for span in judgement.drawn.of_rank(rank)}
    points = judgement.staircase(rank)
    peak = max((count for _, count in points), default=0.0)
    limit = judgement.rules.memory_limit
    of_limit = "" if limit is None else f" of {write_number(limit)}" + (": too many" if is_over(peak, limit) else "")
    work = [span for span in measured.of_rank(rank) if span.action.kind != "C"] if measured else []
    return {
        "blocks": [
            data_of(spans[action], labels)
            | {
                "id": str(action),
                "said": _described(judgement, action, place, rank),
                "change": _change_of(whole, action),
                "is_critical": action in judgement.critical,
            }
            for place, action in enumerate(order)
        ],
        "ready": [
            {"id": str(action), "kind": str(action.kind), "text": label_in(whole, action)}
            for action in judgement.ready[rank]
        ],
        "measured": [data_of(span, labels) for span in work],
        "memory": points,
        "peak": peak,
        "held": f"holds {write_number(peak)}{of_limit}",
        "ran": measured.engine if measured else "",
        "is_over": is_over(peak, limit),
    }


def _labels_of(whole: Schedule) -> Labels:
    """Those of all the work, which stay as they are while blocks are missing."""
    first = {rank: min(whole.stages_of_rank(rank)) for rank in range(whole.num_ranks)}
    return Labels(whole.num_stages > whole.num_ranks, len(str(whole.num_microbatches - 1)), first, wired=False)


def _measured(predicted: Timeline | None, run: Timeline | None) -> tuple[Timeline | None, str]:
    """A measured run from zero on, and its sentence."""
    if run is None or predicted is None or not run.spans:
        return None, ""
    off = run.makespan / predicted.makespan - 1 if predicted.makespan else 0.0
    how = f"{abs(off) * 100:.1f} % {'longer' if off >= 0 else 'shorter'}"
    compared = f"makespan {write_number(run.makespan)} against {write_number(predicted.makespan)}, {how}"
    words = f"Measured, engine {ENGINE_LABELS[run.engine]}, in the unit of the costs"
    return run.from_zero(), f"{words}: bubble fraction {write_percent(run.bubble_fraction)}, {compared}."


def _title_of(whole: Schedule, limit: float | None) -> str:
    """`8 micro-batches on 4 ranks, memory limit 4`."""
    under = "" if limit is None else f", memory limit {write_number(limit)}"
    return f"{count_of(whole.num_microbatches, 'micro-batch')} on {count_of(whole.num_ranks, 'rank')}{under}"


def _verdict_of(judgement: Judgement) -> list[str]:
    """The problems as sentences, or one sentence that says there are none."""
    if judgement.problems:
        return [sentence_of(problem.sentence, judgement.whole) for problem in judgement.problems]
    limit = judgement.rules.memory_limit
    under = "" if limit is None else f", and no rank holds more than {count_of(limit, 'micro-batch')}"
    if judgement.position.is_complete:
        return [f"Legal: every action can run in this order{under}."]
    if not any(judgement.ready):
        return [f"Legal so far{under}, but no rank can go on: the next forward would exceed the limit. Undo, or reset."]
    return [f"Legal so far{under}. Every rank shows what it can do next."]


def _numbers_of(judgement: Judgement) -> list[str]:
    """Makespan and both bubble numbers, each with its definition, and the engine that made them."""
    timeline = judgement.timeline
    if timeline is None:
        return []
    makespan, engine = write_number(timeline.makespan), f"engine: {timeline.engine}"
    if not judgement.position.is_complete:
        placed = f"{judgement.position.board.num_actions} of {judgement.whole.num_actions} actions placed"
        return [placed, f"makespan so far {makespan}", engine]
    total = timeline.busy + timeline.idle
    idle, busy = write_number(max(timeline.idle, 0.0)), write_number(timeline.busy)
    return [
        f"makespan {makespan}",
        f"bubble fraction, idle / all: {idle}/{write_number(total)} = {write_percent(timeline.bubble_fraction)}",
        f"bubble overhead, idle / busy: {idle}/{busy} = {write_percent(timeline.bubble_overhead)}",
        engine,
    ]


def _score_of(makespan: float | None, par: float | None) -> str:
    """`1 over par`, `par`, or `2 under par`; differences below a millionth are rounding."""
    if makespan is None or par is None:
        return ""
    over = makespan - par
    if abs(over) <= 1e-6 * max(abs(par), 1e-12):
        return "par"
    return f"{write_number(abs(over))} {'over' if over > 0 else 'under'} par"


def _described(judgement: Judgement, action: Action, place: int, rank: int) -> str:
    """The text of a block for a screen reader: `B0, backward of micro-batch 0 on stage 1, place 3 of 8 on rank 1`."""
    named = f"{label_in(judgement.whole, action)}, {NAMES[action.kind]} of micro-batch {action.microbatch}"
    path = ", on the critical path" if action in judgement.critical else ""
    length = len(judgement.position.board.rows[rank])
    return f"{named} on stage {action.stage}, place {place + 1} of {length} on rank {rank}{path}"


def _change_of(whole: Schedule, action: Action) -> str:
    """The label of the split button for a block: `Split B0`, `Merge I0 and W0`, or nothing."""
    if action.kind is Kind.B:
        return f"Split {label_in(whole, action)}"
    if action.kind is Kind.F:
        return ""
    first, rest = (label_in(whole, half) for half in halves_of(action))
    return f"Merge {first} and {rest}"


def outcome_of(judgement: Judgement) -> str:
    """`legal, makespan 14, bubble fraction 18.2 %`, `legal so far`, or `illegal, 2 problems`."""
    timeline = judgement.timeline
    if not judgement.is_legal:
        return f"illegal, {count_of(len(judgement.problems), 'problem')}"
    if timeline is None or not judgement.position.is_complete:
        return "legal so far"
    bubble = write_percent(timeline.bubble_fraction)
    return f"legal, makespan {write_number(timeline.makespan)}, bubble fraction {bubble}"


def summary_of(view: dict[str, Any]) -> str:
    """The whole view in sentences: the text alternative of the picture."""
    parts = [f"Schedule {view['title']}: {view['summary']}.", *view["verdict"]]
    if view["numbers"]:
        numbers = ", ".join(view["numbers"])
        parts.append(f"{numbers[:1].upper()}{numbers[1:]}.")
    if view["par"]:
        unscored = "not yet complete" if view["is_legal"] else "no score while illegal"
        parts.append(f"{view['score'] or unscored}; {view['par']}.")
    held = [f"rank {rank} {row['held']}" for rank, row in enumerate(view["rows"])]
    parts.append(f"Memory, in micro-batches: {', '.join(held)}.")
    return " ".join([*parts, *([view["measured"]] if view["measured"] else [])])


# On paper


def draw_board(judgement: Judgement, view: dict[str, Any], run: Timeline | None, alt: str) -> Figure:
    """Draw a judgement with the words of `view_of`: the blocks, the memory of each rank, and the measured run below."""
    shown = [(_heading_of(view), judgement.drawn, _ROW_IN)]
    if run:
        shown.append((f"{ENGINE_LABELS[run.engine]}: makespan {write_number(run.makespan)}", run.from_zero(), _ROW_IN))
    with panels(shown, view["axis"]) as (fig, [board, *measured]):
        if view["has_times"]:
            draw_idle_times(board, ABOVE_MEMORY, write_number)
        else:
            board.axes.set_xticks([])
        draw_spans(board, ABOVE_MEMORY)
        draw_memory(board, judgement.whole.stages_per_rank, view["most"], judgement.rules.memory_limit)
        _draw_edges(board, judgement)
        for panel in measured:
            draw_idle_times(panel, write=write_number)
            draw_spans(panel)
        return figure(fig, alt)


def _heading_of(view: dict[str, Any]) -> str:
    outcome = f"{view['numbers'][0]}, engine simulated" if view["numbers"] else "cannot run"
    parts = [outcome if view["is_legal"] else f"illegal, {outcome}", view["score"]]
    return f"{view['title']}: {', '.join(filter(None, parts))}"


def _draw_edges(board: Panel, judgement: Judgement) -> None:
    """A dashed arrow from each action that must run first to the one that is too early."""
    spans = {span.action: span for span in board.timeline.spans}
    top, height = ABOVE_MEMORY
    look = {"arrowstyle": "-|>", "linestyle": "--", "color": LIGHT.over, "linewidth": 2.2}
    for pair in judgement.edges:
        if not spans.keys() >= set(pair):
            continue
        ends = [spans[action] for action in pair]
        (rank, x), (to_rank, to_x) = ((span.rank, (span.start + span.end) / 2) for span in ends)
        start = (x, rank + top + (height if rank < to_rank else 0.0))
        end = (to_x, to_rank + top + (height if to_rank < rank else 0.0))
        bend = f"arc3,rad={0.35 if rank == to_rank else 0.1}"
        board.axes.annotate("", xy=end, xytext=start, arrowprops={**look, "connectionstyle": bend})
