"""The runs on a studio's screen: their numbers, the bytes that the browser draws, and the same on paper."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pllab.schedule import Schedule, collector_paused, peak_in_flight
from pllab.show.figures import Figure, figure
from pllab.show.theme import ENGINE_LABELS, count_of, write_percent, write_seconds
from pllab.show.timeline_picture import ABOVE_MEMORY, draw_idle_times, draw_memory, draw_spans, panels
from pllab.simulate import Costs, IdleCause, action_times, idle_causes, simulate
from pllab.timeline import Engine, Timeline

Columns = npt.NDArray[np.float64]

KINDS = "FBIWCUR"  # a kind travels as its place in here
_ROUNDING = 1e-9  # of a makespan: what ends and what begins at one moment differ by rounding


class Measure(NamedTuple):
    """The bubble of a run in one measure: how long a step is, and how much of it the ranks are idle.

    `phases` are the parts of the bubble fraction that lie before a rank's first backward (warm-up), from there to the
    end of its last forward (steady), and after that (drain); they add up to it. `marks` are the two moments on rank 0.
    """

    length_s: float
    bubble_fraction: float
    bubble_overhead: float
    phases: tuple[float, float, float]
    marks: tuple[float, float]


@dataclass(frozen=True)
class Shown:
    """One run on screen: its name, its schedule, the costs that predict it, and its timeline if it was `measured`.

    The schedule is legal, so every rank works. A change of size waits only for the columns; a timeline is made only for
    figures, files and causes. Of a measured run the costs tell messages from late starts, and it has a `note` on its
    clock.
    """

    name: str
    schedule: Schedule
    costs: Costs
    measured: Timeline | None = None
    note: str = ""

    @cached_property
    def timeline(self) -> Timeline:
        """The run, which starts at zero."""
        return self.measured.from_zero() if self.measured else simulate(self.schedule, self.costs)

    @cached_property
    def columns(self) -> Columns:
        """Six rows, one column per action, by rank and then by start: rank, stage, kind, micro-batch, start, end."""
        return _measured(self.timeline) if self.measured else _predicted(self.schedule, self.costs)

    @cached_property
    def step(self) -> Measure:
        """The bubble of one step that ends at a barrier: idle until the slowest rank is done counts."""
        return self._measure([(0.0, float(self.columns[5].max()))] * self.schedule.num_ranks)

    @cached_property
    def steady(self) -> Measure:
        """The bubble of a step that another follows without a barrier: every rank has as long as the slowest needs."""
        windows = [(row[2].min(), row[3].max()) for row in self._rows]
        period = max(end - start for start, end in windows)
        return self._measure([(start, start + period) for start, _ in windows])

    @cached_property
    def _rows(self) -> list[Columns]:
        """Stage, kind, start and end of each rank's work; messages leave a rank free."""
        work = self.columns[:, self.columns[2] != KINDS.index("C")]
        bounds = np.searchsorted(work[0], np.arange(self.schedule.num_ranks + 1))
        return [work[[1, 2, 4, 5], low:high] for low, high in zip(bounds[:-1], bounds[1:], strict=True)]

    def _measure(self, windows: Sequence[tuple[float, float]]) -> Measure:
        idle, marks = np.zeros(3), (0.0, 0.0)
        for rank, (row, (start, end)) in enumerate(zip(self._rows, windows, strict=True)):
            shares, bounds = _idle_by_phase(row, start, end)
            idle += shares
            marks = marks if rank else bounds
        length = windows[0][1] - windows[0][0]
        total, bubble = length * len(windows), float(idle.sum())
        parts = idle / total if total else idle
        busy = total - bubble
        return Measure(
            length, bubble / total if total else 0.0, bubble / busy if busy > 0 else 0.0, tuple(parts.tolist()), marks
        )

    @cached_property
    def most_held(self) -> tuple[float, ...]:
        """Per rank, the most micro-batches held at once; on one of two stages a micro-batch counts a half."""
        return tuple(peak / self.schedule.stages_per_rank for peak in peak_in_flight(self.schedule))

    @property
    def engine(self) -> Engine:
        """Which engine made the run."""
        return self.measured.engine if self.measured else "simulated"

    @property
    def engine_words(self) -> str:
        """The engine in words."""
        return ENGINE_LABELS[self.engine]

    @property
    def title(self) -> str:
        """Name and sizes: `1F1B, 4 ranks, 8 micro-batches`."""
        return f"{self.name}, {sizes_of(self.schedule.num_ranks, self.schedule.num_microbatches)}"

    @cached_property
    def causes(self) -> tuple[IdleCause, ...]:
        """The idle time of a measured run by cause, all of it; a prediction has none to explain."""
        return idle_causes(self.schedule, self.timeline, self.costs) if self.measured else ()

    def to_dict(self) -> dict[str, Any]:
        """The data for the browser: words, numbers, and the columns as `readActions` in actions.js reads them.

        They are float32: seven digits are enough to draw.
        """
        return {
            "actions": self.columns.astype("<f4").tobytes(),
            "name": self.name,
            "engine": self.engine_words,
            "is_measured": self.engine != "simulated",
            "title": self.title,
            "unit": 1 / self.schedule.stages_per_rank,
            "num_stages": self.schedule.num_stages,
            "most_held": self.most_held,
            "step": self.step._asdict(),
            "steady": self.steady._asdict(),
            "causes": [{**one._asdict(), "words": one.words} for one in self.causes],
            "note": self.note,
        }


class Screen(NamedTuple):
    """The runs on screen: the schedule, the one it is compared with, and its measured run."""

    main: Shown
    compared: Shown | None = None
    measured: Shown | None = None


@collector_paused()
def _predicted(schedule: Schedule, costs: Costs) -> Columns:
    times = action_times(schedule, costs)
    ranks = np.repeat(np.arange(schedule.num_ranks), list(map(len, schedule.rows)))
    stages, kinds, microbatches = zip(*schedule.actions(), strict=True)
    return _table([ranks, stages, map(KINDS.index, kinds), microbatches, *map(chain.from_iterable, times)], len(ranks))


def _measured(timeline: Timeline) -> Columns:
    spans = [span for rank in range(timeline.num_ranks) for span in timeline.of_rank(rank)]
    actions = [(one.rank, one.action.stage, KINDS.index(one.action.kind), one.action.microbatch) for one in spans]
    times = [(one.start, one.end) for one in spans]
    return _table([*zip(*actions, strict=True), *zip(*times, strict=True)], len(spans))


def _table(rows: Sequence[Iterable[float]], length: int) -> Columns:
    return np.stack([np.fromiter(row, np.float64, length) for row in rows])


def _idle_by_phase(row: Columns, start: float, end: float) -> tuple[Columns, tuple[float, float]]:
    """Idle seconds of one rank between two moments, by phase, and where its phases meet."""
    _, kinds, starts, ends = row
    forward, backward = kinds == KINDS.index("F"), np.isin(kinds, [KINDS.index(kind) for kind in "BIW"])
    turned = float(starts[backward].min())
    drained = max(turned, float(ends[forward].max()))
    reached = np.maximum.accumulate(np.concatenate([[start], ends]))
    idle = np.maximum(np.concatenate([starts, [end]]) - reached, 0.0)
    phase = np.searchsorted([turned, drained], reached + _ROUNDING * (end - start), side="right")
    return np.bincount(phase, idle, minlength=3).astype(np.float64), (turned, drained)


def sizes_of(num_ranks: int, num_microbatches: int) -> str:
    """`4 ranks, 8 micro-batches`."""
    return f"{count_of(num_ranks, 'rank')}, {count_of(num_microbatches, 'micro-batch')}"


# On paper


def draw_studio(screen: Screen, steady: bool = False) -> Figure:
    """Every run on screen with its numbers: idle time is hatched, work lies on it, the memory of a rank below its row.

    A measured run is drawn below its prediction, on the same axis. The numbers are those of a step that ends at a
    barrier, or in the steady state.
    """
    runs = [one for one in (screen.main, screen.measured, screen.compared) if one]
    most = max(1.0, *(peak for one in runs for peak in one.most_held))
    shown = [(_title_of(one, steady), one.timeline, min(0.62, 5.0 / one.timeline.num_ranks)) for one in runs]
    with panels(shown) as (fig, drawn):
        for panel, one in zip(drawn, runs, strict=True):
            draw_idle_times(panel, ABOVE_MEMORY)
            draw_spans(panel, ABOVE_MEMORY)
            draw_memory(panel, one.schedule.stages_per_rank, most)
        return figure(fig, describe_studio(screen, steady))


def describe_studio(screen: Screen, steady: bool = False) -> str:
    """Sizes and numbers in a sentence for each run."""
    length = "a step every" if steady else "makespan"
    return "; ".join(
        f"{one.title}, {one.engine_words}: {length} {write_seconds(measure.length_s)}, "
        f"bubble fraction {write_percent(measure.bubble_fraction)}, "
        f"bubble overhead {write_percent(measure.bubble_overhead)}, "
        f"at most {count_of(max(one.most_held), 'micro-batch')} held by a rank"
        for one in filter(None, screen)
        for measure in [one.steady if steady else one.step]
    )


def _title_of(one: Shown, steady: bool) -> str:
    measure = one.steady if steady else one.step
    length = f"{'a step every' if steady else 'one step'} {write_seconds(measure.length_s)}"
    held, bubble = (
        count_of(max(one.most_held), "micro-batch"),
        f"bubble fraction {write_percent(measure.bubble_fraction)}",
    )
    return f"{one.name}, {one.engine_words}: {bubble}, {length}, holds {held}"
