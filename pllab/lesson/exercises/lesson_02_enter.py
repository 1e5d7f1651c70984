"""The cases of exercise 02.2: `enter(rank, world_size, init_file, deadline_s)`.

Two groups meet at the same time: one of two ranks, and one of a single rank, which begins when the first group is
there. A fixed port is taken by then. Then rank 1 of the group of two skips a barrier, and rank 0 stands in it until the
deadline that was asked for, or until rank 1 has mercy. After that, three ranks meet with a deadline that is longer than
rank 0 has just waited, and rank 0 skips: a function with a number of its own gives up too early there.
"""

import re
import time
from typing import NamedTuple

import torch

from pllab import comm
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Watch, appear, line_up


class Entered(NamedTuple):
    """One rank: its call, the group that it is in, and how long it stood in the barrier.

    deadline_s: what `enter` was asked for.
    place: in words, with the sum of rank + 1 over the group.
    files: where the groups meet, while they are all there.
    """

    attempt: Attempt
    deadline_s: float
    place: str
    files: list[str]
    waited_s: float | None


_PLAN = ((2, 1), (3,))
_DEADLINE_S = 1.1  # what `enter` is asked for by the first groups: no whole seconds
_LONGER_S = 0.4  # than rank 0 waited in the first group, for the third
_SKIPS = {1: 0, 2: 1, 3: 0}  # the rank that skips the barrier
_EARLY_S = 0.25  # gloo's own clock is as exact as that
_MERCY_S = 5.0  # after the deadline
_PLACE = "a group with the backend {} as rank {} of {}, in which the ranks plus 1 sum to {}"


@case("rank and world_size are those of a gloo group of two, and a sum reaches both")
def both_are_there(enter: Function) -> None:
    _judge_places(2, seen_in_world(meet, enter, _PLAN, 2))


@case("a second group, at the same time and with another file, does not interfere")
def two_at_once(enter: Function) -> None:
    seen = seen_in_world(meet, enter, _PLAN, 1)
    if re.search("EADDRINUSE|address already in use", seen[0].attempt.error, re.IGNORECASE):
        raise Wrong("fixed_port", "Two groups met at the same time, and the second's port was taken: use init_file.")
    _judge_places(1, seen)
    other = [name for name in seen[0].files if not name.startswith(("group-of-1", "group-of-2"))]
    if other and "group-of-1" not in "".join(seen[0].files):  # a group may have taken its file away again
        told = f"The file of this group is group-of-1, and its folder has {', '.join(other)}. Meet at init_file itself"
        raise Wrong("wrong_file", f"{told}: two groups that meet in one place interfere with each other.")


@case("a barrier that one rank skips ends on all others when deadline_s is over")
def deadline_ends_the_wait(enter: Function) -> None:
    for size in (2, 3):
        seen = seen_in_world(meet, enter, _PLAN, size)
        _judge_places(size, seen)
        for rank in set(range(size)) - {_SKIPS[size]}:
            waited_s, deadline_s = seen[rank].waited_s, seen[rank].deadline_s
            who = f"deadline_s was {deadline_s:g}, and rank {rank} of {size}"
            if waited_s < deadline_s - _EARLY_S:
                hint_id = "too_early" if size == 2 else "own_deadline"
                advice = "Give the group deadline_s, neither rounded nor a number of your own."
                raise Wrong(hint_id, f"{who} gave up after {waited_s:.1f} s. {advice}")
            if waited_s >= deadline_s + _MERCY_S - 1:
                told = f"{who} waited in a barrier for {waited_s:.1f} s, until rank {_SKIPS[size]} left"
                raise Wrong("no_deadline", f"{told}. Every rank gives the group its deadline, a timedelta of seconds.")


def meet(watch: Watch, rank: int, world_size: int, enter: Function) -> Entered | None:
    """On every rank: leave the group of the check, run the student's function, look around, and wait."""
    comm.teardown()
    folder, deadline_s = watch.folder, _DEADLINE_S
    if world_size == 3:
        if list(folder.glob("wrong-*")):
            return None  # the first groups have told enough
        deadline_s = round(float((folder / "out-2-0").read_text()) + _LONGER_S, 2)
    if world_size == 1:
        appear(folder / "inside-2-0", folder / "inside-2-1", timeout_s=3 * deadline_s)
    file = folder / "meet" / f"group-of-{world_size}"
    file.parent.mkdir(exist_ok=True)
    attempt = watch.attempt(enter, rank, world_size, str(file), deadline_s).holding(None)
    place, backend = "no group", comm.backend_name()
    if backend is not None:
        total = torch.tensor([rank + 1.0])
        summed = watch.attempt(comm.all_reduce, total)
        place = _PLACE.format(backend, comm.rank(), comm.world_size(), summed.error or f"{total.item():g}")
    if world_size < 3 and place != _right_place(rank, world_size):
        (folder / f"wrong-{world_size}-{rank}").touch()
    (folder / f"inside-{world_size}-{rank}").touch()
    if world_size < 3:
        line_up(folder, "entered", rank if world_size == 2 else 2, 3)
    files = sorted(each.name for each in file.parent.iterdir())
    waited_s = None if backend is None else _stand(watch, rank, world_size, deadline_s)
    return Entered(attempt, deadline_s, place, files, waited_s)


def _stand(watch: Watch, rank: int, world_size: int, deadline_s: float) -> float | None:
    """How long this rank stood in a barrier that one rank does not make; that one leaves after all others."""
    if rank != _SKIPS[world_size]:
        start = time.monotonic()
        watch.attempt(comm.barrier)
        waited_s = time.monotonic() - start
        (watch.folder / f"out-{world_size}-{rank}").write_text(f"{waited_s}")
        return waited_s
    others = [watch.folder / f"out-{world_size}-{other}" for other in range(world_size) if other != rank]
    if not appear(*others, timeout_s=deadline_s + _MERCY_S):
        (watch.folder / f"wrong-{world_size}-{rank}").touch()
    comm.teardown()
    return None


def _right_place(rank: int, world_size: int) -> str:
    return _PLACE.format("gloo", rank, world_size, sum(range(world_size + 1)))


def _judge_places(size: int, seen: list[Entered]) -> None:
    for rank, one in enumerate(seen):
        who, attempt = f"Rank {rank} of {size}", one.attempt
        if attempt.late:
            told = f"{who} waited for others that never came ({attempt.error})"
            why = "All ranks of a group give the same file and the same world_size, and each gives its own rank."
            raise Wrong("never_met", f"{told}. {why}")
        if attempt.error:
            raise Wrong("raised", f"{who}: your function raised {attempt.error}.")
        if one.place != (right := _right_place(rank, size)):
            raise Wrong("wrong", f"{who} came back and is in {one.place}; right is {right}.")
