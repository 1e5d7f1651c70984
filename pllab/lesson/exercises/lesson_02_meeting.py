"""Ranks in a group with short deadlines, so that a deadlock is an answer and not a wait; for lesson 02."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pllab import comm
from pllab.comm.errors import is_echo
from pllab.lesson.exercise import Wrong
from pllab.lesson.judging import run_on_ranks

_DEADLINE_S = 5.0  # counted from the moment when all ranks are there
_LAUNCH_S = 40.0  # starting three processes on a busy machine, and whatever the group's own deadline misses


def on_ranks(program: Callable[..., Any], solution: Callable[..., Any], world_size: int, *args: Any) -> list[Any]:
    """Run `program(rank, world_size, solution, *args)` on every rank, in a group with the short deadline."""
    with tempfile.TemporaryDirectory(prefix="pllab-check-") as folder:
        meeting = str(Path(folder, "meeting"))
        try:
            return run_on_ranks(in_new_group, solution, world_size, program, meeting, args, timeout_s=_LAUNCH_S)
        except comm.RankError as error:
            raise refusal(error) from None


def in_new_group(
    rank: int, world_size: int, solution: Any, program: Callable[..., Any], meeting: str, args: tuple[Any, ...]
) -> Any:
    """On every rank: change the group of the launch for one whose waits end soon."""
    comm.teardown()
    comm.setup(rank, world_size, "gloo", init_file=meeting, timeout_s=_DEADLINE_S)
    with comm.record_messages(refuse_unknown_peer):
        return program(rank, world_size, solution, *args)


def refuse_unknown_peer(message: comm.Message) -> None:
    """Stop a message to or from a rank that does not exist: gloo would crash on it, or wait.

    Raises:
        ValueError: in a world of 2, for `dist.send(x, 2)`.
    """
    if message.peer is not None and not 0 <= message.peer < comm.world_size():
        raise ValueError(f"there is no rank {message.peer} in a world of {comm.world_size()}")


def refusal(error: comm.RankError) -> Wrong:
    """The verdict on a rank that raised or never came back."""
    first = str(error).partition("\n")[0]
    if "had not finished" in first:
        return Wrong("hang", f"It never came back: {first}. Something waits for a rank that does not come.")
    return Wrong("raised", f"Your function failed: {first}.")


def stuck(error: Exception) -> str:
    """An exception in words; an empty string means that there was none."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def late(words: str) -> bool:
    """Whether an exception in words says that another rank did not come or went away."""
    return re.search("PeerError|timed? ?out|timeout|deadline", words, re.IGNORECASE) is not None or is_echo(
        RuntimeError(words)
    )
