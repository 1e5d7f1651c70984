"""The studio on paper: timelines as in every figure, and below each row the staircase of what its rank holds."""

from collections.abc import Sequence

from pllab.show.boxes import draw_held, draw_work
from pllab.show.figures import Figure, figure
from pllab.show.studio.runs import Screen, Shown
from pllab.show.theme import LIGHT, count_of, write_number, write_percent, write_seconds
from pllab.show.timeline_picture import Panel, draw_run, panels

_BAND, _HELD = (-0.46, 0.56), 0.3  # of a row: its boxes, and the memory below them
_STEADY_MARGINS = (-0.07, 1.06)  # of the longest step, where the steps before and after begin to show


def draw_studio(screen: Screen, steady: bool = False) -> Figure:
    """Every run on screen with its numbers: idle time is hatched, work lies on it, the memory of a rank below its row.

    A measured run is drawn below its prediction, on the same axis. `steady` draws steps that follow each other without
    a barrier, those before and after in grey.
    """
    runs = [one for one in (screen.main, screen.measured, screen.compared) if one]
    longest = max(one.makespan for one in runs)
    low, high = (share * longest for share in (_STEADY_MARGINS if steady else (0.0, 1.0)))
    most = max(1.0, *(peak for one in runs for peak in one.most_held))
    shown = [(_title_of(one, steady), one.timeline, min(0.62, 5.0 / one.timeline.num_ranks)) for one in runs]
    with panels(shown, (low, high)) as (fig, drawn):
        for panel, one in zip(drawn, runs, strict=True):
            shifts = (-one.steady.length_s, one.steady.length_s) if steady else ()
            draw_run(panel, _BAND, (low, high) if steady else None)
            for by_s in shifts:
                others = panel.boxes(_BAND, by_s)
                draw_work(panel.axes, others, least=panel.least, paint=(LIGHT.held, LIGHT.held_line))
            _draw_staircases(panel, one, (0.0, *shifts), most)
        return figure(fig, describe_studio(screen, steady))


def describe_studio(screen: Screen, steady: bool = False) -> str:
    """Sizes and numbers in a sentence for each run."""
    sentences = []
    for one in filter(None, screen):
        measure = one.steady if steady else one.step
        length = "a step every" if steady else "makespan"
        sentences.append(
            f"{one.title}, {one.engine_words}: {length} {write_seconds(measure.length_s)}, "
            f"bubble fraction {write_percent(measure.bubble_fraction)}, "
            f"bubble overhead {write_percent(measure.bubble_overhead)}, "
            f"at most {count_of(max(one.most_held), 'micro-batch')} held by a rank"
        )
    return "; ".join(sentences)


def _title_of(one: Shown, steady: bool) -> str:
    measure = one.steady if steady else one.step
    length = f"{'a step every' if steady else 'one step'} {write_seconds(measure.length_s)}"
    held = write_number(max(one.most_held))
    bubble = f"bubble fraction {write_percent(measure.bubble_fraction)}"
    return f"{one.name}, {one.engine_words}: {bubble}, {length}, holds {held} micro-batches"


def _draw_staircases(panel: Panel, one: Shown, shifts: Sequence[float], most: float) -> None:
    """The memory of each rank below its row, in every step."""
    scale = panel.per_second
    low, high = panel.axes.get_xlim() if len(shifts) > 1 else (0.0, one.makespan * scale)
    for rank in range(len(one.most_held)):
        floor = rank + 0.46
        steps = one.timeline.held_over_time(rank)
        moved = [((time + by_s) * scale, count) for by_s in sorted(shifts) for time, count in steps]
        held = dict([(low, 0.0), *moved, (high, 0.0)])
        tops = [floor - _HELD * count / one.schedule.stages_per_rank / most for count in held.values()]
        draw_held(panel.axes, list(held), tops, floor, None)
