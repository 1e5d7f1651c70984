"""Ask for a number before it is measured, and show both on one axis afterwards.

A guess that is written down is what makes a measurement surprising. The card is two ipywidgets; the figure
after it is an ordinary picture, so a lesson also runs where nobody guesses (Run All, tests, a page on
GitHub).
"""

from html import escape
from typing import Any, Literal

from pllab.timeline import Engine

# ipywidgets, matplotlib and pllab.show are imported inside the functions: the process of a check imports this
# room and needs none of them.


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
        """The question and what was guessed, as text."""
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
    ) -> Any:
        """Draw guess, simulation and measurement on one axis, as a `pllab.show` figure with its sentence.

        measured: in the prediction's unit, made by `engine`; spread: its lowest and highest round.
        """
        from pllab.lesson.reveal import draw_reveal

        return draw_reveal(self, measured, engine, spread, simulated)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        html = f"<p><strong>Predict.</strong> {escape(self.sentence().removeprefix('Predict: '))}</p>"
        bundle: dict[str, Any] = {"text/plain": self.sentence(), "text/html": html}
        try:
            import ipywidgets  # noqa: F401 - only to know whether a card can be drawn
        except ImportError:
            return bundle
        if self._card is None:
            self._card = _card(self)
        drawn = self._card._repr_mimebundle_() or {}
        return {**drawn, **bundle}


def predict(question: str, unit: str, low: float, high: float) -> Prediction:
    """Ask before measuring: as the last line of a cell it shows a card with a number and a button.

    Raises:
        ValueError: low is not below high.
    """
    return Prediction(question, unit, low, high)


def _card(prediction: Prediction) -> Any:
    """The card: question, number, button, and a line that says what was noted."""
    import ipywidgets

    middle = (prediction.low + prediction.high) / 2
    number = ipywidgets.BoundedFloatText(
        value=middle, min=prediction.low, max=prediction.high, step=(prediction.high - prediction.low) / 100
    )
    number.description = prediction.unit
    number.tooltip = prediction.question
    button = ipywidgets.Button(description="Note my guess", tooltip="Keep this number until it is measured")
    said = ipywidgets.HTML(value="No guess yet.")

    def note(_: Any) -> None:
        prediction.guess = number.value
        said.value = f"Noted: {prediction.guess:g} {prediction.unit}."

    button.on_click(note)
    question = ipywidgets.HTML(value=f"<strong>Predict.</strong> {escape(prediction.question)}")
    return ipywidgets.VBox([question, ipywidgets.HBox([number, button]), said])
