"""Whoever speaks for the check, changes it, leaves it, or hands back the package's own function does not pass."""

import functools
import gc
import importlib
import inspect
import os
import subprocess
import sys
import traceback

import pytest
import torch

import pllab.parallel
from pllab.lesson import Outcome, check
from pllab.lesson.exercises import lesson_00


def right(items, rank, world_size):
    return items[rank::world_size]


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


def by_getframe(items, rank, world_size):
    speak_through(sys._getframe())


def by_inspect(items, rank, world_size):
    speak_through(inspect.currentframe())


def by_stack(items, rank, world_size):
    speak_through(inspect.stack()[0].frame)


def by_traceback(items, rank, world_size):
    try:
        raise ValueError
    except ValueError as error:
        speak_through(error.__traceback__.tb_frame)


def by_walking(items, rank, world_size):
    for frame, _ in traceback.walk_stack(None):
        speak_through(frame)


def by_other_threads(items, rank, world_size):
    for frame in sys._current_frames().values():
        speak_through(frame)


def by_generator(items, rank, world_size):
    def look():
        yield walker.gi_frame.f_back

    walker = look()
    speak_through(next(walker))


def by_the_collector(items, rank, world_size):
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
    verdict = check("00.1", cheat)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, "peeking"), str(verdict)


def test_words_without_the_key_of_the_check_are_no_report():
    def cheat(items, rank, world_size):
        for descriptor in range(3, 100):
            try:
                os.write(descriptor, b'{"event": "passed", "number": 0, "key": ""}\n')
            except OSError:
                pass
        os._exit(0)

    assert check("00.1", cheat).hint_id == "forged"


def test_leaving_early_is_named():
    verdict = check("00.1", lambda items, rank, world_size: os._exit(0))
    assert verdict.hint_id == "crashed"
    assert "ended with exit code 0 before the check was over" in verdict.first.hint


def patches_the_judge(items, rank, world_size):
    lesson_00._shares = lambda *_: [[]]
    return items


def patches_a_case(items, rank, world_size):
    for exercise in lesson_00.EXERCISES:
        for case in exercise.cases:
            object.__setattr__(case, "test", lambda _: None)
    return items


def patches_python(items, rank, world_size):
    import builtins

    builtins.len = lambda _: 0
    return items


def patches_torch(items, rank, world_size):
    torch.allclose = lambda *_, **__: True
    return items


def patches_a_method(items, rank, world_size):
    torch.Tensor.__eq__ = lambda *_: True
    return items


def patches_code(items, rank, world_size):
    lesson_00._shares.__code__ = right.__code__
    return items


@pytest.mark.parametrize(
    "cheat",
    [patches_the_judge, patches_a_case, patches_python, patches_torch, patches_a_method, patches_code],
    ids=lambda cheat: cheat.__name__,
)
def test_everything_must_be_as_it_was(cheat):
    verdict = check("00.1", cheat)
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
    assert check("00.1", lambda items, rank, world_size: result).hint_id == "disguised"


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
    verdict = check("05.2", cheat)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, "packaged"), str(verdict)


@pytest.mark.ranks
def test_the_guard_stands_on_the_ranks_too():
    def peeks(model):
        inspect.currentframe()

    def patches(model):
        torch.equal = lambda *_: True

    assert check("05.2", peeks).hint_id == "peeking"
    assert check("05.2", patches).hint_id == "patched"


def test_what_torch_changes_at_the_first_step_of_an_optimizer_is_no_patch():
    def trains(items, rank, world_size):
        weight = torch.nn.Parameter(torch.ones(1))
        weight.grad = torch.ones(1)
        torch.optim.SGD([weight], lr=0.1).step()
        return items[rank::world_size]

    assert check("00.1", trains).outcome is Outcome.RIGHT


def test_a_traceback_that_a_learner_prints_is_no_peeking():
    def prints(items, rank, world_size):
        try:
            raise ValueError
        except ValueError:
            traceback.print_exc()
        return items[rank::world_size]

    assert check("00.1", prints).outcome is Outcome.RIGHT


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
