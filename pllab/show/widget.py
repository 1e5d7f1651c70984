"""What the widgets of this room share: their sources, palette and printed twin, and how they run a schedule.

anywidget sends one ES module and one style sheet to the browser and has no build step, so the shared part of each is
put in front of the widget's own text here.
"""

import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from pllab.arguments import require
from pllab.schedule import Schedule
from pllab.show.figures import Figure
from pllab.show.theme import as_json
from pllab.simulate import Costs
from pllab.timeline import Timeline

_COMMENT_LINES = re.compile(r"^ *(//[^\n]*|/\*.*?\*/)\n", re.MULTILINE | re.DOTALL)
Run = Callable[..., Timeline]
"""Called as `run(schedule, costs=costs)`; it measures a timeline in the unit of the costs."""


def sources_of(file: str, *scripts: str) -> tuple[str, str]:
    """The module and the style sheet of a widget: the shared ones, then those beside its Python file.

    Example: `sources_of(__file__, "view.js")` in `timeline_player.py` joins `common.js`, `view.js` and
    `timeline_player.js`, and `common.css` and `timeline_player.css`. `scripts` are named from this folder.
    """
    shared, widget = Path(__file__).parent, Path(file)
    modules = [*(shared / name for name in ("common.js", *scripts)), widget.with_suffix(".js")]
    sheets = [shared / "common.css", widget.with_suffix(".css")]
    return _joined(modules), _joined(sheets)


def _joined(paths: list[Path]) -> str:
    """One text; what a widget needs not carry to every page, lines that are comments, stays here."""
    return _COMMENT_LINES.sub("", "\n".join(path.read_text(encoding="utf-8") for path in paths))


class Widget(anywidget.AnyWidget):
    """An anywidget with the palette and a static twin: `.static()` is the figure of what it shows."""

    theme = traitlets.Dict(as_json(), read_only=True).tag(sync=True)
    timeout_s = 60.0  # of a run that the widget starts
    projector = traitlets.Bool(False, help="whether the widget fills the window, for a lecture").tag(sync=True)

    def static(self) -> Figure:
        """The same numbers as a figure with a text alternative."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Add the static twin, which GitHub and an HTML export show in place of the widget."""
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        with suppress(ModuleNotFoundError):  # without matplotlib the widget itself works all the same
            data = {**data, **self.static()._repr_mimebundle_()}
        return data, metadata


def measure(run: Run, schedule: Schedule, costs: Costs, timeout_s: float) -> Timeline:
    """Run a schedule with its costs, in a thread; what the run raises is raised here.

    A thread cannot be ended from outside. One that is late is left to the deadline of its own work, and what it
    answers then is dropped; being a daemon it does not keep the process alive.

    Raises:
        TimeoutError: there is no answer after `timeout_s` seconds.
        ValueError: it measured another schedule.
    """
    answer: Future[Timeline] = Future()

    def work() -> None:
        try:
            answer.set_result(run(schedule, costs=costs))
        except BaseException as error:  # raised again for the caller
            answer.set_exception(error)

    thread = threading.Thread(target=work, name="pllab the run", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise TimeoutError(f"the run has not answered in {timeout_s:g} s; give it less to do, or set timeout_s")
    timeline = answer.result()
    check_run(schedule, timeline)
    return timeline


def check_run(schedule: Schedule, timeline: Timeline) -> None:
    """Refuse a timeline whose ranks did not run the rows of a schedule: F, B, I and W, in this order.

    Raises:
        ValueError: a rank ran something else.
    """
    for rank in range(max(schedule.num_ranks, timeline.num_ranks)):
        actions = (span.action for span in timeline.of_rank(rank))
        ran = [f"{one.stage}{one.kind}{one.microbatch}" for one in actions if one.kind in "FBIW"]
        row = [str(action) for action in schedule.rows[rank]] if rank < schedule.num_ranks else []
        other = f"the measured run is not of the schedule: rank {rank} ran something else; measure the one on screen"
        require(ran == row, other)
