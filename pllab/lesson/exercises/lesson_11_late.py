"""The cases of exercise 11.3: rows with split backwards whose W's come late enough, and not too late.

Any order passes that is legal, holds no more than 1F1B's first rank and takes no longer than ZB-H1.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_11_read import read_schedule
from pllab.schedule import Action, Kind, Schedule, peak_in_flight, problems
from pllab.simulate import Costs, simulate

Late = Callable[[int, int], Any]

ENDLESS = ("endless", "A row never ends: it has m F's, m I's and m W's, and every loop over them needs an end.")
_DRAW = random.Random(11)
# Ranks and micro-batches, at least as many as ranks; the last two are a single rank.
_SHAPES = [(3, 4), (4, 9), (2, 2), (5, 5), *((p, p + _DRAW.randint(0, 9)) for p in (3, 4, 6)), (1, 3), (1, 1)]
# F, I and W; a W is no longer than F or I.
_COSTS = (Costs(1.0, 1.0, 1.0), Costs(3.0, 3.0, 2.0), Costs(2.0, 3.0, 1.0))


def complete(late: Late) -> None:
    """F, I and W of every micro-batch once, on the rank that has the stage."""
    for p, m in _SHAPES:
        schedule, asked = _asked(late, p, m), _words(p, m)
        if any(action.kind is Kind.B for action in schedule.actions()):
            raise Wrong("whole_backwards", f"{asked} there is a whole backward in your rows; write I and W.")
        homes = [schedule.stages_of_rank(rank) for rank in range(schedule.num_ranks)]
        if homes != [(rank,) for rank in range(p)]:
            told = f"{asked} the rows have the stages {[list(home) for home in homes]}"
            raise Wrong("wrong_stages", f"{told}; there are {p} ranks, and rank r has stage r.")
        times = Counter(schedule.actions())
        wanted = {Action(stage, kind, i) for stage in range(p) for kind in (Kind.F, Kind.I, Kind.W) for i in range(m)}
        _judge_counts(times, wanted, asked)


def can_run(late: Late) -> None:
    """Every W after its I, and no circle."""
    for p, m in _SHAPES:
        schedule, asked = _asked(late, p, m), _words(p, m)
        for row in schedule.rows:
            for place, action in enumerate(row):
                before = action._replace(kind=Kind.I)
                if action.kind is Kind.W and before in row[place:]:
                    told = f"{action} stands before {before}, and it needs what {before} leaves"
                    raise Wrong("weight_before_input", f"{asked} {told}.")
        for problem in problems(schedule):
            raise Wrong("deadlock", f"{asked} {problem.sentence}.")


def fits(late: Late) -> None:
    """A W that waits holds half a micro-batch."""
    for p, m in _SHAPES:
        schedule = _asked(late, p, m)
        peaks = peak_in_flight(schedule)
        rank = max(range(len(peaks)), key=peaks.__getitem__)
        if peaks[rank] <= p:
            continue
        told = f"{_words(p, m)} rank {rank} holds {peaks[rank]:g} micro-batches, and {p} is the limit"
        if _most_forwards_ahead(schedule.rows[rank]) > p - rank:
            raise Wrong("warm_up_too_long", f"{told}: it warms up with more forwards than 1F1B does.")
        _judge_end(schedule, told)
        raise Wrong("weights_too_late", f"{told}: every W that waits keeps half a micro-batch. Put it off, not away.")


def short(late: Late) -> None:
    """The makespan is that of ZB-H1."""
    for p, m in _SHAPES:
        schedule, asked = _asked(late, p, m), _words(p, m)
        for costs in _COSTS:
            durations = [costs.duration(0, kind) for kind in (Kind.F, Kind.I, Kind.W)]
            forward, half, weight = durations
            enough = m * sum(durations) + (p - 1) * (forward + half - weight)  # where W is no longer than F or I
            makespan = simulate(schedule, costs).makespan
            if makespan > enough + 1e-9:
                told = f"{asked}, F {durations[0]:g}, I {durations[1]:g} and W {durations[2]:g}"
                _judge_waits(schedule, f"{told} your rows take {makespan:g}, and {enough:g} is enough (simulated)")


def _judge_waits(schedule: Schedule, told: str) -> None:
    """Say what is wrong with rows that are legal and too long."""
    delays = [_delays(row) for row in schedule.rows]
    if all(set(delay) == {0} for delay in delays):
        raise Wrong("weights_at_once", f"{told}. Each W follows its I, so this is 1F1B: the ranks below wait for a W.")
    _judge_end(schedule, told)
    raise Wrong(
        "too_long",
        f"{told}. A rank runs a W while another waits for an I, or waits itself while it has a W left: count by how "
        "many micro-batches each rank puts its W's off.",
    )


def _judge_end(schedule: Schedule, told: str) -> None:
    if max(_delays(schedule.rows[0])) > max(_delays(schedule.rows[-1])):
        raise Wrong(
            "wrong_end",
            f"{told}. Your first rank puts its W's off the longest, and nobody waits for its I's; everybody waits for "
            "those of the last rank.",
        )


def _judge_counts(times: Counter[Action], wanted: set[Action], asked: str) -> None:
    if strange := sorted(set(times) - wanted):
        raise Wrong("outside", f"{asked} your rows have {strange[0]}, which is not among the actions.")
    if twice := sorted(action for action, number in times.items() if number > 1):
        raise Wrong("twice", f"{asked} {twice[0]} comes {times[twice[0]]} times; once is the rule.")
    missing = sorted(wanted - set(times))
    if missing and all(action.kind is Kind.W for action in missing):
        told = f"{asked} {missing[0]} never comes. The optimizer steps when the last row ends, and needs every W"
        raise Wrong("weight_missing", f"{told}: what is put off has to come at the end.")
    if missing:
        raise Wrong("missing", f"{asked} {missing[0]} never comes.")


def _delays(row: tuple[Action, ...]) -> list[int]:
    """For each W, how many other I's stand between its own I and it."""
    inputs = [place for place, action in enumerate(row) if action.kind is Kind.I]
    weights = [
        (place, row.index(action._replace(kind=Kind.I))) for place, action in enumerate(row) if action.kind is Kind.W
    ]
    return [sum(own < other < place for other in inputs) for place, own in weights]


def _most_forwards_ahead(row: tuple[Action, ...]) -> int:
    ahead = most = 0
    for action in row:
        ahead += (action.kind is Kind.F) - (action.kind is Kind.I)
        most = max(most, ahead)
    return most


def _asked(late: Late, p: int, m: int) -> Schedule:
    return read_schedule(late(p, m), most=16 * m + 16)


def _words(p: int, m: int) -> str:
    return f"For p = {p} and m = {m}"
