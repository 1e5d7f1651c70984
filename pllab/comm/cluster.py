"""The processes behind `Ranks`: one ipyparallel controller and one engine per rank, owned from start to end.

Started as own children rather than through ipyparallel's Cluster, which logs to the notebook, writes into the
home directory and learns late that an engine died. Every child is on a leash (see leash.py) in a process
group of its own, binds to 127.0.0.1 only, and writes into one temporary folder that `stop` removes.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pllab.comm import leash
from pllab.comm.engine import CUT, EngineJob, is_complete
from pllab.comm.errors import ANSI, RankError, how_it_ended


@dataclass(frozen=True)
class Cluster:
    """The running processes and their folder."""

    folder: Path
    controller: subprocess.Popen[bytes]
    engines: tuple[subprocess.Popen[bytes], ...]

    @property
    def client_file(self) -> Path:
        """What a client needs to connect; the controller writes it when it is ready."""
        return self.folder / "security" / "ipcontroller-client.json"

    def is_ready(self) -> bool:
        """Whether a client can connect: the controller's file is there and complete."""
        return is_complete(self.client_file)

    def check_alive(self) -> None:
        """Look at the processes; never waits.

        Raises:
            RankError: one of them has ended, with how and with its last words.
        """
        known = [(rank, f"rank {rank}", f"engine-{rank}", process) for rank, process in enumerate(self.engines)]
        for rank, name, log, process in [*known, (0, "the controller of the ranks", "controller", self.controller)]:
            if process.poll() is not None:
                _end_group(process)
                words = _last_words(self.folder / f"{log}.log")
                raise RankError(rank, f"{name} {how_it_ended(process.returncode)}{words}")

    def interrupt(self, ranks: Sequence[int]) -> None:
        """Send these ranks what Ctrl-C sends."""
        for rank in ranks:
            if self.engines[rank].poll() is None:
                self.engines[rank].send_signal(signal.SIGINT)

    def cut_wires(self) -> None:
        """Have every rank close its connections, so that nobody waits for a message any more."""
        for process in self.engines:
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.write(CUT)
                    process.stdin.flush()

    def where(self, rank: int) -> str:
        """The stack of a rank's main thread, as it answers from a signal handler."""
        stack_file = self.folder / f"stack-{rank}"
        before = stack_file.stat().st_size if stack_file.exists() else 0
        if self.engines[rank].poll() is None and before == 0:
            self.engines[rank].send_signal(signal.SIGUSR1)
            time.sleep(0.2)
        return stack_file.read_text().rstrip() if stack_file.exists() else ""

    def stop(self) -> None:
        """End every process and remove the folder; calling it again does nothing."""
        processes = [*self.engines, self.controller]
        for process in processes:
            if process.poll() is None:  # not reaped yet, so the number is still ours
                _end_group(process)
        for process in processes:
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
        shutil.rmtree(self.folder, ignore_errors=True)


def start_cluster(num_ranks: int, backend: str | None, num_threads: int, timeout_s: float) -> Cluster:
    """Start the controller and the engines; they find each other, and the group, while this returns."""
    folder = Path(tempfile.mkdtemp(prefix="pllab-ranks-"))  # private: mode 700
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start_controller(folder))
        for rank in range(num_ranks):
            job = EngineJob(
                rank,
                num_ranks,
                backend,
                num_threads,
                init_file=str(folder / "meeting-0"),
                connection_file=str(folder / "security" / "ipcontroller-engine.json"),
                stack_file=str(folder / f"stack-{rank}"),
                timeout_s=timeout_s,
            )
            command = [sys.executable, "-m", "pllab.comm.engine", json.dumps(asdict(job))]
            started.append(_start(command, folder, f"engine-{rank}"))
    except BaseException:
        Cluster(folder, started[0], tuple(started[1:])).stop() if started else shutil.rmtree(folder)
        raise
    return Cluster(folder, started[0], tuple(started[1:]))


def _start_controller(folder: Path) -> subprocess.Popen[bytes]:
    arguments = [
        f"--profile-dir={folder}",
        "--ip=127.0.0.1",
        "--IPController.location=127.0.0.1",
        "--IPController.use_threads=True",  # one process instead of six
        "--IPController.db_class=NoDB",
        "--HeartMonitor.period=250",  # an engine counts as registered after its first heartbeat
        "--HeartMonitor.max_heartmonitor_misses=1000",  # the owner notices a dead engine sooner
        "--log-level=CRITICAL",
    ]
    command = [sys.executable, "-P", str(leash.__file__), str(folder), "ipyparallel.controller", *arguments]
    return _start(command, folder, "controller")


def _start(command: list[str], folder: Path, name: str) -> subprocess.Popen[bytes]:
    """Start a child in its own process group, with its words in a file and nothing in the user's home."""
    environment = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "PYTHONUNBUFFERED": "1"}
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started; only while it runs or has just been seen to end."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_words(log: Path, num_lines: int = 12) -> str:
    """The end of a log, indented, when there is any."""
    if not log.exists():
        return ""
    lines = ANSI.sub("", log.read_text(errors="replace")).splitlines()[-num_lines:]
    return "".join(f"\n    {line}" for line in lines)
