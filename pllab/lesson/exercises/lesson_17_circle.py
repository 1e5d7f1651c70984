"""The cases of exercise 17.2: `find_circle(schedule)` returns actions each of which waits for the next.

An action waits for what it needs and for what stands before it in its row. Illegal schedules are drawn at random;
every wait of the answer is looked up in the schedule, and any circle is right.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Any

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.rows import read_action
from pllab.schedule import Action, Schedule, interleaved, needs, one_f_one_b, problems, split_backwards, zb_h1, zbv

_ENDLESS = ("endless", "Your search never ends: note which actions it has visited, and stop when one comes again.")
_CROSSED = Schedule.of([["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]], "crossed")


@case("two ranks that wait for each other", on_hang=_ENDLESS)
def two_ranks(find_circle: Function) -> None:
    """The circle of the lesson, with whole and with split backwards."""
    halves = split_backwards(_CROSSED).rows
    _judge(find_circle, [_CROSSED, Schedule(halves), Schedule(halves[::-1])])


@case("an action that waits for a later one in its own row", on_hang=_ENDLESS)
def own_row(find_circle: Function) -> None:
    _judge(find_circle, [Schedule.of([["0F0", "0W0", "0I0"], ["1F0", "1I0", "1W0"]])])


@case("an empty list for a schedule that is legal", on_hang=_ENDLESS)
def legal(find_circle: Function) -> None:
    backwards = Schedule(zb_h1(3, 4).rows[::-1], "ZB-H1 from the last rank to the first")
    for schedule in (one_f_one_b(2, 2), zb_h1(3, 4), interleaved(2, 4), zbv(3, 5), one_f_one_b(1, 1), backwards):
        if circle := _circle(find_circle(schedule)):
            told = f"In this schedule:\n{schedule}\nyour circle is {_written(circle)}"
            raise Wrong("wrong", f"{told}; right is an empty list, since every action can run.")


@case("schedules with a few actions in the wrong place", on_hang=_ENDLESS)
def long_ones(find_circle: Function) -> None:
    _judge(find_circle, _swapped())


@case("rows in any order, and stages on any rank", on_hang=_ENDLESS)
def random_ones(find_circle: Function) -> None:
    _judge(find_circle, _shuffled())


def _swapped() -> Iterator[Schedule]:
    """Schedules with two actions swapped, until they deadlock."""
    draw = random.Random(11)
    legal_ones = [one_f_one_b(3, 4), one_f_one_b(4, 6), zb_h1(3, 4), zb_h1(4, 5), interleaved(2, 4), interleaved(3, 3)]
    for schedule in 4 * legal_ones:
        rows = [list(row) for row in schedule.rows]
        while not problems(Schedule.of(rows)):
            row = draw.choice(rows)
            place = draw.randrange(len(row) - 1)
            row[place], row[place + 1] = row[place + 1], row[place]
        spoiled = Schedule.of(draw.sample(rows, len(rows)))
        yield spoiled
        yield split_backwards(spoiled)  # where the circle runs through a backward, through its I now


def _shuffled() -> Iterator[Schedule]:
    """Any order of the rows and in the rows, where it deadlocks."""
    draw = random.Random(12)
    for make in (one_f_one_b, zb_h1, interleaved, zbv):
        for p, m in ((2, 2), (3, 2), (2, 4), (4, 3), (1, 2), (5, 11)):
            shuffled = Schedule.of([draw.sample(row, len(row)) for row in draw.sample(make(p, m).rows, p)])
            if problems(shuffled):
                yield shuffled


def _judge(find_circle: Function, schedules: Iterable[Schedule]) -> None:
    for schedule in schedules:
        circle = _circle(find_circle(schedule))
        where = f"In this schedule:\n{schedule}\n"
        if not circle:
            raise Wrong("found_none", f"{where}you found no circle, and {problems(schedule)[0].sentence}.")
        _judge_circle(circle, _waits(schedule), f"{where}your circle is {_written(circle)}")


def _judge_circle(circle: list[Action], waits: dict[Action, set[Action]], told: str) -> None:
    if strange := [action for action in circle if action not in waits]:
        raise Wrong("wrong", f"{told}, but {strange[0]} is not in the schedule.")
    if len(circle) > 1 and circle[0] == circle[-1]:
        raise Wrong("end_repeated", f"{told}. {circle[0]} is first and last; name every action of the circle once.")
    pairs = list(zip(circle, [*circle[1:], circle[0]], strict=True))
    off = [(one, other) for one, other in pairs if other not in waits[one]]
    if off and all(one in waits[other] for one, other in pairs):
        raise Wrong("backwards", f"{told}; turn it round: every action waits for the one after it in the list.")
    if off and (free := [action for action in circle if action not in _stuck(waits)]):
        raise Wrong("can_run", f"{told}, but {free[0]} can run: all it waits for runs. Follow actions that never run.")
    if off == pairs[-1:]:
        end = f"its end {circle[-1]} does not wait for its beginning {circle[0]}"
        raise Wrong("not_closed", f"{told}, but {end}. The way into a circle is not part of it.")
    if off:
        why = "it neither needs its result nor comes after it in a row"
        raise Wrong("no_wait", f"{told}, but {off[0][0]} does not wait for {off[0][1]}: {why}.")
    if len(set(circle)) < len(circle):
        raise Wrong("wrong", f"{told}, which passes an action twice; end where one comes again.")


def _waits(schedule: Schedule) -> dict[Action, set[Action]]:
    """What each action waits for."""
    present = set(schedule.actions())
    return {
        action: {*needs(action, schedule.num_stages, present), *row[:place]}
        for row in schedule.rows
        for place, action in enumerate(row)
    }


def _stuck(waits: dict[Action, set[Action]]) -> set[Action]:
    """The actions that never run."""
    stuck = set(waits)
    while able := {action for action in stuck if not waits[action] & stuck}:
        stuck -= able
    return stuck


def _circle(answer: Any) -> list[Action]:
    if answer is None or isinstance(answer, str | set | frozenset) or not isinstance(answer, Iterable):
        told = "return a list of actions, each before what it waits for, or an empty list"
        raise Wrong("no_action", f"Your function returned {answer!r}; {told}.")
    return [read_action(item) for item in answer]


def _written(circle: list[Action]) -> str:
    return ", ".join(map(str, circle))
