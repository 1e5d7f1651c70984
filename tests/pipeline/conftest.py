"""What a test of this room may ask for: which of its threads are left."""

import threading
import time
from collections.abc import Callable

import pytest


@pytest.fixture
def threads_left() -> Callable[[], set[threading.Thread]]:
    """The threads of this test that are alive after half a minute, or none as soon as none is.

    On a host that stands still for some seconds, a join with a deadline can return while its thread is ending.
    """
    before = set(threading.enumerate())

    def left() -> set[threading.Thread]:
        deadline = time.monotonic() + 30
        while (late := set(threading.enumerate()) - before) and time.monotonic() < deadline:
            time.sleep(0.01)
        return late

    return left
