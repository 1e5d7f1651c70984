"""A verdict names one cause, under the claim where it showed."""

import pytest

from pllab.lesson import Outcome, check
from pllab.lesson.exercise import find
from pllab.lesson.verdict import Result, Verdict


def test_a_failure_stands_with_its_hint_among_what_passed_and_what_was_not_judged():
    results = (
        Result(claim="a", passed=True),
        Result(claim="b", hint_id="cause", hint="the cause", where="line 1"),
        Result(claim="c"),
    )
    verdict = Verdict(exercise=find("00.1"), outcome=Outcome.NOT_YET, results=results)
    assert verdict.rows()[:-1] == [
        ("passed", "a"),
        ("failed", "b"),
        ("hint (cause)", "the cause"),
        ("where", "line 1"),
        ("not judged yet", "c"),
    ]
    assert verdict.hint_id == "cause"


@pytest.mark.exhaustive
def test_a_pass_that_never_ends_is_told_under_the_claim_of_the_world_it_was_seen_in():
    def ring_pass(x):
        while True:
            pass

    verdict = check("02.1", ring_pass)
    assert verdict.hint_id == "hang" and verdict.first.claim.startswith("in a world of 2")
    assert verdict.first.hint.startswith("In a world of 2, rank "), str(verdict)
