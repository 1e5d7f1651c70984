"""Answers held against the truth: a well-known mistake that explains all wrong ones has a name, any other is shown.

questions      (8, 4)   (4, 8)   (5, 3)
the truth      3/11     7/11     2/7
the answers    3/8      7/4      2/5        wrong, and `(p - 1) / m` gives the same: that mistake is named
the answers    3/11     7/11     1/7        wrong, as no known mistake is: the last question is shown, with 2/7
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from pllab.lesson.exercise import Asked, Wrong

Question = tuple[Any, ...]


@dataclass(frozen=True)
class Mistake:
    """A mistake that people make: the id of its hint, a sentence that teaches, and how it is known.

    like: `like(*question)` answers as someone who makes it.
    when: `when(answer, *question)` holds for the answers of someone who makes it; takes the place of `like`.

    Example: `Mistake("overhead", "That divides by busy time.", like=lambda m, p: (p - 1) / m)`
    """

    hint_id: str
    sentence: str
    like: Callable[..., Any] | None = None
    when: Callable[..., Any] | None = None

    def explains(self, answer: Any, question: Question, same: Callable[[Any, Any], Any]) -> bool:
        """Whether this mistake gives this answer; a rule that fails on an odd answer does not explain it."""
        try:
            if self.like is not None:
                return bool(same(answer, self.like(*question)))
            return bool(self.when and self.when(answer, *question))
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            return False


def compare(
    solution: Asked | Callable[..., Any],
    questions: Iterable[Question],
    truth: Callable[..., Any],
    mistakes: Sequence[Mistake] = (),
    *,
    asked: str,
    read: Callable[..., Any] = lambda answer, *_: answer,
    same: Callable[[Any, Any], Any] = operator.eq,
    show: Callable[[Any], str] = str,
    tell: Callable[[Any, Any], str] | None = None,
    hint_id: str = "wrong",
) -> None:
    """Ask all questions and compare every answer with `truth(*question)`.

    Example: `compare(bubbles, [(8, 4), (4, 8)], fraction, MISTAKES, asked="m = {} and p = {}", same=math.isclose)`
    refuses with "For m = 8 and p = 4 your function gave 0.5; right is 0.2727272727272727."

    asked: the question in words, with a place for each argument.
    read: `read(answer, *question)` takes the part of an answer that is compared; raises `Wrong` if it has no such form.
    same: `same(answer, right)`.
    show: an answer in words.
    tell: `tell(answer, right)` is both in words, for answers too large to show, such as "2.5 at [1]; right is 2".
    hint_id: the hint of a wrong answer that no mistake explains.

    Raises:
        Wrong: an answer is wrong; with the first mistake that explains every wrong answer, or else with the first
            wrong answer and the right one. Or the function raised; the hint is "raised" then.
    """
    questions = list(questions)
    answers = []
    for question in questions:
        with _shown_if_it_raises(asked.format(*question), partial(truth, *question), show):
            answer = solution(*deepcopy(question))
        answers.append(read(answer, *question))
    wrong = [
        (answer, question)
        for answer, question in zip(answers, questions, strict=True)
        if not same(answer, truth(*question))
    ]
    if not wrong:
        return
    answer, question = wrong[0]
    right = truth(*question)
    both = tell(answer, right) if tell else f"{show(answer)}; right is {show(right)}"
    shown = f"For {asked.format(*question)} your function gave {both}."
    for mistake in mistakes:
        if all(mistake.explains(*each, same) for each in wrong):
            raise Wrong(mistake.hint_id, f"{shown} {mistake.sentence}")
    raise Wrong(hint_id, shown)


@contextmanager
def _shown_if_it_raises(question: str, right: Callable[[], Any], show: Callable[[Any], str]) -> Iterator[None]:
    """Say at which question the learner's function raised; what the check itself raises goes on as it is."""
    try:
        yield
    except NotImplementedError:
        raise
    except Exception as error:
        if not hasattr(error, "shown"):
            raise
        raise Wrong(
            "raised", f"For {question} your function raised {error.shown}; right is {show(right())}."
        ) from error
