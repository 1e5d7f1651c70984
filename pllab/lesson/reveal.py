"""The picture that answers a prediction: guess, simulation and measurement on one axis."""

import math
from typing import TYPE_CHECKING

from pllab.show import Figure, figure
from pllab.show.theme import write_number

if TYPE_CHECKING:
    from pllab.lesson.predict import Prediction


def draw_reveal(
    asked: "Prediction",
    measured: float,
    engine: str,
    spread: tuple[float, float] | None = None,
    simulated: float | None = None,
) -> Figure:
    """Draw the marks with their names on one axis; the text alternative is `reveal_sentence`."""
    from matplotlib.figure import Figure as Canvas  # a canvas of its own: pyplot keeps every figure it makes

    marks = _marks(asked, measured, engine, simulated)
    canvas = Canvas(figsize=(7, 0.55 * len(marks) + 0.9), dpi=96, layout="constrained")
    axes = canvas.add_subplot()
    for row, (name, value, symbol, colour) in enumerate(marks):
        axes.plot(value, row, symbol, color=colour, markersize=11, markeredgecolor="black")
        axes.annotate(_written(asked, value), (value, row), xytext=(0, 9), textcoords="offset points", ha="center")
        if name.startswith("measured") and spread is not None:
            axes.hlines(row, *spread, color="black", linewidth=2, zorder=0)
    axes.set_yticks(range(len(marks)), [name for name, *_ in marks])
    axes.set_ylim(-0.6, len(marks) - 0.2)
    shown = [value for _, value, *_ in marks] + list(spread or ())
    axes.set_xlim(min(asked.low, *shown), max(asked.high, *shown))
    axes.set_xlabel(asked.unit)
    axes.spines[["top", "right", "left"]].set_visible(False)
    sentence = reveal_sentence(asked, measured, engine, spread, simulated)
    return figure(canvas, sentence, caption=f"{asked.question} {sentence}")


def reveal_sentence(
    asked: "Prediction",
    measured: float,
    engine: str,
    spread: tuple[float, float] | None = None,
    simulated: float | None = None,
) -> str:
    """Say the picture.

    Example: `Measured (real): 1.12 s (1.1 to 1.2). Your guess of 1.5 s was 0.38 s too high.`
    """
    parts = [f"{_made(engine)}: {_written(asked, measured)} {asked.unit}"]
    if spread is not None:
        parts[0] += f" ({_written(asked, spread[0])} to {_written(asked, spread[1])})"
    if simulated is not None:
        parts.append(f"Simulated: {_written(asked, simulated)} {asked.unit}")
    parts.append(_judged(asked, measured, spread))
    return ". ".join(parts) + "."


def _judged(asked: "Prediction", measured: float, spread: tuple[float, float] | None) -> str:
    if asked.guess is None:
        return "You made no guess"
    lowest, highest = spread or (measured, measured)
    gap = abs(asked.guess - measured)
    if lowest <= asked.guess <= highest or gap <= 0.05 * abs(measured):
        return f"Your guess of {_written(asked, asked.guess)} {asked.unit} was right"
    side = "high" if asked.guess > measured else "low"
    guess = _written(asked, asked.guess)
    return f"Your guess of {guess} {asked.unit} was {_written(asked, gap)} {asked.unit} too {side}"


def _written(asked: "Prediction", value: float) -> str:
    """Three digits; what is too small to be seen on the axis is only bounded: on 0 to 20, 8e-06 is `below 0.01`."""
    smallest: float = 10.0 ** math.floor(math.log10((asked.high - asked.low) / 1000))
    return f"below {smallest:g}" if 0 < value < smallest else write_number(value)


def _made(engine: str) -> str:
    return "Calculated" if engine == "calculated" else f"Measured ({engine})"


def _marks(
    asked: "Prediction", measured: float, engine: str, simulated: float | None
) -> list[tuple[str, float, str, str]]:
    """Name, value, symbol and Okabe-Ito colour, from the bottom of the picture to its top."""
    marks = [(_made(engine).lower(), measured, "o", "#0072B2")]
    if simulated is not None:
        marks.append(("simulated", simulated, "s", "#56B4E9"))
    if asked.guess is not None:
        marks.append(("your guess", asked.guess, "D", "#E69F00"))
    return marks
