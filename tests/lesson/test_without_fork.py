"""Checks where Python cannot fork: their processes are spares, and the verdicts are the same."""

import os

import pytest

from pllab.comm import fork_server
from pllab.lesson import Outcome, checking
from pllab.lesson.exercise import Case, Wrong
from tests.lesson.test_asking import sum_of_ranks, verdict_on
from tests.tiers import exhaustive

OWN = os.getpid()


@pytest.fixture(autouse=True, scope="module")
def _spares():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fork_server, "can_fork", lambda: False)
        patch.setattr(fork_server, "_NUM_SPARES", 1)
        server = fork_server.ForkServer("pllab.lesson.answering")
        patch.setattr(checking, "warm_server", lambda *_: server)
        yield
        server.end()


def calls_back(solution):
    heard = []
    if solution(heard.append) is not None or heard != [OWN]:
        raise Wrong("not_called", "It was not called.")


def on_ranks(solution):
    if solution.on_ranks(sum_of_ranks, 2) != [2.0, 2.0]:
        raise Wrong("no_double", "It is not twice the sum.")


@pytest.mark.parametrize(
    ("test", "solution", "hint_id"),
    [
        (calls_back, lambda call: call(OWN), ""),
        (calls_back, lambda call: None, "not_called"),
        *exhaustive((on_ranks, lambda total, _: 2 * total, ""), (on_ranks, lambda total, _: total, "no_double")),
    ],
)
def test_callbacks_and_ranks_are_judged(test, solution, hint_id):
    verdict = verdict_on(Case("it answers", test), solution)
    assert verdict.hint_id == hint_id and verdict.outcome is not Outcome.UNDECIDED, str(verdict)
