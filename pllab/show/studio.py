"""The bubble studio: a schedule that follows sliders, with its bubble and its memory, for a lecture or a desk.

Python makes the schedule and simulates it, the browser draws: one path for the picture, the numbers and the files.
"""

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pllab.schedule import Schedule
from pllab.show.canvas import read_canvas_source
from pllab.show.export import FILE_TYPES, write
from pllab.show.export_page import to_page
from pllab.show.export_trace import to_chrome_trace
from pllab.show.figure import Figure
from pllab.show.studio_families import family_of
from pllab.show.studio_picture import describe_studio, draw_studio, to_svg
from pllab.show.studio_setting import MOST_RANKS, Measured, Setting, check_size, setting_of, split_costs
from pllab.show.studio_traits import INPUTS, StudioTraits, options_of
from pllab.show.studio_view import Screen, blocks_of, view_of
from pllab.show.widget import read_source
from pllab.simulate import Costs
from pllab.timeline import Timeline

Run = Callable[[Schedule], Timeline]


class BubbleStudio(StudioTraits):
    """Choose a schedule, sizes, costs and a memory limit; the timeline, the memory and the bubble follow at once.

    Costs are seconds for the layers of one *rank*. Where a rank has two stages each costs half of it, and its
    activations count half, so that schedules can be compared on one axis.

    Keys while the timeline has the focus: arrows choose an action, plus and minus zoom, 0 shows all, Page Up and Page
    Down move the view, space plays, comma and full stop step, Escape lets go.

    Example: `BubbleStudio("1F1B", 4, 8, compare="GPipe")` at the end of a cell. With `run=`, a function from a
    schedule to the timeline it measured, the button "Run it" lays the measured spans below the predicted ones.

    Args:
        family: name of the family, one of `pllab.show.studio_families.FAMILIES`.
        num_ranks: ranks, 1 to 32.
        num_microbatches: micro-batches, 1 to 256.
        costs: seconds for a rank's layers; values per stage are taken as they are.
        memory_limit: the most micro-batches of a rank's layers that fit, or None.
        measured: the timeline of a run of this very schedule, to lay over the prediction.
        compare: name of a second family for the same axis.
        run: runs a schedule and returns its measured timeline.
        projector: whether type is large.

    Raises:
        ValueError: there is no such family, or a size is out of range.
    """

    _esm = read_canvas_source("studio_ahead.js", "studio.js")
    _css = read_source("studio.css")

    def __init__(
        self,
        family: str = "1F1B",
        num_ranks: int = 4,
        num_microbatches: int = 8,
        costs: Costs | None = None,
        memory_limit: float | None = None,
        measured: Timeline | None = None,
        compare: str | None = None,
        run: Run | None = None,
        *,
        projector: bool = False,
    ) -> None:
        check_size("num_ranks", num_ranks, MOST_RANKS)
        rank_costs, stage_costs = split_costs(costs or Costs(), family_of(family), num_ranks)
        sizes = num_ranks, num_microbatches
        setting = Setting(family, compare or "", *sizes, rank_costs, stage_costs, memory_limit)
        super().__init__(
            family=family,
            compare=compare or "",
            num_ranks=num_ranks,
            num_microbatches=num_microbatches,
            forward=rank_costs.forward,
            backward_input=rank_costs.backward_input,
            backward_weight=rank_costs.backward_weight,
            p2p=rank_costs.p2p,
            stage_costs=stage_costs,
            memory_limit=memory_limit,
            options=options_of(rank_costs, run is not None),
            projector=projector,
        )
        self._run = run
        self._asked: Any = None
        self._made: deque[tuple[Setting, Measured | None, Screen]] = deque(maxlen=8)
        self._answers = 0
        self._screen = Screen(setting.show(family))
        self._measured = Measured(self.schedule, self.costs, measured) if measured else None
        self._follow()
        self.observe(self._follow, names=[*INPUTS, "stamp"])
        self.observe(self._obey, names="order")
        self.on_msg(self._look_ahead)

    @property
    def costs(self) -> Costs:
        """What a stage of the schedule costs, for `simulate(studio.schedule, studio.costs)`."""
        return self._setting().costs_of(self.family)

    @property
    def schedule(self) -> Schedule:
        """The schedule on screen."""
        return self._screen.main.schedule

    @property
    def timeline(self) -> Timeline:
        """Its simulated timeline."""
        return self._screen.main.timeline

    def state(self) -> dict[str, Any]:
        """What was chosen, and the numbers of every run on screen."""
        chosen = {name: getattr(self, name) for name in (*INPUTS, "memory", "selected")}
        return {**chosen, "runs": [one.state() for one in self._screen.runs()], "problem": self.view["problem"]}

    def static(self) -> Figure:
        """The same timelines, staircases and numbers as a figure."""
        return draw_studio(self._screen, self.memory, self.memory_limit, self.critical)

    def export_png(self, path: Path | str | None = None) -> bytes:
        """The picture as PNG; every export also writes to `path` if one is given."""
        return write(path, self.static().png)

    def export_svg(self, path: Path | str | None = None) -> str:
        """The picture as SVG text."""
        return write(path, to_svg(self.static()))

    def export_csv(self, path: Path | str | None = None) -> str:
        """The schedule as torch.distributed.pipelining's CSV."""
        return write(path, self.schedule.to_csv())

    def export_chrome_trace(self, path: Path | str | None = None) -> str:
        """All runs on screen as a trace that ui.perfetto.dev opens."""
        return write(path, to_chrome_trace({one.label: one.timeline for one in self._screen.runs()}))

    def export_html(self, path: Path | str | None = None) -> str:
        """One HTML file with the runs on screen; it needs no kernel, no network and no other file."""
        unsaid = ("layout", "tabbable", "tooltip")
        values = {name: getattr(self, name) for name in self.keys if name not in unsaid and not name.startswith("_")}
        values |= {
            "options": {**self.options, "still": True, "can_run": False, "exports": ["PNG", "CSV"]},
            "view": {**self.view, "stamp": 0},
            "path": blocks_of(self._screen, critical=True)[-1],
            "file": b"",
            "order": {},
            "delivery": {},
        }
        csv = {"name": f"{self.view['file']}.csv", "type": "text/csv", "text": self.export_csv()}
        alt = describe_studio(self._screen)
        return write(path, to_page(self.view["title"], alt, str(self._esm), str(self._css), values, csv))

    def _setting(self) -> Setting:
        return setting_of({name: getattr(self, name) for name in INPUTS})

    def _follow(self, _: Any = None) -> None:
        """Show what is asked for now: once for all traits that changed together, and in one message."""
        try:
            asked = (self._setting(), self.critical, self._measured)
            if asked == self._asked:
                self.view = {**self.view, "stamp": self.stamp}  # to and fro: the input is answered all the same
                return
            self._asked = asked
            screen = self._screen_of(asked[0])
        except ValueError as error:  # a limit without a schedule, say: name the reason and keep the picture
            self._answer({**self.view, "problem": str(error)})
            return
        self._screen = screen
        with self.hold_sync():
            self.actions, self.compared, self.measured, self.path = blocks_of(screen, self.critical)
            self._answer(view_of(screen, self.memory_limit))

    def _screen_of(self, setting: Setting) -> Screen:
        """Make the runs of a setting, or take them from the last few: what was seen ahead is soon asked for."""
        for known, measured, screen in self._made:
            if known == setting and measured is self._measured:
                return screen
        screen = setting.screen(self._measured)
        self._made.append((setting, self._measured, screen))
        return screen

    def _answer(self, view: dict[str, Any]) -> None:
        """Send the words, numbered: new blocks under the same words are news too."""
        self._answers += 1
        self.view = {**view, "stamp": self.stamp, "number": self._answers}

    def _look_ahead(self, _: Any, content: Any, __: Any) -> None:
        """A slider rests beside this setting: send its picture, and change nothing."""
        if "ahead" not in content:
            return
        try:
            inputs = json.loads(content["ahead"])
            setting = setting_of(inputs)
            screen = None if setting.is_searched else self._screen_of(setting)  # a search would keep the kernel
        except ValueError:  # told when somebody goes there
            screen = None
        if screen is None:
            self.send({"ahead": content["ahead"], "view": None})
            return
        answer = {"ahead": content["ahead"], "view": view_of(screen, inputs["memory_limit"])}
        self.send(answer, buffers=list(blocks_of(screen, inputs["critical"])))

    def _obey(self, _: Any = None) -> None:
        """A button was pressed: run the schedule, or make a file."""
        if self.order.get("what") == "run":
            self._run_it()
        elif self.order.get("what") in FILE_TYPES:
            self._deliver(self.order["what"])

    def _run_it(self) -> None:
        if self._run is None:
            return
        self.running = True
        try:
            self._measured = Measured(self.schedule, self.costs, self._run(self.schedule))
            self._follow()
        except Exception as error:  # whatever the caller's function raises is told where the button was pressed
            self._answer({**self.view, "problem": f"the run failed: {type(error).__name__}: {error}"})
        finally:
            self.running = False

    def _deliver(self, what: str) -> None:
        makers: dict[str, Callable[[], str | bytes]] = {
            "PNG": self.export_png,
            "SVG": self.export_svg,
            "CSV": self.export_csv,
            "Trace": self.export_chrome_trace,
            "HTML": self.export_html,
        }
        content = makers[what]()
        suffix, kind = FILE_TYPES[what]
        name = f"{self.view['file']}.{suffix}"
        with self.hold_sync():
            self.file = content.encode() if isinstance(content, str) else content
            self.delivery = {"name": name, "type": kind, "number": self.order["number"]}
