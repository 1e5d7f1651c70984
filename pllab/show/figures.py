"""Figures that everybody can read: a picture and a sentence that says the same.

JupyterLab drops the text alternative of a PNG output, so a figure is handed over as HTML with its own `alt`.
It sits on a light panel of its own, which JupyterLab's dark theme turns over; where the rule for that is taken away, as
on GitHub and in a notebook that is not trusted, the panel stays light.
"""

import base64
import html
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pllab.show.theme import IN_THE_DARK, INK, LIGHT, PANEL, matplotlib_style, mix

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

    Axes = matplotlib.axes.Axes
    Canvas = matplotlib.figure.Figure
else:  # matplotlib takes half a second to import and `import pllab.show` should not
    Axes = Canvas = Any

DPI = 100
TITLE: dict[str, Any] = {"loc": "left", "fontsize": 11.5, "fontweight": "bold"}  # of a picture, for `set_title`
_PANEL_STYLE = f"margin:0;background:{PANEL};color:{INK};padding:12px;border-radius:8px;display:inline-block"
_DARK_RULE = f"<style>[data-jp-theme-light=false] .pl-figure{{filter:{IN_THE_DARK}}}</style>"


class Figure:
    """A drawn matplotlib figure with its text alternative and caption.

    A notebook shows it as `<figure><img alt=...><figcaption>...</figure>`; a terminal shows the sentence. `canvas` is
    matplotlib's own figure, to draw more on it before it is shown.
    """

    def __init__(self, fig: Canvas, alt: str, caption: str | None = None) -> None:
        self.alt = alt
        self.caption = caption
        self.canvas = fig

    @cached_property
    def png(self) -> bytes:
        """The picture as PNG at 100 dots per inch and in 128 colours, free of dates and version numbers."""
        return _in_few_colours(self._render("png"))

    @property
    def svg(self) -> str:
        """The picture as the text of an SVG file."""
        return self._render("svg").decode()

    def save(self, path: str | Path) -> Path:
        """Write the picture to `path`, in the format of its suffix, `.png`, `.svg`, `.pdf` and so on; return the path.

        Raises:
            ValueError: matplotlib writes no such format.
        """
        path = Path(path)
        kind = path.suffix[1:].lower()
        path.write_bytes(self.png if kind == "png" else self._render(kind))
        return path

    def to_html(self) -> str:
        """The figure as one HTML element that needs no other file."""
        data = base64.b64encode(self.png).decode()
        image = f'<img alt="{html.escape(self.alt)}" src="data:image/png;base64,{data}" style="max-width:100%">'
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>" if self.caption else ""
        return f'<figure class="pl-figure" style="{_PANEL_STYLE}">{image}{caption}{_DARK_RULE}</figure>'

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": self.alt}

    def _render(self, kind: str) -> bytes:
        import matplotlib

        buffer = io.BytesIO()
        metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}.get(kind)
        with matplotlib.rc_context(matplotlib_style()):
            self.canvas.savefig(buffer, format=kind, dpi=DPI, bbox_inches="tight", metadata=metadata)
        return buffer.getvalue()


@contextmanager
def drawing(width_in: float, height_in: float, **options: Any) -> Iterator[Canvas]:
    """A matplotlib figure in our style and of a size in inches; `options` are those of `matplotlib.figure.Figure`.

    Example: `with drawing(8.0, 3.0) as fig: ...; return figure(fig, sentence)`. pyplot does not know this figure.
    """
    import matplotlib.figure

    with matplotlib.rc_context({**matplotlib_style(), "text.parse_math": False}):  # a name may have dollars
        yield matplotlib.figure.Figure(figsize=(width_in, height_in), facecolor=PANEL, **options)


@contextmanager
def chart(x_label: str, y_label: str, width_in: float = 6.4, height_in: float = 3.2) -> Iterator[Axes]:
    """The axes of one curve or cloud of points: both named, no frame, a quiet grid.

    Example: `with chart("micro-batches", "bubble fraction in %") as axes: axes.plot(...)`, and then
    `figure(axes.figure, sentence)`.
    """
    import matplotlib

    with drawing(width_in, height_in, layout="constrained") as fig, matplotlib.rc_context({"text.parse_math": True}):
        axes = fig.add_subplot()
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.grid(color=mix(LIGHT.ink, LIGHT.ground, 0.12), linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        yield axes


def name_rows(axes: Axes, names: Sequence[str], lines: Sequence[str] = ()) -> None:
    """Rows of height 1 from the top down, each with its name; only these lines of the frame stay."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.spines[[side for side in axes.spines if side not in lines]].set_visible(False)


def draw_cell(axes: Axes, corner: tuple[float, float], width: float, height: float, **look: Any) -> None:
    """A rectangle in the unit of the axes; `look` is that of matplotlib's patches."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(corner, width, height, **look))


def draw_spread(
    axes: Axes, xs: Sequence[float], spreads: Sequence[tuple[float, float, float]], scale: float = 1.0, **look: Any
) -> None:
    """Draw measured medians as marks, each with a whisker from its low to its high quartile.

    Example: `draw_spread(axes, [8, 512], [(0.2, 0.1, 0.3), (1.6, 1.5, 1.7)], fmt="o-", label="two ranks")`.

    Args:
        axes: those of `chart`.
        xs: where the marks stand.
        spreads: median, low and high of each, as `pllab.bench.measure.Spread` has them.
        scale: what all values are multiplied with, 1000 for seconds on an axis of milliseconds.
        look: of matplotlib's `errorbar`.
    """
    below = [scale * (median - low) for median, low, _ in spreads]
    above = [scale * (high - median) for median, _, high in spreads]
    axes.errorbar(xs, [scale * median for median, *_ in spreads], (below, above), **{"capsize": 4, **look})


def _in_few_colours(png: bytes) -> bytes:
    """A third of the size: our pictures are flat colours and text, and a notebook may have 400 kB."""
    from PIL import Image

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def figure(fig: Canvas, alt: str, caption: str | None = None) -> Figure:
    """Give a matplotlib figure its text alternative, and close it so that no notebook shows it twice.

    Example: `figure(fig, f"Loss falls from {first:.2f} to {last:.2f} in 200 steps")`. Make the sentence from
    the data: it is what a reader without the picture gets.
    """
    shown = Figure(fig, alt, caption)
    shown.png  # noqa: B018 - draw now, before the caller changes the figure
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(fig)
    return shown
