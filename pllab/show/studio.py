"""The bubble studio: a schedule that follows sliders, with its bubble and its memory, for a lecture or a desk.

Python makes the schedule and simulates it, the browser draws: one path for the picture, the numbers and the files.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pllab.schedule import Schedule
from pllab.show.canvas import pack, read_canvas_source
from pllab.show.export import FILE_TYPES, write
from pllab.show.export_page import to_page
from pllab.show.export_trace import to_chrome_trace
from pllab.show.figure import Figure
from pllab.show.studio_families import family_of
from pllab.show.studio_picture import describe_studio, draw_studio, to_svg
from pllab.show.studio_setting import MOST_RANKS, Measured, Setting, check_size, split_costs
from pllab.show.studio_traits import INPUTS, StudioTraits, options_of
from pllab.show.studio_view import Screen, indices_of, view_of
from pllab.show.widget import read_source
from pllab.simulate import Costs, critical_path
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

    _esm = read_canvas_source("studio.js")
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
        self._screen = Screen(setting.show(family))
        self._measured = Measured(self.schedule, self.costs, measured) if measured else None
        self._follow()
        self.observe(self._follow, names=list(INPUTS))
        self.observe(self._obey, names="order")

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
        return draw_studio(self._screen, self.memory, self.memory_limit)

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
            "path": self._path(),
            "file": b"",
            "order": {},
            "delivery": {},
        }
        csv = {"name": f"{self.view['file']}.csv", "type": "text/csv", "text": self.export_csv()}
        alt = describe_studio(self._screen)
        return write(path, to_page(self.view["title"], alt, str(self._esm), str(self._css), values, csv))

    def _setting(self) -> Setting:
        costs = Costs(self.forward, self.backward_input, self.backward_weight, self.p2p)
        sizes = self.num_ranks, self.num_microbatches
        return Setting(self.family, self.compare, *sizes, costs, self.stage_costs, self.memory_limit)

    def _follow(self, _: Any = None) -> None:
        """Show what is asked for now: once for all traits that changed together, and in one message."""
        try:
            asked = (self._setting(), self.critical, self._measured)
            if asked == self._asked:
                return
            self._asked = asked
            screen = asked[0].screen(self._measured)
        except ValueError as error:  # a limit without a schedule, say: name the reason and keep the picture
            self.view = {**self.view, "problem": str(error), "stamp": self.stamp}
            return
        self._screen = screen
        with self.hold_sync():
            self.actions, self.compared, self.measured = (pack(one.columns if one else None) for one in screen)
            self.path = self._path() if self.critical else b""
            self.view = {**view_of(screen, self.memory_limit), "stamp": self.stamp}

    def _path(self) -> bytes:
        main = self._screen.main
        return indices_of(main, critical_path(main.schedule, main.timeline))

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
            self.view = {**self.view, "problem": f"the run failed: {type(error).__name__}: {error}"}
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
