"""A verdict names one cause: what fails after it may follow from it, and is not judged yet."""

import pytest

from pllab.lesson import Outcome, check
from pllab.lesson.exercise import find
from pllab.lesson.verdict import Result, Verdict
from tests.lesson import mutants_02, mutants_03, mutants_04, mutants_08, mutants_09, mutants_14

long = pytest.mark.exhaustive  # with ranks, with workers that meet, and with all of GPT-2 to import
# Of each, a later case used to name another cause, which was not there.
ONE_CAUSE = [
    ("04.1", "dropped_remainder", mutants_04.DroppedRemainder),
    ("08.1", "too_long", mutants_08.waits_a_tick_between_stages),
    pytest.param("02.1", "no_such_rank", mutants_02.only_in_pairs, marks=long),
    pytest.param("03.2", "short", mutants_03.torchs_chunk, marks=long),
    pytest.param("09.5", "mean_of_means", mutants_09.as_function(mutants_09.MeanOfMeans), marks=long),
    pytest.param("14.3", "split_divided", mutants_14.divides_what_is_split, marks=long),
]


def labels(verdict: Verdict) -> list[str]:
    return [label for label, _ in verdict.rows()]


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


@pytest.mark.parametrize(("exercise_id", "hint_id", "solution"), ONE_CAUSE)
def test_a_wrong_solution_is_told_one_cause(exercise_id, hint_id, solution):
    verdict = check(exercise_id, solution, deadline_s=60.0)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, hint_id), str(verdict)
    assert "not judged yet" in labels(verdict)
    assert labels(verdict).count("failed") == sum(label.startswith("hint (") for label in labels(verdict)) == 1


@pytest.mark.exhaustive
def test_a_pass_that_never_ends_is_told_under_the_claim_of_the_world_it_was_seen_in():
    def ring_pass(x):
        while True:
            pass

    verdict = check("02.1", ring_pass)
    assert verdict.hint_id == "hang" and verdict.first.claim.startswith("in a world of 2")
    assert verdict.first.hint.startswith("In a world of 2, rank "), str(verdict)
