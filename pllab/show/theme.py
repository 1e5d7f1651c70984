"""How everything drawn looks: one palette, one set of letters and patterns, one way to write a number.

The colours are Okabe and Ito's, which colour-blind readers can tell apart; a letter and a pattern say the
same again for paper and for bad projectors. The widgets get this table as JSON, so it is written once.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Paint:
    """How one kind of span is drawn: its letter, name, colours and matplotlib hatch."""

    letter: str
    name: str
    fill: str
    text: str
    hatch: str = ""


PAINTS = {
    paint.letter: paint
    for paint in (
        Paint("F", "forward", "#0072B2", "#FFFFFF"),
        Paint("B", "backward", "#E69F00", "#000000"),
        Paint("I", "backward, inputs", "#E69F00", "#000000"),
        Paint("W", "backward, weights", "#009E73", "#000000", ".."),
        Paint("C", "communication", "#56B4E9", "#000000", "--"),
        Paint("U", "optimizer", "#CC79A7", "#000000", "xx"),
        Paint("R", "recompute", "#F0E442", "#000000", "||"),
    )
}
IDLE = Paint("", "idle", "#F2F2F2", "#000000", "////")
ILLEGAL = Paint("!", "illegal", "#D55E00", "#000000")

INK = "#1F1F1F"
PANEL = "#FFFFFF"
HATCH_GREY = "#A6A6A6"

ENGINE_LABELS = {"real": "real", "emulated": "emulated (sleep)", "simulated": "simulated"}


def paint_of(kind: str) -> Paint:
    """The paint of a kind's letter; an unknown letter is drawn as illegal."""
    return PAINTS.get(str(kind), ILLEGAL)


def as_json() -> dict[str, Any]:
    """The palette for the JavaScript side: `{"paints": {"F": {...}, ...}, "idle": {...}, ...}`."""
    return {
        "paints": {letter: asdict(paint) for letter, paint in PAINTS.items()},
        "idle": asdict(IDLE),
        "illegal": asdict(ILLEGAL),
    }


def matplotlib_style() -> dict[Any, Any]:
    """The matplotlib settings of every figure, for `matplotlib.rc_context`."""
    return {
        "font.family": "DejaVu Sans",
        "font.size": 11.0,
        "text.hinting": "no_hinting",  # hinted, the bold grows serifs at this size
        "hatch.linewidth": 0.8,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "svg.fonttype": "none",
        "svg.hashsalt": "pllab",
    }


def write_number(value: float) -> str:
    """Three significant digits, without an exponent for large numbers: `1234.5` -> `"1,230"`, `999.6` -> `"1,000"`."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{value:.3g}"


def write_seconds(seconds: float) -> str:
    """A time in the unit that suits it: `0.412` -> `"412 ms"`, `3.5` -> `"3.5 s"`, `0.9999` -> `"1 s"`."""
    if seconds == 0 or abs(float(f"{seconds:.3g}")) >= 1:
        return f"{write_number(seconds)} s"
    return f"{write_number(seconds * 1e3)} ms"


def write_percent(share: float) -> str:
    """A share as a percentage with one decimal: `0.1176` -> `"11.8 %"`."""
    return f"{share * 100:.1f} %"


def count_of(number: float, noun: str) -> str:
    """A number of things: `1 rank`, `2 ranks`, `2.5 micro-batches`."""
    plural = "" if number == 1 else "es" if noun.endswith("h") else "s"
    return f"{number if isinstance(number, int) else write_number(number)} {noun}{plural}"


def round_step(limit: float, most: int) -> float:
    """The smallest of 1, 2, 5, 10, ... that cuts `limit` into at most `most` parts: `(0.412, 7)` -> `0.1`."""
    if limit <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(limit / most))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * most >= limit * 0.9999)


def ticks_of(limit: float, most: int, write: Callable[[float], str]) -> list[dict[str, Any]]:
    """Round numbers from 0 to `limit`, about `most` of them, with their texts: `{"at": 0.1, "text": "100 ms"}`."""
    size = round_step(limit, most)
    return [{"at": n * size, "text": write(n * size)} for n in range(int(limit / size * 1.0001) + 1)]
