"""The race: live bars while ranks run, and at the end the median of each contestant with its spread.

It shows and does not judge: what a result is worth is said by who measured it, in a word beside the bar. The live bars
are a table in HTML, for drawing a picture takes about as long as a small training and would disturb the next one.
"""

import html
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pllab.show.figures import TITLE, Figure, drawing, figure, name_rows
from pllab.show.theme import INK, LIGHT, count_of, mix, write_number

_UNIT = "tokens/s"


@dataclass(frozen=True)
class Contestant:
    """The progress and the speed of one contestant; when it has finished, its `rates` and as `rate` their median."""

    name: str
    progress: float = 0.0
    rate: float = 0.0
    rates: Sequence[float] = ()
    verdict: str = ""

    @property
    def value(self) -> str:
        """Its speed in words: `1,000 tokens/s`."""
        return f"{write_number(self.rate)} {_UNIT}" if self.rate else "waiting"

    def __str__(self) -> str:
        """`one lane: median 1,000 tokens/s (990 to 1,010), baseline.`."""
        spread = f"{write_number(min(self.rates))} to {write_number(max(self.rates))}"
        return f"{self.name}: median {self.value} ({spread}), {self.verdict}."


class Race:
    """Throughput of several contestants; the first one is the baseline.

    Example, whose first line stands before a long cell:

        race = Race(["one lane", "pipeline"], num_devices=2); display(race.live)
        race.update("pipeline", progress=0.5, rate=1200.0)
        race.finish("pipeline", rates=[1190.0, 1210.0, 1205.0], verdict="1.32x")
        race.static()
    """

    def __init__(self, names: Sequence[str], num_devices: int) -> None:
        from ipywidgets import HTML

        self.title = f"{count_of(num_devices, 'device')}, engine: real"
        self.runners = {name: Contestant(name) for name in names}
        self.top = 1.0
        """The right end of the axis, in the unit; it never shrinks."""
        self.live = HTML(self._to_html())
        """The bars of those that run, for `display`; empty once all have finished, when `static` says more."""

    def update(self, name: str, progress: float, rate: float) -> None:
        """Move a contestant: `progress` along the track from 0 to 1, `rate` now in tokens per second."""
        self._show(Contestant(name, progress, rate))

    def finish(self, name: str, rates: Sequence[float], verdict: str) -> None:
        """Finish a contestant with the rate of each of its runs, and a word on them such as its speed-up."""
        self._show(Contestant(name, 1.0, statistics.median(rates), tuple(rates), verdict))

    def static(self) -> Figure:
        """The race when all have finished: horizontal bars with whiskers from the slowest to the fastest run."""
        height = 0.52 * len(self.runners) + 1.25
        pale = {"facecolor": mix(LIGHT.held, LIGHT.ground, 0.45), "edgecolor": LIGHT.held_line}
        with drawing(9.0, height) as fig:
            axes = fig.add_axes((0.2, 0.8 / height, 0.58, 1 - 1.25 / height))
            axes.set_title(self.title, **TITLE)
            for row, runner in enumerate(self.runners.values()):
                axes.barh(row, runner.rate, height=0.56, **(LIGHT.paint_of("F") if row else pale), linewidth=1)
                spread = [[runner.rate - min(runner.rates)], [max(runner.rates) - runner.rate]]
                axes.errorbar(runner.rate, row, xerr=spread, color=INK, capsize=5, linewidth=2)
                axes.text(self.top * 1.02, row, f"{runner.value}  {runner.verdict}", va="center", fontweight="bold")
            axes.set_xlim(0, self.top)
            name_rows(axes, list(self.runners), ["bottom"])
            axes.xaxis.set_major_formatter(lambda value, _: write_number(value))
            axes.set_xlabel(f"{_UNIT}, median and range")
            return figure(fig, " ".join([f"{self.title}.", *map(str, self.runners.values())]))

    def _show(self, runner: Contestant) -> None:
        self.runners[runner.name] = runner
        self.top = max(self.top, *(1.02 * rate for rate in (runner.rate, *runner.rates)))
        self.live.value = "" if all(each.rates for each in self.runners.values()) else self._to_html()

    def _to_html(self) -> str:
        rows = [
            f"<tr><td>{html.escape(each.name)}</td><td style='width:24em'><div style='background:{LIGHT.hues['F']};"
            f"height:1.1em;width:{each.rate / self.top:.1%}'></div></td>"
            f"<td>{each.value} ({each.progress:.0%})</td></tr>"
            for each in self.runners.values()
        ]
        return f"<table><caption>{self.title}</caption>{''.join(rows)}</table>"
