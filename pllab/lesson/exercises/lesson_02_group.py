"""The cases of exercise 02.2: `run_in_group(rank, world_size, init_file, work)`.

Two groups meet at the same time: one of ranks 0 and 1, and one of a single process that begins when the first
group is at work. A fixed port is taken by then. The processes start without a group.
"""

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pllab import comm
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_02_meeting import refusal
from pllab.lesson.judging import run_on_ranks

RunInGroup = Callable[[int, int, str, Callable[[], Any]], Any]

_WAIT_S = 15.0  # how long a process looks for the other group
_LAUNCH_S = 25.0


@case("work() runs in a gloo group, its value comes back, and no group is left")
def group_of_one(run_in_group: RunInGroup) -> None:
    def work() -> tuple[str | None, int]:
        return comm.backend_name(), comm.world_size()

    got = _alone(run_in_group, work)
    if isinstance(got, tuple) and got[0] is None:
        raise Wrong("no_group", "While work() ran, there was no group; call init_process_group before it.")
    if got != ("gloo", 1):
        raise Wrong(
            "wrong_value", f"work() returned ('gloo', 1) in a gloo group of one, and your function returned {got!r}."
        )


@case("when work() raises, the caller sees the exception, and no group is left")
def work_raises(run_in_group: RunInGroup) -> None:
    try:
        got = _alone(run_in_group, _fall, "raised an exception")
    except _Fallen:
        return
    raise Wrong("swallowed", f"work() raised an exception, and your function returned {got!r}; let it through.")


@case("two groups at the same time do not get in each other's way")
def two_at_once(run_in_group: RunInGroup) -> None:
    with tempfile.TemporaryDirectory(prefix="pllab-check-") as folder:
        try:
            seen = run_on_ranks(in_two_groups, run_in_group, 3, folder, timeout_s=_LAUNCH_S)
        except comm.RankError as error:
            raise _why(error) from None
    for (rank, world_size), (number, size, total, left_open) in zip(_PLACES, seen, strict=True):
        right_total = 3.0 if world_size == 2 else 1.0
        if (number, size, total) != (rank, world_size, right_total):
            raise Wrong(
                "wrong_rank",
                f"Rank {rank} of {world_size} found itself as rank {number} of {size}, and a sum over its group gave "
                f"{total:g} where {right_total:g} is right.",
            )
        if left_open:
            raise _open_group(f"on rank {rank} of {world_size}")


# (rank, world size) of the three processes: a group of two and a group of one.
_PLACES = ((0, 2), (1, 2), (0, 1))


def in_two_groups(process: int, _: int, run_in_group: RunInGroup, folder: str) -> tuple[int, int, float, bool]:
    """In each process: leave the group of the launch, run the student's function, and see what is left."""
    comm.teardown()
    rank, world_size = _PLACES[process]
    if world_size == 1:
        _wait_for(Path(folder, "inside-0"), Path(folder, "inside-1"))

    def work() -> tuple[int, int, float]:
        Path(folder, f"inside-{process}").touch()
        total = torch.tensor([rank + 1.0])
        comm.all_reduce(total)
        if world_size == 2:
            _wait_for(Path(folder, "inside-2"))
        return comm.rank(), comm.world_size(), total.item()

    number, size, total = run_in_group(rank, world_size, str(Path(folder, f"meeting-{world_size}")), work)
    return number, size, total, comm.backend_name() is not None


def _wait_for(*files: Path) -> None:
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until and not all(file.exists() for file in files):
        time.sleep(0.02)


class _Fallen(Exception):
    """What the work raises."""


def _fall() -> None:
    raise _Fallen("the work fell over")


def _alone(run_in_group: RunInGroup, work: Callable[[], Any], what: str = "returned") -> Any:
    """A call in this process, as rank 0 of 1, and a look for the group afterwards."""
    with tempfile.TemporaryDirectory(prefix="pllab-check-") as folder:
        try:
            return run_in_group(0, 1, str(Path(folder, "meeting")), work)
        finally:
            left_open = comm.backend_name() is not None
            comm.teardown()
            if left_open:
                raise _open_group(f"after work() {what}")


def _open_group(where: str) -> Wrong:
    if "raised" in where:
        return Wrong(
            "open_after_error",
            "work() raised an exception, and the group is still there: the line that ends it was jumped over. "
            "What must happen in any case stands in finally.",
        )
    return Wrong("open_group", f"The group is still there {where}; call destroy_process_group when the work is done.")


def _why(error: comm.RankError) -> Wrong:
    if re.search("EADDRINUSE|address already in use", str(error), re.IGNORECASE):
        return Wrong(
            "fixed_port",
            "Two groups met at the same time, and the second found its port taken. Meet at init_file instead: "
            "every group has its own.",
        )
    if "had not finished" in str(error):
        return Wrong(
            "never_met",
            "The ranks never met, or one stayed in the group for ever. All ranks of a group give the same file and "
            "the same world_size, and each gives its own rank.",
        )
    return refusal(error)
