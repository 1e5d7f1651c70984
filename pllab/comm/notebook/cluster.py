"""The processes behind `Ranks`: one ipyparallel controller and one engine per rank, owned from start to end.

They are started directly and not through ipyparallel's Cluster, which logs to the notebook, writes into the home
directory and notices a dead engine late. Every child is on a leash, binds to 127.0.0.1 only, and writes into one
temporary folder that `stop` removes.
"""

import json
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pllab.comm.errors import ANSI, RankError
from pllab.comm.notebook.rank_engine import CUT, is_complete
from pllab.comm.processes import Child, end_children, how_it_ended, is_stopped, stack_of, start_child


@dataclass(frozen=True)
class Cluster:
    """The running processes and their folder."""

    folder: Path
    controller: Child
    engines: tuple[Child, ...]

    @property
    def client_file(self) -> Path:
        """The connection file for clients; the controller writes it when it is ready."""
        return self.folder / "security" / "ipcontroller-client.json"

    def is_ready(self) -> bool:
        """Whether a client can connect: the controller's file is there and complete."""
        return is_complete(self.client_file)

    def check_alive(self) -> None:
        """Look at the processes; never waits.

        Raises:
            RankError: one of them has ended; the message says how, with its last output.
        """
        ranks = [(rank, f"rank {rank}", f"engine-{rank}", process) for rank, process in enumerate(self.engines)]
        for rank, name, log, process in [*ranks, (0, "the controller of the ranks", "controller", self.controller)]:
            if process.poll() is not None:
                process.kill()  # and the processes it started
                words = _last_words(self.folder / f"{log}.log")
                raise RankError(rank, f"{name} {how_it_ended(process.returncode)}{words}")

    def interrupt(self, ranks: Sequence[int]) -> None:
        """Send these ranks what Ctrl-C sends."""
        for rank in ranks:
            if self.engines[rank].poll() is None:
                self.engines[rank].send_signal(signal.SIGINT)

    def why_silent(self) -> str:
        """A clause that names a rank that stands still; empty when none does."""
        stopped = [rank for rank, process in enumerate(self.engines) if is_stopped(process.pid)]
        return f", because rank {stopped[0]} had been stopped (SIGSTOP or Ctrl-Z)" if stopped else ""

    def cut_wires(self) -> None:
        """Let every rank close its connections, so that none waits for a message any more."""
        for process in self.engines:
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.write(CUT)
                    process.stdin.flush()

    def where(self, rank: int) -> str:
        """The stack of a rank's main thread."""
        return stack_of(self.engines[rank].pid, self.folder / f"stack-{rank}")

    def stop(self) -> None:
        """End every process and remove the folder; calling it again does nothing."""
        end_children([*self.engines, self.controller])
        shutil.rmtree(self.folder, ignore_errors=True)


def start_cluster(num_ranks: int, backend: str | None, num_threads: int, timeout_s: float) -> Cluster:
    """Start the controller and the engines; they find each other, and the group, while this returns."""
    folder = Path(tempfile.mkdtemp(prefix="pllab-ranks-"))  # private: mode 700
    started: list[Child] = []
    try:
        started.append(_start(folder, "controller", "ipyparallel.controller.app:main", *_controller_arguments(folder)))
        for rank in range(num_ranks):
            job = json.dumps([rank, num_ranks, backend, num_threads, timeout_s])
            started.append(
                _start(folder, f"engine-{rank}", "pllab.comm.notebook.rank_engine:serve_rank", job, str(folder))
            )
    except BaseException:
        end_children(started)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Cluster(folder, started[0], tuple(started[1:]))


def _start(folder: Path, name: str, entry: str, *arguments: str) -> Child:
    """Start a child with its output in a file and nothing in the user's home."""
    environment = {"IPYTHONDIR": str(folder / "ipython"), "PYTHONUNBUFFERED": "1"}
    return start_child(folder, entry, *arguments, log=folder / f"{name}.log", environment=environment)


def _controller_arguments(folder: Path) -> list[str]:
    return [
        f"--profile-dir={folder}",
        "--ip=127.0.0.1",
        "--IPController.location=127.0.0.1",
        "--IPController.use_threads=True",  # one process instead of six
        "--IPController.db_class=NoDB",
        "--HeartMonitor.period=250",  # an engine counts as registered after its first heartbeat
        "--HeartMonitor.max_heartmonitor_misses=1000",  # the owner notices a dead engine sooner
        "--log-level=CRITICAL",
    ]


def _last_words(log: Path, num_lines: int = 12) -> str:
    """The end of a log, indented, when there is any."""
    if not log.exists():
        return ""
    lines = ANSI.sub("", log.read_text(errors="replace")).splitlines()[-num_lines:]
    return "".join(f"\n    {line}" for line in lines)
