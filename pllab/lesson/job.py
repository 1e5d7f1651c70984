"""What travels from a check to its runner; a file of its own because both ends import it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """A pickled function and the exercise it answers, with its source for tracebacks and the import path."""

    exercise_id: str
    function: bytes
    source_name: str
    source_lines: tuple[str, ...]
    path: tuple[str, ...]
    deadline_s: float
