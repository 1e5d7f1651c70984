"""The cases of exercise 02.2: `enter(rank, world_size, init_file, deadline_s)`.

Two groups meet at the same time: one of processes 0 and 1, and one of process 2 alone, which begins when the first
group is there. A fixed port is taken by then. Then rank 1 of the group of two skips a barrier, and rank 0 stands in it
until the deadline that was asked for, or until rank 1 has mercy.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pllab import comm
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.watched_ranks import Attempt, Watch, line_up, worlds

Enter = Callable[[int, int, str, float], Any]

_PLAN = ((3,),)
_PLACES = ((0, 2), (1, 2), (0, 1))  # (rank, world size) of the three processes
_DEADLINE_S = 3.0  # what `enter` is asked for
_MERCY_S = 9.0


@case("rank and world_size are those of a gloo group of two, and a sum reaches both")
def both_are_there(enter: Enter) -> None:
    seen = _seen(enter)
    for process in (0, 1):
        _judge_place(process, seen[process])


@case("a second group, at the same time and with a file of its own, does not get in the way")
def two_at_once(enter: Enter) -> None:
    seen = _seen(enter)
    error = seen[2]["attempt"].error
    if re.search("EADDRINUSE|address already in use", error, re.IGNORECASE):
        raise Wrong(
            "fixed_port",
            "Two groups met at the same time, and the second found its port taken. Meet at init_file instead: "
            "every group has its own.",
        )
    _judge_place(2, seen[2])


@case("a barrier that rank 1 skips ends on rank 0 when deadline_s is over")
def deadline_ends_the_wait(enter: Enter) -> None:
    seen = _seen(enter)
    for process in (0, 1):
        _judge_place(process, seen[process])
    waited_s = seen[0]["waited_s"]
    if waited_s is None or waited_s >= _MERCY_S - 1:
        raise Wrong(
            "no_deadline",
            f"deadline_s was {_DEADLINE_S:g}, and rank 0 stood in the barrier for more than {_MERCY_S - 1:g} s, until "
            "rank 1 left the group. A group takes its deadline when it is made, as a timedelta.",
        )
    if waited_s < _DEADLINE_S / 2:
        raise Wrong("too_early", f"deadline_s was {_DEADLINE_S:g}, and rank 0 gave up after {waited_s:.1f} s.")


def _seen(enter: Enter) -> list[dict[str, Any]]:
    seen = worlds(in_two_groups, enter, _PLAN).of(3)
    if any(one["attempt"].kind == "NotImplementedError" for one in seen):
        raise NotImplementedError
    return seen


def in_two_groups(watch: Watch, process: int, num_processes: int, enter: Enter) -> dict[str, Any]:
    """In each process: leave the group of the check, run the student's function, and look around."""
    comm.teardown()
    folder, (rank, world_size) = watch.folder, _PLACES[process]
    if process == 2:
        _wait_for(folder / "inside-0", folder / "inside-1")
    attempt = watch.attempt(enter, rank, world_size, str(folder / f"meet-{world_size}"), _DEADLINE_S)
    (folder / f"inside-{process}").touch()
    seen: dict[str, Any] = {"attempt": attempt, "place": None, "waited_s": None}
    if comm.backend_name() is not None:
        total = torch.tensor([rank + 1.0])
        attempted = watch.attempt(comm.all_reduce, total)
        seen["place"] = (comm.backend_name(), comm.rank(), comm.world_size(), total.item(), attempted.error)
    line_up(folder, "entered", process, num_processes)
    if process == 0 and comm.world_size() == 2:
        start = time.monotonic()
        watch.attempt(comm.barrier)
        seen["waited_s"] = time.monotonic() - start
    if process == 0:
        (folder / "waited").touch()
    if process == 1:
        _wait_for(folder / "waited", timeout_s=_MERCY_S)
    comm.teardown()
    return seen


def _wait_for(*files: Path, timeout_s: float = 3 * _DEADLINE_S) -> None:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until and not all(file.exists() for file in files):
        time.sleep(0.02)


def _judge_place(process: int, seen: dict[str, Any]) -> None:
    rank, world_size = _PLACES[process]
    attempt: Attempt = seen["attempt"]
    who = f"Rank {rank} of {world_size}"
    if attempt.error and attempt.late:
        raise Wrong(
            "never_met",
            f"{who} waited for the others in vain ({attempt.error}). All ranks of a group give the same file and the "
            "same world_size, and each gives its own rank.",
        )
    if attempt.error:
        raise Wrong("raised", f"{who}: your function raised {attempt.error}.")
    if seen["place"] is None:
        raise Wrong("no_group", f"{who} came back and is in no group; call dist.init_process_group, and do not leave.")
    *place, total, error = seen["place"]
    right_total = 3.0 if world_size == 2 else 1.0
    if error or [*place, total] != ["gloo", rank, world_size, right_total]:
        raise Wrong(
            "wrong_rank",
            f"{who} found itself in a {place[0]} group as rank {place[1]} of {place[2]}, and a sum over the group gave "
            f"{error or f'{total:g}'} where {right_total:g} is right.",
        )
