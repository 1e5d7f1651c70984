"""Ask for a number before it is measured, and show both on one axis afterwards.

Only a guess that was written down makes a measurement surprising. The card is two ipywidgets; the figure after it is
an ordinary picture, so a lesson also runs without a guess (Run All, tests, a page on GitHub).
"""

import math
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from pllab.show import Figure, figure
from pllab.show.theme import write_number
from pllab.timeline import Engine

# ipywidgets and matplotlib are imported inside the functions: the process of a check imports this room without them.


class Prediction:
    """A question with a range, the learner's guess, and later the truth.

    Example:
        how_long = predict("Two ranks share a job of 2 s. How long?", unit="s", low=0, high=4)
        how_long.guess = 1.5  # or by the card's button
        how_long.reveal(1.02, engine="emulated", spread=(1.01, 1.04))
    """

    def __init__(self, question: str, unit: str, low: float, high: float) -> None:
        if not low < high:
            raise ValueError(f"a prediction needs low < high, not {low:g} and {high:g}; swap them")
        self.question = question
        self.unit = unit
        self.low = low
        self.high = high
        self._guess: float | None = None
        self._card: Any = None

    @property
    def guess(self) -> float | None:
        """The learner's number in the prediction's unit, None while nobody has guessed."""
        return self._guess

    @guess.setter
    def guess(self, value: float) -> None:
        if not self.low <= value <= self.high:
            raise ValueError(
                f"a guess of {value:g} lies outside the axis from {self.low:g} to {self.high:g} {self.unit}; "
                "choose one inside"
            )
        self._guess = float(value)

    def sentence(self) -> str:
        """The question and the guess, as text."""
        noted = "no guess yet" if self._guess is None else f"your guess: {self._guess:g} {self.unit}"
        return f"Predict: {self.question} ({noted})"

    __repr__ = sentence

    def reveal(
        self,
        measured: float,
        *,
        engine: Engine | Literal["calculated"],
        spread: tuple[float, float] | None = None,
        simulated: float | None = None,
    ) -> Figure:
        """Draw guess, simulation and measurement on one axis; the text alternative is `Answer.sentence`.

        measured: in the prediction's unit, made by `engine`; spread: its lowest and highest round.
        """
        answer = Answer(self, measured, engine, spread, simulated)
        return figure(_draw(answer), answer.sentence(), caption=f"{self.question} {answer.sentence()}")

    def write(self, value: float) -> str:
        """Three digits; a number too small for the axis is only bounded: on 0 to 20, 8e-06 is `below 0.01`."""
        smallest: float = 10.0 ** math.floor(math.log10((self.high - self.low) / 1000))
        return f"below {smallest:g}" if 0 < value < smallest else write_number(value)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        html = f"<p><strong>Predict.</strong> {escape(self.sentence().removeprefix('Predict: '))}</p>"
        bundle: dict[str, Any] = {"text/plain": self.sentence(), "text/html": html}
        try:
            self._card = self._card or _card(self)
        except ImportError:  # without ipywidgets the question is text
            return bundle
        return {**(self._card._repr_mimebundle_() or {}), **bundle}


def predict(question: str, unit: str, low: float, high: float) -> Prediction:
    """Ask before measuring: as the last line of a cell it shows a card with a number and a button.

    Raises:
        ValueError: low is not below high.
    """
    return Prediction(question, unit, low, high)


@dataclass(frozen=True)
class Answer:
    """The answer to a prediction: the number, its engine, its lowest and highest round, and the simulator's number."""

    asked: Prediction
    measured: float
    engine: str
    spread: tuple[float, float] | None = None
    simulated: float | None = None

    @property
    def maker(self) -> str:
        """`Calculated`, or `Measured` with the engine."""
        return "Calculated" if self.engine == "calculated" else f"Measured ({self.engine})"

    def sentence(self) -> str:
        """The picture in words.

        Example: `Measured (real): 1.12 s (1.1 to 1.2). Your guess of 1.5 s was 0.38 s too high.`
        """
        write, unit = self.asked.write, self.asked.unit
        parts = [f"{self.maker}: {write(self.measured)} {unit}"]
        if self.spread is not None:
            parts[0] += f" ({write(self.spread[0])} to {write(self.spread[1])})"
        if self.simulated is not None:
            parts.append(f"Simulated: {write(self.simulated)} {unit}")
        return ". ".join([*parts, self._judgement()]) + "."

    def _judgement(self) -> str:
        guess, write, unit = self.asked.guess, self.asked.write, self.asked.unit
        if guess is None:
            return "You made no guess"
        lowest, highest = self.spread or (self.measured, self.measured)
        gap = abs(guess - self.measured)
        if lowest <= guess <= highest or gap <= 0.05 * abs(self.measured):
            return f"Your guess of {write(guess)} {unit} was right"
        side = "high" if guess > self.measured else "low"
        return f"Your guess of {write(guess)} {unit} was {write(gap)} {unit} too {side}"

    def marks(self) -> list[tuple[str, float, str, str]]:
        """Name, value, symbol and Okabe-Ito colour, from the bottom of the picture to its top."""
        marks = [(self.maker.lower(), self.measured, "o", "#0072B2")]
        if self.simulated is not None:
            marks.append(("simulated", self.simulated, "s", "#56B4E9"))
        if self.asked.guess is not None:
            marks.append(("your guess", self.asked.guess, "D", "#E69F00"))
        return marks


def _draw(answer: Answer) -> Any:
    """The marks with their names on one axis, as a figure of matplotlib's."""
    from matplotlib.figure import Figure as Canvas  # a canvas of its own: pyplot keeps every figure it makes

    asked, marks = answer.asked, answer.marks()
    canvas = Canvas(figsize=(7, 0.55 * len(marks) + 0.9), dpi=96, layout="constrained")
    axes = canvas.add_subplot()
    for row, (_, value, symbol, colour) in enumerate(marks):
        axes.plot(value, row, symbol, color=colour, markersize=11, markeredgecolor="black")
        axes.annotate(asked.write(value), (value, row), xytext=(0, 9), textcoords="offset points", ha="center")
    if answer.spread is not None and answer.engine != "calculated":
        axes.hlines(0, *answer.spread, color="black", linewidth=2, zorder=0)
    axes.set_yticks(range(len(marks)), [name for name, *_ in marks])
    axes.set_ylim(-0.6, len(marks) - 0.2)
    shown = [value for _, value, *_ in marks] + list(answer.spread or ())
    axes.set_xlim(min(asked.low, *shown), max(asked.high, *shown))
    axes.set_xlabel(asked.unit)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return canvas


def _card(prediction: Prediction) -> Any:
    """The card: question, number, button, and a line that says what was noted."""
    import ipywidgets

    low, high = prediction.low, prediction.high
    number = ipywidgets.BoundedFloatText(value=(low + high) / 2, min=low, max=high, step=(high - low) / 100)
    number.description = prediction.unit
    number.tooltip = prediction.question
    button = ipywidgets.Button(description="Note my guess", tooltip="Keep this number until it is measured")
    note = ipywidgets.HTML(value="No guess yet.")

    def keep(_: Any) -> None:
        prediction.guess = number.value
        note.value = f"Noted: {prediction.guess:g} {prediction.unit}."

    button.on_click(keep)
    question = ipywidgets.HTML(value=f"<strong>Predict.</strong> {escape(prediction.question)}")
    return ipywidgets.VBox([question, ipywidgets.HBox([number, button]), note])
