"""What goes wrong between ranks, in words: a rank that failed, and a peer that went away.

A failing rank makes its peers fail a moment later ("connection closed by peer"). The two classes separate the cause
from such echoes, so that the reader sees the cause.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch.distributed as dist

from pllab.comm.ledger import uncounted

ANSI = re.compile(r"\x1b\[[0-9;]*m")  # the colours in what a terminal would show
_PEER_GONE = re.compile(
    r"closed by peer|connection reset|connection closed|connection refused|broken pipe|socket closed"
    r"|remote peer|peer .{0,40}closed|process exited",
    re.IGNORECASE,
)
_NOT_CARRIED = re.compile(r"No backend type associated with device type (\w+)")
_PORT_TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
_TOO_LATE = re.compile(r"timed? ?out|timeout", re.IGNORECASE)


class RankError(RuntimeError):
    """A rank raised, ended, was killed or did not finish; `.rank` says which one.

    Example: `str(error)` begins with `rank 1 raised ValueError: the loss is not a number` and goes on with
    the traceback as the rank saw it.
    """

    def __init__(self, rank: int, message: str) -> None:
        super().__init__(rank, message)  # both, so that it can be pickled
        self.rank = rank

    def __str__(self) -> str:
        return str(self.args[1])

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: show only the message; the frames of the waiting process explain nothing."""
        return [f"{type(self).__name__}: {self}"]


class PeerError(RuntimeError):
    """A message could not be exchanged because another rank left, stopped or came too late.

    It is the echo of a failure elsewhere: `launch` and `Ranks` report the cause instead when they know it.
    """


def is_echo(error: BaseException) -> bool:
    """Whether the error only says that another rank went away: `PeerError`, or gloo's own words for it."""
    return isinstance(error, RuntimeError) and sounds_like_echo(type(error).__name__, str(error))


def sounds_like_echo(name: str, message: str) -> bool:
    """`is_echo` for an error that arrived as text: the name of its class and its message."""
    return name == PeerError.__name__ or _PEER_GONE.search(message) is not None


def listed(ranks: Sequence[int]) -> str:
    """Example: `rank 1` for [1], and `ranks 0, 1` for [0, 1]."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


@contextmanager
def in_words(operation: str, rank: int) -> Iterator[None]:
    """Turn the errors of a process group inside the block into a `PeerError` of one sentence.

    Example: `[.../gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:24567` becomes
    `all_reduce on rank 0 failed because another rank went away ...`. Other errors pass unchanged. Every call of
    torch.distributed in this room is in such a block, and the ledger does not count it twice.

    Raises:
        ValueError: the backend does not carry tensors of this device, as nccl carries no CPU tensors.
    """
    with translated(operation, rank), uncounted():
        yield


@contextmanager
def translated(operation: str, rank: int) -> Iterator[None]:
    """`in_words` for messages that PyTorch's own classes exchange, which the ledger counts one by one."""
    try:
        yield
    except RuntimeError as error:
        if found := _NOT_CARRIED.search(str(error)):
            raise ValueError(
                f"{operation} on rank {rank} has a tensor on the device {found[1]}, which the group's backend, "
                f"{dist.get_backend()}, does not carry; make the tensor on pllab.comm.own_device(), or start the ranks "
                "with backend='gloo'"
            ) from error
        if _PORT_TAKEN.search(str(error)):
            port = os.environ.get("MASTER_PORT", "")
            raise OSError(
                f"{operation} on rank {rank} failed because another program has port {port} (MASTER_PORT); "
                "start with torchrun --standalone, which picks a free one, or with pllab.comm.launch, which needs none"
            ) from error
        if _PEER_GONE.search(str(error)):
            raise PeerError(
                f"{operation} on rank {rank} failed because another rank went away; "
                "look for the error of that rank, or for a rank that returned without making the same call"
            ) from error
        if _TOO_LATE.search(str(error)):
            raise PeerError(
                f"{operation} on rank {rank} waited until its deadline for another rank; "
                "every rank has to make the same calls in the same order"
            ) from error
        raise
