"""The race: live bars while ranks run, and at the end the median of each contestant with its spread.

It shows and does not judge: what a result is worth is said by who measured it, in a word beside the bar.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import traitlets

from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import ENGINE_LABELS, INK, LIGHT, count_of, mix, round_step, ticks_of, write_number
from pllab.show.widget import Widget, sources_of
from pllab.timeline import Engine

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Lane = Mapping[str, Any]


@dataclass(frozen=True)
class Contestant:
    """The progress and the speed of one contestant; `rates` is empty until it has finished."""

    name: str
    progress: float = 0.0
    rate: float = 0.0
    rates: tuple[float, ...] = ()
    verdict: str = ""

    @property
    def speed(self) -> float:
        """The median of the finished rates, or the present rate."""
        return statistics.median(self.rates) if self.rates else self.rate

    @property
    def low(self) -> float:
        """The slowest finished rate, or the present one."""
        return min(self.rates, default=self.rate)

    @property
    def high(self) -> float:
        """The fastest finished rate, or the present one."""
        return max(self.rates, default=self.rate)


class Race(Widget):
    """Throughput of several contestants, live; the first one is the baseline.

    Example:
        race = Race(["one lane", "pipeline"], num_devices=2)
        race.update("pipeline", progress=0.5, rate=1200.0)
        race.finish("pipeline", rates=[1190.0, 1210.0, 1205.0], verdict="1.32x")

    Raises:
        ValueError: names are missing or repeated, or there is less than one device.
    """

    _esm, _css = sources_of(__file__, "view.js")

    lanes = traitlets.List(traitlets.Dict(), help="one dict per contestant").tag(sync=True)
    ticks = traitlets.List(traitlets.Dict()).tag(sync=True)
    top = traitlets.Float(1.0, help="right end of the axis, in the unit").tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    title = traitlets.Unicode(help="number of devices and engine").tag(sync=True)
    news = traitlets.Unicode(help="what a screen reader hears").tag(sync=True)

    def __init__(
        self,
        names: Sequence[str],
        num_devices: int,
        unit: str = "tokens/s",
        *,
        engine: Engine = "real",
        projector: bool = False,
    ) -> None:
        if not names or len(set(names)) < len(names):
            raise ValueError(f"a race needs different names, at least one; got {list(names)}")
        if num_devices < 1:
            raise ValueError(f"num_devices is {num_devices}; a race needs at least 1 device")
        self._runners = {name: Contestant(name) for name in names}
        title = f"{count_of(num_devices, 'device')}, engine: {ENGINE_LABELS[engine]}"
        super().__init__(unit=unit, title=title, projector=projector)
        self._publish()

    def update(self, name: str, progress: float, rate: float) -> None:
        """Move a contestant: `progress` along the track from 0 to 1, `rate` now in the race's unit.

        Raises:
            ValueError: the name does not run here, or a number is out of range.
        """
        if not 0.0 <= progress <= 1.0:
            raise ValueError(f"progress {progress} of {name!r} is off the track; give a share from 0 to 1")
        if not (math.isfinite(rate) and rate >= 0):
            raise ValueError(f"rate {rate} of {name!r} is no throughput; give {self.unit}, 0 or more")
        self._runners[name] = replace(self._runner(name), progress=float(progress), rate=float(rate))
        self._publish()

    def finish(self, name: str, rates: Sequence[float], verdict: str = "") -> None:
        """Finish a contestant with the rate of each of its runs, and a word on them such as its speed-up.

        Raises:
            ValueError: the name does not run here, there are no rates, or one is not above 0.
        """
        if not rates or not all(math.isfinite(rate) and rate > 0 for rate in rates):
            raise ValueError(f"rates of {name!r} are {list(rates)}; give one number above 0 for each run")
        home = tuple(float(rate) for rate in rates)
        self._runners[name] = replace(self._runner(name), progress=1.0, rates=home, verdict=verdict)
        self._publish()
        self.news = self._announce(name)

    def static(self) -> Figure:
        """The race as it stands: horizontal bars with whiskers from the slowest to the fastest run."""
        height = 0.52 * len(self.lanes) + 1.25
        with drawing(9.0, height) as fig:
            axes = fig.add_axes((0.2, 0.8 / height, 0.58, 1 - 1.25 / height))
            axes.set_title(self.title, loc="left", fontsize=11.5, fontweight="bold")
            for row, lane in enumerate(self.lanes):
                _draw_lane(axes, row, lane, self.top)
            _finish_axes(axes, self.lanes, self.unit, self.top)
            return figure(fig, " ".join([f"{self.title}.", *map(_sentence_of, self.lanes)]))

    def _runner(self, name: str) -> Contestant:
        if name not in self._runners:
            raise ValueError(f"{name!r} does not run in this race; the names are {list(self._runners)}")
        return self._runners[name]

    def _publish(self) -> None:
        """Send the browser the new lanes, and an axis that never shrinks."""
        runners = list(self._runners.values())
        lanes = [_lane_of(runner, self.unit) for runner in runners]
        limit = max(1.02 * max(runner.high for runner in runners), self.top if self.ticks else 0.0)
        size = round_step(limit, 5)
        with self.hold_sync():
            self.top = size * max(1, math.ceil(limit / size - 1e-9))
            self.ticks = ticks_of(self.top, 5, write_number)
            self.lanes = lanes

    def _announce(self, name: str) -> str:
        lane = next(lane for lane in self.lanes if lane["name"] == name)
        return f"{name} finished: median {lane['value']}{_verdict_of(lane)}."


def _lane_of(runner: Contestant, unit: str) -> dict[str, Any]:
    """A contestant as plain data for the browser, the table and the figure."""
    return {
        "name": runner.name,
        "progress": runner.progress,
        "done": bool(runner.rates),
        "rate": runner.speed,
        "low": runner.low,
        "high": runner.high,
        "num_rates": len(runner.rates),
        "verdict": runner.verdict,
        "value": f"{write_number(runner.speed)} {unit}" if runner.speed else "waiting",
        "spread": f"{write_number(runner.low)} to {write_number(runner.high)}" if runner.rates else "",
    }


def _sentence_of(lane: Lane) -> str:
    """A lane in words: `one lane: median 1,000 tokens/s (990 to 1,010), baseline.`."""
    if not lane["done"]:
        return f"{lane['name']}: {lane['value']}, {lane['progress']:.0%} of the way."
    return f"{lane['name']}: median {lane['value']} ({lane['spread']}){_verdict_of(lane)}."


def _verdict_of(lane: Lane) -> str:
    return f", {lane['verdict']}" if lane["verdict"] else ""


def _draw_lane(axes: "Axes", row: int, lane: Lane, top: float) -> None:
    fill = LIGHT.fill_of("F") if row else mix(LIGHT.held, LIGHT.ground, 0.45)
    edge = LIGHT.outline_of("F") if row else LIGHT.held_line
    axes.barh(row, lane["rate"], height=0.56, color=fill, edgecolor=edge, linewidth=1)
    if lane["num_rates"] > 1:
        spread = [[lane["rate"] - lane["low"]], [lane["high"] - lane["rate"]]]
        axes.errorbar(lane["rate"], row, xerr=spread, color=INK, capsize=5, linewidth=2)
    value = f"{lane['value']}  {lane['verdict']}" if lane["done"] else f"{lane['value']} ({lane['progress']:.0%})"
    axes.text(top * 1.02, row, value, va="center", fontweight="bold" if lane["done"] else "normal")


def _finish_axes(axes: "Axes", lanes: Sequence[Lane], unit: str, top: float) -> None:
    axes.set_xlim(0, top)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_yticks(range(len(lanes)), [lane["name"] for lane in lanes])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.set_major_formatter(lambda value, _: write_number(value))
    axes.set_xlabel(f"{unit}, median and range" if any(lane["done"] for lane in lanes) else unit)
