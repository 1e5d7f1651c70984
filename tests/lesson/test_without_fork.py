"""Checks where Python cannot fork: their processes are spares, and the verdicts are the same."""

import os
import subprocess
import sys

import pytest

from pllab.comm import fork_server
from pllab.lesson import Outcome, check, checking, conversation
from pllab.lesson.exercise import Case, Wrong
from tests.comm.test_fork_server import gone
from tests.lesson.test_asking import sum_of_ranks, verdict_on
from tests.tiers import exhaustive

FORKLESS = "import os\n\ndel os.fork\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Spares for this process and all below it, where `os.fork` is not there."""
    folder = tmp_path_factory.mktemp("forkless")
    (folder / "sitecustomize.py").write_text(FORKLESS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        patch.delattr(os, "fork")
        patch.setattr(fork_server, "_NUM_SPARES", 1)
        server = fork_server.ForkServer("pllab.lesson.answering")
        patch.setattr(checking, "warm_server", lambda *_: server)
        yield server
        server.end()


def test_python_cannot_fork_there(server):
    told = subprocess.run([sys.executable, "-c", "import os; os.fork()"], capture_output=True, text=True, check=False)
    assert "has no attribute 'fork'" in told.stderr


def calls_back(solution):
    heard = []
    if solution(heard.append) is not None or heard != [os.getpid()]:
        raise Wrong("not_called", "It was not called.")


def on_ranks(solution):
    if solution.on_ranks(sum_of_ranks, 2) != [2.0, 2.0]:
        raise Wrong("no_double", "It is not twice the sum.")


OWN = os.getpid()


@pytest.mark.parametrize(
    ("test", "solution", "hint_id"),
    [
        (calls_back, lambda call: call(OWN), ""),
        (calls_back, lambda call: None, "not_called"),
        *exhaustive(
            (on_ranks, lambda total, _: 2 * total, ""),
            (on_ranks, lambda total, _: total, "no_double"),
        ),
    ],
)
def test_callbacks_and_ranks_are_judged(server, test, solution, hint_id):
    verdict = verdict_on(Case("it answers", test), solution)
    assert verdict.hint_id == hint_id and verdict.outcome is not Outcome.UNDECIDED, str(verdict)


def test_a_function_that_never_answers_is_ended_with_what_it_started(server, monkeypatch):
    """Also on a busy machine, where a check would say that it could not decide."""
    monkeypatch.setattr(conversation, "is_starved", lambda *_: False)

    def my_share(items, rank, world_size):
        print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)  # noqa: T201 - the student does
        while True:
            pass

    verdict = check("00.1", my_share, deadline_s=3.0)
    assert verdict.hint_id == "hang" and "within 3 s" in verdict.first.hint
    assert gone(int(verdict.printed))
