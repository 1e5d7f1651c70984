"""`pllab import FILES`: read the traces of a pipeline and say where its time went, beside the prediction."""

from collections.abc import Iterator
from pathlib import Path

from pllab.arguments import printable, require
from pllab.cli.flags import check_file
from pllab.schedule import family_of
from pllab.simulate import Costs, estimate, idle_causes, simulate
from pllab.traces import Recorded, read_trace


def import_traces(traces: tuple[Path, ...] = (), step: int | None = None, output: Path | None = None) -> None:
    """Read the traces of a pipeline: what every rank did, where the time went, and what its own costs predict.

    Args:
        traces: Trace files, one per rank, as torch.profiler writes them.
        step: Step, by the profiler's number or from 0; by default the last complete one.
        output: File for the bubble studio's page, .html.

    Raises:
        ValueError: there is no trace, a file is none, or there is no place for the page.
    """
    require(bool(traces), "no trace is given; write python -m pllab import rank*.json")
    check_file("--output", output, "page", ".html", ".htm")
    recorded = read_trace(traces, step)
    schedule, timeline = recorded.schedule, recorded.timeline
    costs = estimate([(schedule, timeline)])
    print("\n".join(f"{name:<16} {printable(text)}" for name, text in report(recorded, costs)))
    if output is not None:
        from pllab.show import BubbleStudio  # with the widget libraries, which the report does not need

        BubbleStudio(schedule, costs=costs, measured=timeline, note=recorded.note).export_html(output)
        print(f"page in {output}")


def report(recorded: Recorded, costs: Costs) -> Iterator[tuple[str, str]]:
    """The run, its time beside what its costs predict, and its idle time by cause: name and text of each line."""
    schedule, timeline = recorded.schedule, recorded.timeline
    predicted = simulate(schedule, costs)
    yield "ranks", f"{schedule.num_ranks}, {schedule.num_stages} stages"
    yield "schedule", family_of(schedule) or "none of the published ones"
    yield "micro-batches", str(schedule.num_microbatches)
    yield "step", f"{recorded.step} of {', '.join(map(str, recorded.steps))}"
    yield "clock", f"{recorded.clock}: {recorded.note}"
    ratio = f"measured over predicted {timeline.makespan / predicted.makespan:.3f}"
    yield "makespan", f"{_ms(timeline.makespan)} {timeline.engine}, {_ms(predicted.makespan)} simulated; {ratio}"
    both = f"{timeline.bubble_fraction:.1%} {timeline.engine}, {predicted.bubble_fraction:.1%} simulated"
    yield "bubble fraction", f"{both}, idle over all"
    yield "idle time", f"{_ms(timeline.idle)} of all ranks together"
    for one in idle_causes(schedule, timeline, costs):
        yield f"  {one.cause}", f"{one.share:6.1%}  {_ms(one.seconds)}, {one.words}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"
