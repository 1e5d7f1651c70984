"""The guesses of a course with their outcome: kept in the learner's folder, and scored.

A range is a bet, "4 to 1 that the measurement lies in it", so about 80 % of many ranges should hold.
Learners who find 40 % have learned more about their own certainty than a grade would tell.
"""

import json
import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import Any

from pllab.files import write_whole
from pllab.lesson.keeping import home
from pllab.show.theme import count_of, write_number

Guess = float | tuple[float, float]

FILE = "predictions.json"
PROMISED = 0.8
_NEAR = 0.05  # a single number this close counts, however small the spread
_SURPRISING = 0.1
_WIDTH = 96  # of a line that a narrow notebook does not break amid a word
_WHAT_TO_DO = (
    "No guess is kept yet: note one on the card of a lesson, a range if you can, and then run the cell that reveals "
    "the answer."
)


@dataclass(frozen=True)
class Kept:
    """A guess and its outcome; `spread` is the lowest and highest round."""

    question: str
    unit: str
    guess: Guess
    measured: float
    engine: str
    spread: tuple[float, float] | None = None
    counted: bool = False

    @property
    def is_range(self) -> bool:
        """Whether the guess has two ends."""
        return isinstance(self.guess, tuple)

    @property
    def held(self) -> bool:
        """Whether a range contains the measurement, or a number is within its spread or 5 % of it; a count is exact."""
        if isinstance(self.guess, tuple):
            return self.guess[0] <= self.measured <= self.guess[1]
        lowest, highest = self.spread or (self.measured, self.measured)
        near = 0.0 if self.counted else _NEAR * abs(self.measured)
        return lowest <= self.guess <= highest or abs(self.guess - self.measured) <= near

    @property
    def factor(self) -> float | None:
        """The factor between guess and measurement: 2 for 2 measured and 1 or 4 guessed; a range counts by its middle.

        The middle of 1 to 4 is 2, the same factor from either end. None if one of the two is not above 0.
        """
        low, high = ends_of(self.guess)[0], ends_of(self.guess)[-1]
        middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
        if middle <= 0 or self.measured <= 0:
            return None
        return max(middle / self.measured, self.measured / middle)

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ({write_ends(self.spread)})"
        factor = "" if self.factor is None else f", factor {self.factor:.2f}"
        measured = f"{write_number(self.measured)} {self.unit}{spread}, {self.engine}{factor}"
        outcome, guess = "held" if self.held else "missed", f"{write_ends(self.guess)} {self.unit}"
        return f"{outcome}: {self.question} guess {guess}, measured {measured}"


@dataclass(frozen=True)
class Calibration:
    """The score of the course so far: how many ranges held against the 80 % promised, and a row for each question.

    Example, as text:

        3 of 5 ranges held the measurement; promised were 80 %, that is 4. That agrees, as far as 5 ranges can tell.
        Your typical guess was off by a factor of 1.30 (the median).
        missed: Pipeline on two lanes? guess 1.8 to 2 x, measured 1.5 x (1.4 to 1.6), real, factor 1.26
    """

    kept: tuple[Kept, ...]

    def sentences(self) -> list[str]:
        """The score in words."""
        if not self.kept:
            return [_WHAT_TO_DO]
        ranges = [one.held for one in self.kept if one.is_range]
        numbers = [one.held for one in self.kept if not one.is_range]
        factors = [one.factor for one in self.kept if one.factor is not None]
        words = [_of_ranges(sum(ranges), len(ranges))] if ranges else []
        if numbers:
            verb = "was" if len(numbers) == 1 else "were"
            said = f"{sum(numbers)} of {count_of(len(numbers), 'single number')} {verb} right: within the spread"
            words.append(f"{said}, or within {100 * _NEAR:.0f} % of the measurement.")
        if factors:
            words.append(f"Your typical guess was off by a factor of {statistics.median(factors):.2f} (the median).")
        return words

    def __repr__(self) -> str:
        lines = [*self.sentences(), *map(str, self.kept)]
        return "\n".join(fill(line, _WIDTH, subsequent_indent="  ") for line in lines)


def calibration() -> Calibration:
    """Score all guesses of the course that are kept in the learner's folder.

    Example: `calibration()` as the last line of a cell shows the score and a row for each question.

    Raises:
        ValueError: their file is no list of guesses.
    """
    return Calibration(tuple(_read()))


def keep(one: Kept) -> str:
    """Keep a guess, unless this question has one already; return nothing, or a sentence that says why it was not kept.

    It never raises: a folder that cannot be written must not stop a lesson.
    """
    try:
        kept = _read()
        if all((other.question, other.unit) != (one.question, one.unit) for other in kept):
            home().mkdir(parents=True, exist_ok=True)
            rows = [asdict(each) for each in [*kept, one]]
            write_whole(home() / FILE, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    except (OSError, ValueError) as error:  # the words of an OSError name a folder of one machine
        return f"Your guess was not kept: {error.strerror if isinstance(error, OSError) else error}."
    return ""


def ends_of(guess: Guess) -> tuple[float, ...]:
    """A single number alone, or both ends of a range."""
    return guess if isinstance(guess, tuple) else (guess,)


def write_ends(guess: Guess, write: Callable[[float], str] = write_number) -> str:
    """`1 to 2` for a range, `1` for a single number."""
    return " to ".join(map(write, ends_of(guess)))


def _read() -> list[Kept]:
    """The kept guesses; none where there is no file."""
    try:
        return [_kept(row) for row in json.loads((home() / FILE).read_bytes())]
    except FileNotFoundError:
        return []
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise ValueError(f"{FILE} is not a list of guesses; move it away") from None


def _kept(row: dict[str, Any]) -> Kept:
    """A guess from the file, where JSON has lists in place of tuples."""
    pairs = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
    return Kept(**(row | pairs))


def _of_ranges(held: int, count: int) -> str:
    """How many held, and whether chance alone would do that to ranges of 80 %: less than 1 in 10 is worth a word."""
    promised = f"{100 * PROMISED:.0f} %, that is {PROMISED * count:.1f}".removesuffix(".0")
    said = f"{held} of {count_of(count, 'range')} held the measurement; promised were {promised}."
    if _chance(range(held + 1), count) < _SURPRISING:
        return f"{said} Your ranges are too narrow: you feel more certain than you are."
    if _chance(range(held, count + 1), count) < _SURPRISING:
        return f"{said} Your ranges could be narrower: you know more than you say."
    return f"{said} That agrees, as far as {count_of(count, 'range')} can tell."


def _chance(outcomes: range, count: int) -> float:
    """How likely one of these numbers of ranges holds, if each holds with the promised share."""
    return sum(math.comb(count, k) * PROMISED**k * (1 - PROMISED) ** (count - k) for k in outcomes)
