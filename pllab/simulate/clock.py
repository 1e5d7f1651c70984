"""The virtual clock: when would every action of a schedule run?

With `S` stages, what happens to one micro-batch are steps, and the steps lie in a row:

    step    0    1    2  |  3    4    5  |  6    7    8        F of stage s is step s,
    does   0F   1F   2F  | 2B   1B   0B  | 0W   1W   2W        B (or I) is step 2 S - 1 - s, W is step 2 S + s

A step takes the micro-batch out of its inbox, and leaves it in the inbox of the next step with the time of its
arrival; I leaves a second one for its W. Nothing else has to be waited for: once a gradient is there, the stage's own
forward was long ago. In the end every micro-batch has left the steps, or the schedule was illegal.
"""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple, Never

from pllab.schedule import Kind, Schedule, check
from pllab.schedule.pause import collector_paused
from pllab.simulate.costs import Costs


class Times(NamedTuple):
    """Starts and ends in seconds, per rank in the order of its row."""

    starts: tuple[list[float], ...]
    ends: tuple[list[float], ...]


def action_times(schedule: Schedule, costs: Costs) -> Times:
    """When every action of a schedule starts and ends, as plain numbers: what `simulate` makes its spans of.

    Example: rank 0 of `one_f_one_b(2, 2)` starts at `[0.0, 1.0, 4.0, 7.0]`; its row is F0 F1 B0 B1.

    Raises:
        ScheduleError: a ValueError; the schedule is illegal.
        ValueError: the costs are for another number of stages.
    """
    if not _is_placed(schedule):
        _refuse(schedule)
    costs.check_stages(schedule.num_stages)
    with collector_paused():
        world = _World(schedule, costs)
        world.run()
    if not world.is_over():
        _refuse(schedule)
    return Times(world.starts, world.ends)


class _Step(NamedTuple):
    """What one kind does on one stage; an inbox has the number of its step times `m`, plus the micro-batch."""

    take: int
    leave: int
    seconds: float
    travel: float


class _World:
    """The inboxes, which rank waits for which, and the times noted so far."""

    def __init__(self, schedule: Schedule, costs: Costs) -> None:
        first = schedule.num_microbatches
        self.rows = schedule.rows
        self.end = 3 * schedule.num_stages * first  # what lies from here on has left the steps
        self.steps = _steps(schedule, costs)
        # By number, the time of arrival; None where nothing lies.
        self.inbox: list[float | None] = [None] * (self.end + (schedule.num_stages + 1) * first)
        self.inbox[:first] = [0.0] * first
        self.ready: list[Iterator[int]] = []
        self.waiting: dict[int, Iterator[int]] = {}
        self.starts: tuple[list[float], ...] = tuple([] for _ in schedule.rows)
        self.ends: tuple[list[float], ...] = tuple([] for _ in schedule.rows)

    def run(self) -> None:
        """Let every rank go on as far as it can, until none can."""
        self.ready += map(self.work, range(len(self.rows)))
        while self.ready:
            rank = self.ready.pop()
            empty = next(rank, None)
            if empty is not None:
                self.waiting[empty] = rank

    def is_over(self) -> bool:
        """Whether every rank did its row and every micro-batch has left the steps."""
        return list(map(len, self.ends)) == list(map(len, self.rows)) and self.inbox[: self.end].count(None) == self.end

    def work(self, rank: int) -> Iterator[int]:
        """Do the row of one rank and note the times; yield the number of an inbox as long as it is empty."""
        steps, inbox, waiting, is_half = self.steps, self.inbox, self.waiting, Kind.I
        starts, ends = self.starts[rank], self.ends[rank]
        now = 0.0
        for stage, kind, microbatch in self.rows[rank]:
            take, leave, seconds, travel = steps[kind][stage]
            number = take + microbatch
            if (arrived := inbox[number]) is None:
                yield number
                arrived = inbox[number]
                assert arrived is not None
            inbox[number] = None
            if arrived > now:
                now = arrived
            starts.append(now)
            now += seconds
            ends.append(now)
            number = leave + microbatch
            inbox[number] = now + travel
            if kind is is_half:
                inbox[steps[Kind.W][stage].take + microbatch] = now
            if number in waiting:
                self.ready.append(waiting.pop(number))


def _steps(schedule: Schedule, costs: Costs) -> Mapping[Kind, list[_Step]]:
    """For each kind, the steps of all stages: where they take, where they leave, how long they and the way last."""
    stages, m = range(schedule.num_stages), schedule.num_microbatches
    turn, end = 2 * len(stages), 3 * len(stages)

    def step(kind: Kind, stage: int, take: int, leave: int, towards: int) -> _Step:
        away = towards in stages and schedule.rank_of_stage[towards] != schedule.rank_of_stage[stage]
        travel = costs.message(stage, towards) if away else 0.0
        return _Step(take * m, leave * m, costs.duration(stage, kind), travel)

    def back(kind: Kind, stage: int) -> _Step:
        return step(kind, stage, turn - 1 - stage, turn - stage if stage else end, stage - 1)

    return {
        Kind.F: [step(Kind.F, stage, stage, stage + 1, stage + 1) for stage in stages],
        Kind.B: [back(Kind.B, stage) for stage in stages],
        Kind.I: [back(Kind.I, stage) for stage in stages],
        Kind.W: [step(Kind.W, stage, turn + stage, end + 1 + stage, stage) for stage in stages],
    }


def _is_placed(schedule: Schedule) -> bool:
    """Whether what the steps rely on holds: one rank per stage, only kinds that run, no number below zero."""
    actions = tuple(schedule.actions())
    homes = [set(map(itemgetter(0), row)) for row in schedule.rows]
    stages = set().union(*homes)
    work = 2 * schedule.num_stages * schedule.num_microbatches  # a split backward is one more
    return (
        all(homes)
        and sum(map(len, homes)) == len(stages) == schedule.num_stages > 0 == min(stages)
        and set(map(itemgetter(1), actions)) <= {Kind.F, Kind.B, Kind.I, Kind.W}
        and min(map(itemgetter(2), actions)) == 0
        and work <= len(actions) <= 1.5 * work
    )


def _refuse(schedule: Schedule) -> Never:
    """Raise the sentence that says what is wrong."""
    check(schedule)
    raise AssertionError("check passed a schedule that the simulator could not finish")
