"""The cases of exercise 02.2: `enter(rank, world_size, init_file, deadline_s)`.

Two groups meet at the same time: one of processes 0 and 1, and one of process 2 alone, which begins when the first
group is there. A fixed port is taken by then. Then rank 1 of the group of two skips a barrier, and rank 0 stands in it
until the deadline that was asked for, or until rank 1 has mercy. Where all was well so far, the three processes meet
once more with another deadline, and now rank 0 skips.
"""

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pllab import comm
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.failures import seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Watch, line_up

Enter = Callable[[int, int, str, float], Any]

_PLAN = ((3,),)
_PLACES = ((0, 2), (1, 2), (0, 1))  # (rank, world size) of the three processes
_DEADLINE_S, _SECOND_DEADLINE_S = 3.3, 1.1  # what `enter` is asked for: no whole seconds
_EARLY_S = 0.25  # gloo's own clock is as exact as that
_MERCY_S = 5.0  # after the deadline


@case("rank and world_size are those of a gloo group of two, and a sum reaches both")
def both_are_there(enter: Enter) -> None:
    seen = _seen(enter)
    for process in (0, 1):
        _judge_place(*_PLACES[process], seen[process], _DEADLINE_S)


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
    _judge_place(*_PLACES[2], seen[2], _DEADLINE_S)
    asked = tuple({one["asked"] for one in seen})
    for one in seen:  # a group may have taken its file away again
        other = [name for name in one["files"] if not name.startswith(asked)]
        if other and not any(name.startswith(one["asked"]) for name in one["files"]):
            raise Wrong(
                "wrong_file",
                f"The file of this group is {one['asked']}, and its folder has {', '.join(other)}. Meet at init_file "
                "itself: two groups that meet in one place get in each other's way.",
            )


@case("a barrier that rank 1 skips ends on rank 0 when deadline_s is over, and so on every rank")
def deadline_ends_the_wait(enter: Enter) -> None:
    seen = _seen(enter)
    for process in (0, 1):
        _judge_place(*_PLACES[process], seen[process], _DEADLINE_S)
    _judge_wait(0, 1, seen[0]["waited_s"], _DEADLINE_S)
    if any(one["again"] is None for one in seen):
        return  # another case has told why
    for rank in range(3):
        _judge_place(rank, 3, seen[rank]["again"], _SECOND_DEADLINE_S)
    for rank in (1, 2):
        _judge_wait(rank, 0, seen[rank]["again"]["waited_s"], _SECOND_DEADLINE_S)


def _judge_wait(rank: int, skips: int, waited_s: float | None, deadline_s: float) -> None:
    where = f"deadline_s was {deadline_s:g}, and rank {rank}"
    if waited_s is None or waited_s >= deadline_s + _MERCY_S - 1:
        raise Wrong(
            "no_deadline",
            f"{where} stood in the barrier for more than {deadline_s + _MERCY_S - 1:g} s, until rank {skips} left the "
            "group. Every rank gives the group its deadline when it is made, as a timedelta.",
        )
    if waited_s < deadline_s - _EARLY_S:
        raise Wrong("too_early", f"{where} gave up after {waited_s:.1f} s. The deadline is deadline_s, not rounded.")


def _seen(enter: Enter) -> list[dict[str, Any]]:
    seen = seen_in_world(in_two_groups, enter, _PLAN, 3)
    if any(one["attempt"].kind == "NotImplementedError" for one in seen):
        raise NotImplementedError
    return seen


def in_two_groups(watch: Watch, process: int, num_processes: int, enter: Enter) -> dict[str, Any]:
    """In each process: leave the group of the check, run the student's function, and look around."""
    comm.teardown()
    folder, (rank, world_size) = watch.folder, _PLACES[process]
    if process == 2:
        _wait_for(folder / "inside-0", folder / "inside-1", timeout_s=3 * _DEADLINE_S)
    meet = folder / "meet" / f"group-of-{world_size}"
    meet.parent.mkdir(exist_ok=True)
    seen = _enter(watch, enter, rank, world_size, meet, _DEADLINE_S)
    (folder / f"inside-{process}").touch()
    line_up(folder, "entered", process, num_processes)
    seen |= {"asked": meet.name, "files": sorted(file.name for file in meet.parent.iterdir()), "again": None}
    if world_size == 2:
        seen["waited_s"] = _skip(watch, "first", rank, 1, [0], _DEADLINE_S)
    line_up(folder, "waited", process, num_processes)
    comm.teardown()
    if seen["place"] == ("gloo", rank, world_size) and not _wait_is_wrong(seen, process):
        (folder / f"well-{process}").touch()
    line_up(folder, "again", process, num_processes)
    if all((folder / f"well-{other}").exists() for other in range(num_processes)):
        meet = meet.with_name("group-of-3")
        seen["again"] = _enter(watch, enter, process, num_processes, meet, _SECOND_DEADLINE_S)
        line_up(folder, "entered-again", process, num_processes)
        seen["again"]["waited_s"] = _skip(watch, "second", process, 0, [1, 2], _SECOND_DEADLINE_S)
        line_up(folder, "waited-again", process, num_processes)
        comm.teardown()
    return seen


def _wait_is_wrong(seen: dict[str, Any], process: int) -> bool:
    try:
        if process == 0:
            _judge_wait(0, 1, seen["waited_s"], _DEADLINE_S)
    except Wrong:
        return True
    return False


def _enter(watch: Watch, enter: Enter, rank: int, world_size: int, meet: Path, deadline_s: float) -> dict[str, Any]:
    start = time.monotonic()
    attempt = watch.attempt(enter, rank, world_size, str(meet), deadline_s)
    seen: dict[str, Any] = {"attempt": dataclasses.replace(attempt, value=None), "place": None, "waited_s": None}
    if comm.backend_name() is not None:
        total = torch.tensor([rank + 1.0])
        summed = watch.attempt(comm.all_reduce, total)
        seen |= {"place": (comm.backend_name(), comm.rank(), comm.world_size()), "total": total.item()}
        seen["sum_error"] = summed.error
    return seen | {"took_s": time.monotonic() - start}


def _skip(watch: Watch, name: str, rank: int, skips: int, others: list[int], deadline_s: float) -> float | None:
    """How long this rank stood in a barrier that rank `skips` does not make; that one leaves after all others."""
    if comm.backend_name() is None:
        return None
    if rank == skips:
        out = [watch.folder / f"out-{name}-{other}" for other in others]
        _wait_for(*out, timeout_s=deadline_s + _MERCY_S)
        comm.teardown()
        return None
    start = time.monotonic()
    watch.attempt(comm.barrier)
    waited_s = time.monotonic() - start
    (watch.folder / f"out-{name}-{rank}").touch()
    return waited_s


def _wait_for(*files: Path, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until and not all(file.exists() for file in files):
        time.sleep(0.02)


def _judge_place(rank: int, world_size: int, seen: dict[str, Any], deadline_s: float) -> None:
    attempt: Attempt = seen["attempt"]
    who = f"Rank {rank} of {world_size}"
    if (attempt.late or seen.get("sum_error")) and seen["took_s"] < deadline_s / 2:
        raise Wrong(
            "too_early",
            f"{who} gave up waiting for the others after {seen['took_s']:.2f} s, and deadline_s was {deadline_s:g}: a "
            "timedelta of so many seconds.",
        )
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
    backend, *place = seen["place"]
    right_total, total, error = world_size * (world_size + 1) / 2, seen["total"], seen["sum_error"]
    if error or [*place, total] != [rank, world_size, right_total]:
        raise Wrong(
            "wrong_rank",
            f"{who} found itself in a {backend} group as rank {place[0]} of {place[1]}, and a sum over the group gave "
            f"{error or f'{total:g}'} where {right_total:g} is right.",
        )
    if backend != "gloo":
        text = f"{who} is in its group, and the backend of that is {backend}; ask for gloo by name."
        raise Wrong("no_backend", text)
