"""Ask for a number before it is measured, and show both on one axis afterwards.

Only a guess that was written down makes a measurement surprising, and a range says how certain one was. The card is a
few ipywidgets; the figure after it is an ordinary picture, so a lesson also runs without a guess (Run All, tests, a
page on GitHub). What became of a guess is kept for the score of the course, see `guesses.py`.

In a class each card also leaves a small file in a shared folder, and one call draws them all. There is no server.
PLLAB_CLASS names a folder that all can write, on a share or on the machine that all use; without it nothing is sent. A
file holds a guess and no name. What lies in the folder was written by others, so it is read with bounds: so many files,
each a small plain one, with numbers on the axis.
"""

import hashlib
import itertools
import json
import math
import os
import re
import socket
import statistics
from html import escape
from pathlib import Path
from typing import Any, Literal

from pllab.arguments import require
from pllab.comm.processes import text_of
from pllab.files import write_whole
from pllab.lesson.guesses import Guess, Kept, ends_of, keep, write_ends
from pllab.lesson.keeping import home
from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import count_of, write_number
from pllab.timeline import Engine

# ipywidgets and matplotlib are imported inside the functions: the process of a check imports this room without them.

MOST_FILES = 1000  # of one question
_MOST_BYTES = 200
_NO_FOLDER = "no folder of a class is named; set PLLAB_CLASS to one that all can write, before JupyterLab starts"


class Prediction:
    """A question with an axis, the learner's guess, and later the truth.

    As the last line of a cell it shows a card with two boxes and a button.

    question: what is measured, in one sentence.
    unit: of the answer.
    low: the lower end of the axis, in that unit.
    high: the upper end.
    counted: the answer is a whole number, so only whole numbers are taken.

    Example:
        how_long = predict("Two ranks share a job of 2 s. How long?", unit="s", low=0, high=4)
        how_long.guess = 1.5  # or by the card's button
        how_long.guess = (1.0, 2.0)  # a range that you would bet 4 to 1 on
        how_long.reveal(1.02, engine="emulated", spread=(1.01, 1.04))

    The first `reveal` is final: the guess at that moment is kept for `calibration`, and a later one is refused.
    """

    def __init__(self, question: str, unit: str, low: float, high: float, counted: bool = False) -> None:
        self.question = question
        self.unit = unit
        self.low = low
        self.high = high
        self.counted = counted
        self._guess: Guess | None = None
        self._is_revealed = False
        self._not_sent = ""
        self._card: Any = None

    @property
    def guess(self) -> Guess | None:
        """The learner's number or range in the prediction's unit, None before a guess."""
        return self._guess

    @guess.setter
    def guess(self, value: Any) -> None:
        require(not self._is_revealed, "the answer was revealed before, so a guess does not count any more")
        self._guess = self.checked(value)
        self._not_sent = send_guess(self, self._guess)

    def checked(self, value: Any) -> Guess:
        """A number on the axis, or a range on it from its lower to its higher end.

        Raises:
            ValueError: it is neither, outside the axis, or no whole number where things are counted.
        """
        try:
            ends = sorted({float(end) for end in (value if isinstance(value, tuple | list) else [value])})
        except (TypeError, ValueError):
            ends = []
        require(len(ends) in (1, 2), f"a guess is a number or a range (low, high), not {value!r}")
        axis = f"the axis from {self.low:g} to {self.high:g} {self.unit}"
        for end in ends:
            require(self.low <= end <= self.high, f"a guess of {end:g} lies outside {axis}; choose one inside")
            is_fine = end.is_integer() or not self.counted
            require(is_fine, f"a guess of {end:g} is refused, the answer is counted; choose a whole number")
        return (ends[0], ends[1]) if len(ends) == 2 else ends[0]

    def sentence(self) -> str:
        """The question and the guess, as text."""
        noted = "no guess yet" if self._guess is None else f"your guess: {self.write_guess()}"
        return f"Predict: {self.question} ({noted})"

    __repr__ = sentence

    def reveal(
        self,
        measured: float,
        *,
        engine: Engine | Literal["calculated"],
        spread: tuple[float, float] | None = None,
        simulated: float | None = None,
        calculated: float | None = None,
    ) -> Figure:
        """Draw guess, expectation and measurement on one axis; the text alternative says the same.

        measured: in the prediction's unit, made by `engine`; spread: its lowest and highest round; simulated,
        calculated: what the simulator or a closed form expected.

        Raises:
            ValueError: the measurement is infinite or no number.
        """
        require(math.isfinite(measured), f"the measurement is {measured}; measure again")
        maker = engine.capitalize() if engine in ("calculated", "simulated") else f"Measured ({engine})"
        expected = (("Simulated", simulated), ("Calculated", calculated))
        told = [(maker, float(measured)), *((name, value) for name, value in expected if value is not None)]
        parts = [f"{name}: {self.write(value)} {self.unit_of(value)}" for name, value in told]
        ends = None if spread is None else (float(spread[0]), float(spread[1]))
        if ends is not None:
            parts[0] += f" ({write_ends(ends, self.write)})"
        if self._guess is None:
            sentence = ". ".join([*parts, "You made no guess."])
        else:
            kept = Kept(self.question, self.unit, self._guess, float(measured), engine, ends, self.counted)
            sentence = f"{'. '.join([*parts, self._judgement(kept)])}. {keep(kept)}".rstrip()
        self._is_revealed = True
        canvas = _draw(self, told, ends if engine != "calculated" else None)
        return figure(canvas, sentence, caption=f"{self.question} {sentence}")

    def _judgement(self, kept: Kept) -> str:
        ends, what = ends_of(kept.guess), "range" if kept.is_range else "guess"
        said = f"Your {what} of {write_ends(kept.guess, self.write)} {self.unit_of(kept.guess)}"
        if kept.held:
            return f"{said} {'holds it' if kept.is_range else 'was right'}"
        is_high = ends[0] > kept.measured
        gap = ends[0] - kept.measured if is_high else kept.measured - ends[-1]
        verb = "lies" if kept.is_range else "was"
        return f"{said} {verb} {self.write(gap)} {self.unit_of(gap)} too {'high' if is_high else 'low'}"

    @property
    def noted(self) -> str:
        """What the card says under its button."""
        return f"Noted: {self.write_guess()}. {self._not_sent}".rstrip() if self._guess is not None else "No guess yet."

    def write_guess(self) -> str:
        """The guess with its unit: `1.5 s` or `1 to 2 s`; empty without one."""
        if self._guess is None:
            return ""
        return f"{write_ends(self._guess, '{:g}'.format)} {self.unit_of(self._guess)}"

    def unit_of(self, value: Guess) -> str:
        """The unit after a number or a range: of what is counted, `1 rank` or `1 micro-batch`, and not `1 ranks`."""
        is_one = self.counted and value == 1 and " " not in self.unit
        return re.sub("(?<=h)es$|s$", "", self.unit) if is_one else self.unit

    def write(self, value: float) -> str:
        """Three digits; a number too small for the axis is only bounded: on 0 to 20, 8e-06 is `below 0.01`."""
        smallest: float = 10.0 ** math.floor(math.log10((self.high - self.low) / 1000))
        return f"below {smallest:g}" if 0 < value < smallest else write_number(value)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        html = f"<p><strong>Predict.</strong> {escape(self.sentence().removeprefix('Predict: '))}</p>"
        self._card = self._card or _card(self)
        return {**(self._card._repr_mimebundle_() or {}), "text/plain": self.sentence(), "text/html": html}


predict = Prediction  # as lessons call it


def _draw(asked: Prediction, told: list[tuple[str, float]], spread: tuple[float, float] | None) -> Any:
    """The numbers and the guess on one axis, each with its name, as a figure of matplotlib's; a range is a bar."""
    from matplotlib.figure import Figure as Canvas  # a canvas of its own: pyplot keeps every figure it makes

    marks: list[tuple[str, Guess, str, str]]  # name, value, symbol and Okabe-Ito colour
    marks = [(name.lower(), value, "s", "#56B4E9") for name, value in told]
    marks[0] = (*marks[0][:2], "o", "#0072B2")
    if asked.guess is not None:
        marks.append(("your range" if isinstance(asked.guess, tuple) else "your guess", asked.guess, "D", "#E69F00"))
    canvas = Canvas(figsize=(7, 0.55 * len(marks) + 0.9), dpi=96, layout="constrained")
    axes = canvas.add_subplot()
    for row, (_, value, symbol, colour) in enumerate(marks):
        ends = ends_of(value)
        if len(ends) == 2:
            axes.barh(row, ends[1] - ends[0], left=ends[0], height=0.28, color=colour, edgecolor="black")
        else:
            axes.plot(value, row, symbol, color=colour, markersize=11, markeredgecolor="black", clip_on=False)
        text, middle = write_ends(value, asked.write), sum(ends) / len(ends)
        axes.annotate(text, (middle, row), xytext=(0, 9), textcoords="offset points", ha="center")
    if spread is not None:
        axes.hlines(0, *spread, color="black", linewidth=2, zorder=0)
    axes.set_yticks(range(len(marks)), [name for name, *_ in marks])
    axes.set_ylim(-0.6, len(marks) - 0.2)
    shown = [end for _, value, *_ in marks for end in ends_of(value)] + list(spread or ())
    axes.set_xlim(min(asked.low, *shown), max(asked.high, *shown))
    if asked.counted:
        axes.locator_params("x", integer=True)
    axes.set_xlabel(asked.unit)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return canvas


def _card(asked: Prediction) -> Any:
    """The card: question, both ends of the range, unit, button, and a line that says what was noted."""
    import ipywidgets

    boxes = [
        ipywidgets.Text(
            description=name,
            tooltip=f"{asked.question} {which}, in {asked.unit}",
            layout={"width": "120px"},
            style={"description_width": "initial"},
        )
        for name, which in (("from", "Your number, or the lower end of your range"), ("to", "Upper end of your range"))
    ]
    unit = ipywidgets.Label(value=asked.unit)
    button = ipywidgets.Button(description="Note my guess", tooltip="Keep this guess until it is measured")
    note = ipywidgets.HTML(value=escape(asked.noted))

    def store(_: Any) -> None:
        try:
            asked.guess = [box.value for box in boxes if box.value.strip()]
            note.value = escape(asked.noted)
        except ValueError as error:
            note.value = escape(f"Not noted: {error}.")

    button.on_click(store)
    question = ipywidgets.HTML(value=f"<strong>Predict.</strong> {escape(asked.question)}")
    what = "whole number" if asked.counted else "number"
    how = ipywidgets.HTML(
        value=f"From {asked.low:g} to {asked.high:g}: a {what}, or a range that you would bet 4 to 1 on.",
        style={"font_size": "0.9em"},
    )
    return ipywidgets.VBox([question, ipywidgets.HBox([*boxes, unit, button]), how, note])


def send_guess(asked: Prediction, guess: Guess, folder: str | Path = "", learner: str = "") -> str:
    """Put a guess into the folder of the class; return nothing, or in a sentence why it was not sent.

    A learner's later guess to the same question replaces the earlier one.

    Args:
        asked: the prediction.
        guess: a number or a range.
        folder: by default what PLLAB_CLASS names; without either nothing happens.
        learner: whose guess it is, by default this login and folder; the file's name has a hash of it.
    """
    if not (named := str(folder) or os.environ.get("PLLAB_CLASS")):
        return ""
    try:
        who = learner or f"{os.environ.get('JUPYTERHUB_USER')} {os.getuid()} {socket.gethostname()} {home().resolve()}"
        write_whole(Path(named) / f"{_key(asked)}-{_short(who)}.json", json.dumps(guess))
    except OSError as error:
        return f"Your guess was not sent to the class: {error.strerror or type(error).__name__}."
    return ""


def class_guesses(asked: Prediction, folder: str | Path = "") -> Figure:
    """Draw how often the class guessed what; of a range its middle counts.

    Example: `class_guesses(how_long)`, in a cell below the card, before the answer is revealed.

    Args:
        asked: the prediction, as the cards of the class have it: same question, same unit.
        folder: by default what PLLAB_CLASS names.

    Raises:
        ValueError: no folder is named.
        OSError: it cannot be read.
    """
    named = str(folder) or os.environ.get("PLLAB_CLASS", "")
    require(bool(named), _NO_FOLDER)
    ours = [file for file in Path(named).iterdir() if file.name.startswith(f"{_key(asked)}-")]
    middles, left_out = list[float](), 0
    for file in ours[:MOST_FILES]:
        try:
            guess = asked.checked(json.loads(text_of(file, _MOST_BYTES)))  # nothing of a link or a pipe
            middles.append(statistics.mean(ends_of(guess)))
        except (OSError, ValueError):
            left_out += 1
    return _histogram(asked, middles, f"{count_of(left_out, 'file')} could not be used." if left_out else "")


def _key(asked: Prediction) -> str:
    return _short(f"{asked.question}\n{asked.unit}")


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _histogram(asked: Prediction, middles: list[float], note: str) -> Figure:
    """A bar for each whole number where things are counted, otherwise for each tenth of the axis."""
    low, high = asked.low, asked.high
    edges = [*(low + (high - low) * number / 10 for number in range(10)), high]
    if asked.counted:
        edges = [low - 0.5 + number for number in range(int(high - low) + 2)]  # the number stands in the middle
    with drawing(7, 2.2, layout="constrained") as fig:
        axes = fig.add_subplot(xlabel=asked.unit, ylabel="learners", xlim=(edges[0], edges[-1]))
        heights, *_ = axes.hist(middles, edges, rwidth=0.9, color="#E69F00", edgecolor="black")
        axes.locator_params(axis="y", integer=True)
        axes.spines[["top", "right"]].set_visible(False)
    places = [
        f"{height:g} at {left + 0.5:g}" if asked.counted else f"{height:g} from {left:g} to {right:g}"
        for height, (left, right) in zip(heights, itertools.pairwise(edges), strict=True)
        if height
    ]
    said = f"{count_of(len(middles), 'learner')} guessed"
    if middles:
        middle = statistics.median(middles)
        said += f": {', '.join(places)}; the middle one is {write_number(middle)} {asked.unit_of(middle)}"
    said = f"{said}. {note}".rstrip()
    return figure(fig, said, caption=f"{asked.question} {said}")
