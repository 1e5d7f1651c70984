"""Wait for a slow answer, but not for ever: a run or a solver must not hold the kernel up."""

import threading
from collections.abc import Callable
from typing import Any


def answer_within(ask: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """The answer of `ask`, called in a thread of its own; what it raises is raised here.

    A thread cannot be ended from outside. One that is late is left to the deadline of its own work, and what it
    answers then is dropped; being a daemon it does not keep the process alive.

    Raises:
        TimeoutError: there is no answer after `timeout_s` seconds.
    """
    box: list[tuple[bool, Any]] = []

    def work() -> None:
        try:
            box.append((True, ask()))
        except Exception as error:  # handed over to the one who asked
            box.append((False, error))

    thread = threading.Thread(target=work, name=f"pllab {what}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not box:
        raise TimeoutError(f"{what} has not answered in {timeout_s:g} s; give it less to do or a longer timeout_s")
    is_answer, value = box[0]
    if not is_answer:
        raise value
    return value
