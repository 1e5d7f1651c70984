"""What a check says: not attempted, not yet with a hint, or right; as text, as HTML and as a value.

The text holds no time, no path and no process number, so that a notebook's stored verdict can be compared
with a new one.
"""

from dataclasses import dataclass
from enum import StrEnum
from html import escape

from pllab.lesson.exercise import Exercise


class Outcome(StrEnum):
    """The three things a check can say."""

    NOT_ATTEMPTED = "not attempted"
    NOT_YET = "not yet"
    RIGHT = "right"


class NotRight(AssertionError):
    """Raised instead of shown when checks are strict; the message is the verdict's text."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer of a check.

    Example, as text:

        09.1 Tasks that remember their pair: not yet
          passed: there is one task for every pair of the schedule
          failed: task k computes pair k, even when it runs late
          hint (late_binding): All tasks computed the last pair.
          not tested yet: the order in which the tasks run does not matter
          more help: open Hint 1 above the check, or run: from pllab.lesson import hints; hints("09.1", 1)
    """

    exercise: Exercise
    outcome: Outcome
    num_passed: int = 0
    hint_id: str = ""
    hint: str = ""
    printed: str = ""
    where: str = ""

    def rows(self) -> list[tuple[str, str]]:
        """The lines of the verdict as (label, sentence)."""
        claims = self.exercise.claims
        if self.outcome is Outcome.NOT_ATTEMPTED:
            return [("will test", claim) for claim in claims] + [("next", "write the function, then run the check")]
        rows = [("passed", claim) for claim in claims[: self.num_passed]]
        if self.outcome is Outcome.NOT_YET:
            rows += [("failed", claim) for claim in claims[self.num_passed : self.num_passed + 1]]
            rows += [(f"hint ({self.hint_id})", self.hint)]
            rows += [("where", self.where)] if self.where else []
            rows += [("not tested yet", claim) for claim in claims[self.num_passed + 1 :]]
            rows += [("more help", _MORE_HELP.format(id=self.exercise.id))]
        return rows + ([("your function printed", self.printed)] if self.printed else [])

    def __str__(self) -> str:
        head = f"{self.exercise.id} {self.exercise.title}: {self.outcome}"
        return "\n".join([head, *(f"  {label}: {text}".replace("\n", "\n    ") for label, text in self.rows())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sign, colour = _SIGNS[self.outcome]
        title = f"{self.exercise.id} {self.exercise.title}: {self.outcome}"
        rows = "".join(
            f'<tr><th scope="row" style="{_CELL};white-space:nowrap">{escape(label)}</th>'
            f'<td style="{_CELL};white-space:pre-wrap">{escape(text)}</td></tr>'
            for label, text in self.rows()
        )
        return (
            f'<div role="status" style="border-left:6px solid {colour};padding:4px 12px">'
            f"<strong>{sign} {escape(title)}</strong>"
            f'<table style="margin:4px 0"><tbody>{rows}</tbody></table></div>'
        )


_CELL = "text-align:left;vertical-align:top"

_MORE_HELP = 'open Hint 1 above the check, or run: from pllab.lesson import hints; hints("{id}", 1)'

# A sign and an Okabe-Ito colour for each outcome; the sign says the same as the colour.
_SIGNS = {
    Outcome.NOT_ATTEMPTED: ("&#9675;", "#999999"),
    Outcome.NOT_YET: ("&#9651;", "#E69F00"),
    Outcome.RIGHT: ("&#9679;", "#009E73"),
}
