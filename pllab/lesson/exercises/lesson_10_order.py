"""The cases of exercise 10.1: `one_f_one_b(num_stages, num_microbatches)` gives a row of actions for each stage.

Any rows pass that are legal, hold no more than 1F1B and take no longer than GPipe.
"""

import random
from collections.abc import Sequence
from functools import partial

from pllab.lesson.exercise import Function, case
from pllab.lesson.exercises.rows import judge_actions, judge_order, read_schedule
from pllab.lesson.mistakes import Mistake, compare
from pllab.schedule import Action, Kind, Schedule, gpipe, peak_in_flight
from pllab.simulate import Costs, simulate

Shapes = Sequence[tuple[int, int]]

# Stages and micro-batches: a few where swapped numbers show, and a few drawn at random under a fixed seed.
_DRAW = random.Random(10)
_SHAPES = [(4, 8), (3, 4), (2, 5), (4, 4), (5, 12), (2, 2)]
_SHAPES += [(_DRAW.randint(2, 7), _DRAW.randint(7, 23)) for _ in range(3)]
_EQUAL, _LONGER_BACKWARD = Costs(1.0, 0.5, 0.5), Costs(1.0, 1.0, 1.0)

_read = partial(read_schedule, row_is_stage=True)


def _judge_actions(one_f_one_b: Function, shapes: Shapes) -> None:
    for p, m in shapes:
        right = [[Action(stage, kind, i) for kind in (Kind.F, Kind.B) for i in range(m)] for stage in range(p)]
        judge_actions(_read(one_f_one_b(p, m)).rows, right, f"For p = {p} and m = {m}")


def _judge_order(one_f_one_b: Function, shapes: Shapes) -> None:
    for p, m in shapes:
        judge_order(_read(one_f_one_b(p, m)), f"For p = {p} and m = {m}")


_HOLDS_TOO_MANY = (
    Mistake(
        "gpipe",
        "All forwards, then all backwards: that is GPipe.",
        when=lambda held, p, m: held == [m] * p,
    ),
    Mistake(
        "one_too_many",
        "Each stage could start its backwards one forward sooner; the first turn begins with a forward of its own.",
        when=lambda held, p, m: held == [min(m, p - stage + 1) for stage in range(p)],
    ),
    Mistake(
        "same_warm_up",
        "All your stages hold the same; a later stage gets its first gradient sooner.",
        when=lambda held, p, m: held == [min(m, p)] * p,
    ),
)


def _judge_memory(one_f_one_b: Function, shapes: Shapes) -> None:
    compare(
        one_f_one_b,
        shapes,
        lambda p, m: [min(m, p - stage) for stage in range(p)],
        _HOLDS_TOO_MANY,
        asked="p = {} and m = {}",
        read=lambda answer, *_: [int(held) for held in peak_in_flight(_read(answer))],
        same=lambda held, allowed: all(mine <= most for mine, most in zip(held, allowed, strict=True)),
        show=lambda held: f"stages that hold {', '.join(map(str, held))} micro-batches",
        hint_id="too_many_held",
    )


def _seconds(schedule: Schedule) -> tuple[float, float]:
    return simulate(schedule, _EQUAL).makespan, simulate(schedule, _LONGER_BACKWARD).makespan


def _goes_back_in_another_order(schedule: Schedule, *_: int) -> bool:
    return any(
        [action.microbatch for action in row if action.kind is Kind.F]
        != [action.microbatch for action in row if action.kind is Kind.B]
        for row in schedule.rows
    )


def _judge_time(one_f_one_b: Function, shapes: Shapes) -> None:
    other_order = "A stage's backwards have another order than its forwards, so a micro-batch waits needlessly."
    compare(
        one_f_one_b,
        shapes,
        gpipe,
        [Mistake("backward_order", other_order, when=_goes_back_in_another_order)],
        asked="p = {} and m = {}, simulated,",
        read=lambda answer, *_: _read(answer),
        same=lambda mine, right: all(a <= b + 1e-9 for a, b in zip(_seconds(mine), _seconds(right), strict=True)),
        show=lambda schedule: "a step of {:g} s, or {:g} s with backwards twice as long".format(*_seconds(schedule)),
        hint_id="bubble_grows",
    )


def _judge_all(one_f_one_b: Function, shapes: Shapes) -> None:
    for judge in (_judge_actions, _judge_order, _judge_memory, _judge_time):
        judge(one_f_one_b, shapes)


@case("there is a row for each stage, with every forward and every backward once")
def complete(one_f_one_b: Function) -> None:
    _judge_actions(one_f_one_b, _SHAPES)


@case("the rows can run: no stages wait for each other in a circle")
def can_run(one_f_one_b: Function) -> None:
    _judge_order(one_f_one_b, _SHAPES)


@case("stage s holds at most min(m, p - s) micro-batches")
def holds_few(one_f_one_b: Function) -> None:
    _judge_memory(one_f_one_b, _SHAPES)


@case("a step takes no longer than GPipe's")
def as_quick(one_f_one_b: Function) -> None:
    _judge_time(one_f_one_b, _SHAPES)


@case("all of this holds for fewer micro-batches than stages")
def fewer_than_stages(one_f_one_b: Function) -> None:
    _judge_all(one_f_one_b, [(4, 2), (5, 1), (8, 3), (3, 2), (9, 8)])


@case("all of this holds for one stage")
def one_stage(one_f_one_b: Function) -> None:
    _judge_all(one_f_one_b, [(1, 3), (1, 1), (1, 12)])
