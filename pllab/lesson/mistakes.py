"""Answers compared with the truth: a known mistake that explains all wrong ones is named, any other answer shown.

questions      (8, 4)   (4, 8)   (5, 3)
the truth      3/11     7/11     2/7
the answers    3/8      7/4      2/5        wrong, and `(p - 1) / m` gives the same: that mistake is named
the answers    3/11     7/11     1/7        wrong, as no known mistake is: the last question is shown, with 2/7
"""

import math
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

    like: `like(*question)` answers like someone who makes it.
    when: `when(answer, *question)` holds for the answers of someone who makes it; takes the place of `like`. A mistake
        with neither explains whatever is wrong.

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
            return self.when is None or bool(self.when(answer, *question))
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
    wrong = []
    for question in list(questions):
        with _shown_if_it_raises(asked.format(*question), partial(truth, *question), show):
            answer = solution(*deepcopy(question))
        answer = read(answer, *question)
        if not same(answer, truth(*question)):
            wrong.append((answer, question))
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
    """Say at which question the learner's function raised; exceptions of the check itself pass unchanged."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, "shown"):
            raise
        told = f"For {question} your function raised {error.shown}"
        raise Wrong("raised", f"{told}; right is {show(right())}.") from error


def must_refuse(call: Callable[[], Any], asked: str, hint_id: str, *, why: str = "", raised_id: str = "") -> ValueError:
    """The ValueError that `call()` must raise.

    Example: `must_refuse(lambda: rate([1, 2], [1.0]), "2 batches and 1 time", "no_value_error")` refuses with "For 2
    batches and 1 time your function gave 3.0; right is a ValueError."

    asked: what the call asks for, in words.
    why: goes on after "right is a ValueError".
    raised_id: the hint if it raised something else and that has its own hint.

    Raises:
        Wrong: it returned, or raised something else.
    """
    try:
        found = f"gave {call()!r:.60}"
    except ValueError as error:
        return error
    except Exception as error:
        shown = getattr(error, "shown", repr(error))
        sentence = f"For {asked} your function raised {shown}; right is a ValueError{why}."
        raise Wrong(raised_id or hint_id, sentence) from error
    raise Wrong(hint_id, f"For {asked} your function {found}; right is a ValueError{why}.")


@contextmanager
def retold(hint_id: str, advice: str, *, of: str = "", known_by: str = "") -> Iterator[None]:
    """Give a refusal inside the block another hint and more advice; it keeps the learner's line.

    of: the hint that is replaced; by default any.
    known_by: words of its sentence; by default any.

    Example: `with retold("none_gradient", "Frozen weights have none.", of="raised")`
    """
    try:
        yield
    except Wrong as wrong:
        if of in ("", wrong.hint_id) and known_by in wrong.sentence:
            wrong.hint_id, wrong.sentence = hint_id, f"{wrong.sentence} {advice}"
        raise


def numbers_close(got: Iterable[float], right: Iterable[float], **tolerance: float) -> bool:
    """Whether two rows have the same numbers but for rounding; the tolerances are those of `math.isclose`."""
    return all(math.isclose(*pair, **tolerance) for pair in zip(got, right, strict=True))


def whole(number: Any) -> int:
    """A whole number, also of another library or as text.

    Raises:
        ValueError: it is none, or has a fraction, which `int` would cut off.
    """
    if not (exact := float(number)).is_integer():
        raise ValueError(number)
    return int(exact)


def two_numbers(answer: Any, *_: Any, names: str, hint_id: str = "no_pair") -> tuple[float, float]:
    """The answer as the two numbers of these names, such as "alpha and beta".

    Raises:
        Wrong: it is something else.
    """
    try:
        first, second = answer
        return float(first), float(second)
    except (TypeError, ValueError):
        raise Wrong(hint_id, f"Return two numbers, {names}; your function gave {answer!r}.") from None
