"""A verdict names one cause: what fails after it may follow from it, and is not judged yet."""

import pytest

from pllab.lesson import Outcome, check
from pllab.lesson.exercise import find
from pllab.lesson.verdict import Result, Verdict


def test_only_the_first_failure_is_named_in_every_form():
    results = (
        Result(claim="a", passed=True),
        Result(claim="b", hint_id="cause", hint="the cause", where="line 1"),
        Result(claim="c", hint_id="cause", hint="the cause"),
        Result(claim="d", passed=True),
        Result(claim="e", hint_id="other", hint="what follows", where="line 2"),
        Result(claim="f"),
    )
    verdict = Verdict(exercise=find("00.1"), outcome=Outcome.NOT_YET, results=results)
    assert verdict.rows()[:-1] == [
        ("passed", "a"),
        ("failed", "b"),
        ("hint (cause)", "the cause"),
        ("where", "line 1"),
        ("not judged yet", "c"),
        ("passed", "d"),
        ("not judged yet", "e"),
        ("not judged yet", "f"),
    ]
    for text in (str(verdict), verdict._repr_html_()):
        assert "the cause" in text and "what follows" not in text and "line 2" not in text
    assert verdict.hint_id == "cause"


@pytest.mark.exhaustive
def test_a_pass_that_never_ends_is_told_under_the_claim_of_the_world_it_was_seen_in():
    def ring_pass(x):
        while True:
            pass

    verdict = check("02.1", ring_pass)
    assert verdict.hint_id == "hang" and verdict.first.claim.startswith("in a world of 2")
    assert verdict.first.hint.startswith("In a world of 2, rank "), str(verdict)
