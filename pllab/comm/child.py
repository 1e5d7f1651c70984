"""The life of one launched rank: enter the group, do the work, hand the outcome to the parent, leave.

Runs in the new process. Every message to the parent is a pair of a tag and bytes; the parent is `launch.py`.
"""

import faulthandler
import logging
import multiprocessing as mp
import os
import pickle
import shutil
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from pllab.comm.errors import is_echo
from pllab.comm.group import setup, teardown
from pllab.comm.portable import pack_value

_log = logging.getLogger(__name__)
# The way to the parent: empty everywhere but in a launched rank, which has exactly one.
_outbox: list[Callable[[str, Any], None]] = []


@dataclass(frozen=True)
class Job:
    """What a new rank has to know; `payload` is the pickled function with its arguments."""

    rank: int
    world_size: int
    payload: bytes
    backend: str | None
    num_threads: int
    init_file: str
    stack_file: str
    timeout_s: float


@dataclass(frozen=True)
class Failure:
    """The exception of a rank in words; an echo only says that another rank went away."""

    summary: str
    traceback: str
    echo: bool


def report(value: Any) -> None:
    """Send a value from a launched rank to the `on_report(rank, value)` of `launch`; elsewhere do nothing.

    Example: `report({"step": 10, "loss": 2.3})` in a training loop moves a bar in the notebook.

    Raises:
        ValueError: the value cannot be pickled.
    """
    for send in _outbox:
        send("report", value)


def run_rank(job: Job, connection: Connection) -> None:
    """Run one rank from birth to end; what it returns or raises goes through the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, and the parent ends us
    _end_with_parent(Path(job.stack_file).parent)
    lock = threading.Lock()

    def tell(tag: str, value: Any) -> None:
        packed = pack_value(value, tag)
        with lock:
            connection.send_bytes(pickle.dumps((tag, packed)))

    with open(job.stack_file, "w") as stack:  # noqa: PTH123 - faulthandler keeps the descriptor
        if hasattr(faulthandler, "register"):  # not on Windows
            faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
        _outbox.append(tell)
        try:
            tell("result", _work(job))
        except BaseException as error:
            tell("failure", _describe(error))
        finally:
            _leave()
            connection.close()


def _work(job: Job) -> Any:
    torch.set_num_threads(job.num_threads)
    fn, args = pickle.loads(job.payload)
    setup(job.rank, job.world_size, job.backend, init_file=job.init_file, timeout_s=job.timeout_s)
    return fn(job.rank, job.world_size, *args)


def _leave() -> None:
    """Leave the group; the outcome is already with the parent, so trouble here is only logged."""
    try:
        teardown()
    except Exception:
        _log.exception("a rank could not leave its group")


def _describe(error: BaseException) -> Failure:
    echo = is_echo(error)
    lines = traceback.format_exception(type(error), error, _below_this_file(error), chain=not echo)
    if isinstance(error, SystemExit):
        return Failure(f"called sys.exit({error.code})", "".join(lines), echo)
    return Failure(f"raised {type(error).__name__}: {error}", "".join(lines), echo)


def _below_this_file(error: BaseException) -> Any:
    """The traceback without the frames of this file, which explain nothing."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        if frames.tb_next is None:
            break
        frames = frames.tb_next
    return frames


def _end_with_parent(folder: Path) -> None:
    """Watch the parent from a daemon thread; end with it, however it ended, and remove its temporary folder."""
    parent = mp.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, name="pllab-parent-watch", daemon=True).start()
