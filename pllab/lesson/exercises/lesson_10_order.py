"""The cases of exercise 10.1: `one_f_one_b(num_stages, num_microbatches)` gives a row of actions for each stage.

An action may be the text `F0`, the text `2F0` or an `Action`; a whole `Schedule`, its CSV or a dictionary of rows
is taken too. The rows are judged by the package's check, by the micro-batches they hold and by the simulator; no other
1F1B is asked.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice, pairwise
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.schedule import Action, Kind, Schedule, ScheduleError, check, gpipe, peak_in_flight
from pllab.simulate import Costs, simulate

OneFOneB = Callable[[int, int], Any]

# Stages and micro-batches: a few where swapped numbers show, and a few drawn by chance under a fixed seed.
_DRAW = random.Random(10)
_SHAPES = [
    (4, 8),
    (3, 4),
    (2, 5),
    (4, 4),
    (5, 12),
    (2, 2),
    *((_DRAW.randint(2, 7), _DRAW.randint(7, 23)) for _ in "123"),
]
_EQUAL = Costs(1.0, 0.5, 0.5)
_LONGER_BACKWARD = Costs(1.0, 1.0, 1.0)

ENDLESS = ("endless", "A row never ends: it has m forwards and m backwards, and every loop over them needs an end.")


def complete(one_f_one_b: OneFOneB) -> None:
    """One row per stage, every action once."""
    for p, m in _SHAPES:
        _judge_complete(_rows(one_f_one_b, p, m), p, m)


def can_run(one_f_one_b: OneFOneB) -> None:
    """The rows are a legal schedule."""
    for p, m in _SHAPES:
        _judge_order(_schedule(one_f_one_b, p, m))


def holds_few(one_f_one_b: OneFOneB) -> None:
    """In flight on stage s are at most min(m, p - s)."""
    for p, m in _SHAPES:
        _judge_memory(_schedule(one_f_one_b, p, m), p, m)


def as_quick(one_f_one_b: OneFOneB) -> None:
    """The simulated makespan is GPipe's, for a backward as long as a forward and for one twice as long."""
    for p, m in _SHAPES:
        _judge_time(_schedule(one_f_one_b, p, m), p, m)


def fewer_than_stages(one_f_one_b: OneFOneB) -> None:
    """All rules again with fewer micro-batches than stages."""
    _at_the_edge(
        one_f_one_b, [(4, 2), (5, 1), (8, 3), (3, 2), (9, 8)], "few_batches", "fewer micro-batches than stages"
    )


def one_stage(one_f_one_b: OneFOneB) -> None:
    """All rules again with one stage."""
    _at_the_edge(one_f_one_b, [(1, 3), (1, 1), (1, 12)], "one_stage", "a single stage")


def _at_the_edge(one_f_one_b: OneFOneB, shapes: list[tuple[int, int]], hint_id: str, where: str) -> None:
    for p, m in shapes:
        asked = f"with {where}, p = {p} and m = {m}"
        try:
            _judge_complete(_rows(one_f_one_b, p, m), p, m)
            schedule = _schedule(one_f_one_b, p, m)
            _judge_order(schedule)
            _judge_memory(schedule, p, m)
            _judge_time(schedule, p, m)
        except NotImplementedError:
            raise
        except Wrong as wrong:
            raise Wrong(hint_id, f"Right so far, but not {asked}: {wrong.sentence}") from None
        except Exception as error:
            raise Wrong(
                hint_id,
                f"Right so far, but {asked}, your function raised {type(error).__name__}: {error}. The warm-up has at "
                "most m forwards.",
            ) from None


def _rows(one_f_one_b: OneFOneB, p: int, m: int) -> list[list[Action]]:
    given = one_f_one_b(p, m)
    if given is None:
        raise Wrong("nothing", "one_f_one_b returned None; return a list with one row for each stage.")
    rows = _unpacked(given)
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise Wrong("no_rows", f"one_f_one_b should return a list of rows, and it returned {given!r}.")
    found = [_row(stage, row, m) for stage, row in enumerate(islice(rows, 100))]
    if len(found) != p:
        swapped = " The number of stages comes first." if len(found) == m else ""
        raise Wrong("wrong_number_of_rows", f"For p = {p} and m = {m} you returned {len(found)} rows.{swapped}")
    return found


def _unpacked(given: Any) -> Any:
    """The rows of a schedule, of a dictionary from stage to row, or of a text with a line for each stage."""
    if isinstance(given, Schedule):
        return given.rows
    if isinstance(given, dict):
        return [given[stage] for stage in sorted(given)]
    return given.splitlines() if isinstance(given, str) and "\n" in given else given


def _row(stage: int, row: Any, m: int) -> list[Action]:
    if isinstance(row, str):
        row = row.replace(",", " ").split()
    if not isinstance(row, Iterable):
        raise Wrong("no_rows", f"Row {stage} should be a list of actions such as F0, and it is {row!r}.")
    actions = [_action(stage, item) for item in islice(row, 8 * m + 8)]
    if len(actions) >= 8 * m + 8:
        raise Wrong(*ENDLESS)
    return actions


def _action(stage: int, item: Any) -> Action:
    """`"F0"`, `"2F0"`, `("F", 0)`, `(2, "F", 0)` or an `Action`; it belongs to the stage of its row."""
    try:
        if isinstance(item, str):
            text = item.strip()
            return Action.parse(text if text[:1].isdigit() else f"{stage}{text}")
        kind, microbatch = tuple(item)[-2:]
        return Action(item[0] if len(item) == 3 else stage, Kind(kind), int(microbatch))
    except (TypeError, ValueError):
        raise Wrong("no_action", f"Row {stage} holds {item!r}; an action is a text such as F0 or B0.") from None


def _judge_complete(rows: list[list[Action]], p: int, m: int) -> None:
    asked = f"For p = {p} and m = {m}"
    for stage, row in enumerate(rows):
        times = Counter(row)
        wanted = {Action(stage, kind, i) for kind in (Kind.F, Kind.B) for i in range(m)}
        if strange := sorted(set(times) - wanted):
            raise Wrong(
                "outside",
                f"{asked} row {stage} holds {strange[0]}; it may hold F0 to F{m - 1} and B0 to B{m - 1} of its own "
                "stage.",
            )
        if twice := sorted(action for action, number in times.items() if number > 1):
            raise Wrong("duplicate", f"{asked} row {stage} holds {twice[0]} {times[twice[0]]} times; once is the rule.")
        missing = sorted(wanted - set(times), key=lambda action: action.microbatch)
        if missing and all(action.kind is Kind.B for action in missing):
            raise Wrong(
                "never_drains",
                f"{asked} row {stage} never runs {missing[0]}: when the forwards are through, the micro-batches of the "
                "warm-up still have to go back.",
            )
        if missing:
            raise Wrong("missing", f"{asked} row {stage} never runs {missing[0]}.")


def _schedule(one_f_one_b: OneFOneB, p: int, m: int) -> Schedule:
    return Schedule.of(_rows(one_f_one_b, p, m), "yours")


def _judge_order(schedule: Schedule) -> None:
    p, m = schedule.num_stages, schedule.num_microbatches
    for stage, row in enumerate(schedule.rows):
        for i in range(m):
            if row.index(Action(stage, Kind.B, i)) < row.index(Action(stage, Kind.F, i)):
                raise Wrong(
                    "backward_first",
                    f"For p = {p} and m = {m} stage {stage} runs B{i} before F{i}: a backward needs what its forward "
                    "has kept.",
                )
    try:
        check(schedule)
    except ScheduleError as error:
        raise Wrong(
            "deadlock",
            f"For p = {p} and m = {m} your rows wait in a circle: {error}. The first stage has the longest warm-up; "
            "the last stage has none.",
        ) from None


def _judge_memory(schedule: Schedule, p: int, m: int) -> None:
    held = [int(count) for count in peak_in_flight(schedule)]
    allowed = [min(m, p - stage) for stage in range(p)]
    over = [stage for stage in range(p) if held[stage] > allowed[stage]]
    if not over:
        return
    stage = over[0]
    told = f"For p = {p} and m = {m} stage {stage} holds {held[stage]} micro-batches, and {allowed[stage]} are enough"
    if all(count == m for count in held):
        raise Wrong("gpipe", f"{told}. All forwards, then all backwards: that is GPipe.")
    if _goes_forward_twice(schedule.rows[stage]):
        raise Wrong(
            "turns_of_two",
            f"{told}. After its first backward it runs two forwards in a row; a turn is one forward and one backward.",
        )
    if all(count == min(m, p - s + 1) for s, count in enumerate(held)):
        raise Wrong(
            "one_too_many",
            f"{told}. Your warm-up is one forward too long: the turn that follows begins with a forward of its own.",
        )
    if len(set(held)) == 1:
        raise Wrong(
            "same_warm_up", f"{told}. Your stages all warm up alike; the further back, the less there is to wait for."
        )
    raise Wrong("too_many_held", f"{told}. Go back as soon as the first gradient can be there.")


def _judge_time(schedule: Schedule, p: int, m: int) -> None:
    for costs, words in ((_EQUAL, "as long as"), (_LONGER_BACKWARD, "twice as long as")):
        mine, reference = simulate(schedule, costs), simulate(gpipe(p, m), costs)
        if mine.makespan > reference.makespan + 1e-9:
            _judge_backwards(schedule)
            raise Wrong(
                "bubble_grows",
                f"For p = {p}, m = {m} and a backward {words} a forward your rows take {mine.makespan:g} s and "
                f"GPipe's {reference.makespan:g} s (simulated). 1F1B cannot shrink the bubble, and it need not grow "
                "it: a stage that goes back too early waits for a gradient while it could run a forward.",
            )


def _goes_forward_twice(row: Iterable[Action]) -> bool:
    """Whether two forwards stand side by side after the first backward; with too many held, that is the reason."""
    kinds = "".join(action.kind for action in row).lstrip("F")
    return ("F", "F") in pairwise(kinds)


def _judge_backwards(schedule: Schedule) -> None:
    """Name the stage that goes back in another order than it went forward."""
    for stage, row in enumerate(schedule.rows):
        order = [action.microbatch for action in row if action.kind is Kind.B]
        for early, late in pairwise(order):
            if late < early:
                raise Wrong(
                    "backward_order",
                    f"For p = {schedule.num_stages} and m = {schedule.num_microbatches} stage {stage} runs B{early} "
                    f"before B{late}, so micro-batch {late} waits while its gradient is there. Backwards come in the "
                    "order of the forwards.",
                )
