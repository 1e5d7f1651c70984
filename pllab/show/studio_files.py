"""The studio as files: picture, CSV, trace and page hold the runs on screen and nothing else."""

from collections.abc import Callable
from pathlib import Path

from pllab.schedule import Schedule
from pllab.show.export import FILE_TYPES, write
from pllab.show.export_page import to_page
from pllab.show.export_trace import to_chrome_trace
from pllab.show.figure import Figure
from pllab.show.studio_picture import describe_studio, draw_studio, to_svg
from pllab.show.studio_traits import StudioTraits
from pllab.show.studio_view import Screen, blocks_of
from pllab.timeline import Timeline


class StudioFiles(StudioTraits):
    """What is on screen, as objects and as files."""

    _screen: Screen

    @property
    def schedule(self) -> Schedule:
        """The schedule on screen."""
        return self._screen.main.schedule

    @property
    def timeline(self) -> Timeline:
        """Its simulated timeline."""
        return self._screen.main.timeline

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
