"""The ticks of a pipeline's clock as a grid of stages, with its bubble in both numbers.

The clock is a function given by the caller, so a learner can draw their own. One that never ends is refused.
"""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from pllab.arguments import require
from pllab.show.boxes import BAR_IN, Box, draw_idle, draw_work, write_label
from pllab.show.figures import TITLE, Figure, drawing, figure, name_rows
from pllab.show.theme import count_of, write_percent

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
