"""A recorded run in the bubble studio: as it was measured, below what the costs of its own stages predict."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pllab.simulate import estimate
from pllab.traces import Recorded, read_trace

Studio = TypeVar("Studio")


def studio_of_trace(
    make: Callable[..., Studio], paths: Iterable[Path | str] | Path | str, step: int | None = None, **options: Any
) -> Studio:
    """A studio of recorded files; `make` is the class, and the options are its other arguments.

    Example: `studio_of_trace(BubbleStudio, ["rank0.json", "rank1.json"], compare="ZB-H1")`.

    Raises:
        ValueError: as for `pllab.traces.read_trace`.
    """
    return studio_of_run(make, read_trace(paths, step), **options)


def studio_of_run(make: Callable[..., Studio], recorded: Recorded, **options: Any) -> Studio:
    """A studio of a run that was read: its schedule, its timeline as measured, and costs estimated from it."""
    costs = estimate([(recorded.schedule, recorded.timeline)])
    return make(recorded.schedule, costs=costs, measured=recorded.timeline, note=recorded.note, **options)
