"""What the studio shows: a schedule simulated, its numbers and its words, fast enough for a slider."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pllab.schedule import Held, Kind, Schedule
from pllab.show.canvas import KINDS, Columns, busy_of, columns_of, columns_of_times, pack
from pllab.show.theme import ENGINE_LABELS, write_number, write_percent, write_seconds
from pllab.simulate import Costs, action_times, critical_path, simulate
from pllab.timeline import Engine, Timeline

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
    """One run on screen: its name, schedule, what was measured, or what a prediction costs.

    Example: `Shown("1F1B", schedule, Costs())` is simulated, `Shown("1F1B", schedule, timeline)` was measured. How many
    stages share a rank's layers says what a stage's micro-batch counts.
    """

    name: str
    schedule: Schedule
    source: Timeline | Costs
    stages_per_rank: float = 1
    held: Held = Held()

    @cached_property
    def timeline(self) -> Timeline:
        """The run; of a prediction only files and the critical path need it, and a slider does not wait for it."""
        return simulate(self.schedule, self.source) if isinstance(self.source, Costs) else self.source

    @cached_property
    def columns(self) -> Columns:
        """The actions as numbers, by rank and start."""
        if isinstance(self.source, Costs):
            return columns_of_times(self.schedule, action_times(self.schedule, self.source))
        return columns_of(self.source)

    @property
    def engine(self) -> Engine:
        """Which engine made the run."""
        return "simulated" if isinstance(self.source, Costs) else self.source.engine

    @property
    def engine_words(self) -> str:
        """The same in words."""
        return ENGINE_LABELS[self.engine]

    @property
    def num_ranks(self) -> int:
        """Rows of the picture."""
        return self.schedule.num_ranks if isinstance(self.source, Costs) else self.source.num_ranks

    @cached_property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return float(self.columns[5].max(initial=0.0))

    @cached_property
    def bubble(self) -> tuple[float, float]:
        """Bubble fraction, idle over all, and bubble overhead, idle over busy; as the timeline has them, but sooner."""
        busy, total = busy_of(self.columns), self.makespan * self.num_ranks
        idle = max(0.0, total - busy)
        return idle / total if total else 0.0, idle / busy if busy else 0.0

    @cached_property
    def most_held(self) -> tuple[float, ...]:
        """Per rank, the most micro-batches of a rank's layers held at once; a stage of two counts a half.

        The order of a rank's actions decides it, as in `pllab.schedule.peak_in_flight`.
        """
        return tuple(float(np.cumsum(self._changes(rank)[1]).max(initial=0.0)) for rank in range(self.num_ranks))

    def staircase(self, rank: int) -> tuple[Columns, Columns]:
        """Times and the micro-batches held from then on: a forward counts from its start, a release from its end.

        What changes at one moment is one step.
        """
        here, changes = self._changes(rank)
        times = np.where(changes > 0, here[4], here[5])
        last = np.append(times[1:] > times[:-1], True)[: len(times)]
        held = np.concatenate([[0.0], np.cumsum(changes)[last], [changes.sum()]])
        return np.concatenate([[0.0], times[last], [self.makespan]]), held

    def _changes(self, rank: int) -> tuple[Columns, Columns]:
        """The columns of one rank, and what each of its actions adds to what it holds."""
        low, high = np.searchsorted(self.columns[0], (rank, rank + 1))
        here = self.columns[:, low:high]
        by_kind = np.array([self.held.change(Kind(letter)) / self.stages_per_rank for letter in KINDS])
        return here, by_kind[here[2].astype(np.int64)]

    @property
    def label(self) -> str:
        """Name and engine: `1F1B, simulated`."""
        return f"{self.name}, {self.engine_words}"

    def figures(self) -> list[str]:
        """A line of the table of numbers, as texts."""
        fraction, overhead = map(write_percent, self.bubble)
        most = write_number(max(self.most_held, default=0.0))
        return [self.name, self.engine_words, fraction, overhead, write_seconds(self.makespan), most]

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
        """What the browser needs to know beside the actions."""
        return {
            "name": self.label,
            "engine": self.engine_words,
            "numbers": f"bubble fraction {self.figures()[2]}, bubble overhead {self.figures()[3]}",
            "unit": 1 / self.stages_per_rank,
            "most": max(self.most_held, default=0.0),
        }


class Screen(NamedTuple):
    """The runs on screen: the schedule, the one it is compared with, and its measured run."""

    main: Shown
    compared: Shown | None = None
    measured: Shown | None = None

    def runs(self) -> list[Shown]:
        """Those that are there."""
        return [one for one in self if one is not None]


def view_of(screen: Screen, memory_limit: float | None) -> dict[str, Any]:
    """The numbers and words of a screen, as plain data for the browser."""
    main = screen.main
    sizes = say_sizes(main.schedule.num_ranks, main.schedule.num_microbatches)
    return {
        "title": f"{main.name}, {sizes}",
        "note": "engine: " + " and ".join(dict.fromkeys(one.engine_words for one in screen.runs())),
        "headings": HEADINGS,
        "figures": [one.figures() for one in screen.runs()],
        "runs": [one and one.to_dict() for one in screen],
        "num_stages": main.schedule.num_stages,
        "stages_per_rank": main.stages_per_rank,
        "file": re.sub(r"[^a-z0-9]+", "-", f"{main.name} {sizes}".lower()),
        "problem": "; ".join(filter(None, (find_problem(one, memory_limit) for one in (main, screen.compared) if one))),
    }


def find_problem(shown: Shown, memory_limit: float | None) -> str:
    """Why a schedule does not fit the memory, or nothing."""
    if memory_limit is None:
        return ""
    over = [rank for rank, held in enumerate(shown.most_held) if held > memory_limit + 1e-6]
    if not over:
        return ""
    most, rest = shown.most_held[over[0]], len(over) - 1
    held = f"{write_number(most)} micro-batch{'' if most == 1 else 'es'}"
    more = f" (and {rest} more rank{' holds' if rest == 1 else 's hold'} too many)" if rest else ""
    return f"{shown.name}: rank {over[0]} holds {held}, more than the limit of {write_number(memory_limit)}{more}"


def blocks_of(screen: Screen, critical: bool) -> tuple[bytes, bytes, bytes, bytes]:
    """The numbers of the three runs, and of the critical path if it is asked for, as the browser reads them."""
    main, compared, measured = (pack(one.columns if one else None) for one in screen)
    return main, compared, measured, path_of(screen.main).tobytes() if critical else b""


def say_sizes(num_ranks: int, num_microbatches: int) -> str:
    """`4 ranks, 8 micro-batches`."""
    ranks = f"{num_ranks} rank{'' if num_ranks == 1 else 's'}"
    return f"{ranks}, {num_microbatches} micro-batch{'' if num_microbatches == 1 else 'es'}"


def path_of(shown: Shown) -> npt.NDArray[np.int32]:
    """Where the actions of the critical path are among the columns, in order."""
    stage, kind, microbatch = shown.columns[1:4].astype(np.int64)
    place = {
        key: index for index, key in enumerate(zip(stage.tolist(), kind.tolist(), microbatch.tolist(), strict=True))
    }
    path = (span.action for span in critical_path(shown.schedule, shown.timeline))
    found = [place[action.stage, KINDS.index(action.kind), action.microbatch] for action in path]
    return np.array(sorted(found), dtype=np.int32)
