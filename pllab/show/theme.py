"""How everything drawn looks: one palette, one set of letters and marks, one way to write a number.

Idle time is the figure: it alone wears the strong ink, and work lies on it in tints with outlines. The hues are Okabe
and Ito's, and a violet for the backward of the inputs: colour-blind readers tell them apart, a letter says the same
again, and so does a bar on top of a forward and at the foot of a backward. The dark theme is the light one turned over
in lightness. The widgets get this table as JSON, so it is written once.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

_KINDS = {  # letter -> name, hue, and outline on a light ground
    "F": ("forward", "#0072B2", "#00649F"),
    "B": ("backward", "#E69F00", "#946300"),
    "I": ("backward of the inputs", "#E88CFF", "#8A2F9E"),
    "W": ("backward of the weights", "#009E73", "#007355"),
    "C": ("communication", "#56B4E9", "#1C6C9C"),
    "U": ("optimizer", "#CC79A7", "#8F3F6B"),
    "R": ("recomputation", "#F0E442", "#6B6400"),
}
NAMES = {kind: name for kind, (name, _, _) in _KINDS.items()}

INK = "#1F1F1F"
PANEL = "#FFFFFF"


def mix(colour: str, ground: str, share: float) -> str:
    """A colour laid thinly on a ground: `mix("#000000", "#FFFFFF", 0.25)` -> `"#BFBFBF"`, rounded as in a browser."""
    pairs = [(int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{int(share * one + (1 - share) * other + 0.5):02X}" for one, other in pairs)


def turned_over(colour: str) -> str:
    """A colour as light as it was dark, of the same hue: `"#FFFFFF"` -> `"#000000"`, `"#E69F00"` -> `"#A05900"`.

    A browser does the same by `IN_THE_DARK`. Source: `hue-rotate` in Filter Effects of the W3C, at 180 degrees.
    """
    channels = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    lightness = sum(weight * one for weight, one in zip((0.213, 0.715, 0.072), channels, strict=True))
    return "#" + "".join(f"{round(min(255.0, max(0.0, one + 255 - 2 * lightness))):02X}" for one in channels)


IN_THE_DARK = "invert(1) hue-rotate(180deg)"


@dataclass(frozen=True)
class Look:
    """The colours of everything in one theme, light or dark.

    A kind has a hue, of which its boxes are tints: `strong` for the first stage of a rank, `pale` for later ones and
    `lit` (`lit_pale`) for a micro-batch that is followed, all as shares of the hue on the ground; and an outline with a
    contrast of 3:1 or more to the ground.

    `held` is what a rank holds, with a line around it; `over` is what is above a limit.
    """

    ground: str
    ink: str
    soft: str
    idle: str
    idle_stripe: str
    on_idle: str
    held: str
    held_line: str
    over: str
    hues: Mapping[str, str]
    outlines: Mapping[str, str]
    strong: float = 0.55
    pale: float = 0.28
    lit: float = 0.8
    lit_pale: float = 0.45

    def fill_of(self, kind: str, is_later_stage: bool = False) -> str:
        """The tint of a kind's boxes."""
        return mix(self.hues.get(kind, self.over), self.ground, self.pale if is_later_stage else self.strong)

    def outline_of(self, kind: str) -> str:
        """The outline of a kind's boxes; an unknown letter is drawn as illegal."""
        return self.outlines.get(kind, self.over)

    def paint_of(self, kind: str, is_later_stage: bool = False) -> dict[str, Any]:
        """Both as matplotlib's patches take them: `{"facecolor": "#73B1D6", "edgecolor": "#00649F"}` for F."""
        return {"facecolor": self.fill_of(kind, is_later_stage), "edgecolor": self.outline_of(kind)}

    def in_the_dark(self) -> "Look":
        """The same with every colour turned over; what is followed is less strong, so that words on it can be read."""
        turned: dict[str, Any] = {name: turned_over(one) for name, one in vars(self).items() if isinstance(one, str)}
        for name, colours in (("hues", self.hues), ("outlines", self.outlines)):
            turned[name] = {kind: turned_over(one) for kind, one in colours.items()}
        return replace(self, **turned, lit=0.6)


LIGHT = Look(
    ground="#FFFFFF",
    ink="#10181E",
    soft="#595959",
    idle="#1B1D22",
    idle_stripe="#50545C",
    on_idle="#FFFFFF",
    held="#D0D4DA",
    held_line="#6C727B",
    over="#D55E00",
    hues={kind: hue for kind, (_, hue, _) in _KINDS.items()},
    outlines={kind: outline for kind, (_, _, outline) in _KINDS.items()},
)
DARK = LIGHT.in_the_dark()

ENGINE_LABELS = {"real": "real", "emulated": "emulated (sleep)", "simulated": "simulated"}


def as_json() -> dict[str, Any]:
    """Names and colours for the JavaScript side: `{"names": {"F": "forward", ...}, "light": {...}, "dark": {...}}`."""
    return {"names": NAMES, "light": asdict(LIGHT), "dark": asdict(DARK)}


def matplotlib_style() -> dict[Any, Any]:
    """The matplotlib settings of every figure, for `matplotlib.rc_context`."""
    return {
        "font.family": "DejaVu Sans",
        "font.size": 11.0,
        "text.hinting": "no_hinting",  # hinted, the bold grows serifs at this size
        "hatch.linewidth": 1.0,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "svg.fonttype": "none",
        "svg.hashsalt": "pllab",  # the same figure is the same bytes
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
    """A share as a percentage with one decimal: `0.1176` -> `"11.8 %"`, `0.0002` -> `"0 %"`."""
    tenths = round(share * 1000)
    return f"{tenths / 10:.1f} %" if tenths else "0 %"


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
