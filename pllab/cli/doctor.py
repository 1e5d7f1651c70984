"""`pllab doctor`: what this machine has, what pllab would choose and why, and what was left running."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import torch

from pllab import accelerator, comm
from pllab.arguments import require, whole_number
from pllab.comm.devices import num_cores, num_gpus
from pllab.show.theme import count_of

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PARTS = ("torch", "transformers", "datasets", "jupyterlab", "ipyparallel", "anywidget")
# The marks of pllab's processes: an open file in a folder of this name, or a module on the command line.
_FOLDER_MARK = "pllab-"
_COMMAND_MARKS = ("pllab.comm", "-m pllab")


def describe(ranks: int = 0) -> None:
    """Describe this machine as pllab sees it.

    Args:
        ranks: Start this many ranks and let them exchange a tensor; 0 starts none.

    Raises:
        ValueError: ranks is negative, or their messages are broken.
        RankError: the ranks could not exchange a tensor.
    """
    whole_number("ranks", ranks, least=0)
    for name, text in report():
        print(f"{name:<12} {text}", flush=True)
    if ranks:
        start = time.perf_counter()
        sums = comm.launch(add_up, ranks, timeout_s=60.0)
        require(sums == [sum(range(1, ranks + 1))] * ranks, f"{ranks} ranks added up to {sums}; messages are broken")
        seconds = time.perf_counter() - start
        print(f"{'ranks':<12} {count_of(ranks, 'rank')} started, exchanged a tensor and ended in {seconds:.1f} s")


def report() -> Iterator[tuple[str, str]]:
    """The lines of the report: name and text."""
    yield "cores", f"{num_cores()} for this process, {os.cpu_count()} in the machine"
    yield "memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.1f} GB"
    for part in _PARTS:
        yield part, _version(part)
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    yield "chromium", browser or "not found; tests that need a browser are skipped"
    names = [accelerator.name_of(index) for index in range(num_gpus())]
    yield "GPUs", ", ".join(names) if names else "none; CPU lanes of one thread each take their place"
    yield "2 ranks", comm.plan_backend(0, 2).reason
    yield "strays", "; ".join(find_strays()) or "none: no process of pllab runs"


def add_up(rank: int, world_size: int) -> float:  # noqa: ARG001 - what launch calls
    """Sum rank + 1 over all ranks; runs in a rank."""
    total = torch.tensor(float(rank + 1), device=comm.own_device())
    comm.all_reduce(total)
    return float(total)


def find_strays() -> list[str]:
    """Processes of this user that pllab started and that still run, one text each; what they started is left out.

    Only pllab's own marks count: its modules on the command line, or an open file in a `pllab-` folder. This
    process and its parents do not count.
    """
    try:
        import psutil
    except ImportError:
        return ["not looked for, because psutil is not installed"]
    me = psutil.Process()
    family = {me.pid, *(parent.pid for parent in me.parents())}
    ours = str(Path(tempfile.gettempdir()) / _FOLDER_MARK)
    # Fields that this user may not read are None, and a process that ends meanwhile is left out.
    processes = [process.info for process in psutil.process_iter(["pid", "ppid", "username", "cmdline", "open_files"])]
    commands = {info["pid"]: " ".join(info["cmdline"] or ()) for info in processes}
    parents = {}  # of each process with a mark
    for info in processes:
        number, command = info["pid"], commands[info["pid"]]
        is_marked = any(mark in command for mark in _COMMAND_MARKS)
        is_marked |= any(file.path.startswith(ours) for file in info["open_files"] or ())
        if "python" in command and is_marked and number not in family and info["username"] == me.username():
            parents[number] = info["ppid"]
    strays = []
    for number, parent in parents.items():
        if parent in parents:
            continue  # it ends with the one that started it
        command = commands[number]
        in_use = "python" in commands.get(parent, "")  # as while a notebook or a run is open
        state = f"in use by process {parent}" if in_use else f"left behind, end it with kill {number}"
        strays.append(f"process {number} {state} ({command if len(command) <= 70 else f'{command[:67]}...'})")
    return strays


def _version(part: str) -> str:
    try:
        return metadata.version(part)
    except metadata.PackageNotFoundError:
        return "not installed"
