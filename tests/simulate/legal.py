"""Random legal schedules and costs for the tests of this room, and runs as they were recorded and measured."""

import random

from hypothesis import strategies as st

from pllab.schedule import Action, Kind, Schedule, needs
from pllab.simulate import Costs
from pllab.timeline import Span, Timeline

seconds = st.integers(0, 6).map(float)
positive = st.integers(1, 6).map(float)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Stages dealt to ranks at random, backwards split or not stage by stage, actions in a random possible order."""
    num_stages, num_microbatches = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    chance = random.Random(draw(st.integers(0, 2**32)))
    num_ranks = chance.randint(1, num_stages)
    ranks = [*range(num_ranks), *(chance.randrange(num_ranks) for _ in range(num_stages - num_ranks))]
    chance.shuffle(ranks)
    left = [
        Action(stage, kind, m)
        for stage in range(num_stages)
        for kinds in [chance.choice(["FB", "FIW"])]
        for kind in map(Kind, kinds)
        for m in range(num_microbatches)
    ]
    present, done = set(left), set[Action]()
    rows: list[list[Action]] = [[] for _ in range(num_ranks)]
    while left:
        able = [action for action in left if done.issuperset(needs(action, num_stages, present))]
        action = chance.choice(able)
        rows[ranks[action.stage]].append(action)
        left.remove(action)
        done.add(action)
    return Schedule.of(rows)


def recorded(times: dict[str, tuple[float, float]], num_ranks: int | None = None) -> Timeline:
    """A run by actions, `{"0F0": (0.0, 1.5), ...}`, with a rank for each stage."""
    actions = map(Action.parse, times)
    spans = [Span(action.stage, action, *span) for action, span in zip(actions, times.values(), strict=True)]
    return Timeline.of(spans, "real", num_ranks)


def period(timeline: Timeline) -> float:
    """The longest time from a rank's first start to its last end: of a step that another follows without a barrier.

    The zero bubble papers use this measure (Qi et al. 2023, section 4).
    """
    rows = ([span for _, span in timeline.work_of(rank)] for rank in range(timeline.num_ranks))
    return max(max(span.end for span in row) - row[0].start for row in rows)


def costs_of(num_stages: int, cost: st.SearchStrategy[float]) -> st.SearchStrategy[Costs]:
    """Costs per stage, whole numbers, so that sums are exact."""
    work = [st.lists(cost, min_size=num_stages, max_size=num_stages)] * 3
    return st.builds(Costs, *work, p2p=seconds)


def runs(cost: st.SearchStrategy[float] = seconds) -> st.SearchStrategy[tuple[Schedule, Costs]]:
    """A schedule and costs of its stages."""
    return schedules().flatmap(lambda schedule: st.tuples(st.just(schedule), costs_of(schedule.num_stages, cost)))
