"""The other process of a check: it runs the cases on the student's function and writes down what happens.

Run as `python -m pllab.lesson.runner FOLDER`. FOLDER/task holds the pickled function, FOLDER/report gets one
JSON line per event. The report is written as things happen, so that a crash or a hang leaves a trace of how
far it came.
"""

import faulthandler
import json
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cloudpickle

from pllab.lesson.exercise import Exercise, Wrong, find
from pllab.lesson.job import Job


def run_cases(exercise: Exercise, solution: Callable[..., Any], source_name: str, tell: Callable[..., None]) -> None:
    """Run the cases in order, stop at the first that fails, and tell what happened."""
    for case in exercise.cases:
        try:
            case.test(solution)
        except NotImplementedError:
            return tell(event="not attempted")
        except Wrong as wrong:
            return tell(event="wrong", hint_id=wrong.hint_id, sentence=wrong.sentence)
        except BaseException as error:
            # Also SystemExit and KeyboardInterrupt: whatever the student's code raises is an answer, not our
            # end.
            sentence = traceback.format_exception_only(error)[0].strip()  # `ZeroDivisionError: division by zero`
            return tell(event="raised", sentence=sentence, where=_where(error, source_name))
        tell(event="passed")
    tell(event="done")


def main(arguments: Sequence[str]) -> None:
    """Read the job, run it, and leave without waiting for threads that the student's code left behind."""
    folder = Path(arguments[0])
    job: Job = cloudpickle.loads((folder / "task").read_bytes())
    sys.path[:] = list(job.path)
    linecache.cache[job.source_name] = (len("".join(job.source_lines)), None, list(job.source_lines), job.source_name)
    with (folder / "report").open("w") as report, (folder / "stack").open("w") as stack:

        def tell(**event: Any) -> None:
            report.write(json.dumps(event) + "\n")
            report.flush()
            if event["event"] == "ready":
                # The process ends itself at the deadline, even when nobody is left to end it.
                faulthandler.dump_traceback_later(job.deadline_s, exit=True, file=stack)

        solution, exercise = cloudpickle.loads(job.function), find(job.exercise_id)
        tell(event="ready")
        run_cases(exercise, solution, job.source_name, tell)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _where(error: BaseException, source_name: str) -> str:
    """The innermost line of the student's own code: `line 3 of make_tasks: return a / 0`."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == source_name]
    return f"line {own[-1].lineno} of {own[-1].name}: {own[-1].line}" if own else ""


if __name__ == "__main__":
    main(sys.argv[1:])
