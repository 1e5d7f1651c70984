"""A wrong answer has a name only if a known mistake explains every wrong one, and is shown beside the right one."""

import math
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.lesson.exercise import Wrong
from pllab.lesson.mistakes import Mistake, compare, must_refuse, retold, two_numbers

NUMBERS = [(2,), (3,), (5,)]
TWICE = Mistake("twice", "Double it, and do not square it.", like=lambda n: n * n)
NEGATIVE = Mistake("negative", "It has the wrong sign.", when=lambda answer, n: answer == -2 * n)


def double(n):
    return 2 * n


def told(solution, mistakes=(TWICE, NEGATIVE), **options):
    with pytest.raises(Wrong) as wrong:
        compare(solution, NUMBERS, double, mistakes, asked="n = {}", **options)
    return wrong.value.hint_id, wrong.value.sentence


def test_a_mistake_that_explains_all_wrong_answers_is_named_with_the_first_of_them():
    assert told(lambda n: n * n) == (  # right for 2
        "twice",
        "For n = 3 your function gave 9; right is 6. Double it, and do not square it.",
    )
    assert told(lambda n: -2 * n)[0] == "negative"


def test_answers_that_no_mistake_explains_are_shown():
    assert told(lambda n: n * n if n < 5 else 0) == ("wrong", "For n = 3 your function gave 9; right is 6.")
    assert told(lambda n: None, hint_id="none")[0] == "none"


def test_a_rule_that_fails_on_an_odd_answer_does_not_explain_it():
    larger = Mistake("larger", "", when=lambda answer, n: answer > n)
    assert told(lambda n: "text", [larger])[0] == "wrong"


def test_answers_are_read_and_compared_as_the_check_says():
    compare(lambda n: [2 * n + 1e-12], NUMBERS, double, asked="", read=lambda answer, n: answer[0], same=math.isclose)
    assert told(lambda n: [n], read=lambda answer, n: answer[0], show="<{}>".format)[1].startswith(
        "For n = 2 your function gave <2>; right is <4>."
    )


@given(st.lists(st.integers(), min_size=1))
def test_a_function_that_changes_what_it_is_given_changes_no_question(items):
    def empties(given):
        given.clear()
        return 0

    with pytest.raises(Wrong, match="your function gave 0"):
        compare(empties, [(items,)], lambda given: len(given), asked="{}")


def asked(error):
    """As one that comes from the other process."""
    error.shown = f"{type(error).__name__}: {error}"
    return error


def test_a_question_at_which_the_function_raises_is_shown():
    assert told(Mock(side_effect=asked(ZeroDivisionError("division by zero")))) == (
        "raised",
        "For n = 2 your function raised ZeroDivisionError: division by zero; right is 4.",
    )


def test_an_exception_of_the_check_itself_is_no_answer():
    with pytest.raises(KeyError):
        compare(Mock(side_effect=KeyError), NUMBERS, double, asked="{}")


def test_a_mistake_without_a_rule_explains_what_is_left():
    assert told(lambda n: 0, [TWICE, Mistake("rest", "Double it.")])[0] == "rest"


@pytest.mark.parametrize(
    ("call", "hint_id", "sentence"),
    [
        (lambda: 3, "taken", "For nothing your function gave 3; right is a ValueError, at once."),
        (lambda: [][0], "other", "For nothing your function raised IndexError('list index out of range'); right is"),
    ],
)
def test_what_must_be_refused_and_is_not_is_shown(call, hint_id, sentence):
    with pytest.raises(Wrong) as wrong:
        must_refuse(call, "nothing", "taken", why=", at once", raised_id="other")
    assert wrong.value.hint_id == hint_id
    assert wrong.value.sentence.startswith(sentence)


def test_a_refusal_is_returned():
    assert str(must_refuse(lambda: int("x"), "x", "taken")).startswith("invalid literal")


def retold_to(error, **how):
    with pytest.raises(Wrong) as wrong, retold("other", "Leave it alone.", **how):
        raise error
    assert wrong.value is error, "which has the learner's line"
    return wrong.value.hint_id, wrong.value.sentence


def test_what_is_refused_gets_another_hint_where_its_sentence_has_the_words():
    assert retold_to(Wrong("raised", "It raised.")) == ("other", "It raised. Leave it alone.")
    assert retold_to(Wrong("wrong", "It gave 3."), known_by="raised") == ("wrong", "It gave 3.")
    assert retold_to(Wrong("raised", "It raised."), of="raised") == ("other", "It raised. Leave it alone.")
    assert retold_to(Wrong("wrong", "It gave 'raised'."), of="raised") == ("wrong", "It gave 'raised'.")


def test_two_numbers_are_read_whatever_they_come_in():
    assert two_numbers([1, 2.5], names="a and b") == (1.0, 2.5)
    with pytest.raises(Wrong) as wrong:
        two_numbers(3, names="a and b")
    assert wrong.value.sentence == "Return two numbers, a and b; your function gave 3."
