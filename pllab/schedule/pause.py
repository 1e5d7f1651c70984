"""Hold off Python's garbage collector while very many values are made that all live on.

The collector looks through all objects of the process again and again while their number grows. Beside a library as
large as torch that takes several times as long as making a large schedule or simulating it, and finds nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection inside; afterwards the collector is as it was.

    Example: `with collector_paused(): spans = make_many()`, or `@collector_paused()` above a function.

    For a fraction of a second of work that leaves no garbage. Where two threads pause at the same time the pause of
    one may end early, which only makes it slower.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
