"""Functions that the tests of launch run on their ranks: a new process can only import what is in a module."""

import atexit
import os
import random
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from pllab.comm import all_reduce, launch, rank, report, setup, teardown, world_size


def where(number, size):
    """Three reports, then where this rank is."""
    for step in range(3):
        report((number, step))
    return number, size, rank(), world_size(), torch.get_num_threads()


def ancestors(number, size):
    """The numbers of the processes from which this rank comes."""
    return [process.pid for process in psutil.Process().parents()]


def draw(number, size):
    """Random numbers of this rank, without a seed."""
    return random.random(), torch.initial_seed(), np.random.rand()


def end_late(number, size, folder):
    """A thread goes on for a moment, and something is left to do at the end."""
    atexit.register(Path(folder, f"at exit {number}").touch)
    threading.Timer(0.3, Path(folder, f"thread {number}").touch).start()


def fail_on(number, size, failing, how):
    """One rank fails in the stated way, the others wait for it in an all_reduce."""
    if number != failing:
        all_reduce(torch.ones(2))
        return number
    time.sleep(0.3)  # the others are waiting by now
    return HOW[how](number)


def _raise(number):
    raise ValueError("no such luck")


def _be_deaf(number):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)


def _leave_then_raise(number):
    """The echo on the other ranks comes half a second before the cause."""
    teardown()
    time.sleep(0.5)
    raise KeyError("late")


def _give_a_lock(number):
    all_reduce(torch.ones(2))
    return threading.Lock()


HOW = {
    "raise": _raise,
    "exit": lambda number: sys.exit(3),
    "os_exit": lambda number: os._exit(7),
    "kill": lambda number: os.kill(os.getpid(), signal.SIGKILL),
    "leave_then_raise": _leave_then_raise,
    "unpicklable": _give_a_lock,
    "return": lambda number: number,
}


def never_finish(number, size):
    """Rank 0 waits for a message, rank 1 sleeps and hears no SIGTERM, rank 2 is stopped."""
    report(os.getpid())
    if number == 1:
        _be_deaf(number)
    if number == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(2.0)  # the group's deadline counts from here, and the owner's has begun
    all_reduce(torch.ones(2))


def stop_in_a_group_with_a_deadline(number, size, meeting):
    """The other rank gives up before the owner does."""
    teardown()
    setup(number, size, "gloo", init_file=meeting, timeout_s=1.0)
    if number == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    all_reduce(torch.ones(2))


def wait_to_be_ended(number, size, path):
    """Add the own number to a file, and do nothing more."""
    with Path(path).open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    time.sleep(3600)


def give_back(number, size, value):
    return value + number


def on_ranks(*sizes):
    """A test whose body, with its own checks, runs on every rank of worlds of these sizes."""

    def decorate(program):
        def test(size):
            launch(_run, size, program.__module__, program.__name__, backend="gloo", timeout_s=60)

        test.program, test.__name__, test.__doc__ = program, program.__name__, program.__doc__
        return pytest.mark.parametrize("size", sizes)(test)

    return decorate


def _run(number, size, module, name):
    getattr(import_module(module), name).program(number, size)
