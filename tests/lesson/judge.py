"""Two quick ways to put a solution to the cases: in this process, or in one that has imported torch already."""

import os
import subprocess
from collections.abc import Callable
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

from pllab.lesson.checking import run_cases, run_job
from pllab.lesson.exercise import find


def judged(exercise_id: str, solution: Callable[..., Any]) -> str:
    """`"right"`, or the id of the hint that refuses it, or `"raised: ..."`; for solutions that end by themselves."""
    events: list[dict[str, Any]] = []
    run_cases(find(exercise_id), solution, "", lambda **event: events.append(event))
    last = events[-1]
    if last["event"] == "done":
        return "right"
    return last.get("hint_id") or f"{last['event']}: {last.get('sentence')}"


class PreparedProcess:
    """What a check needs of `subprocess.Popen`, around a process that a server forked."""

    def __init__(self, process: BaseProcess) -> None:
        self.process, self.pid = process, process.pid

    def wait(self, timeout: float | None = None) -> None:
        self.process.join(timeout)
        if self.process.is_alive():
            raise subprocess.TimeoutExpired("a prepared check", timeout or 0.0)


def start_prepared(context: BaseContext, folder: Path, _printed: IO[bytes]) -> PreparedProcess:
    """Stand in for what starts the process of a check."""
    process = context.Process(target=_run_prepared, args=(str(folder),))  # type: ignore[attr-defined]
    process.start()
    return PreparedProcess(process)


def _run_prepared(folder: str) -> None:
    """A session of its own, with what is printed in the folder's file, as in the process of a check."""
    os.setsid()
    for number, path in enumerate((os.devnull, f"{folder}/printed", os.devnull)):
        os.dup2(os.open(path, os.O_RDWR), number)
    run_job(folder)
