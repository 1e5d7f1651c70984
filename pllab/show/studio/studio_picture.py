"""The studio on paper: timelines as in every figure, and below each row the staircase of what its rank holds."""

from pllab.show.boxes import draw_held
from pllab.show.figures import Figure, figure
from pllab.show.studio.runs import Screen, Shown
from pllab.show.theme import count_of, write_number, write_percent, write_seconds
from pllab.show.timeline_picture import Panel, draw_run, panels

_BAND, _HELD = (-0.46, 0.56), 0.3  # of a row: its boxes, and the memory below them


def draw_studio(screen: Screen) -> Figure:
    """Every run on screen with its numbers: idle time is hatched, work lies on it, the memory of a rank below its row.

    A measured run is drawn below its prediction, on the same axis.
    """
    runs = [one for one in (screen.main, screen.measured, screen.compared) if one]
    most = max(1.0, *(peak for one in runs for peak in one.most_held))
    shown = [(_title_of(one), one.timeline, min(0.62, 5.0 / one.timeline.num_ranks)) for one in runs]
    with panels(shown) as (fig, drawn):
        for panel, one in zip(drawn, runs, strict=True):
            draw_run(panel, _BAND)
            _draw_staircases(panel, one, most)
        return figure(fig, describe_studio(screen))


def describe_studio(screen: Screen) -> str:
    """Sizes and numbers in a sentence for each run."""
    return "; ".join(
        f"{one.title}, {one.engine_words}: makespan {write_seconds(one.step.length_s)}, "
        f"bubble fraction {write_percent(one.step.bubble_fraction)}, "
        f"bubble overhead {write_percent(one.step.bubble_overhead)}, "
        f"at most {count_of(max(one.most_held), 'micro-batch')} held by a rank"
        for one in screen
        if one
    )


def _title_of(one: Shown) -> str:
    held, length = write_number(max(one.most_held)), write_seconds(one.step.length_s)
    bubble = f"bubble fraction {write_percent(one.step.bubble_fraction)}"
    return f"{one.name}, {one.engine_words}: {bubble}, one step {length}, holds {held} micro-batches"


def _draw_staircases(panel: Panel, one: Shown, most: float) -> None:
    """The memory of each rank below its row."""
    end, high = one.makespan, _HELD / one.schedule.stages_per_rank / most
    for rank in range(len(one.most_held)):
        floor = rank + 0.46
        held = dict([(0.0, 0.0), *one.timeline.held_over_time(rank), (end, 0.0)])
        times = [time * panel.per_second for time in held]
        draw_held(panel.axes, times, [floor - high * count for count in held.values()], floor, None)
