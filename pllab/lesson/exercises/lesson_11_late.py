"""The cases of exercise 11.3: rows with split backwards whose W's come late enough, and not too late.

Any order passes that is legal, holds no more than 1F1B's first rank and takes no longer than ZB-H1.
"""

import random
from collections.abc import Iterator
from itertools import accumulate

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.rows import judge_actions, judge_order, read_schedule
from pllab.schedule import Action, Kind, Schedule, peak_in_flight
from pllab.simulate import Costs, simulate

_DRAW = random.Random(11)
# Ranks and micro-batches, at least as many as ranks; the last two are a single rank.
_SHAPES = [(3, 4), (4, 9), (2, 2), (5, 5), *((p, p + _DRAW.randint(0, 9)) for p in (3, 4, 6)), (1, 3), (1, 1)]
# F, I and W; a W is no longer than F or I.
_DURATIONS = [(1.0, 1.0, 1.0), (3.0, 3.0, 2.0), (2.0, 3.0, 1.0)]
_KINDS = Kind.F, Kind.I, Kind.W


def _answers(late: Function) -> Iterator[tuple[int, int, Schedule, str]]:
    """For each shape the rows, and what was asked in words."""
    for p, m in _SHAPES:
        yield p, m, read_schedule(late(p, m)), f"For p = {p} and m = {m}"


@case("every action comes once, and every backward is split")
def complete(late: Function) -> None:
    for p, m, schedule, asked in _answers(late):
        right = [[Action(rank, kind, i) for kind in _KINDS for i in range(m)] for rank in range(p)]
        judge_actions(schedule.rows, right, asked)


@case("no W comes before its I, and no ranks wait in a circle")
def can_run(late: Function) -> None:
    for _, _, schedule, asked in _answers(late):
        judge_order(schedule, asked)


@case("no rank holds more than p micro-batches")
def fits(late: Function) -> None:
    for p, _, schedule, asked in _answers(late):
        peaks = peak_in_flight(schedule)
        rank = max(range(p), key=peaks.__getitem__)
        if peaks[rank] <= p:
            continue
        told = f"{asked} rank {rank} holds {peaks[rank]:g} micro-batches; right is {p} at most."
        ahead = max(accumulate((action.kind is Kind.F) - (action.kind is Kind.I) for action in schedule.rows[rank]))
        if ahead > p - rank:
            raise Wrong("warm_up_too_long", f"{told} It warms up with more forwards than 1F1B does.")
        _judge_end(schedule, told)
        raise Wrong("weights_too_late", f"{told} Every W that waits keeps half a micro-batch.")


@case("a rank idles no more than (p - 1)(F + I - W), simulated")
def short(late: Function) -> None:
    for p, m, schedule, asked in _answers(late):
        for forward, half, weight in _DURATIONS:
            mine = simulate(schedule, Costs(forward, half, weight)).makespan
            right = m * (forward + half + weight) + (p - 1) * (forward + half - weight)
            if mine <= right + 1e-9:
                continue
            told = f"{asked}, F {forward:g}, I {half:g} and W {weight:g} your rows take {mine:g} (simulated)"
            told += f"; right is {right:g} at most."
            if not any(max(_delays(row)) for row in schedule.rows):
                raise Wrong("weights_at_once", f"{told} Each W follows its I at once, so other ranks wait for W too.")
            _judge_end(schedule, told)
            raise Wrong("too_long", told)


def _judge_end(schedule: Schedule, told: str) -> None:
    """Rows that are too long or hold too much: look whether the wrong end of the pipeline puts its W's off.

    Raises:
        Wrong: the first rank puts a W off longer than the last one ever does.
    """
    if max(_delays(schedule.rows[0])) > max(_delays(schedule.rows[-1])):
        shown = f"{told} Your first rank postpones its W's the longest"
        raise Wrong("wrong_end", f"{shown}, but all ranks wait for the I's of the last rank.")


def _delays(row: tuple[Action, ...]) -> list[int]:
    """For each W, how many other I's stand between its own I and it."""
    inputs = [place for place, action in enumerate(row) if action.kind is Kind.I]
    own = {action.microbatch: place for place, action in enumerate(row) if action.kind is Kind.I}
    weights = [(place, own[action.microbatch]) for place, action in enumerate(row) if action.kind is Kind.W]
    return [sum(start < other < place for other in inputs) for place, start in weights]
