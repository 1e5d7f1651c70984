"""The cases of exercise 17.2: `find_circle(schedule)` returns actions each of which waits for the next.

An action waits for what it needs and for what stands before it in its row. Illegal schedules are drawn at random;
every wait of the answer is looked up in the schedule, and any circle is right.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_11_read import read_action
from pllab.schedule import Action, Schedule, interleaved, needs, one_f_one_b, problems, split_backwards, zb_h1, zbv

FindCircle = Callable[[Schedule], Any]
ENDLESS = ("endless", "Your search never ends: note which actions it has been at, and stop when one comes again.")


def two_ranks(find_circle: FindCircle) -> None:
    """The circle of the lesson: two ranks that wait for each other, with whole and with split backwards."""
    for schedule in (CROSSED, split_backwards(CROSSED), Schedule(split_backwards(CROSSED).rows[::-1], "crossed")):
        _judge(find_circle, schedule)


def own_row(find_circle: FindCircle) -> None:
    """An action that waits for one behind it in its own row."""
    _judge(find_circle, EARLY)


def legal(find_circle: FindCircle) -> None:
    """A legal schedule has no circle."""
    backwards = Schedule(zb_h1(3, 4).rows[::-1], "ZB-H1 from the last rank to the first")
    for schedule in (one_f_one_b(2, 2), zb_h1(3, 4), interleaved(2, 4), zbv(3, 5), one_f_one_b(1, 1), backwards):
        circle = _circle(find_circle, schedule)
        if circle:
            told = f"{schedule.name} is legal, and you found the circle {_written(circle)}"
            raise Wrong("blames_the_legal", f"{told}; return an empty list where no circle is.")


def long_ones(find_circle: FindCircle) -> None:
    """Schedules with two actions swapped, until they deadlock."""
    for schedule in _swapped():
        _judge(find_circle, schedule)


def random_ones(find_circle: FindCircle) -> None:
    """Rows in any order, and any stage on any rank."""
    for schedule in _shuffled():
        _judge(find_circle, schedule)


CROSSED = Schedule.of([["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]], "crossed")
EARLY = Schedule.of([["0F0", "0W0", "0I0"], ["1F0", "1I0", "1W0"]], "early")


def _swapped() -> Iterator[Schedule]:
    draw = random.Random(11)
    legal_ones = [one_f_one_b(3, 4), one_f_one_b(4, 6), zb_h1(3, 4), zb_h1(4, 5), interleaved(2, 4), interleaved(3, 3)]
    for _ in range(4):
        for schedule in legal_ones:
            spoiled = _spoiled(schedule, draw)
            yield spoiled
            yield split_backwards(spoiled)  # where the circle runs through a backward, through its I now


def _spoiled(schedule: Schedule, draw: random.Random) -> Schedule:
    rows = [list(row) for row in schedule.rows]
    while not problems(Schedule.of(rows)):
        row = draw.choice(rows)
        place = draw.randrange(len(row) - 1)
        row[place], row[place + 1] = row[place + 1], row[place]
    return Schedule.of(draw.sample(rows, len(rows)), f"{schedule.name}, spoiled")


def _shuffled() -> Iterator[Schedule]:
    draw = random.Random(12)
    for make in (one_f_one_b, zb_h1, interleaved, zbv):
        for p, m in ((2, 2), (3, 2), (2, 4), (4, 3), (1, 2), (5, 11)):
            rows = [draw.sample(row, len(row)) for row in draw.sample(make(p, m).rows, p)]
            shuffled = Schedule.of(rows, f"{make.__name__}({p}, {m}), shuffled")
            if problems(shuffled):
                yield shuffled


def _judge(find_circle: FindCircle, schedule: Schedule) -> None:
    circle = _circle(find_circle, schedule)
    where = f"In this schedule:\n{schedule}\n"
    if not circle:
        raise Wrong("found_none", f"{where}you found no circle, and {problems(schedule)[0].sentence}.")
    if strange := [action for action in circle if action not in set(schedule.actions())]:
        raise Wrong("not_there", f"{where}your circle has {strange[0]}, which is not in the schedule.")
    if len(circle) > 1 and circle[0] == circle[-1]:
        raise Wrong("end_repeated", f"{where}{circle[0]} is first and last; name every action of the circle once.")
    _judge_waits(circle, schedule, where)
    if len(set(circle)) < len(circle):
        raise Wrong("walks_twice", f"{where}{_written(circle)} passes an action twice; end where one comes again.")


def _judge_waits(circle: list[Action], schedule: Schedule, where: str) -> None:
    pairs = list(zip(circle, [*circle[1:], circle[0]], strict=True))
    off = [(one, other) for one, other in pairs if not _waits(one, other, schedule)]
    if not off:
        return
    one, other = off[0]
    told = f"{where}your circle is {_written(circle)}"
    if all(_waits(late, early, schedule) for early, late in pairs):
        raise Wrong("backwards", f"{told}; turn it round: every action waits for the one after it in the list.")
    stuck = set(_stuck(schedule))
    if free := [action for action in circle if action not in stuck]:
        raise Wrong(
            "can_run",
            f"{told}. {free[0]} runs, since all that it waits for does; of the waits follow those for an action that "
            "never runs.",
        )
    if off == [pairs[-1]]:
        end = f"{told}, and its end {one} does not wait for its beginning {other}"
        if way_in := [action for action in circle[1:] if _waits(one, action, schedule)]:
            end += f", but for {way_in[0]}. The way in is no part of a circle"
        raise Wrong("not_closed", f"{end}.")
    raise Wrong(
        "no_wait",
        f"{told}, but {one} does not wait for {other}: it neither needs its result nor stands behind it in a row.",
    )


def _stuck(schedule: Schedule) -> Iterator[Action]:
    """The actions that never run."""
    present, rows = set(schedule.actions()), [list(row) for row in schedule.rows]
    done: set[Action] = set()

    def can_run(row: list[Action]) -> bool:
        return bool(row) and all(need in done for need in needs(row[0], schedule.num_stages, present))

    while able := [row for row in rows if can_run(row)]:
        done.add(able[0].pop(0))
    for row in rows:
        yield from row


def _waits(action: Action, other: Action, schedule: Schedule) -> bool:
    if other in needs(action, schedule.num_stages, set(schedule.actions())):
        return True
    row = schedule.rows[schedule.rank_of_stage[action.stage]]
    return other in row[: row.index(action)]


def _circle(find_circle: FindCircle, schedule: Schedule) -> list[Action]:
    answer = find_circle(schedule)
    if answer is None:
        raise Wrong("nothing", "Your function returned None; return a list of actions, empty where no circle is.")
    if isinstance(answer, set | frozenset):
        raise Wrong(
            "no_order",
            "Your function returned a set, which has no order; return a list, each before what it waits for.",
        )
    try:
        if isinstance(answer, str):
            raise TypeError
        items = list(answer)
    except TypeError:
        raise Wrong("no_list", f"Your function returned {answer!r}; return a list of actions.") from None
    return [read_action(item) for item in items]


def _written(circle: list[Action]) -> str:
    return ", ".join(map(str, circle))
