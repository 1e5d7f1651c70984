"""The player: a timeline that a student steps through by mouse and keyboard.

The moments and all words are made in Python (`frames.py`), so they are tested without a browser, and the
widget keeps working when the kernel is busy or gone.
"""

from typing import Any

import traitlets

from pllab.show.figure import Figure
from pllab.show.frames import frames_of, rows_of, ticks_of
from pllab.show.theme import ENGINE_LABELS
from pllab.show.timeline_picture import draw_timeline
from pllab.show.timeline_text import describe_timeline
from pllab.show.widget import Widget, read_source
from pllab.timeline import Timeline


class TimelinePlayer(Widget):
    """Step through a timeline: what does every device do at this moment?

    Keys while the widget has the focus: left and right step, Home and End jump, space plays, up and down
    choose the device whose action is spelled out.

    Example: `TimelinePlayer(pipe.last_timeline)` at the end of a cell.

    Raises:
        ValueError: the timeline is empty.
    """

    _esm = read_source("player.js")
    _css = read_source("player.css")

    spans = traitlets.List(traitlets.Dict()).tag(sync=True)
    frames = traitlets.List(traitlets.Dict()).tag(sync=True)
    ticks = traitlets.List(traitlets.Dict()).tag(sync=True)
    num_devices = traitlets.Int().tag(sync=True)
    title = traitlets.Unicode(help="name and engine of the run").tag(sync=True)
    summary = traitlets.Unicode(help="the run in one sentence").tag(sync=True)
    step = traitlets.Int(0, help="number of the moment shown, from 0").tag(sync=True)

    def __init__(self, timeline: Timeline, *, title: str = "", projector: bool = False) -> None:
        if not timeline.spans:
            raise ValueError("the timeline has no spans; run or simulate something first, then play it")
        self._timeline = timeline.from_zero()
        self._name = title
        engine = ENGINE_LABELS[timeline.engine]
        super().__init__(
            spans=rows_of(self._timeline),
            frames=frames_of(self._timeline),
            ticks=ticks_of(self._timeline.makespan),
            num_devices=timeline.num_ranks,
            title=f"{title}, engine: {engine}" if title else f"engine: {engine}",
            summary=describe_timeline(timeline).partition(", ")[2],
            projector=projector,
        )

    def state(self) -> dict[str, Any]:
        """The moment shown: its step, time, sentence, and the labels of the running actions."""
        frame = self.frames[self.step]
        return {
            "title": self.title,
            "engine": self._timeline.engine,
            "num_devices": self.num_devices,
            "makespan_s": self._timeline.makespan,
            "bubble_fraction": self._timeline.bubble_fraction,
            "num_steps": len(self.frames),
            "step": self.step,
            "time_s": frame["time"],
            "running": [self.spans[index]["label"] for index in frame["running"]],
            "sentence": frame["sentence"],
        }

    def static(self) -> Figure:
        """The whole timeline as a figure."""
        return draw_timeline(self._timeline, titles=[self._name])

    @traitlets.validate("step")
    def _step_exists(self, proposal: Any) -> int:
        step = int(proposal["value"])
        if not 0 <= step < max(1, len(self.frames)):
            raise traitlets.TraitError(f"step {step} does not exist; choose 0 to {len(self.frames) - 1}")
        return step
