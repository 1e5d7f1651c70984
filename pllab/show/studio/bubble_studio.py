"""The bubble studio: a schedule, its bubble and its memory as one picture, for a lecture or a desk.

Python makes the schedule and simulates it, the browser draws: one path for the picture, the numbers and the files.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import traitlets

from pllab.schedule import Held, Kind, Schedule
from pllab.show.figures import Figure
from pllab.show.studio.export import to_page, values_of
from pllab.show.studio.runs import KINDS, Shown, describe_studio, draw_studio
from pllab.show.studio.settings import (
    FAMILIES,
    MOST_MICROBATCHES,
    MOST_RANKS,
    STORIES,
    TOUR,
    Setting,
    family_of,
    family_of_schedule,
    handed_out,
)
from pllab.show.widget import Run, Widget, check_run, measure, sources_of
from pllab.simulate import Costs
from pllab.timeline import Timeline

_SCRIPTS = "actions", "words", "scale", "rows", "memory", "plot", "picture", "answers", "foot", "controls"
_SENT = {"sync": True, "echo_update": False}  # no echo to the browser, so one message less to wait for
_INPUT = {**_SENT, "is_input": True}  # what a prediction depends on


class BubbleStudio(Widget):
    """Choose a schedule, sizes and costs; the timeline, the memory and the bubble follow at once.

    Idle time is the figure: one hatched slab per rank, and work lies on it. Pointing at an action lights the way of its
    micro-batch. `steady` counts as the papers do: steps follow each other without a barrier.

    Costs are seconds for the layers of one *rank*. With two stages per rank each costs half of that, and its
    activations count half, so that schedules can be compared on one axis. Costs per stage are for the stages of
    `family`, and the studio shows `simulate(studio.schedule, costs)`. For another cut of the model, the costs of a
    stage are spread evenly over its layers.

    Keys: 1 to 5 and a clicker's page keys go through the tour, b changes the measure, f fills the
    screen, space plays. In a timeline, arrows follow a micro-batch, a click keeps it, plus and minus zoom, 0 shows
    all, Escape lets go and leaves the projector.

    Example: `BubbleStudio("1F1B", 4, 8, compare="GPipe")` at the end of a cell. With `run=run_emulated` of
    `pllab.pipeline`, or another function that is called as `run(schedule, costs=costs)` and returns a measured
    timeline, the button "Run it" draws the measured run below the prediction.
    `BubbleStudio(schedule)` adds a schedule of your own to the families, with its own sizes.

    Args:
        family: name of the family, one of `pllab.show.studio.settings.FAMILIES`; or a schedule.
        num_ranks: ranks; 4, or those of the schedule.
        num_microbatches: micro-batches; 8, or those of the schedule.
        costs: seconds for a rank's layers; if any has values per stage, all are for a stage.
        measured: the timeline of a run of this schedule, to draw below the prediction.
        compare: name of a second family for the same axis.
        run: runs a schedule and returns its measured timeline.
        projector: whether the studio fills the window, for a lecture.
        note: how the clock of the measured timeline read, in a sentence.

    Raises:
        ValueError: there is no such family, or it has no schedule of these sizes, the costs are for another number of
            stages, the schedule is illegal, or the measured timeline is not of it.
    """

    _esm, _css = sources_of(__file__, "view.js", *(f"studio/{name}.js" for name in _SCRIPTS))

    family = traitlets.Unicode("1F1B").tag(**_INPUT)
    compare = traitlets.Unicode("", help="a second family, or nothing").tag(**_INPUT)
    num_ranks = traitlets.Int(4).tag(**_INPUT)
    num_microbatches = traitlets.Int(8).tag(**_INPUT)
    forward = traitlets.Float(1.0, min=0.0).tag(**_INPUT)
    backward_input = traitlets.Float(1.0, min=0.0).tag(**_INPUT)
    backward_weight = traitlets.Float(1.0, min=0.0).tag(**_INPUT)
    p2p = traitlets.Float(0.0, min=0.0, help="seconds a message travels").tag(**_INPUT)
    stage_costs = traitlets.Dict(help="stage number -> forward, input, weight; None as all others").tag(**_INPUT)
    with_run = traitlets.Bool(True, help="whether a measured run of the schedule is drawn").tag(**_INPUT)
    steady = traitlets.Bool(False, help="whether steps follow each other without a barrier").tag(sync=True)
    running = traitlets.Bool(False, help="whether a run is under way").tag(sync=True)
    options = traitlets.Dict(help="families, sizes of the steppers, what can be done").tag(sync=True)
    stamp = traitlets.Float(0.0, help="when the browser was last touched, by its own clock").tag(**_SENT)
    view = traitlets.Dict(help="the runs as in runs.py, and words").tag(sync=True)
    order = traitlets.Dict(help="a button pressed: what, number").tag(**_SENT)
    page = traitlets.Dict(help="the page asked for: file, text, number").tag(sync=True)

    def __init__(
        self,
        family: str | Schedule = "1F1B",
        num_ranks: int | None = None,
        num_microbatches: int | None = None,
        costs: Costs | None = None,
        measured: Timeline | None = None,
        compare: str | None = None,
        run: Run | None = None,
        *,
        projector: bool = False,
        note: str = "",
    ) -> None:
        chosen = family_of_schedule(family) if isinstance(family, Schedule) else family_of(str(family))
        self._inputs = list(self.class_trait_names(is_input=True))
        self._families = ({chosen.name: chosen} if chosen.sizes else {}) | FAMILIES
        self._run = run
        other = family_of(compare, self._families) if compare else None
        self._setting = Setting.first(chosen, other, (num_ranks, num_microbatches), costs or Costs())  # on screen
        self._measured: Shown | None = None
        if measured:
            first = self._setting.shown(chosen)
            check_run(first.schedule, measured)
            self._measured = replace(first, measured=measured, note=note)
        self._answers = 0
        super().__init__(**self._setting.to_inputs(), options=self._options(), projector=projector)
        self._draw(self._setting)
        self.observe(self._follow, names=[*self._inputs, "stamp"])
        self.observe(self._obey, names="order")

    def _options(self) -> dict[str, Any]:
        """What the controls offer; the sizes are where a stepper stops, and others can be typed."""
        costs = self._setting.costs
        return {
            "inputs": self._inputs,
            "families": [
                {"name": one.name, "story": STORIES.get(one.name, ""), "is_own": one.sizes is not None}
                for one in self._families.values()
            ],
            "tour": TOUR,
            "own": self._own_run(self._measured),
            "ranks": [*range(1, 9), 12, 16, 24, 32, 48, MOST_RANKS],
            "microbatches": [*range(1, 9), *(n << k for k in range(6) for n in (10, 12, 14, 16)), MOST_MICROBATCHES],
            "in_ms": max(costs.duration(0, kind) for kind in (Kind.F, Kind.I, Kind.W)) < 1,
            "can_run": self._run is not None,
            "changes": [Held().changes.get(kind, 0.0) for kind in KINDS],
            "still": False,
        }

    def _own_run(self, measured: Shown | None) -> dict[str, Any] | None:
        """What the last stop of the tour shows: the measured run on screen, if there is one."""
        inputs = self._setting.to_inputs()
        return {name: inputs[name] for name in ("family", "num_ranks", "num_microbatches")} if measured else None

    @property
    def schedule(self) -> Schedule:
        """The schedule on screen."""
        return self._screen.main.schedule

    @property
    def timeline(self) -> Timeline:
        """Its simulated timeline."""
        return self._screen.main.timeline

    @property
    def costs(self) -> Costs:
        """The costs of the schedule's stages, for `simulate(studio.schedule, studio.costs)`."""
        return self._screen.main.costs

    def static(self) -> Figure:
        """The same timelines, staircases and numbers as a figure; of the timeline, one step."""
        return draw_studio(self._screen, self.steady)

    def export_html(self, path: Path | str | None = None) -> str:
        """One HTML file that keeps its controls; it needs no kernel, no network and no other file.

        Every family is simulated beforehand with the present costs, at 2, 4 and 8 ranks, at 4, 8, 16 and 32
        micro-batches, and at the present sizes.
        """
        setting = self._setting
        ranks, microbatches = sorted({2, 4, 8, setting.num_ranks}), sorted({4, 8, 16, 32, setting.num_microbatches})
        pages = handed_out(setting, self._families.values(), ranks, microbatches)
        if self._screen.measured:
            pages["measured"] = self._screen.measured
        own = self._own_run(self._screen.measured)
        options = {"ranks": ranks, "microbatches": microbatches, "still": True, "can_run": False, "own": own}
        changes = {"options": self.options | options, "view": {"stamp": 0}}
        values = values_of(self, **setting.to_inputs(), **changes, projector=True)
        title, alt = self._screen.main.title, describe_studio(self._screen)
        page = to_page(title, alt, str(self._esm), str(self._css), values, pages)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def _follow(self, _: Any = None) -> None:
        """Show the present settings: once for all traits that changed together, and in one message."""
        with self.hold_sync():
            try:
                setting = self._setting.after({name: getattr(self, name) for name in self._inputs}, self._families)
                if setting == self._setting:
                    self.view = {**self.view, "problem": "", "stamp": self.stamp}  # the browser waits for an answer
                else:
                    self._draw(setting)
            except ValueError as error:  # no such setting or schedule: the picture stays
                self._answer({**self.view, "problem": str(error)})

    def _draw(self, setting: Setting) -> None:
        """Draw a setting, and update the controls: a family has its own stages, and one schedule its own sizes."""
        self._screen = setting.screen(self._measured)
        self._setting = setting
        with self.hold_trait_notifications():
            for name, value in setting.to_inputs().items():
                setattr(self, name, value)
        self._answer({"runs": [one and one.to_dict() for one in self._screen], "problem": ""})

    def _answer(self, view: dict[str, Any]) -> None:
        """Send it with a number: the browser must draw new actions even under the same words."""
        self._answers += 1
        missing = self._setting.missing(self._families.values())
        self.view = {**view, "missing": missing, "stamp": self.stamp, "number": self._answers}

    def _obey(self, _: Any = None) -> None:
        """A button was pressed: run the schedule, or make a page of it."""
        if self.order["what"] == "run":
            self._run_it()
        else:
            name = re.sub(r"[^a-z0-9]+", "-", self._screen.main.title.lower()).strip("-")
            self.page = {"file": f"{name}.html", "text": self.export_html(), "number": self.order["number"]}

    def _run_it(self) -> None:
        if self._run is None:
            return
        self.running = True
        try:
            timeline = measure(self._run, self.schedule, self.costs, self.timeout_s)
            self._measured = replace(self._screen.main, measured=timeline)
            self._draw(replace(self._setting, with_run=True))
        except Exception as error:  # the caller's function may fail in any way, and the widget says how
            self._answer({**self.view, "problem": f"the run failed: {type(error).__name__}: {error}"})
        finally:
            self.running = False
