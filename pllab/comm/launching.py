"""Run one function on several ranks and wait for all of them: results, or the first cause of failure.

The owner starts a process per rank, listens to all, and always ends them all. A rank joins the group, calls the
function and sends the outcome back. The processes are never forked from the owner, because fork breaks CUDA and
threads: they are new, or come from a process that has only imported (`fork_server`).

In order: the owner, the rank, and what travels between the two.
"""

import multiprocessing as mp
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.spawn import get_preparation_data, prepare
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pllab.arguments import deadline, rank_count, thread_count
from pllab.comm.errors import RankError, is_echo, listed
from pllab.comm.fork_server import start_warm
from pllab.comm.group import plan_backend, setup, teardown
from pllab.comm.processes import (
    answer_with_stack,
    end_children,
    end_like_python,
    how_it_ended,
    stack_of,
)

_GRACE_S = 2.0  # how long an echo of a failure waits for its cause
_LEAVE_S = 10.0  # how long a rank may take to leave once its outcome is known
_WAY_OUT = "put it in a module (a .py file) and import it, or run the cell on Ranks with %%px"

OnReport = Callable[[int, Any], None]
# How to send to the owner: one function in a launched rank, none elsewhere.
_outbox: list[Callable[[str, Any], None]] = []


class _Failure(NamedTuple):
    """A rank's exception in words; an echo only says that another rank went away."""

    is_echo: bool
    summary: str
    traceback: str = ""


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

    Each rank computes with `num_threads` threads. `on_report(rank, value)` is called here, in the calling thread, for
    every `report(value)` of a rank. All ranks have ended when this returns or raises. Ranks that come from the fork
    server hash texts alike; those of torchrun do not.

    Raises:
        ValueError: an argument is out of its range, or the function or one of its arguments cannot travel.
        RankError: a rank raised, exited, was killed, or had not finished after `timeout_s` seconds.
        RuntimeError: a script without a main guard calls it while a rank imports that script; or the ranks' fork
            server has ended, for example because its memory was full.
    """
    end = time.monotonic() + deadline(timeout_s)
    plan_backend(0, world_size, backend)
    rank_count(world_size)
    script = get_preparation_data("pllab-rank")  # refuses a script that calls this while a rank imports it
    del script["authkey"]  # a secret that no rank needs
    job = script, _pack(fn, args), thread_count(num_threads), world_size, backend, timeout_s
    with tempfile.TemporaryDirectory(prefix="pllab-launch-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "job").write_bytes(pickle.dumps(job))
        ranks: list[_Rank] = []
        try:
            for number in range(world_size):
                ranks.append(_Rank(folder, number))
            _attend(ranks, end, timeout_s, on_report)
        finally:
            end_children([rank.process for rank in ranks])
            for rank in ranks:
                rank.connection.close()
        return [rank.result for rank in ranks]


class _Rank:
    """One process from its owner's side, with its outcome so far."""

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.connection, other_end = mp.Pipe(duplex=False)
        words = "pllab.comm.launching:run_rank", str(folder), str(number)
        with other_end:  # then only the rank has it, so the stream ends when the rank dies
            self.process = start_warm(folder, *words, pass_fds=[other_end.fileno()])
        self.stack_file = folder / f"stack-{number}"
        self.has_finished = False
        self.result: Any = None
        self.failure: _Failure | None = None

    def listen(self, on_report: OnReport | None) -> None:
        """Receive one message; the end of the stream without an outcome is a failure too."""
        try:
            packed = self.connection.recv_bytes()
        except (EOFError, OSError):
            self.leave()
            code = self.process.returncode
            hint = "" if code is not None and code < 0 else " and without a result (a message above may say why)"
            tag, value = "failure", _Failure(False, how_it_ended(code) + hint)
        else:
            tag, value = pickle.loads(packed)
        if tag == "report" and on_report is not None:
            on_report(self.number, value)
        if tag == "result":
            self.result = value
        if tag == "failure":
            self.failure = value
        self.has_finished = tag != "report"

    def leave(self) -> None:
        """Give the process time to end by itself."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE_S)


def _attend(ranks: list[_Rank], end: float, timeout_s: float, on_report: OnReport | None) -> None:
    """Listen to all ranks until each has left or one has failed; raise the cause of the first failure."""
    failures: dict[int, _Failure] = {}
    while (late := [rank for rank in ranks if not rank.has_finished]) and all(one.is_echo for one in failures.values()):
        if (left_s := end - time.monotonic()) <= 0:
            break
        by_connection = {rank.connection: rank for rank in late}
        for connection in wait(list(by_connection), left_s):
            by_connection[connection].listen(on_report)  # type: ignore[index]
        failures = {rank.number: rank.failure for rank in ranks if rank.failure is not None}
        if failures:
            end = min(end, time.monotonic() + _GRACE_S)
    if failures:
        raise _cause_of(failures, [rank.number for rank in late])
    if late:
        raise _too_late(late, len(ranks), timeout_s)
    for rank in ranks:
        rank.leave()


def _cause_of(failures: dict[int, _Failure], silent: list[int]) -> RankError:
    """The failure that is a cause rather than an echo, and who did not answer if there are echoes alone."""
    number = min(failures, key=lambda each: (failures[each].is_echo, each))
    failure = failures[number]
    hint = f" ({listed(silent)} did not answer)" if failure.is_echo and silent else ""
    return RankError(number, f"rank {number} {failure.summary}{hint}\n\n{failure.traceback}".rstrip())


def _too_late(late: list[_Rank], num_ranks: int, timeout_s: float) -> RankError:
    """Say which ranks had not finished at the deadline, and where they were."""
    stacks = (f"\n\nrank {rank.number} was here:\n{stack_of(rank.process.pid, rank.stack_file)}" for rank in late)
    numbers = [rank.number for rank in late]
    return RankError(
        numbers[0],
        f"{listed(numbers)} of {num_ranks} had not finished after {timeout_s:g} s (timeout_s) and had to be ended"
        + "".join(stacks),
    )


def report(value: Any) -> None:
    """Send a value from a launched rank to the `on_report(rank, value)` of `launch`; elsewhere do nothing.

    Example: `report({"step": 10, "loss": 2.3})` in a training loop moves a bar in the notebook.
    """
    for send in _outbox:
        send("report", value)


def run_rank() -> None:
    """The main function of a rank, with folder, number and file descriptor on its command line.

    It works, sends the result or the exception to the owner, and leaves the group.
    """
    folder, number, connection = Path(sys.argv[1]), int(sys.argv[2]), Connection(int(sys.argv[3]), readable=False)
    lock = threading.Lock()

    def send(tag: str, value: Any) -> None:
        packed = pickle.dumps((tag, value))
        with lock:
            connection.send_bytes(packed)

    answer_with_stack(folder / f"stack-{number}")
    _outbox.append(send)
    try:
        send("result", _work(folder, number))
    except BaseException as error:
        send("failure", _describe(error))
    finally:
        with suppress(Exception):  # the owner has the outcome already
            teardown()
        connection.close()
        end_like_python()


def _work(folder: Path, number: int) -> Any:
    script, payload, num_threads, world_size, backend, timeout_s = pickle.loads((folder / "job").read_bytes())
    torch.set_num_threads(num_threads)
    _import_script(script)
    fn, args = pickle.loads(payload)  # needs the script
    setup(number, world_size, backend, init_file=folder / "meeting", timeout_s=timeout_s)
    return fn(number, world_size, *args)


def _import_script(script: dict[str, Any]) -> None:
    """Import the script that called `launch`, as multiprocessing does it: its functions are in the payload."""
    process = mp.current_process()
    process._inheriting = True  # type: ignore[attr-defined] # a script that starts processes now has no main guard
    prepare(script)
    del process._inheriting  # type: ignore[attr-defined]


def _describe(error: BaseException) -> _Failure:
    lines = traceback.format_exception(error, chain=not is_echo(error))
    return _Failure(is_echo(error), f"raised {type(error).__name__}: {error}", "".join(lines))


def _pack(fn: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """Pickle a function with its arguments for another process, or say in a sentence why they cannot travel.

    A new process imports a function from its module, so it cannot reach one typed into a notebook cell or at a prompt.
    Python notices that only in the new process, after seconds; this notices it before anything starts.
    """
    name = f"{getattr(fn, '__name__', type(fn).__name__)}()"
    if name == "<lambda>()":
        raise ValueError(f"a lambda has no name that a new process could import it by; {_WAY_OUT}")
    if fn.__module__ == "__main__" and _main_is_interactive():
        raise ValueError(
            f"{name} was defined in a notebook cell or at a prompt, which a new process cannot import; {_WAY_OUT}"
        )
    try:
        return pickle.dumps((fn, args))
    except Exception as error:
        what = f"{name} or one of its arguments"
        raise ValueError(f"{what} cannot be sent to another process ({error}); {_WAY_OUT}") from None


def _main_is_interactive() -> bool:
    """Whether __main__ is a notebook, a prompt or `python -c`, not a file that can be imported again."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return file is None or not Path(file).is_file()
