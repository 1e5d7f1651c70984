"""The cases of exercise 02.3: `my_groups(members)` makes all groups and returns those of this rank.

The ranks first list which groups they would ask torch for, without making any: lists that differ are a deadlock,
and nobody has to wait for it. Then they make the groups. A sum in a group, to which each rank gives a one in its
own place, lists the members.
"""

from typing import Any

import torch

from pllab import comm
from pllab.comm.collectives import in_world, list_new_groups
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import refuse_failures, seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Watch

Members = list[list[int]]
Asked = list[tuple[int, ...]]

_APART: Members = [[0, 2], [1]]
_OVERLAPPING: Members = [[0, 1], [1, 2], [0, 1, 2]]
_BY_SIZE: Members = [[0, 1, 2], [1, 2], [0, 1]]
_EQUAL: Members = [[0, 2], [1], [0, 2]]
_WITHOUT_1: Members = [[0, 2]]
_TASKS = (_APART, _OVERLAPPING, _BY_SIZE, _EQUAL, _WITHOUT_1)


@case(
    "every rank asks for the same groups in the same order, keeps its own in the order of members, and can sum in them"
)
def same_calls(my_groups: Function) -> None:
    for members, *seen in zip(_TASKS, *seen_in_world(use_groups, my_groups, ((3,),), 3), strict=False):
        _judge_calls(members, [one["asked"] for one in seen])
        for step in ("returned", "summed"):  # the groups as torch knows them, and as a sum finds their members
            if all(step in one for one in seen):
                _judge_groups(members, [one[step] for one in seen])


def use_groups(watch: Watch, rank: int, world_size: int, my_groups: Function) -> list[dict[str, Any]]:
    """On every rank: compare the calls, make the groups, and find out by a sum who is in them.

    After the first difference nobody goes on: the ranks would wait for each other.
    """
    results: list[dict[str, Any]] = []
    for members in _TASKS:
        mine = [ranks for ranks in members if rank in ranks]
        results.append({"asked": _asked(my_groups, members)})
        lists = comm.all_gather_object(results[-1]["asked"])
        if None not in lists and any(asked != lists[0] for asked in lists):
            break
        made = watch.attempt(my_groups, [list(ranks) for ranks in members])
        results[-1]["returned"] = returned = made.holding(_known_members(made.value))
        if any(comm.all_gather_object(returned.error or returned.value != mine)):
            break
        summed = watch.attempt(lambda groups: [_sum_of(group, rank, world_size) for group in groups], made.value)
        results[-1]["summed"] = summed
        if any(comm.all_gather_object(summed.error or summed.value != mine)):
            break
    return results


def _asked(my_groups: Function, members: Members) -> Asked | None:
    """The groups that this rank would ask for; None when the function needs real groups to come to its end."""
    with list_new_groups() as asked:
        try:
            my_groups([list(ranks) for ranks in members])
        except Exception:
            return None
    return asked


def _known_members(groups: Any) -> Any:
    """The members of each group as torch knows them, or in words what is no group that was made for its list."""
    if not isinstance(groups, list | tuple):
        return f"no list but {groups!r:.60}"
    names, found = [comm.group_name()], []
    for group in groups:
        name = comm.group_name(group) if isinstance(group, comm.Group) else ""
        words = "a group that was there before" if name else f"no group but {group!r:.60}"
        is_old = name in ("", *names)
        found.append(words if is_old else [in_world(number, group) for number in range(comm.world_size(group))])
        names.append(name)
    return found


def _sum_of(group: Any, rank: int, world_size: int) -> list[int]:
    present = torch.zeros(world_size)
    present[rank] = 1.0
    comm.all_reduce(present, group)
    return [other for other in range(world_size) if present[other]]


def _judge_calls(members: Members, lists: list[Asked | None]) -> None:
    """The calls of the ranks side by side, where all could be seen."""
    if None in lists or all(asked == lists[0] for asked in lists):
        return
    told = "; ".join(f"rank {rank} {', '.join(map(str, asked or ())) or 'none'}" for rank, asked in enumerate(lists))
    is_order = len({tuple(sorted(asked or ())) for asked in lists}) == 1
    asked = f"For members = {members} the ranks ask new_group for groups in this order: {told}"
    right = "in the same order" if is_order else "also for the groups that it is not in"
    why = f"They would wait for each other for ever; right is that every rank makes all calls, {right}."
    raise Wrong("order_differs" if is_order else "members_only", f"{asked}. {why}")


def _judge_groups(members: Members, attempts: list[Attempt]) -> None:
    refuse_failures(attempts, f"With members = {members}")
    for rank, one in enumerate(attempts):
        right = [ranks for ranks in members if rank in ranks]
        if one.value != right:
            hint_id = "wrong_order" if sorted(map(str, one.value)) == sorted(map(str, right)) else "wrong"
            text = f"For members = {members} rank {rank} returned {one.value}; right is {right}, in this order."
            raise Wrong(hint_id, text)
