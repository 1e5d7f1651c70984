"""Checks where Python cannot fork: their processes are spares, and the answers are the same."""

import socket

import pytest

from pllab.comm import fork_server
from pllab.lesson import checking
from tests.lesson.test_asking import answer_to, seen_on_ranks


@pytest.fixture(autouse=True, scope="module")
def _spares():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fork_server, "can_fork", lambda: False)
        patch.delattr(socket, "SO_PASSCRED")  # which Linux alone has
        patch.setattr(fork_server, "_NUM_SPARES", 1)
        server = fork_server.ForkServer("pllab.lesson.answering")
        patch.setattr(checking, "warm_server", lambda *_: server)
        yield
        server.end()


def test_a_function_of_the_case_is_called():
    heard = []
    assert answer_to(lambda asked: asked(heard.append, 3), lambda call, number: call(number)) is None
    assert heard == [3]


@pytest.mark.exhaustive
def test_ranks_answer():
    assert seen_on_ranks(lambda total, _: 2 * total) == [2.0, 2.0]
