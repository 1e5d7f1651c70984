"""The runs on a studio's screen: their numbers, their words, and the bytes that the browser draws."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pllab.schedule import Schedule, collector_paused, peak_in_flight
from pllab.show.theme import ENGINE_LABELS, count_of, write_number, write_percent, write_seconds
from pllab.simulate import Costs, action_times, critical_path, simulate
from pllab.timeline import Engine, Timeline

Columns = npt.NDArray[np.float64]

KINDS = "FBIWCUR"  # a kind travels as its place in here
HEADINGS = (
    "Schedule",
    "Engine",
    "Bubble fraction, idle / all",
    "Bubble overhead, idle / busy",
    "Makespan",
    "Most held, micro-batches",
)


@dataclass(frozen=True)
class Shown:
    """One run on screen: its name, its schedule, and a measured timeline or the costs of a prediction.

    A slider waits only for the columns; a timeline is made only for files and the critical path. With `stages_per_rank`
    v, a micro-batch on one stage counts 1/v.
    """

    name: str
    schedule: Schedule
    source: Timeline | Costs
    stages_per_rank: float = 1

    @cached_property
    def timeline(self) -> Timeline:
        """The run, which starts at zero."""
        return simulate(self.schedule, self.source) if isinstance(self.source, Costs) else self.source.from_zero()

    @cached_property
    def columns(self) -> Columns:
        """Six rows, one column per action, by rank and then by start: rank, stage, kind, micro-batch, start, end."""
        if isinstance(self.source, Costs):
            return _predicted(self.schedule, self.source)
        return _measured(self.timeline)

    @cached_property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return float(self.columns[5].max(initial=0.0))

    @cached_property
    def bubble(self) -> tuple[float, float]:
        """Bubble fraction, idle over all, and bubble overhead, idle over busy."""
        if not isinstance(self.source, Costs):
            return self.timeline.bubble_fraction, self.timeline.bubble_overhead
        busy, total = float((self.columns[5] - self.columns[4]).sum()), self.makespan * self.schedule.num_ranks
        idle = max(0.0, total - busy)
        return idle / total if total else 0.0, idle / busy if busy else 0.0

    @property
    def most_held(self) -> tuple[float, ...]:
        """Per rank, the most micro-batches held at once; on one of two stages a micro-batch counts a half."""
        return tuple(peak / self.stages_per_rank for peak in _peaks(self.schedule))

    @property
    def engine(self) -> Engine:
        """Which engine made the run."""
        return "simulated" if isinstance(self.source, Costs) else self.source.engine

    @property
    def engine_words(self) -> str:
        """The engine in words."""
        return ENGINE_LABELS[self.engine]

    @property
    def label(self) -> str:
        """Name and engine: `1F1B, simulated`."""
        return f"{self.name}, {self.engine_words}"

    def figures(self) -> list[str]:
        """A line of the table of numbers, as texts."""
        most = write_number(max(self.most_held, default=0.0))
        return [self.name, self.engine_words, *map(write_percent, self.bubble), write_seconds(self.makespan), most]

    def state(self) -> dict[str, Any]:
        """The numbers as numbers."""
        return {
            "name": self.name,
            "engine": self.engine,
            "makespan_s": self.makespan,
            "bubble_fraction": self.bubble[0],
            "bubble_overhead": self.bubble[1],
            "most_held": self.most_held,
        }

    def to_dict(self) -> dict[str, Any]:
        """The data for the browser apart from the actions."""
        return {
            "name": self.label,
            "engine": self.engine_words,
            "numbers": f"bubble fraction {self.figures()[2]}, bubble overhead {self.figures()[3]}",
            "unit": 1 / self.stages_per_rank,
            "most": max(self.most_held, default=0.0),
        }

    def path(self) -> npt.NDArray[np.int32]:
        """The column numbers of the critical path's actions, in order."""
        keys = zip(*self.columns[1:4].astype(np.int64).tolist(), strict=True)
        place = {key: index for index, key in enumerate(keys)}
        path = (span.action for span in critical_path(self.schedule, self.timeline))
        places = [place[action.stage, KINDS.index(action.kind), action.microbatch] for action in path]
        return np.array(sorted(places), dtype=np.int32)


class Screen(NamedTuple):
    """The runs on screen: the schedule, the one it is compared with, and its measured run."""

    main: Shown
    compared: Shown | None = None
    measured: Shown | None = None

    def runs(self) -> list[Shown]:
        """The runs that are not None."""
        return [one for one in self if one is not None]

    def to_bytes(self, critical: bool = False) -> list[bytes]:
        """The actions of the three runs, as `readActions` in canvas.js reads them, and the critical path if asked for.

        Numbers are float32: seven digits are enough to draw.
        """
        blocks = [one.columns.astype("<f4").tobytes() if one else b"" for one in self]
        return [*blocks, self.main.path().tobytes() if critical else b""]


@collector_paused()
def _predicted(schedule: Schedule, costs: Costs) -> Columns:
    if not schedule.num_actions:
        return np.zeros((6, 0))
    times = action_times(schedule, costs)
    ranks = np.repeat(np.arange(schedule.num_ranks), list(map(len, schedule.rows)))
    stages, kinds, microbatches = zip(*schedule.actions(), strict=True)
    return _table([ranks, stages, map(KINDS.index, kinds), microbatches, *map(chain.from_iterable, times)], len(ranks))


def _measured(timeline: Timeline) -> Columns:
    spans = [span for rank in range(timeline.num_ranks) for span in timeline.of_rank(rank)]
    actions = [(one.rank, one.action.stage, KINDS.index(one.action.kind), one.action.microbatch) for one in spans]
    times = [(one.start, one.end) for one in spans]
    return _table([*zip(*actions, strict=True), *zip(*times, strict=True)], len(spans)) if spans else np.zeros((6, 0))


def _table(rows: Sequence[Iterable[float]], length: int) -> Columns:
    return np.stack([np.fromiter(row, np.float64, length) for row in rows])


@lru_cache(maxsize=16)
def _peaks(schedule: Schedule) -> tuple[float, ...]:
    return peak_in_flight(schedule)


def view_of(screen: Screen, memory_limit: float | None) -> dict[str, Any]:
    """The numbers and words of a screen, as plain data for the browser."""
    main = screen.main
    sizes = sizes_of(main.schedule.num_ranks, main.schedule.num_microbatches)
    problems = (problem_of(one, memory_limit) for one in (main, screen.compared) if one)
    return {
        "title": f"{main.name}, {sizes}",
        "note": "engine: " + " and ".join(dict.fromkeys(one.engine_words for one in screen.runs())),
        "headings": HEADINGS,
        "figures": [one.figures() for one in screen.runs()],
        "runs": [one and one.to_dict() for one in screen],
        "num_stages": main.schedule.num_stages,
        "stages_per_rank": main.stages_per_rank,
        "file": re.sub(r"[^a-z0-9]+", "-", f"{main.name} {sizes}".lower()),
        "problem": "; ".join(filter(None, problems)),
    }


def problem_of(shown: Shown, memory_limit: float | None) -> str:
    """Why a schedule does not fit the memory, or nothing."""
    over = [] if memory_limit is None else [r for r, held in enumerate(shown.most_held) if held > memory_limit + 1e-6]
    if memory_limit is None or not over:
        return ""
    held, rest = count_of(shown.most_held[over[0]], "micro-batch"), len(over) - 1
    more = f" (and {rest} more rank{' holds' if rest == 1 else 's hold'} too many)" if rest else ""
    return f"{shown.name}: rank {over[0]} holds {held}, more than the limit of {write_number(memory_limit)}{more}"


def sizes_of(num_ranks: int, num_microbatches: int) -> str:
    """`4 ranks, 8 micro-batches`."""
    return f"{count_of(num_ranks, 'rank')}, {count_of(num_microbatches, 'micro-batch')}"


def check_run(schedule: Schedule, timeline: Timeline) -> None:
    """Refuse a timeline whose ranks did not run the rows of a schedule: F, B, I and W, in this order.

    Example: a run of `one_f_one_b(2, 3)` is refused for `one_f_one_b(2, 8)`: "the measured run is not of the schedule:
    action 6 of rank 0 is 0B2 in the run and 0F3 in the schedule; measure the schedule on screen".

    Raises:
        ValueError: a rank ran something else; the message has the first difference.
    """
    for rank in range(max(schedule.num_ranks, timeline.num_ranks)):
        actions = (span.action for span in timeline.of_rank(rank))
        ran = [f"{one.stage}{one.kind}{one.microbatch}" for one in actions if one.kind in "FBIW"]
        row = map(str, schedule.rows[rank]) if rank < schedule.num_ranks else ()
        for place, (one, other) in enumerate(zip_longest(ran, row, fillvalue="nothing"), 1):
            if one != other:
                where = f"action {place} of rank {rank} is {one} in the run and {other} in the schedule"
                raise ValueError(f"the measured run is not of the schedule: {where}; measure the schedule on screen")
