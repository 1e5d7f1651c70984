"""The cases of exercise 17.3: `golf(memory_limit)` returns a schedule that is legal, small enough and at par.

Par is computed here and proven; the answer is checked and simulated. Any order that reaches par is right.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_11_read import read_schedule
from pllab.schedule import Action, Kind, Problem, Schedule, peak_in_flight, problems, zero_bubble
from pllab.simulate import Costs, Gap, gaps, simulate
from pllab.timeline import Timeline

Golf = Callable[[float], Any]

NUM_RANKS, NUM_MICROBATCHES = 3, 4
COSTS = Costs(forward=3.0, backward_input=3.0, backward_weight=2.0)
_LIMITS = (NUM_RANKS, 2 * NUM_RANKS)


def right_size(golf: Golf) -> None:
    """Three ranks with one stage each, four micro-batches."""
    for limit in _LIMITS:
        schedule = read_schedule(golf(limit))
        stages = [schedule.stages_of_rank(rank) for rank in range(schedule.num_ranks)]
        if stages != [(rank,) for rank in range(NUM_RANKS)]:
            told = f"In your rows the ranks have the stages {[list(row) for row in stages]}"
            raise Wrong("wrong_course", f"{told}; this course has {NUM_RANKS} ranks, and rank r has stage r.")
        if schedule.num_microbatches != NUM_MICROBATCHES:
            told = f"Your rows have {schedule.num_microbatches} micro-batches"
            raise Wrong("wrong_course", f"{told}; this course has {NUM_MICROBATCHES}.")


def complete(golf: Golf) -> None:
    """Every action once: no W is left out."""
    for limit in _LIMITS:
        schedule = read_schedule(golf(limit))
        for problem in problems(schedule):
            if "deadlock" in problem.sentence:
                continue
            hint_id, told = _named(problem, schedule), f"{_at(limit)} {problem.sentence}."
            if hint_id == "weight_missing":
                told += " The optimizer steps when the last row ends, and needs every W."
            raise Wrong(hint_id, told)


def can_run(golf: Golf) -> None:
    """No rank waits in a circle, and no W stands before its I."""
    for limit in _LIMITS:
        schedule = read_schedule(golf(limit))
        if early := _early_weight(schedule):
            before = early._replace(kind=Kind.I)
            told = f"{early} stands before {before}, and it needs what {before} leaves"
            raise Wrong("weight_before_input", f"{_at(limit)} {told}.")
        for problem in problems(schedule):
            raise Wrong("deadlock", f"{_at(limit)} {problem.sentence}.")


def fits(golf: Golf) -> None:
    """The memory limit holds after every action."""
    for limit in _LIMITS:
        for problem in problems(read_schedule(golf(limit)), memory_limit=limit):
            raise Wrong("over_limit", f"{_at(limit)} {problem.sentence}.")


def par_with_p(golf: Golf) -> None:
    """Par with the memory of 1F1B."""
    _judge(golf, NUM_RANKS)


def par_with_2p(golf: Golf) -> None:
    """Par with twice the memory."""
    _judge(golf, 2 * NUM_RANKS)


@cache
def par_of(limit: float) -> float:
    """The shortest makespan under this limit; a test holds it against the solver's proof."""
    schedule = zero_bubble(NUM_RANKS, NUM_MICROBATCHES, COSTS, limit, makespan_first=True)
    return simulate(schedule, COSTS).makespan


def _judge(golf: Golf, limit: float) -> None:
    schedule, par = read_schedule(golf(limit)), par_of(limit)
    timeline = simulate(schedule, COSTS)
    over = timeline.makespan - par
    if over <= 1e-9:
        return
    score = f"{_at(limit)} your makespan is {timeline.makespan:g} (simulated), {over:g} over par"
    if not schedule.is_split:
        raise Wrong("whole_backwards", f"{score}. Nobody waits for a W: split the backwards, and put the W's off.")
    if early := _weight_in_the_way(schedule, limit, timeline.makespan):
        raise Wrong("weight_in_the_way", f"{score}. {early} comes too early: later in its row it delays nobody.")
    if limit > NUM_RANKS and max(peak_in_flight(schedule)) <= NUM_RANKS:
        raise Wrong(
            "memory_unused",
            f"{score}, and no rank holds more than {NUM_RANKS}. With more memory a rank can run another forward where "
            "it waits for its first gradient.",
        )
    for gap in gaps(schedule, timeline):
        if gap.cause == "action" and (ready := _weight_left(timeline, gap)):
            raise Wrong("wait_with_a_weight_left", f"{score}. {str(gap).capitalize()}, and {ready} could run there.")
    waits = [gap for gap in gaps(schedule, timeline) if gap.cause == "action"]
    told = f" The longest wait: {max(waits, key=lambda gap: gap.duration)}." if waits else ""
    raise Wrong(
        "over_par", f"{score}.{told} Fill waits with W's, and let no W stand in the way of an I that others need."
    )


def _weight_in_the_way(schedule: Schedule, limit: float, makespan: float) -> Action | None:
    """A W without which the step would be shorter if it came later in its row."""
    for rank, row in enumerate(schedule.rows):
        for place, action in enumerate(row):
            for later in range(place + 1, len(row)) if action.kind is Kind.W else ():
                moved = (*row[:place], *row[place + 1 : later + 1], action, *row[later + 1 :])
                other = Schedule((*schedule.rows[:rank], moved, *schedule.rows[rank + 1 :]))
                if not problems(other, memory_limit=limit) and simulate(other, COSTS).makespan < makespan - 1e-9:
                    return action
    return None


def _weight_left(timeline: Timeline, gap: Gap) -> Action | None:
    """The first W of the idle rank that fits into the gap, and comes later."""
    spans = timeline.of_rank(gap.rank)
    made = {span.action.microbatch for span in spans if span.action.kind == Kind.I and span.end <= gap.start + 1e-9}
    for span in spans:
        if span.action.kind == Kind.W and span.start >= gap.end - 1e-9 and span.action.microbatch in made:
            return Action(span.action.stage, Kind.W, span.action.microbatch)
    return None


def _named(problem: Problem, schedule: Schedule) -> str:
    """The hint for a problem that is no deadlock."""
    counts = Counter(schedule.actions())
    first = problem.actions[0] if problem.actions else None
    if first is None or first.kind not in {Kind.F, Kind.B, Kind.I, Kind.W}:
        return "no_such_action"
    if counts[first] > 1:
        return "twice"
    if first not in counts:
        return "weight_missing" if first.kind is Kind.W else "action_missing"
    return "half_a_backward"


def _early_weight(schedule: Schedule) -> Action | None:
    for row in schedule.rows:
        for place, action in enumerate(row):
            if action.kind is Kind.W and action._replace(kind=Kind.I) in row[place:]:
                return action
    return None


def _at(limit: float) -> str:
    return f"Under the limit of {limit:g}"
