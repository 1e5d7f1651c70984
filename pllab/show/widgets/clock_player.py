"""The clock player: ticks of a pipeline as a grid that follows two sliders, with its bubble in both numbers.

The clock is a function given by the caller, so a learner can play their own. Ticks, words and numbers are made here;
the browser draws them and sends back the values of the sliders.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import traitlets

from pllab.schedule import Action, Kind
from pllab.show.figures import Figure
from pllab.show.theme import count_of, write_percent
from pllab.show.timeline_picture import draw_timeline
from pllab.show.widget import Widget, check_place, sources_of
from pllab.timeline import Span, Timeline

Clock = Callable[[int, int], Iterable[Iterable[tuple[int, int]]]]
Ticks = list[list[tuple[int, int]]]

LIMITS = {"num_batches": 16, "num_partitions": 8}


class ClockPlayer(Widget):
    """Step through the ticks of a clock; two sliders choose the numbers of micro-batches and of stages.

    Keys while the grid has the focus: left and right step, Home and End jump, space plays.

    Example: `ClockPlayer(clock_cycles, num_batches=8, num_partitions=4)` at the end of a cell. The clock gives, tick
    by tick, the pairs (micro-batch, stage) that run at the same time.

    Raises:
        ValueError: the clock fails, or its ticks are not a schedule.
    """

    _esm, _css = sources_of(__file__, "view.js", "stepping.js", "boxes.js")

    num_batches = traitlets.Int(8, help="number of micro-batches").tag(sync=True)
    num_partitions = traitlets.Int(4, help="number of stages").tag(sync=True)
    limits = traitlets.Dict(LIMITS, help="right ends of the sliders").tag(sync=True)
    view = traitlets.Dict(help="ticks, words and numbers for the sizes chosen").tag(sync=True)
    step = traitlets.Int(0, help="number of the tick shown, from 0").tag(sync=True)

    def __init__(self, clock: Clock, num_batches: int = 8, num_partitions: int = 4, *, projector: bool = False) -> None:
        self._clock = clock
        super().__init__(num_batches=num_batches, num_partitions=num_partitions, projector=projector)
        self._tick()
        if self.view["problem"]:
            raise ValueError(self.view["problem"])
        self.observe(self._tick, names=["num_batches", "num_partitions"])

    def static(self) -> Figure:
        """The whole clock as a timeline with ticks of one second."""
        spans = [
            Span(j, Action(j, Kind.F, i), float(number), number + 1.0)
            for number, pairs in enumerate(self.view["ticks"])
            for i, j in pairs
        ]
        title = f"{_sizes(self.num_batches, self.num_partitions)}, one second a tick"
        return draw_timeline(Timeline.of(spans, "simulated", self.num_partitions), titles=[title])

    def _tick(self, _: Any = None) -> None:
        """Ask the clock again, and show its first tick."""
        with self.hold_sync():
            self.step = 0
            self.view = view_of(self._clock, self.num_batches, self.num_partitions)

    @traitlets.validate("num_batches", "num_partitions")
    def _size_fits(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, int(proposal["value"])
        if not 1 <= value <= LIMITS[name]:
            raise traitlets.TraitError(f"{name} is {value}; choose 1 to {LIMITS[name]}")
        return value

    @traitlets.validate("step")
    def _tick_exists(self, proposal: Any) -> int:
        return check_place("tick", proposal["value"], len(self.view.get("ticks", ())))


def view_of(clock: Clock, num_batches: int, num_partitions: int) -> dict[str, Any]:
    """Everything the browser shows for these sizes, as plain data.

    Example, one micro-batch on two stages: two ticks, `tick 0: micro-batch 0 on stage 0; idle: stage 1`, two idle
    cells of four. A clock that fails gives no ticks and a `problem` in a sentence.
    """
    ticks, problem = _ask(clock, num_batches, num_partitions)
    busy = sum(map(len, ticks))
    cells = num_partitions * len(ticks)
    fraction, overhead = ((cells - busy) / cells, (cells - busy) / busy) if busy else (0.0, 0.0)
    return {
        "ticks": ticks,
        "sentences": [_sentence_of(number, pairs, num_partitions) for number, pairs in enumerate(ticks)],
        "title": _sizes(num_batches, num_partitions),
        "summary": f"{len(ticks)} ticks, {cells - busy} of {cells} cells idle, engine: simulated",
        "numbers": [
            f"bubble fraction, idle / all: {cells - busy}/{cells} = {write_percent(fraction)}",
            f"bubble overhead, idle / busy: {cells - busy}/{busy} = {write_percent(overhead)}",
        ],
        "problem": problem,
    }


def _ask(clock: Clock, num_batches: int, num_partitions: int) -> tuple[Ticks, str]:
    """The ticks of a clock, or none and the problem."""
    most = 4 * (num_batches + 1) * (num_partitions + 1)  # a clock may have no end
    try:
        ticks = [[(int(i), int(j)) for i, j in pairs] for pairs in islice(clock(num_batches, num_partitions), most)]
    except Exception as error:  # a learner's clock may fail in any way, and the widget says how
        return [], f"the clock raised {type(error).__name__}: {error}".rstrip(": ")
    problem = _problem_of(ticks, num_batches, num_partitions)
    return ([], problem) if problem else (ticks, "")


def _problem_of(ticks: Ticks, num_batches: int, num_partitions: int) -> str:
    """Why these ticks cannot be drawn, or nothing."""
    if not any(ticks):
        return f"the clock gave no pair for {_sizes(num_batches, num_partitions)}"
    for number, pairs in enumerate(ticks):
        for i, j in pairs:
            if not (0 <= i < num_batches and 0 <= j < num_partitions):
                return f"tick {number} of the clock names micro-batch {i} on stage {j}, which does not exist"
        if len({j for _, j in pairs}) < len(pairs):
            return f"tick {number} of the clock gives one stage two micro-batches: {pairs}"
    return ""


def _sentence_of(number: int, pairs: list[tuple[int, int]], num_partitions: int) -> str:
    """`tick 1: micro-batch 1 on stage 0, micro-batch 0 on stage 1; nobody is idle`."""
    working = {j: i for i, j in pairs}
    busy = ", ".join(f"micro-batch {working[j]} on stage {j}" for j in sorted(working)) or "nothing runs"
    idle = ", ".join(f"stage {j}" for j in range(num_partitions) if j not in working)
    return f"tick {number}: {busy}; {f'idle: {idle}' if idle else 'nobody is idle'}"


def _sizes(num_batches: int, num_partitions: int) -> str:
    return f"{count_of(num_batches, 'micro-batch')} on {count_of(num_partitions, 'stage')}"
