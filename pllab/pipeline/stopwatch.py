"""Time an action where it runs; if it fails, say which action it was."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from pllab.pipeline.interpret import Timing
from pllab.pipeline.record import Record
from pllab.pipeline.stream import HostStream
from pllab.schedule import Action


def timing(record: Record, rank: int, stream: HostStream) -> Timing:
    """A context manager for each action of one rank, from the start to the end of its compute."""
    return partial(_timed, record, rank, stream)


@contextmanager
def _timed(record: Record, rank: int, stream: HostStream, action: Action) -> Iterator[None]:
    start = stream.mark()
    try:
        yield
    except Exception as error:
        error.add_note(f"raised in {action}: stage {action.stage}, micro-batch {action.microbatch}, on rank {rank}")
        raise
    record.add(rank, action, stream, start, stream.mark())
