"""The cases of exercise 17.3: `golf(memory_limit)` returns a schedule that is legal, small enough and at par.

The answer is checked and simulated; any order that reaches par is right.
"""

from collections.abc import Iterator

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.rows import judge_order, read_schedule
from pllab.schedule import Action, Kind, Schedule, peak_in_flight, problems
from pllab.simulate import Costs, gaps, simulate

NUM_RANKS, NUM_MICROBATCHES = 3, 4
COSTS = Costs(forward=3.0, backward_input=3.0, backward_weight=2.0)
# The shortest makespan under each limit; the lesson proves both by bounds.
_PAR = {NUM_RANKS: 40.0, 2 * NUM_RANKS: 38.0}


def _answers(golf: Function) -> Iterator[tuple[int, Schedule, str]]:
    for limit in _PAR:
        yield limit, read_schedule(golf(limit)), f"For memory_limit={limit},"


@case("the rows are those of three ranks and four micro-batches")
def right_size(golf: Function) -> None:
    for _, schedule, at in _answers(golf):
        stages = [list(schedule.stages_of_rank(rank)) for rank in range(schedule.num_ranks)]
        if stages != [[rank] for rank in range(NUM_RANKS)] or schedule.num_microbatches != NUM_MICROBATCHES:
            told = f"{at} your ranks have the stages {stages} and run {schedule.num_microbatches} micro-batches"
            right = f"{NUM_RANKS} ranks, with stage r on rank r, and {NUM_MICROBATCHES} micro-batches"
            raise Wrong("wrong_course", f"{told}; right is {right}.")


@case("every action comes once, and no W is left out")
def complete(golf: Function) -> None:
    for _, schedule, at in _answers(golf):
        for problem in problems(schedule):
            if "deadlock" not in problem.sentence:
                raise Wrong("incomplete", f"{at} {problem.sentence}.")


@case("no W comes before its I, and no ranks wait in a circle")
def can_run(golf: Function) -> None:
    for _, schedule, at in _answers(golf):
        judge_order(schedule, at)


@case("no rank holds more than the limit, after any action")
def fits(golf: Function) -> None:
    for limit, schedule, at in _answers(golf):
        for problem in problems(schedule, memory_limit=limit):
            raise Wrong("over_limit", f"{at} {problem.sentence}.")


@case("par with room for 3 and with room for 6 micro-batches (simulated)")
def par(golf: Function) -> None:
    for limit, schedule, at in _answers(golf):
        timeline = simulate(schedule, COSTS)
        if timeline.makespan <= _PAR[limit] + 1e-9:
            continue
        score = f"{at} your makespan is {timeline.makespan:g} (simulated); par is {_PAR[limit]:g}"
        if not schedule.is_split:
            raise Wrong("whole_backwards", f"{score}. No rank waits for a W: split the backwards and postpone the W's.")
        if early := _weight_in_the_way(schedule, limit, timeline.makespan):
            raise Wrong("weight_in_the_way", f"{score}. {early} comes too early: later in its row it delays nobody.")
        if limit > NUM_RANKS and max(peak_in_flight(schedule)) <= NUM_RANKS:
            told = f"{score}, and no rank holds more than {NUM_RANKS}"
            raise Wrong("memory_unused", f"{told}. Run another forward while a rank waits for its first gradient.")
        waits = [str(gap) for gap in gaps(schedule, timeline) if gap.cause == "action"]
        raise Wrong("over_par", f"{score}. Waits: {'; '.join(waits) or 'none'}.")


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
