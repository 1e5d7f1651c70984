"""`pllab import FILES`: read the traces of a pipeline and say where its time went, beside the prediction."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pllab.arguments import printable
from pllab.cli.flags import gather, parse
from pllab.cli.measuring import check_file
from pllab.files import write_whole
from pllab.schedule import FAMILIES, Schedule
from pllab.simulate import Costs, IdleCause, estimate, idle_causes, simulate
from pllab.timeline import Timeline
from pllab.traces import Recorded, read_trace


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Read the traces of a pipeline: what every rank did, where the time went, and what its own costs predict."""

    traces: tuple[Path, ...] = ()
    """Trace files, one per rank, as torch.profiler writes them, or one of the bubble studio; also without the flag."""
    step: int | None = None
    """Step, by the profiler's number or from 0, or run of a studio's file; by default the last complete one."""
    output: Path | None = None
    """File for the bubble studio's page, .html; -o for short."""
    json: Path | None = None
    """File for the numbers."""

    def __post_init__(self) -> None:
        if not self.traces:
            raise ValueError("no trace is given; write python -m pllab import rank*.json")
        check_file("--output", self.output)
        check_file("--json", self.json)
        if self.output is not None and self.output.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"--output {str(self.output)!r} is no page; end the name in .html")


@dataclass(frozen=True)
class Report:
    """A recorded run, its prediction (None without a backward), and its idle time by cause."""

    recorded: Recorded
    predicted: Timeline | None
    causes: tuple[IdleCause, ...]

    @classmethod
    def of(cls, recorded: Recorded) -> "Report":
        """Estimate the costs of the run's stages, and simulate its schedule with them."""
        schedule, timeline = recorded.schedule, recorded.timeline
        costs: Costs | None = estimate([(schedule, timeline)]) if recorded.has_backward else None
        predicted = simulate(schedule, costs) if costs else None
        return cls(recorded, predicted, idle_causes(schedule, timeline, costs))

    @property
    def measured_over_predicted(self) -> float | None:
        """Makespan of the run over that of its prediction."""
        return self.recorded.timeline.makespan / self.predicted.makespan if self.predicted else None

    def lines(self) -> Iterator[str]:
        """The report for people, a line per fact."""
        recorded, schedule = self.recorded, self.recorded.schedule
        yield _line("ranks", f"{schedule.num_ranks}, {schedule.num_stages} stages")
        yield _line("schedule", family_of(schedule) or "none of the published ones")
        yield _line("micro-batches", str(schedule.num_microbatches))
        yield _line("step", f"{recorded.step} of {', '.join(map(str, recorded.steps))}")
        yield _line("clock", f"{recorded.clock}: {recorded.note}")
        yield from self._compared()
        idle = sum(one.seconds for one in self.causes)
        yield _line("idle time", f"{_ms(idle)} of all ranks together")
        for one in self.causes:
            yield _line(f"  {one.cause}", f"{one.share:6.1%}  {_ms(one.seconds)}, {one.words}")

    def _compared(self) -> Iterator[str]:
        timeline, predicted = self.recorded.timeline, self.predicted
        if predicted is None:
            yield _line("makespan", f"{_ms(timeline.makespan)} {timeline.engine}; a prediction needs a backward")
            yield _line("bubble fraction", f"{timeline.bubble_fraction:.1%} {timeline.engine}, idle over all")
            return
        ratio = f"measured over predicted {self.measured_over_predicted:.3f}"
        yield _line(
            "makespan", f"{_ms(timeline.makespan)} {timeline.engine}, {_ms(predicted.makespan)} simulated; {ratio}"
        )
        both = f"{timeline.bubble_fraction:.1%} {timeline.engine}, {predicted.bubble_fraction:.1%} simulated"
        yield _line("bubble fraction", f"{both}, idle over all")

    def to_json(self) -> dict[str, Any]:
        """The same as numbers, and the schedule as CSV."""
        recorded, schedule, timeline = self.recorded, self.recorded.schedule, self.recorded.timeline
        return {
            "family": family_of(schedule),
            "num_ranks": schedule.num_ranks,
            "num_stages": schedule.num_stages,
            "num_microbatches": schedule.num_microbatches,
            "step": recorded.step,
            "steps": recorded.steps,
            "engine": timeline.engine,
            "clock": recorded.clock,
            "note": recorded.note,
            "makespan_s": timeline.makespan,
            "predicted_makespan_s": self.predicted.makespan if self.predicted else None,
            "measured_over_predicted": self.measured_over_predicted,
            "bubble_fraction": timeline.bubble_fraction,
            "predicted_bubble_fraction": self.predicted.bubble_fraction if self.predicted else None,
            "idle_s": timeline.idle,
            "idle_causes": [one._asdict() for one in self.causes],
            "schedule": schedule.to_csv(),
        }


def run(words: Sequence[str]) -> int:
    """Read the traces, print the report, write the page and the numbers; returns 0.

    Raises:
        ValueError: an unknown flag, a file that is no trace, or no place for a file.
    """
    options = parse(ImportOptions, gather(words, "--traces", short={"-o": "--output"}), "import")
    recorded = read_trace(options.traces, options.step)
    report = Report.of(recorded)
    print("\n".join(map(printable, report.lines())))
    if options.json is not None:
        write_whole(options.json, json.dumps(report.to_json(), indent=1) + "\n")
        print(f"numbers in {options.json}")
    if options.output is not None:
        from pllab.show import BubbleStudio  # with the widget libraries, which the report does not need
        from pllab.show.studio.trace import studio_of_run

        studio_of_run(BubbleStudio, recorded).export_html(options.output)
        print(f"page in {options.output}")
    return 0


def family_of(schedule: Schedule) -> str | None:
    """The name of the published family whose rows these are: `"1F1B"` for `one_f_one_b(2, 4)`."""
    for family in FAMILIES.values():
        if family.stages_per_rank == schedule.stages_per_rank and schedule.num_microbatches:
            try:
                made = family.make(schedule.num_ranks, schedule.num_microbatches)
            except ValueError:  # it has none of these sizes
                continue
            if made == schedule:
                return family.title
    return None


def _line(name: str, text: str) -> str:
    return f"{name:<16} {text}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"
