"""A check in its own process: every way student code can end is a verdict, and nothing of it is left behind."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial

import psutil
import pytest
import torch

from pllab.lesson import Outcome, asking, check, checking
from pllab.lesson.exercise import find
from pllab.lesson.verdict import Verdict
from tests.comm.test_fork_server import gone
from tests.lesson.judge import cell


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


@pytest.fixture(autouse=True, scope="module")
def _the_server_runs() -> None:
    """The process that forks the checks starts before the processes are counted."""
    check("00.1", lambda items, rank, world_size: items[rank::world_size])


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads, children = set(threading.enumerate()), _children()
    yield
    assert not set(threading.enumerate()) - threads
    _, alive = psutil.wait_procs(_children() - children, timeout=10)
    assert not alive
    assert not list(tmp_path.iterdir())


def test_a_stub_is_not_attempted_and_starts_no_process(monkeypatch):
    def my_share(items, rank, world_size):
        raise NotImplementedError("your turn")

    monkeypatch.setattr(checking, "warm_server", None)
    assert check("00.1", None).outcome is Outcome.NOT_ATTEMPTED
    verdict = check("00.1", my_share)
    assert verdict.outcome is Outcome.NOT_ATTEMPTED
    title, *rows = str(verdict).splitlines()
    assert title == "00.1 My share of the work: not attempted"
    assert [row.partition(":")[0] for row in rows] == ["  will test"] * 3 + ["  next"]


def test_a_stub_that_computes_first_is_not_attempted_either():
    def my_share(items, rank, world_size):
        number = len(items)
        if number >= 0:
            raise NotImplementedError
        return items

    assert check("00.1", my_share).outcome is Outcome.NOT_ATTEMPTED


def test_a_helper_with_a_memory_travels():
    code = "import functools\n@functools.lru_cache(maxsize=None)\ndef step(n):\n    return n and step(n - 1) + 1\n"
    share = "def my_share(items, rank, world_size):\n    return items[rank::step(world_size)]\n"
    assert check("00.1", cell(code + share)["my_share"]).outcome is Outcome.RIGHT


def test_the_first_failure_has_its_hint_and_line_and_the_others_wait():
    def counts_equal_items_once(items, rank, world_size):
        if len(set(items)) < len(items):
            raise KeyError("twice")
        return items[rank::world_size]

    verdict = check("00.1", counts_equal_items_once)
    assert verdict.outcome is Outcome.NOT_YET
    labels = ["passed", "failed", "hint (raised)", "where", "not judged yet", "more help"]
    assert [label for label, _ in verdict.rows()] == labels
    assert "hint (raised)" in verdict._repr_html_()
    assert '<th scope="row"' in verdict._repr_html_()


@pytest.mark.parametrize(
    ("solution", "hint_id", "words"),
    [
        (lambda *_: os._exit(0), "crashed", "before the check was over"),
        (lambda *_: os.abort(), "crashed", "SIGABRT"),
        (lambda *_: sys.exit(), "raised", "SystemExit"),
        (partial(print, threading.Lock()), "cannot_travel", "lock"),
        (lambda *given: type("Deal", (torch.nn.Module,), {})()(*given), "raised", 'missing the required "forward"'),
        (3, "no_function", "The check was given 3, which is no function; pass the function itself."),
        (torch.ones(2), "no_function", "The check was given tensor([1., 1.]), which is no function"),
    ],
)
def test_what_is_no_solution_is_told_and_never_passes(solution, hint_id, words):
    """For a module without a forward torch raises what a stub does."""
    verdict = check("00.1", solution)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, hint_id)
    assert words in verdict.hint


@pytest.mark.exhaustive
def test_a_hang_on_ranks_is_told_under_the_claim_of_the_world_it_was_seen_in():
    def ring_pass(x):
        while True:
            pass

    verdict = check("02.1", ring_pass)
    assert verdict.hint_id == "hang" and verdict.exercise.claims[verdict.passed].startswith("in a world of 2")
    assert verdict.hint.startswith("In a world of 2, rank "), str(verdict)


def test_a_function_that_ends_while_it_is_given_more_time_is_judged(monkeypatch):
    def my_share(items, rank, world_size, waited=[]):  # noqa: B006 - once in its process
        if not waited:
            waited.append(time.sleep(1.0))
        return items[rank::world_size]

    monkeypatch.setattr(asking, "is_starved", lambda pid, wall_s: True)
    monkeypatch.setattr(asking, "PATIENCE", 100)
    assert check("00.1", my_share, deadline_s=0.6).outcome is Outcome.RIGHT


def test_a_verdict_is_shown_without_control_characters():
    """They would move a terminal's cursor, or write from right to left."""
    raised = {"hint_id": "raised\x1b[2J", "hint": "Your function raised \x1b[1A\u202eright"}
    verdict = Verdict(exercise=find("00.1"), printed="a\tb\r\x07\nc", **raised)
    for shown in (str(verdict), verdict._repr_html_()):
        assert not set(shown) & set("\x1b\u202e\r\x07")
        assert "\\x1b[1A\\u202eright" in shown and "a\tb\\r\\x07\n" in shown


def test_threads_and_processes_of_the_student_end_with_the_check_and_what_is_printed_is_shown_and_cut():
    def my_share(items, rank, world_size):
        threading.Thread(target=threading.Event().wait).start()
        print(subprocess.Popen(["sleep", "1000"]).pid)  # noqa: T201 - the student does
        print("x" * 1000)  # noqa: T201
        return items[rank::world_size]

    verdict = check("00.1", my_share)
    assert verdict.outcome is Outcome.RIGHT and str(verdict).count("  passed: ") == 3
    assert "your function printed: " in str(verdict) and 1000 < len(verdict.printed) <= 2000
    assert all(gone(int(line)) for line in verdict.printed.splitlines()[::2])


def test_unknown_exercises_are_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"lesson '00' has 00\.1"):
        check("00.7", None)
    with pytest.raises(ValueError, match="lesson 'nought' has none"):
        check("nought.1", None)
    with pytest.raises(ValueError, match=r"there is no exercise 0\.1"):
        check(0.1, None)


@pytest.mark.parametrize("deadline_s", ["20", 0, -1, float("nan"), float("inf")])
def test_a_deadline_is_a_number_of_seconds(deadline_s):
    with pytest.raises(ValueError, match="deadline_s"):
        check("00.1", None, deadline_s=deadline_s)


def test_a_process_that_ends_before_it_has_its_job_is_a_verdict(monkeypatch):
    """As one that the system ends because its memory is full."""
    monkeypatch.setattr(asking.Conversation, "send", lambda conversation, _: conversation.receive(0.0))
    monkeypatch.setattr(asking.Conversation, "receive", lambda conversation, _: conversation.close() or ended())

    def ended():
        raise asking.Ended("crashed", "It was killed.")

    verdict = check("00.1", lambda items, rank, world_size: items[rank::world_size])
    assert (verdict.hint_id, verdict.hint) == ("crashed", "It was killed.")
