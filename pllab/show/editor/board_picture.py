"""The printed twin of the schedule editor: the order and its run as in every figure, with edges and memory."""

from collections.abc import Mapping
from typing import Any

from pllab.show.editor.positions import Judgement
from pllab.show.figures import Figure, figure
from pllab.show.theme import ENGINE_LABELS, LIGHT, write_number
from pllab.show.timeline_picture import ABOVE_MEMORY, Panel, draw_idle_times, draw_memory, draw_spans, panels
from pllab.timeline import Timeline

_ROW_IN = 0.62


def draw_board(judgement: Judgement, view: Mapping[str, Any], run: Timeline | None, alt: str) -> Figure:
    """Draw a judgement with the words of `view_of`: the blocks, the memory of each rank, and the measured run below."""
    shown = [(_title_of(view), judgement.drawn, _ROW_IN)]
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


def _title_of(view: Mapping[str, Any]) -> str:
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
