"""The race: live bars while ranks run, and at the end an honest comparison.

Every bar ends as a median with its spread and its speed-up over the first contestant; a result that cannot be
true says so itself.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import traitlets

from pllab.show.contestant import Contestant, lane_of
from pllab.show.figure import Figure
from pllab.show.race_picture import draw_race
from pllab.show.theme import ENGINE_LABELS, round_step, write_number
from pllab.show.widget import Widget, read_source
from pllab.timeline import Engine


class Race(Widget):
    """Throughput of several contestants, live; the first one is the baseline.

    Example:
        race = Race(["one lane", "pipeline"], num_devices=2)
        race.update("pipeline", progress=0.5, rate=1200.0)
        race.finish("pipeline", rates=[1190.0, 1210.0, 1205.0])

    Raises:
        ValueError: names are missing or repeated, or there is less than one device.
    """

    _esm = read_source("race.js")
    _css = read_source("race.css")

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
        self._num_devices = num_devices
        self._engine = engine
        devices = f"{num_devices} device{'s' if num_devices > 1 else ''}"
        title = f"{devices}, engine: {ENGINE_LABELS[engine]}"
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

    def finish(self, name: str, rates: Sequence[float], note: str = "") -> None:
        """Bring a contestant home with the rate of each of its runs; the median is what counts.

        Raises:
            ValueError: the name does not run here, there are no rates, or one is not above 0.
        """
        if not rates or not all(math.isfinite(rate) and rate > 0 for rate in rates):
            raise ValueError(f"rates of {name!r} are {list(rates)}; give one number above 0 for each run")
        home = tuple(float(rate) for rate in rates)
        self._runners[name] = replace(self._runner(name), progress=1.0, rates=home, note=note)
        self._publish()
        self.news = self._announce(name)

    def state(self) -> dict[str, Any]:
        """Every number on screen: `{"title", "unit", "num_devices", "engine", "lanes": [...]}`."""
        return {
            "title": self.title,
            "unit": self.unit,
            "num_devices": self._num_devices,
            "engine": self._engine,
            "lanes": [dict(lane) for lane in self.lanes],
        }

    def static(self) -> Figure:
        """The race as it stands, as a figure with the same numbers."""
        return draw_race(self.lanes, self.title, self.unit, self.top)

    def _runner(self, name: str) -> Contestant:
        if name not in self._runners:
            raise ValueError(f"{name!r} does not run in this race; the names are {list(self._runners)}")
        return self._runners[name]

    def _publish(self) -> None:
        """Hand the browser the new lanes and an axis that only ever grows."""
        runners = list(self._runners.values())
        lanes = [lane_of(runner, runners[0], self._num_devices, self.unit) for runner in runners]
        limit = max(1.02 * max(runner.high for runner in runners), self.top if self.ticks else 0.0)
        size = round_step(limit, 5)
        count = max(1, math.ceil(limit / size - 1e-9))
        with self.hold_sync():
            self.top = size * count
            self.ticks = [{"at": n / count, "text": write_number(n * size)} for n in range(count + 1)]
            self.lanes = lanes

    def _announce(self, name: str) -> str:
        lane = next(lane for lane in self.lanes if lane["name"] == name)
        ratio = f", {lane['ratio']}" if lane["ratio"] else ""
        told = f"{name} finished: median {lane['value']}{ratio}."
        return f"{told} {lane['doubt']}".strip()
