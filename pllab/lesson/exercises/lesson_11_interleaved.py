"""The cases of exercise 11.2: the rows of interleaved 1F1B.

Any order passes that is legal, idles no more than (p - 1) / (v m) where messages are free, takes no longer than
Megatron's order where they are slow, and holds no more than it does.
"""

import random
from collections.abc import Iterator

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.rows import judge_actions, judge_order, read_schedule
from pllab.schedule import Action, Kind, Schedule, peak_in_flight, problems
from pllab.schedule import interleaved as megatrons
from pllab.simulate import Costs, simulate

_DRAW = random.Random(11)
# Ranks, micro-batches, stages per rank; m is a multiple of p. The last ones have one stage a rank, and a single rank.
_SHAPES = [
    *((2, 4, 2), (4, 8, 2), (3, 6, 3), (4, 4, 2), (2, 6, 4)),
    *((p, p * _DRAW.randint(1, 4), _DRAW.randint(2, 4)) for p in (2, 3, 5)),
    *((3, 6, 1), (1, 2, 2), (1, 3, 1)),
]


def _answers(rows: Function) -> Iterator[tuple[int, int, int, Schedule, str]]:
    """For each shape the rows, and what was asked in words."""
    for p, m, v in _SHAPES:
        yield p, m, v, read_schedule(rows(p, m, v)), f"For p = {p}, m = {m} and v = {v}"


@case("rank r has the stages r, p + r, 2p + r, ..., and runs every micro-batch forward and back on each, once")
def complete(rows: Function) -> None:
    for p, m, v, schedule, asked in _answers(rows):
        # A backward may be split: its I counts as the backward, and the next cases look for its W.
        mine = [
            [action._replace(kind=Kind.B) if action.kind is Kind.I else action for action in row if action.kind != "W"]
            for row in schedule.rows
        ]
        right = [
            [Action(stage, kind, i) for stage in range(rank, p * v, p) for kind in (Kind.F, Kind.B) for i in range(m)]
            for rank in range(p)
        ]
        judge_actions(mine, right, asked)


@case("no ranks wait for each other in a circle")
def no_circle(rows: Function) -> None:
    for p, _, v, schedule, asked in _answers(rows):
        if not problems(schedule):
            continue
        for rank, row in enumerate(schedule.rows):
            first = next(action for action in row if action.kind in (Kind.B, Kind.I))
            if first.stage != (last := rank + (v - 1) * p):
                told = f"the first backward of rank {rank} is {first}; right is one of its last stage, {last}"
                raise Wrong("chunk_order", f"{asked} {told}. Gradients come down from there.")
        _judge_groups(schedule, p, asked)
        judge_order(schedule, asked)


@case("free messages: the bubble overhead is (p - 1) / (v m), simulated")
def short_bubble(rows: Function) -> None:
    for p, m, v, schedule, asked in _answers(rows):
        for costs, words in ((Costs(2.0, 1.0, 1.0), "as long as"), (Costs(), "twice as long as")):
            overhead, right = simulate(schedule, costs).bubble_overhead, (p - 1) / (v * m)
            if overhead > right + 1e-9:
                _judge_groups(schedule, p, asked)
                told = f"and backwards {words} a forward your rows idle {overhead:.3f} of their work"
                raise Wrong("long_bubble", f"{asked} {told} (simulated); right is {right:.3f}.")


@case("slow messages: no longer than the package's order, simulated")
def slow_messages(rows: Function) -> None:
    for p, m, v, schedule, asked in _answers(rows):
        for part in (0.25, 1.0):
            for costs in (Costs(2.0, 1.0, 1.0, p2p=2 * part), Costs(p2p=part)):
                mine, right = simulate(schedule, costs).makespan, simulate(megatrons(p, m, v), costs).makespan
                if mine > right + 1e-9:
                    told = f"{asked} and messages of {part:g} forwards your rows take {mine:g} (simulated)"
                    why = f"right is {right:g}. A rank waits for a message that is on its way."
                    raise Wrong("short_warm_up", f"{told}; {why}")


@case("no rank holds more than (v + 1) p - 1 micro-batches of a stage")
def little_memory(rows: Function) -> None:
    for p, m, v, schedule, asked in _answers(rows):
        held, right = list(peak_in_flight(schedule)), min(v * m, (v + 1) * p - 1)
        if max(held) > right:
            _judge_groups(schedule, p, asked)
            told = f"rank {held.index(max(held))} holds {max(held):g} micro-batches of its stages at once"
            raise Wrong("holds_too_many", f"{asked} {told}; right is {right} at most.")


def _judge_groups(schedule: Schedule, p: int, asked: str) -> None:
    """Where rows are illegal, too long or hold too much: look for a rank that changes its stage too early or too late.

    Raises:
        Wrong: a rank takes other than p micro-batches through its first stage before it goes on to the next.
    """
    for rank, row in enumerate(schedule.rows):
        stages = [action.stage for action in row if action.kind is Kind.F]
        first = next((place for place, stage in enumerate(stages) if stage != stages[0]), p)
        if first != p:
            told = f"{asked} rank {rank} goes on to the next stage after {first} of its micro-batches"
            raise Wrong("wrong_group", f"{told}; right is p = {p}: by then the first of them has come round.")
