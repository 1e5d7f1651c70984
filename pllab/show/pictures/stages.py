"""The stages of a pipeline: how layers are cut into them, and what each of them does at every tick of its clock.

The clock is a function given by the caller, so a learner can draw their own. One that never ends is refused.
"""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from textwrap import wrap
from typing import Any

from pllab.arguments import require
from pllab.show.boxes import BAR_IN, Box, draw_idle, draw_work, write_label
from pllab.show.figures import TITLE, Axes, Figure, drawing, figure, name_rows
from pllab.show.theme import LIGHT, count_of, write_number, write_percent

_LINE = 88  # letters in a line below the picture


@dataclass(frozen=True)
class StageCut:
    """A chain of layers and the number of layers of each stage.

    Raises:
        ValueError: the sizes do not describe a cut of these layers.
    """

    costs: Sequence[float]
    sizes: Sequence[int]
    names: Sequence[str]

    def __post_init__(self) -> None:
        count, sizes = len(self.costs), list(self.sizes)
        is_cut = min(sizes, default=0) >= 1 and sum(sizes) == count
        require(is_cut, f"sizes {sizes} do not cut {count} layers; each is at least 1 and their sum {count}")

    @property
    def stages(self) -> list[range]:
        """The layers of each stage."""
        return [range(*ends) for ends in pairwise([0, *accumulate(self.sizes)])]

    @property
    def sums(self) -> list[float]:
        """The cost of each stage."""
        return [float(sum(self.costs[layer] for layer in stage)) for stage in self.stages]

    @property
    def most(self) -> float:
        """The cost of the slowest stage."""
        return max(self.sums)

    @property
    def slowest(self) -> int:
        """The number of the slowest stage; the first of equals."""
        return self.sums.index(self.most)

    @property
    def bound(self) -> str:
        """How many times as fast as one device the stages are at most, in words."""
        return f"{sum(self.costs) / self.most:.2f}"

    def __str__(self) -> str:
        """`The slowest stage is stage 1, block 1 to head: 50 ms. 2 devices are at most 1.22 times as fast as one.`."""
        stage = self.stages[self.slowest]
        layers = self.names[stage[0]] if len(stage) == 1 else f"{self.names[stage[0]]} to {self.names[stage[-1]]}"
        said = f"The slowest stage is stage {self.slowest}, {layers}: {_write(self.most)}."
        devices = f"{count_of(len(self.sizes), 'device')} {'is' if len(self.sizes) == 1 else 'are'}"
        return f"{said} {devices} at most {self.bound} times as fast as one."


def draw_cut(costs_ms: Sequence[float], sizes: Sequence[int], names: Sequence[str], title: str) -> Figure:
    """A bar for each layer and a line for each cut; the slowest stage is bold, the sentence below says what it allows.

    Example: `draw_cut([1, 1, 4], [2, 1], ["embedding", "block", "head"], "forward of one batch")`. `sizes` are the
    numbers of layers of the stages.

    Raises:
        ValueError: the sizes do not describe a cut of these layers.
    """
    cut = StageCut(costs_ms, sizes, names)
    top, title = max(costs_ms), f"{title}, engine: real"
    below = ["ms per layer; a line is a cut between two stages", *wrap(str(cut), _LINE)]
    with drawing(8.0, 0.3 * len(costs_ms) + 0.9 + 0.2 * len(below), layout="constrained") as fig:
        axes = fig.add_subplot()
        for number, (stage, cost) in enumerate(zip(cut.stages, cut.sums, strict=True)):
            is_slowest = number == cut.slowest
            weight, words = ("bold", " (slowest)") if is_slowest else ("normal", "")
            bars = axes.barh(stage, costs_ms[stage.start : stage.stop], height=0.7, **_look(is_slowest))
            axes.bar_label(bars, fmt=_write, padding=5, fontweight=weight)
            label = f"stage {number}: {_write(cost)}{words}"
            axes.text(top * 1.22, (stage[0] + stage[-1]) / 2, label, va="center", fontweight=weight)
        axes.hlines([stage[-1] + 0.5 for stage in cut.stages[:-1]], 0, top * 1.75, color=LIGHT.over, linewidth=2.5)
        axes.set_xlim(0, top * 1.8)
        _finish(axes, title, "\n".join(below), names)
        return figure(fig, f"{title}. {cut}")


def draw_cuts(costs_ms: Sequence[float], names: Sequence[str]) -> Figure:
    """A row for each cut into two stages, as long as its stages cost; the slower stage and the best rows are bold.

    Example: `draw_cuts([1, 1, 4], ["embedding", "block", "head"])`, whose best row is `after block`.
    """
    cuts = [StageCut(costs_ms, (at, len(costs_ms) - at), names) for at in range(1, len(costs_ms))]
    rows = [f"after {name}" for name in names[:-1]]
    least = min(cut.most for cut in cuts)
    title = "each cut into two stages, calculated from the measured costs"
    with drawing(8.0, 0.34 * len(cuts) + 0.8, layout="constrained") as fig:
        axes = fig.add_subplot()
        for row, cut in enumerate(cuts):
            weight, words = ("bold", ", best") if cut.most <= least * (1 + 1e-9) else ("normal", "")
            first, second = cut.sums
            axes.barh(row, first, 0.78, **_look(cut.slowest == 0))
            axes.barh(row, second, 0.78, first, **_look(cut.slowest == 1))
            middle = first + second / 2 if cut.slowest else first / 2
            axes.text(middle, row, _write(cut.most), ha="center", va="center", fontweight=weight, fontsize=10)
            axes.text(first + second, row, f" {cut.bound}{words}", va="center", fontweight=weight)
        axes.set_xlim(0, sum(costs_ms) * 1.22)
        _finish(axes, title, "ms of both stages; at the end: the largest possible speed-up over one device", rows)
    told = [f"{row}: slowest {_write(cut.most)}, at most {cut.bound}" for row, cut in zip(rows, cuts, strict=True)]
    best = rows[[cut.most for cut in cuts].index(least)]
    return figure(fig, f"{title}. {'; '.join(told)}. The best cut is {best}: its slowest stage costs {_write(least)}.")


def _write(cost: float) -> str:
    return f"{write_number(cost)} ms"


def _look(is_slowest: bool) -> dict[str, Any]:
    return {**LIGHT.paint_of("B" if is_slowest else "F"), "linewidth": 2.2 if is_slowest else 0.8}


def _finish(axes: Axes, title: str, below: str, rows: Sequence[str]) -> None:
    axes.set_title(title, **TITLE)
    name_rows(axes, rows, ["left"])
    axes.set_xticks([])
    axes.set_xlabel(below, loc="left")


# The clock

Clock = Callable[[int, int], Iterable[Iterable[tuple[int, int]]]]
Ticks = list[list[tuple[int, int]]]

PATIENCE_S = 5.0  # a clock only counts
_COLUMN_IN, _ROW_IN = 0.42, 0.42  # of a cell
_NAME_IN, _FOOT_IN = 0.8, 0.6  # room for the names of stages, and for the numbers of ticks
_BAND = 0.84  # height of a box within its row of height 1


def draw_clock(clock: Clock, num_batches: int, num_partitions: int) -> Figure:
    """Draw what a clock gives, tick by tick: the pairs (micro-batch, stage) that run at the same time.

    Example: `draw_clock(clock_cycles, num_batches=8, num_partitions=4)`. A row is a stage, a column a tick; the title
    has the bubble fraction and the bubble overhead.

    Raises:
        ValueError: the ticks of the clock are not a schedule.
        TimeoutError: the clock never ends.
    """
    ticks = _ask(clock, num_batches, num_partitions)
    busy, cells = sum(map(len, ticks)), num_partitions * len(ticks)
    idle, length = cells - busy, count_of(len(ticks), "tick")
    sizes = f"{count_of(num_batches, 'micro-batch')} on {count_of(num_partitions, 'stage')}"
    titles = [
        f"{sizes}: {length}, {idle} of {cells} cells idle, engine: simulated",
        f"bubble fraction, idle / all: {idle}/{cells} = {write_percent(idle / cells)}",
        f"bubble overhead, idle / busy: {idle}/{busy} = {write_percent(idle / busy)}",
    ]
    sentences = [_sentence_of(number, pairs, num_partitions) for number, pairs in enumerate(ticks)]
    width, height = _NAME_IN + _COLUMN_IN * len(ticks), _ROW_IN * num_partitions + _FOOT_IN
    with drawing(width, height) as fig:
        left, foot = _NAME_IN / width, _FOOT_IN / height
        axes = fig.add_axes((left, foot, 1 - left, 1 - foot))
        axes.set_title(f"{titles[0]}\n{titles[1]};  {titles[2]}", **TITLE, x=-left / (1 - left))
        axes.set_xlim(0, len(ticks))
        name_rows(axes, [f"stage {stage}" for stage in range(num_partitions)])
        axes.set_xticks([number + 0.5 for number in range(len(ticks))], list(map(str, range(len(ticks)))))
        axes.set_xlabel("tick")
        axes.tick_params(axis="x", length=0)
        for stage in range(num_partitions):
            draw_idle(axes, (0, len(ticks)), (stage - _BAND / 2, _BAND))
        for number, pairs in enumerate(ticks):
            for batch, stage in pairs:
                draw_work(axes, [Box((number, 1), (stage - _BAND / 2, _BAND), "F")], BAR_IN / _ROW_IN)
                room_pt = _COLUMN_IN * 72, _BAND * _ROW_IN * 72
                write_label(axes, (number + 0.5, stage), f"F{batch}", room_pt, digits=2)
        return figure(fig, ". ".join([*titles, *sentences]))


def _ask(clock: Clock, num_batches: int, num_partitions: int) -> Ticks:
    """The ticks of a clock, if they can be drawn."""
    most = 4 * (num_batches + 1) * (num_partitions + 1)  # a clock may have no end, and a tick neither
    with _patience():
        ticks = [list(islice(pairs, most)) for pairs in islice(clock(num_batches, num_partitions), most)]
    require(any(ticks), "the clock runs nothing; give the pairs (micro-batch, stage) of every tick")
    for number, pairs in enumerate(ticks):
        stages = {j for i, j in pairs if i in range(num_batches) and j in range(num_partitions)}
        only = "it can name each stage once, with a micro-batch that exists"
        require(len(stages) == len(pairs), f"tick {number} of the clock is {pairs[:9]}; {only}")
    return ticks


@contextmanager
def _patience() -> Iterator[None]:
    """End a clock that loops without giving a tick: under a slider it would stop the notebook.

    Only the main thread, where a notebook's cells and sliders run, can be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(*_: Any) -> None:
        raise TimeoutError(f"the clock had not ended after {PATIENCE_S:g} s; look for a loop without an end")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _sentence_of(number: int, pairs: list[tuple[int, int]], num_partitions: int) -> str:
    """`tick 1: micro-batch 1 on stage 0, micro-batch 0 on stage 1; nobody is idle`."""
    working = {j: i for i, j in pairs}
    busy = ", ".join(f"micro-batch {working[j]} on stage {j}" for j in sorted(working)) or "nothing runs"
    idle = ", ".join(f"stage {j}" for j in range(num_partitions) if j not in working)
    return f"tick {number}: {busy}; {f'idle: {idle}' if idle else 'nobody is idle'}"
