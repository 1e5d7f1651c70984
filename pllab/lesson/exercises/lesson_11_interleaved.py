"""The cases of exercise 11.2: the rows of interleaved 1F1B.

Any order passes that is legal, idles no more than (p - 1) / (v m) where messages are free, takes no longer than
Megatron's order where they are slow, and holds no more than it does.
"""

import random
from collections.abc import Callable
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_11_read import ENDLESS, read_schedule
from pllab.schedule import Kind, Schedule, peak_in_flight, problems
from pllab.schedule import interleaved as megatrons
from pllab.simulate import Costs, simulate

Rows = Callable[[int, int, int], Any]

_DRAW = random.Random(11)
# Ranks, micro-batches, stages per rank; m is a multiple of p. The last ones have one stage a rank, and a single rank.
SHAPES = [
    *((2, 4, 2), (4, 8, 2), (3, 6, 3), (4, 4, 2), (2, 6, 4)),
    *((p, p * _DRAW.randint(1, 4), _DRAW.randint(2, 4)) for p in (2, 3, 5)),
    *((3, 6, 1), (1, 2, 2), (1, 3, 1)),
]
__all__ = [
    "ENDLESS",
    "chunks_in_reverse",
    "complete",
    "little_memory",
    "no_circle",
    "places",
    "rows_of_actions",
    "short_bubble",
    "slow_messages",
]


def rows_of_actions(rows: Rows) -> None:
    """There is a row of actions for every rank."""
    for p, m, v in SHAPES:
        num_rows = _asked(rows, p, m, v).num_ranks
        if num_rows != p:
            told = f"For p = {p}, m = {m} and v = {v} there are {num_rows} rows"
            raise Wrong("row_per_rank", f"{told}; return one row for each rank, so {p}.")


def places(rows: Rows) -> None:
    """Rank r has the stages r, p + r, 2p + r, ..."""
    for p, m, v in SHAPES:
        schedule = _asked(rows, p, m, v)
        for rank in range(p):
            _judge_stages(schedule.stages_of_rank(rank), rank, p, v)


def complete(rows: Rows) -> None:
    """Every stage runs every micro-batch forward and back, once."""
    for p, m, v in SHAPES:
        schedule = _asked(rows, p, m, v)
        asked = f"For p = {p}, m = {m} and v = {v}"
        if schedule.num_microbatches != m:
            told = f"your rows have micro-batches up to {schedule.num_microbatches - 1}"
            raise Wrong("incomplete", f"{asked} {told}; they go from 0 to {m - 1}.")
        for problem in problems(schedule):
            if "deadlock" not in problem.sentence:
                hint_id = "twice" if "times" in problem.sentence else "incomplete"
                raise Wrong(hint_id, f"{asked} {problem.sentence}.")


def chunks_in_reverse(rows: Rows) -> None:
    """The first backward of a rank is that of its last stage."""
    for p, m, v in SHAPES:
        for rank, row in enumerate(_asked(rows, p, m, v).rows):
            first = next(action for action in row if action.kind in (Kind.B, Kind.I))
            if first.stage != rank + (v - 1) * p:
                raise Wrong(
                    "chunk_order",
                    f"For p = {p}, m = {m} and v = {v} the first backward of rank {rank} is {first}. Gradients come "
                    f"down from the last stage, so a rank begins with its highest one, {rank + (v - 1) * p}.",
                )


def no_circle(rows: Rows) -> None:
    """The order can run."""
    for p, m, v in SHAPES:
        schedule = _asked(rows, p, m, v)
        for problem in problems(schedule):
            _name_the_group(schedule, p, m, v)
            raise Wrong("deadlock", f"For p = {p}, m = {m} and v = {v} {problem.sentence}.")


def short_bubble(rows: Rows) -> None:
    """The bubble overhead is (p - 1) / (v m), whether a backward takes as long as a forward or twice as long."""
    for p, m, v in SHAPES:
        schedule = _asked(rows, p, m, v)
        for costs in (Costs(2.0, 1.0, 1.0), Costs()):
            overhead, allowed = simulate(schedule, costs).bubble_overhead, (p - 1) / (v * m)
            if overhead > allowed + 1e-9:
                _name_the_group(schedule, p, m, v)
                raise Wrong(
                    "long_bubble",
                    f"For p = {p}, m = {m} and v = {v} your rows are legal and idle {overhead:.3f} of their work "
                    f"(simulated), and {allowed:.3f} is enough. Count the forwards before the first backward: too few "
                    "and the rank waits for a gradient, too many and its backward comes late.",
                )


def slow_messages(rows: Rows) -> None:
    """A message takes a part of a forward, or as long as one: the warm-up has to cover its way up and down."""
    for p, m, v in SHAPES:
        schedule = _asked(rows, p, m, v)
        for part in (0.25, 1.0):
            for costs in (Costs(2.0, 1.0, 1.0, p2p=2 * part), Costs(p2p=part)):
                mine, enough = simulate(schedule, costs).makespan, simulate(megatrons(p, m, v), costs).makespan
                if mine > enough + 1e-9:
                    raise Wrong(
                        "short_warm_up",
                        f"For p = {p}, m = {m}, v = {v} and messages of {part:g} forwards of a stage your rows take "
                        f"{mine:g}, and {enough:g} is enough (simulated). With free messages they were short enough. "
                        "A rank runs a backward and waits for a gradient that is on its way: run more forwards before "
                        "the first backward, two for each rank that comes after this one.",
                    )


def little_memory(rows: Rows) -> None:
    """No rank holds more than Megatron's order does: (v + 1) p - 1 micro-batches of a stage, or all there are."""
    for p, m, v in SHAPES:
        held, allowed = max(peak_in_flight(_asked(rows, p, m, v))), min(v * m, (v + 1) * p - 1)
        if held > allowed:
            _name_the_group(_asked(rows, p, m, v), p, m, v)
            _judge_warm_up(_asked(rows, p, m, v), p, m, v)
            raise Wrong(
                "holds_too_many",
                f"For p = {p}, m = {m} and v = {v} a rank holds {held:g} micro-batches of its stages at once, and "
                f"{allowed} are enough: after the warm-up one backward follows each forward.",
            )


def _judge_warm_up(schedule: Schedule, p: int, m: int, v: int) -> None:
    for rank, row in enumerate(schedule.rows):
        ahead = next(place for place, action in enumerate(row) if action.kind is not Kind.F)
        enough = min(v * m, 2 * (p - rank - 1) + (v - 1) * p + 1)
        if ahead > enough:
            raise Wrong(
                "warm_up_too_long",
                f"For p = {p}, m = {m} and v = {v} rank {rank} runs {ahead} forwards before its first backward, and "
                f"{enough} are enough for a message up and down. Each one more is held as long as the rank alternates.",
            )


def _asked(rows: Rows, p: int, m: int, v: int) -> Schedule:
    return read_schedule(rows(p, m, v))


def _judge_stages(there: tuple[int, ...], rank: int, p: int, v: int) -> None:
    right = tuple(range(rank, p * v, p))
    if there == right:
        return
    asked = f"With p = {p} and v = {v} rank {rank} has the stages {list(there)} in your rows"
    if there == tuple(range(rank * v, rank * v + v)):
        raise Wrong(
            "neighbours_together",
            f"{asked}: neighbours, so the pipeline is filled as slowly as before. Deal the stages out in turn: "
            f"{list(right)}.",
        )
    if v > 1 and there == (rank,):
        raise Wrong("one_stage_only", f"{asked}; it should have v = {v} of them, {list(right)}.")
    raise Wrong("wrong_stages", f"{asked}; they are dealt out in turn, so it should have {list(right)}.")


def _name_the_group(schedule: Schedule, p: int, m: int, v: int) -> None:
    """Raise the hint of a rank that changes its stage after too few or too many micro-batches."""
    for rank, row in enumerate(schedule.rows):
        stages = [action.stage for action in row if action.kind is Kind.F]
        first = next((place for place, stage in enumerate(stages) if stage != stages[0]), p)
        if first < p:
            raise Wrong(
                "group_too_small",
                f"For p = {p}, m = {m} and v = {v} rank {rank} goes on to its next stage after {first} micro-batch"
                f"{'es' if first > 1 else ''}, and a micro-batch needs p = {p} ticks to come round. Take p "
                "micro-batches through one stage, then through the next.",
            )
        if first > p:
            raise Wrong(
                "group_too_large",
                f"For p = {p}, m = {m} and v = {v} rank {rank} takes {first} micro-batches through its first stage, "
                f"and after p = {p} the first of them has come round. Go on to the next stage then.",
            )
