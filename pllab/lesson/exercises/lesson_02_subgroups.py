"""The cases of exercise 02.3: `my_groups(members)` makes all groups and returns those of this rank.

The ranks first list which groups they would ask torch for, without making any: lists that differ are a deadlock,
and nobody has to wait for it. Then they make the groups. A sum in a group, to which each rank gives a one in its
own place, lists the members.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pllab import comm
from pllab.comm.collectives import list_new_groups
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.failures import seen_in_world
from pllab.lesson.exercises.ranks import Watch

MyGroups = Callable[[list[list[int]]], Any]
Members = list[list[int]]

_APART: Members = [[0, 2], [1]]
_OVERLAPPING: Members = [[0, 1], [1, 2], [0, 1, 2]]
_BY_SIZE: Members = [[0, 1, 2], [1, 2], [0, 1]]
_EQUAL: Members = [[0, 2], [1], [0, 2]]
_WITHOUT_1: Members = [[0, 2]]
_TASKS = (_APART, _OVERLAPPING, _BY_SIZE, _EQUAL, _WITHOUT_1)


@case(
    "every rank asks for the same groups in the same order, keeps its own in the order of members, and can sum in them"
)
def same_calls(my_groups: MyGroups) -> None:
    for members, seen in zip(
        _TASKS, zip(*seen_in_world(use_groups, my_groups, ((3,),), 3), strict=False), strict=False
    ):
        _judge(members, list(seen))


def use_groups(watch: Watch, rank: int, world_size: int, my_groups: MyGroups) -> list[dict[str, Any]]:
    """On every rank: compare the calls, make the groups, and find out by a sum who is in them."""
    results = []
    for members in _TASKS:
        results.append(_use(watch, rank, world_size, my_groups, members))
        if any(comm.all_gather_object("found" not in results[-1])):
            break  # the groups of a rank that failed are in no order
    return results


def _use(watch: Watch, rank: int, world_size: int, my_groups: MyGroups, members: Members) -> dict[str, Any]:
    lists = comm.all_gather_object(_asked(my_groups, members))
    seen: dict[str, Any] = {"rank": rank, "lists": lists}
    if None not in lists and (any(asked != lists[0] for asked in lists) or _not_asked_for(members, lists[0])):
        return seen
    made = watch.attempt(my_groups, [list(ranks) for ranks in members])
    if made.error:
        return seen | {"failed": made}
    groups = made.value
    if not isinstance(groups, list | tuple):
        return seen | {"no_list": repr(groups)[:80]}
    seen["num_groups"] = len(groups)
    if any(comm.all_gather_object(len(groups) != sum(rank in ranks for ranks in members))):
        return seen
    seen["strange"] = _strange(groups)
    if any(comm.all_gather_object(seen["strange"] is not None)):
        return seen
    summed = watch.attempt(lambda: [_members(group, rank, world_size) for group in groups])
    return seen | ({"failed": summed} if summed.error else {"found": summed.value})


def _asked(my_groups: MyGroups, members: Members) -> list[tuple[int, ...]] | None:
    """The groups that this rank would ask for; None when the function needs real groups to come to its end."""
    with list_new_groups() as asked:
        try:
            my_groups([list(ranks) for ranks in members])
        except Exception:
            return None
    return asked


def _strange(groups: Sequence[Any]) -> tuple[str, str] | None:
    """What among these is no group of its own, if anything."""
    for group in groups:
        if isinstance(group, comm.Group) and comm.group_name(group) == comm.group_name():
            return "world_group", "the group of the world, which was there before; ask new_group for each list."
        if not isinstance(group, comm.Group):
            return "no_group", f"{repr(group)[:60]} in its list; return the groups that new_group gives."
    if len({id(group) for group in groups}) < len(groups):
        return "merged", "one group twice; lists that are equal get a group each."
    return None


def _members(group: Any, rank: int, world_size: int) -> list[int]:
    present = torch.zeros(world_size)
    present[rank] = 1.0
    comm.all_reduce(present, group)
    return [other for other in range(world_size) if present[other]]


def _judge(members: Members, seen: list[dict[str, Any]]) -> None:
    lists = seen[0]["lists"]
    _judge_calls(lists)
    _judge_lists(members, lists)
    _judge_ends(seen)
    mine = [[ranks for ranks in members if one["rank"] in ranks] for one in seen]
    for one, right in zip(seen, mine, strict=True):
        if one["num_groups"] != len(right):
            raise Wrong(
                "wrong_number",
                f"Of the groups {members}, rank {one['rank']} belongs to {len(right)}, and it returned "
                f"{one['num_groups']}; all ranks make all groups, and each keeps its own.",
            )
    for one in seen:
        if one["strange"]:
            hint_id, clause = one["strange"]
            raise Wrong(hint_id, f"For {members}, rank {one['rank']} returned {clause}")
    for one, right in zip(seen, mine, strict=True):
        if one["found"] != right:
            raise _mistaken(one["rank"], one["found"], right)


def _judge_lists(members: Members, lists: list[list[tuple[int, ...]] | None]) -> None:
    """The calls of the ranks, which are the same, beside what was to be made."""
    if lists[0] is None or None in lists or not (missing := _not_asked_for(members, lists[0])):
        return
    asked = {tuple(sorted(ranks)) for ranks in lists[0]}
    if all(tuple(ranks) in asked for ranks in missing):
        raise Wrong("merged", f"{members} asks for {len(members)} groups: lists that are equal get a group each.")
    raise Wrong("wrong_members", f"No rank asked for a group of {missing}; the ranks asked for {lists[0]}.")


def _not_asked_for(members: Members, asked: list[tuple[int, ...]]) -> list[list[int]]:
    """The lists of ranks for which nobody makes a group; none when the calls could not be seen."""
    missing = Counter(tuple(sorted(ranks)) for ranks in members) - Counter(tuple(sorted(ranks)) for ranks in asked)
    return [list(ranks) for ranks in missing] if asked else []


def _judge_calls(lists: list[list[tuple[int, ...]] | None]) -> None:
    """The calls of the ranks side by side."""
    if None in lists or all(asked == lists[0] for asked in lists):
        return
    told = "; ".join(f"rank {rank}: {', '.join(map(str, asked or ())) or 'none'}" for rank, asked in enumerate(lists))
    if len({tuple(sorted(asked or ())) for asked in lists}) > 1:
        raise Wrong(
            "members_only",
            f"The ranks ask for different groups ({told}) and would wait for each other for ever. new_group is a "
            "call of all ranks, also of those that are not in the group.",
        )
    raise Wrong(
        "order_differs",
        f"The ranks ask for the same groups in different orders ({told}) and would wait for each other for ever. "
        "The members find each other by the number of the call: one order for all ranks.",
    )


def _judge_ends(seen: list[dict[str, Any]]) -> None:
    failed = sorted((one["failed"] for one in seen if "failed" in one), key=lambda one: one.late)
    if any(one.kind == "NotImplementedError" for one in failed):
        raise NotImplementedError
    if failed and failed[0].late:
        raise Wrong(
            "not_together", f"The ranks made the same calls, and then one waited for another: {failed[0].error}."
        )
    if failed:
        raise Wrong("raised", f"Your function raised {failed[0].error}.")
    for one in seen:
        if "no_list" in one:
            raise Wrong("no_list", f"Rank {one['rank']} returned {one['no_list']}; return a list of its groups.")


def _mistaken(rank: int, found: list[list[int]], right: list[list[int]]) -> Wrong:
    if sorted(found) == sorted(right):
        return Wrong("wrong_order", f"Rank {rank} belongs to {right}, in this order, and returned {found}.")
    return Wrong("wrong_members", f"Rank {rank} belongs to {right}, and a sum in its groups reaches {found}.")
