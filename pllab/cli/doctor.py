"""`pllab doctor`: what this machine has, what pllab would choose and why, and what was left running."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from pllab.cli.options import parse

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PARTS = ("torch", "transformers", "datasets", "jupyterlab", "ipyparallel", "anywidget")
# pllab's ranks keep a file open in a folder of this name, and its modules stand on a command line.
_FOLDER_MARK = "pllab-"
_COMMAND_MARKS = ("pllab.comm", "-m pllab")


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Describe this machine as pllab sees it."""

    ranks: int = 0
    """Start so many ranks and let them exchange a tensor; 0 starts none."""


def run(words: Sequence[str]) -> int:
    """Print the report; returns 0, and refuses (exit code 2) when ranks were asked for and cannot talk.

    Raises:
        ValueError: ranks is negative.
        RankError: the ranks could not exchange a tensor.
    """
    options = parse(DoctorOptions, words, "pllab doctor")
    if options.ranks < 0:
        raise ValueError(f"ranks is {options.ranks}; give how many ranks to start, or 0 for none")
    for name, text in report():
        print(f"{name:<12} {text}", flush=True)
    if options.ranks:
        print(f"{'ranks':<12} {talk(options.ranks)}")
    return 0


def report() -> Iterator[tuple[str, str]]:
    """Name and finding, one after the other: the quick ones come first."""
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield "cores", f"{ours} for this process, {os.cpu_count()} in the machine"
    yield "memory", _memory()
    for part in _PARTS:
        yield part, _version(part)
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    yield "chromium", browser or "not found; tests that need a browser are skipped"
    yield from _devices()
    strays = find_strays()
    yield "strays", "; ".join(strays) if strays else "none: no process of pllab runs"


def talk(num_ranks: int) -> str:
    """Start ranks, add their numbers up among them, and say how long it took.

    Raises:
        RankError: they could not.
    """
    from pllab import comm

    start = time.perf_counter()
    sums = comm.launch(add_up, num_ranks, timeout_s=60.0)
    seconds = time.perf_counter() - start
    expected = float(sum(range(1, num_ranks + 1)))
    if sums != [expected] * num_ranks:
        raise RuntimeError(f"{num_ranks} ranks added up to {sums} instead of {expected}; their messages are broken")
    return f"{num_ranks} ranks started, exchanged a tensor and ended in {seconds:.1f} s"


def add_up(rank: int, world_size: int) -> float:  # noqa: ARG001 - what launch calls
    """Sum rank + 1 over all ranks; runs in a rank."""
    import torch

    from pllab import comm

    device = "cuda" if comm.backend_name() == "nccl" else "cpu"
    total = torch.tensor(float(rank + 1), device=device)
    comm.all_reduce(total)
    return float(total)


def find_strays() -> list[str]:
    """Processes of this user that pllab started and that still run, one text each.

    Only pllab's own marks count: its modules on the command line, or an open file in a `pllab-` folder. This
    very process and its parents are left out.
    """
    try:
        import psutil
    except ImportError:
        return ["not looked for, because psutil is not installed"]
    family = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    me = psutil.Process().username()
    return [
        f"process {process.pid} {_whose(process)} ({_command(process)})"
        for process in psutil.process_iter(["username"])
        if process.pid not in family and process.info["username"] == me and _is_ours(process)
    ]


def _is_ours(process: Any) -> bool:
    import psutil

    try:
        command = " ".join(process.cmdline())
        if "python" not in command:
            return False
        if any(mark in command for mark in _COMMAND_MARKS):
            return True
        temp = tempfile.gettempdir()
        return any(
            Path(file.path).is_relative_to(temp) and Path(file.path).relative_to(temp).parts[0].startswith(_FOLDER_MARK)
            for file in process.open_files()
        )
    except psutil.Error:  # it ended meanwhile, or is not ours to look at
        return False


def _whose(process: Any) -> str:
    """Whether a living Python process still owns it, as while a notebook or a run is open."""
    import psutil

    try:
        parent = process.parent()
        if parent is not None and "python" in " ".join(parent.cmdline()):
            return f"in use by process {parent.pid}"
    except psutil.Error:
        pass
    return f"left behind, end it with kill {process.pid}"


def _command(process: Any) -> str:
    import psutil

    try:
        text = " ".join(process.cmdline())
    except psutil.Error:
        return "ended meanwhile"
    return text if len(text) <= 70 else f"{text[:67]}..."


def _devices() -> Iterator[tuple[str, str]]:
    """GPUs and the choice that follows from them; importing torch is the slow part of the report."""
    import torch

    from pllab.comm import plan_backend

    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    yield "GPUs", ", ".join(names) if names else "none; CPU lanes of one thread each take their place"
    yield "2 ranks", plan_backend(0, 2).reason


def _version(part: str) -> str:
    try:
        return metadata.version(part)
    except metadata.PackageNotFoundError:
        return "not installed"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (AttributeError, ValueError, OSError):
        return "not known on this system"
