"""The verdict of a check: which cases passed and the hint of the next one, shown as text and as HTML."""

from dataclasses import dataclass
from enum import StrEnum
from html import escape

from pllab.arguments import printable
from pllab.lesson.exercise import Exercise


class Outcome(StrEnum):
    """The outcomes of a check."""

    NOT_ATTEMPTED = "not attempted"
    NOT_YET = "not yet"
    UNDECIDED = "could not decide"
    RIGHT = "right"


class Lines(str):
    """Text that a notebook shows as it is, without quotation marks."""

    __repr__ = str.__str__


_CELL = "text-align:left;vertical-align:top"
_BUSY = "other programs had the machine, and the time ran out; close some of them and run the check again"
# A sign and an Okabe-Ito colour for each outcome; the sign says the same as the colour.
_SIGNS = {
    Outcome.NOT_ATTEMPTED: ("&#9675;", "#999999"),
    Outcome.NOT_YET: ("&#9651;", "#E69F00"),
    Outcome.UNDECIDED: ("?", "#56B4E9"),
    Outcome.RIGHT: ("&#9679;", "#009E73"),
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer of a check: how many of its cases passed, and the hint of the next one if that failed.

    The text holds no time, no path and no process number, so a notebook's stored verdict compares equal to a new one.

    Example, as text:

        09.1 Tasks that remember their pair: not yet
          passed: there is one task for every pair of the schedule
          failed: task k computes pair k, even when it runs late
          hint (late_binding): All tasks computed the last pair.
          not judged yet: the order in which the tasks run does not matter
          more help: open Hint 1 above the check
    """

    exercise: Exercise
    passed: int = 0
    hint_id: str = ""
    hint: str = ""
    where: str = ""
    is_undecided: bool = False
    printed: str = ""
    kept: str = ""

    @property
    def outcome(self) -> Outcome:
        """Right if all cases passed; a function that is neither right nor has a hint was not attempted."""
        if self.is_undecided:
            return Outcome.UNDECIDED
        if self.passed == len(self.exercise.claims):
            return Outcome.RIGHT
        return Outcome.NOT_YET if self.hint_id else Outcome.NOT_ATTEMPTED

    @property
    def title(self) -> str:
        """The exercise and the outcome: `09.1 Tasks that remember their pair: not yet`."""
        return f"{self.exercise.id} {self.exercise.title}: {self.outcome}"

    def rows(self) -> list[tuple[str, str]]:
        """The lines of the verdict as (label, sentence); text from a learner's code moves no cursor, hides nothing."""
        claims = self.exercise.claims
        if self.outcome is Outcome.NOT_ATTEMPTED:
            return [*(("will test", claim) for claim in claims), ("next", "write the function, then run the check")]
        rows = [("passed", claim) for claim in claims[: self.passed]]
        if self.hint_id:
            rows += [("failed", claims[self.passed]), (f"hint ({self.hint_id})", self.hint)]
        rows += [("where", self.where)] if self.where else []
        rows += [("not judged yet", claim) for claim in claims[self.passed + bool(self.hint_id) :]]
        if self.outcome is Outcome.UNDECIDED:
            rows += [("why", _BUSY)]
        if self.outcome is Outcome.NOT_YET:
            rows += [("more help", "open Hint 1 above the check")]
        rows += [("kept", self.kept)] if self.kept else []
        rows += [("your function printed", self.printed)] if self.printed else []
        return [(printable(label), printable(text, keep="\n\t")) for label, text in rows]

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {label}: {text}".replace("\n", "\n    ") for label, text in self.rows())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sign, colour = _SIGNS[self.outcome]
        rows = "".join(
            f'<tr><th scope="row" style="{_CELL};white-space:nowrap">{escape(label)}</th>'
            f'<td style="{_CELL};white-space:pre-wrap">{escape(text)}</td></tr>'
            for label, text in self.rows()
        )
        return (
            f'<div role="status" style="border-left:6px solid {colour};padding:4px 12px">'
            f"<strong>{sign} {escape(self.title)}</strong>"
            f'<table style="margin:4px 0"><tbody>{rows}</tbody></table></div>'
        )
