"""The verdict of a check: what each case found, shown as text and as HTML."""

from collections.abc import Iterator
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


_CELL = "text-align:left;vertical-align:top"
_MORE_HELP = "open Hint 1 above the check"
_BUSY = "other programs had the machine, and the time ran out; close some of them and run the check again"
# A sign and an Okabe-Ito colour for each outcome; the sign says the same as the colour.
_SIGNS = {
    Outcome.NOT_ATTEMPTED: ("&#9675;", "#999999"),
    Outcome.NOT_YET: ("&#9651;", "#E69F00"),
    Outcome.UNDECIDED: ("?", "#56B4E9"),
    Outcome.RIGHT: ("&#9679;", "#009E73"),
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one case found: passed, failed with its hint, or not judged yet (both are False)."""

    claim: str
    passed: bool = False
    hint_id: str = ""
    hint: str = ""
    where: str = ""

    @property
    def failed(self) -> bool:
        """Whether it was tested and is not right yet."""
        return bool(self.hint_id)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer of a check.

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
    outcome: Outcome
    results: tuple[Result, ...] = ()
    printed: str = ""
    kept: str = ""

    @property
    def title(self) -> str:
        """The exercise and the outcome: `09.1 Tasks that remember their pair: not yet`."""
        return f"{self.exercise.id} {self.exercise.title}: {self.outcome}"

    @property
    def first(self) -> Result:
        """The result that failed, after which no other is judged; an empty one if none failed."""
        return next((result for result in self.results if result.failed), Result(claim=""))

    @property
    def hint_id(self) -> str:
        """The class of the bug."""
        return self.first.hint_id

    def rows(self) -> list[tuple[str, str]]:
        """The lines of the verdict as (label, sentence); text from a learner's code moves no cursor, hides nothing."""
        if self.outcome is Outcome.NOT_ATTEMPTED:
            tested = [("will test", claim) for claim in self.exercise.claims]
            return [*tested, ("next", "write the function, then run the check")]
        rows = list(self._rows_of_results())
        if self.outcome is Outcome.UNDECIDED:
            rows += [("why", _BUSY)]
        if self.outcome is Outcome.NOT_YET:
            rows += [("more help", _MORE_HELP)]
        rows += [("kept", self.kept)] if self.kept else []
        rows += [("your function printed", self.printed)] if self.printed else []
        return [(printable(label), printable(text, keep="\n\t")) for label, text in rows]

    def _rows_of_results(self) -> Iterator[tuple[str, str]]:
        for result in self.results:
            yield ("passed" if result.passed else "failed" if result.failed else "not judged yet"), result.claim
            if result.failed:
                yield f"hint ({result.hint_id})", result.hint
            if result.where:
                yield "where", result.where

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


def refusal(exercise: Exercise, hint_id: str, hint: str) -> Verdict:
    """A "not yet" for the whole, before or instead of the cases; without a hint "not attempted"."""
    if not hint_id:
        return Verdict(exercise=exercise, outcome=Outcome.NOT_ATTEMPTED)
    first, *others = exercise.claims
    results = (Result(claim=first, hint_id=hint_id, hint=hint), *(Result(claim=claim) for claim in others))
    return Verdict(exercise=exercise, outcome=Outcome.NOT_YET, results=results)
