"""Run one function on several ranks and wait for all of them: results, or the first cause of failure.

New processes are spawned, never forked, in a group that meets in a private folder. Whatever happens (a rank
raises, exits, is killed or hangs, the parent is interrupted or dies) all ranks end, and the folder is
removed.
"""

import math
import multiprocessing as mp
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pllab.comm import child
from pllab.comm.child import Failure, Job, run_rank
from pllab.comm.errors import RankError, how_it_ended
from pllab.comm.portable import pack

_GRACE_S = 2.0  # how long an echo of a failure waits for its cause
_LEAVE_S = 10.0  # how long a rank may take to leave once its outcome is known

OnReport = Callable[[int, Any], None]


class _Rank:
    """One process as its parent sees it, with what it has told so far."""

    def __init__(self, number: int, process: BaseProcess, connection: Connection, stack_file: Path) -> None:
        self.number = number
        self.process = process
        self.connection = connection
        self.stack_file = stack_file
        self.open = True
        self.result: bytes | None = None
        self.failure: Failure | None = None

    def listen(self, on_report: OnReport | None) -> None:
        """Take one message; the end of the stream without an outcome is a failure too."""
        try:
            tag, packed = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            self.open = False
            if self.result is None and self.failure is None:
                self.failure = Failure(self._how_it_ended(), "", echo=False)
            return
        if tag == "result":
            self.result = packed
        elif tag == "failure":
            self.failure = pickle.loads(packed)
        elif on_report is not None:
            on_report(self.number, pickle.loads(packed))

    def _how_it_ended(self) -> str:
        self.process.join(_LEAVE_S)
        code = self.process.exitcode
        was_killed = code is not None and code < 0
        return how_it_ended(code) + ("" if was_killed else " and without a result (a message above may say why)")

    @property
    def waiting(self) -> bool:
        return self.open and self.result is None and self.failure is None


def launch(
    fn: Callable[..., Any],
    world_size: int,
    *args: Any,
    backend: str | None = None,
    num_threads: int = 1,
    timeout_s: float = 600.0,
    on_report: OnReport | None = None,
) -> list[Any]:
    """Run `fn(rank, world_size, *args)` on every rank of a ready group; return the results in order of rank.

    Example, with `def where(rank, world_size): return f"{rank} of {world_size}"` in a module:

        launch(where, 2)   # ['0 of 2', '1 of 2']

    Each rank computes with `num_threads` threads. `on_report(rank, value)` is called here, in the calling
    thread, for every `report(value)` of a rank. All ranks have ended when this returns or raises.

    Raises:
        ValueError: the world is too small, the deadline not positive, or the function or an argument cannot
            travel.
        RankError: a rank raised, exited, was killed, or had not finished after `timeout_s` seconds.
    """
    _check(world_size, num_threads, timeout_s)
    payload = pack(fn, args)
    deadline = time.monotonic() + timeout_s
    with tempfile.TemporaryDirectory(prefix="pllab-launch-", ignore_cleanup_errors=True) as folder:
        jobs = [
            Job(
                rank,
                world_size,
                payload,
                backend,
                num_threads,
                init_file=str(Path(folder, "meeting")),
                stack_file=str(Path(folder, f"stack-{rank}")),
                timeout_s=timeout_s,
            )
            for rank in range(world_size)
        ]
        ranks: list[_Rank] = []
        try:
            for job in jobs:
                ranks.append(_start(job))
            _attend(ranks, deadline, timeout_s, on_report)
            for rank in ranks:
                rank.process.join(_LEAVE_S)
        finally:
            _end(ranks)
        return [pickle.loads(rank.result) for rank in ranks if rank.result is not None]


def _check(world_size: int, num_threads: int, timeout_s: float) -> None:
    if getattr(mp.current_process(), "_inheriting", False):
        raise RuntimeError(
            "launch was called while a rank was importing this script; put the call under if __name__ == '__main__':"
        )
    if world_size < 1:
        raise ValueError(f"world_size is {world_size}; launch needs at least 1 rank")
    if num_threads < 1:
        raise ValueError(f"num_threads is {num_threads}; a rank needs at least 1 thread")
    if not (timeout_s > 0 and math.isfinite(timeout_s)):
        raise ValueError(f"timeout_s is {timeout_s}; a deadline is a positive number of seconds")


def _start(job: Job) -> _Rank:
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run_rank, args=(job, theirs), name=f"pllab-rank-{job.rank}", daemon=True)
    try:
        process.start()
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()  # the rank holds the only other end, so its death is the end of our stream
    return _Rank(job.rank, process, ours, Path(job.stack_file))


def _attend(ranks: list[_Rank], deadline: float, timeout_s: float, on_report: OnReport | None) -> None:
    """Listen to all ranks until each has an outcome; raise the cause of the first failure."""
    give_up = math.inf
    while any(rank.waiting for rank in ranks):
        now = time.monotonic()
        if now >= give_up:
            break
        if now >= deadline:
            raise _too_late(ranks, timeout_s)
        by_connection = {rank.connection: rank for rank in ranks if rank.waiting}
        for connection in wait(list(by_connection), min(deadline, give_up) - now):
            by_connection[connection].listen(on_report)  # type: ignore[index]
        failures = [rank.failure for rank in ranks if rank.failure is not None]
        if any(not failure.echo for failure in failures):
            break
        if failures and give_up == math.inf:
            give_up = time.monotonic() + _GRACE_S
    _raise_first_cause(ranks)


def _raise_first_cause(ranks: list[_Rank]) -> None:
    """Raise the failure that is a cause rather than an echo, if there is any failure."""
    failed = [(rank.failure.echo, rank.number, rank.failure) for rank in ranks if rank.failure is not None]
    if not failed:
        return
    _, number, failure = min(failed, key=lambda item: item[:2])
    details = f"\n\n{failure.traceback.rstrip()}" if failure.traceback else ""
    raise RankError(number, f"rank {number} {failure.summary}{details}")


def _too_late(ranks: list[_Rank], timeout_s: float) -> RankError:
    """Say which ranks had not finished at the deadline, and where they were."""
    late = [rank for rank in ranks if rank.waiting]
    names = ", ".join(str(rank.number) for rank in late)
    stacks = "".join(f"\n\nrank {rank.number} was here:\n{_stack(rank)}" for rank in late)
    who = f"rank {names}" if len(late) == 1 else f"ranks {names}"
    return RankError(
        late[0].number,
        f"{who} of {len(ranks)} had not finished after {timeout_s:g} s (timeout_s) and had to be ended{stacks}",
    )


def _stack(rank: _Rank) -> str:
    """Ask the rank for the stacks of its threads; it answers from a signal handler even when it hangs."""
    if rank.process.pid is None or not rank.stack_file.exists() or not hasattr(signal, "SIGUSR1"):
        return "  (it had not started yet)"
    os.kill(rank.process.pid, signal.SIGUSR1)
    until = time.monotonic() + 1.0
    while time.monotonic() < until and not rank.stack_file.stat().st_size:
        time.sleep(0.02)
    time.sleep(0.05)
    lines = rank.stack_file.read_text().splitlines()[1:]
    ours = next((number for number, line in enumerate(lines) if child.__file__ in line), None)
    return "\n".join(lines[:ours]) or "  (it did not answer)"


def _end(ranks: list[_Rank]) -> None:
    """End and join every process: ask, then kill."""
    for rank in ranks:
        if rank.process.is_alive():
            rank.process.terminate()
    for rank in ranks:
        rank.process.join(1.0)
        if rank.process.is_alive():
            rank.process.kill()
        rank.process.join(_LEAVE_S)
        rank.connection.close()
        if rank.process.exitcode is not None:
            rank.process.close()
