"""The answers of the ranks to one cell: who still runs, what they wrote, and whose failure was the cause.

`replies` are ipyparallel's AsyncResults by rank, one rank each.
"""

import time
from typing import Any

from pllab.comm.errors import ANSI, RankError, sounds_like_echo
from pllab.comm.output import show_outputs

TICK_S = 0.05  # how often the waiting looks whether all processes still live


def still_running(replies: dict[int, Any]) -> list[int]:
    """The ranks that have not answered yet."""
    return [rank for rank, reply in replies.items() if not reply.done()]


def settle(replies: dict[int, Any], timeout_s: float) -> bool:
    """Wait until all are done, at most so long; whether they are."""
    until = time.monotonic() + timeout_s
    while (pending := still_running(replies)) and time.monotonic() < until:
        replies[pending[0]].wait(TICK_S)
    return not pending


def show(replies: dict[int, Any]) -> None:
    """Write what the ranks wrote, in order of rank, also of those that never answered."""
    for reply in replies.values():
        if reply.done():
            reply.wait_for_output(1.0)
    show_outputs({rank: reply.metadata for rank, reply in replies.items()})


def failures_in(replies: dict[int, Any]) -> dict[int, Any]:
    """The remote errors by rank, as ipyparallel carries them."""
    done = {rank: reply for rank, reply in replies.items() if reply.done()}
    return {rank: reply.exception() for rank, reply in done.items() if not reply.successful()}


def is_remote_echo(error: Any) -> bool:
    """Whether a remote error only says that another rank went away."""
    return sounds_like_echo(error.ename, error.evalue)


def first_cause(failures: dict[int, Any], outcome: str) -> RankError:
    """The failure that is a cause rather than an echo of a peer's, in words."""
    rank, error = min(failures.items(), key=lambda item: (is_remote_echo(item[1]), item[0]))
    summary = RankError(rank, f"rank {rank} raised {error.ename}: {error.evalue}")
    details = ANSI.sub("", str(error.traceback or "")).strip()
    return RankError(rank, f"{and_then(summary, outcome)}\n\n{details}" if details else and_then(summary, outcome))


def and_then(error: RankError, outcome: str) -> str:
    """Put what became of the ranks at the end of the first line."""
    first, _, rest = str(error).partition("\n")
    return f"{first} ({outcome})" + (f"\n{rest}" if rest else "")
