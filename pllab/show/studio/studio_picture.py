"""The studio on paper: timelines as in every figure, and below each row the staircase of what its rank holds."""

from pllab.show.figures import Figure, figure
from pllab.show.studio.runs import Screen, Shown
from pllab.show.theme import count_of, write_number, write_percent, write_seconds
from pllab.show.timeline_picture import ABOVE_MEMORY, draw_idle_times, draw_memory, draw_spans, panels


def draw_studio(screen: Screen) -> Figure:
    """Every run on screen with its numbers: idle time is hatched, work lies on it, the memory of a rank below its row.

    A measured run is drawn below its prediction, on the same axis.
    """
    runs = [one for one in (screen.main, screen.measured, screen.compared) if one]
    most = max(1.0, *(peak for one in runs for peak in one.most_held))
    shown = [(_title_of(one), one.timeline, min(0.62, 5.0 / one.timeline.num_ranks)) for one in runs]
    with panels(shown) as (fig, drawn):
        for panel, one in zip(drawn, runs, strict=True):
            draw_idle_times(panel, ABOVE_MEMORY)
            draw_spans(panel, ABOVE_MEMORY)
            draw_memory(panel, one.schedule.stages_per_rank, most)
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
