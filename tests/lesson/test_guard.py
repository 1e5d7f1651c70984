"""Whoever speaks for the check, changes it, leaves it, or hands back the package's own function does not pass."""

import functools
import gc
import importlib
import inspect
import os
import subprocess
import sys
import traceback

import cloudpickle
import pytest
import torch

import pllab.parallel
from pllab.lesson import Outcome, check
from pllab.lesson.exercises import lesson_09_compute
from tests.lesson.variants_09 import two_loops as right


def speak_through(frame):
    """Walk outwards to the function that writes the report, say that all is right, and leave."""
    while frame:
        write = frame.f_locals.get("write")
        if callable(write):
            for number in range(3):
                write(event="passed", number=number)
            write(event="done")
            os._exit(0)
        frame = frame.f_back


def by_getframe(*arguments):
    speak_through(sys._getframe())


def by_inspect(*arguments):
    speak_through(inspect.currentframe())


def by_stack(*arguments):
    speak_through(inspect.stack()[0].frame)


def by_traceback(*arguments):
    try:
        raise ValueError
    except ValueError as error:
        speak_through(error.__traceback__.tb_frame)


def by_walking(*arguments):
    for frame, _ in traceback.walk_stack(None):
        speak_through(frame)


def by_other_threads(*arguments):
    for frame in sys._current_frames().values():
        speak_through(frame)


def by_generator(*arguments):
    def look():
        yield walker.gi_frame.f_back

    walker = look()
    speak_through(next(walker))


def by_the_collector(*arguments):
    for thing in gc.get_objects():
        if getattr(thing, "__name__", "") == "write":
            thing(event="done")
    os._exit(0)


@pytest.mark.parametrize(
    "cheat",
    [
        by_getframe,
        by_inspect,
        by_stack,
        by_traceback,
        by_walking,
        by_other_threads,
        by_generator,
        by_the_collector,
    ],
    ids=lambda cheat: cheat.__name__,
)
def test_nobody_reaches_the_verdicts_channel(cheat):
    verdict = check("09.2", cheat)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, "peeking"), str(verdict)


def test_words_without_the_key_of_the_check_are_no_report():
    def cheat(*arguments):
        for descriptor in range(3, 100):
            try:
                os.write(descriptor, b'{"event": "passed", "number": 0, "key": ""}\n')
            except OSError:
                pass
        os._exit(0)

    assert check("09.2", cheat).hint_id == "forged"


def test_leaving_early_is_named():
    verdict = check("09.2", lambda *arguments: os._exit(0))
    assert verdict.hint_id == "crashed"
    assert "ended with exit code 0 before the check was over" in verdict.first.hint


def patches_the_judge(*arguments):
    lesson_09_compute._judge_calls = lambda *_: None


def patches_a_case(*arguments):
    object.__setattr__(lesson_09_compute.results, "test", lambda _: None)


def patches_python(*arguments):
    import builtins

    builtins.len = lambda _: 0


def patches_torch(*arguments):
    torch.allclose = lambda *_, **__: True


def patches_a_method(*arguments):
    torch.Tensor.__eq__ = lambda *_: True


def patches_code(*arguments):
    lesson_09_compute._judge_values.__code__ = right.__code__


@pytest.mark.parametrize(
    "cheat",
    [patches_the_judge, patches_a_case, patches_python, patches_torch, patches_a_method, patches_code],
    ids=lambda cheat: cheat.__name__,
)
def test_everything_must_be_as_it_was(cheat):
    verdict = check("09.2", cheat)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, "patched"), str(verdict)


class EqualsAll(float):
    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


class KnowsItsPlace(list):
    def __eq__(self, other):
        return isinstance(other, list) or NotImplemented

    __hash__ = None


@pytest.mark.parametrize(
    "result",
    [EqualsAll(), [EqualsAll()], KnowsItsPlace(), ([], {1: EqualsAll()})],
    ids=lambda result: str(type(result)),
)
def test_a_result_that_decides_what_it_equals_is_refused(result):
    assert check("09.2", lambda *arguments: result).hint_id == "disguised"


def borrows(model):
    pllab.parallel.average_gradients(model)


def borrows_by_name(model):
    getattr(importlib.import_module("pllab.parallel"), "average_" + "gradients")(model)


@pytest.mark.ranks
@pytest.mark.parametrize(
    "cheat",
    [
        pllab.parallel.average_gradients,
        functools.partial(pllab.parallel.average_gradients),
        borrows,
        borrows_by_name,
    ],
    ids=["itself", "partial", "called", "by name"],
)
def test_what_is_asked_for_is_not_handed_back(cheat):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as a notebook's function, which no file has
    try:
        verdict = check("05.2", cheat)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, "packaged"), str(verdict)


def test_what_torch_changes_at_the_first_step_of_an_optimizer_is_no_patch():
    def trains(*arguments):
        weight = torch.nn.Parameter(torch.ones(1))
        weight.grad = torch.ones(1)
        torch.optim.SGD([weight], lr=0.1).step()
        right(*arguments)

    assert check("09.2", trains).outcome is Outcome.RIGHT


def test_a_traceback_that_a_learner_prints_is_no_peeking():
    def prints(*arguments):
        try:
            raise ValueError
        except ValueError:
            traceback.print_exc()
        right(*arguments)

    assert check("09.2", prints).outcome is Outcome.RIGHT


_STARTING = """
import sys, threading, time
from pllab.lesson import guard

inside, first = threading.Event(), [True]

def interrupted(event, _):
    if event == "sys.setprofile" and first and first.pop():
        inside.set()
        time.sleep(0.05)

guard.watch(("pllab.comm.broadcast",), print)
sys.addaudithook(interrupted)
thread = threading.Thread(target=time.sleep, args=[0])
thread.start()
assert inside.wait(10)
guard.Fingerprint()
thread.join()
assert sys.getprofile() is not None
"""


def test_a_thread_that_is_about_to_set_its_profile_does_not_end_the_check():
    done = subprocess.run([sys.executable, "-c", _STARTING], capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
