"""`check` against an oracle that shares no code with it, and the sentences it answers in."""

import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pllab.schedule import FAMILIES, Action, Kind, Problem, Schedule, ScheduleError, check, gpipe, one_f_one_b, problems
from pllab.simulate import simulate
from tests.simulate.legal import schedules

Place = tuple[int, str, int]


def waits_for(stage: int, kind: str, microbatch: int, present: set[Place]) -> list[Place]:
    """The data flow once more, from the definition of a chain of stages."""
    if kind == "F":
        return [(stage - 1, "F", microbatch)] if stage else []
    if kind == "W":
        return [(stage, "I", microbatch)]
    above = [(stage + 1, back, microbatch) for back in "BI" if (stage + 1, back, microbatch) in present]
    return [(stage, "F", microbatch), *above]


def oracle(schedule: Schedule) -> bool:
    """Legal: counts, homes, and an order of all actions that respects the rows and the data flow."""
    rows = [[(action.stage, str(action.kind), action.microbatch) for action in row] for row in schedule.rows]
    counts = Counter(place for row in rows for place in row)
    homes = {(stage, rank) for rank, row in enumerate(rows) for stage, _, _ in row}
    num_stages = 1 + max((stage for stage, _, _ in counts), default=-1)
    num_microbatches = 1 + max((microbatch for _, _, microbatch in counts), default=-1)
    if not rows or not all(rows) or len(homes) != num_stages:
        return False
    for stage in range(num_stages):
        for microbatch in range(num_microbatches):
            kinds = "".join(sorted(kind * counts.pop((stage, kind, microbatch), 0) for kind in "FBIWCUR"))
            if kinds not in ("BF", "FIW"):
                return False
    return not counts and _has_order(rows)


def _has_order(rows: list[list[Place]]) -> bool:
    present = {place for row in rows for place in row}
    graph: TopologicalSorter[Place] = TopologicalSorter()
    for row in rows:
        for before, place in zip([None, *row], row, strict=False):
            graph.add(place, *waits_for(*place, present), *([before] if before else []))
    try:
        graph.prepare()
    except CycleError:
        return False
    return True


def says(schedule: Schedule) -> bool:
    """What `check` says, held against `problems` and `simulate`, which must say the same in sentences of one form."""
    found = problems(schedule)
    for problem in [*found, *problems(schedule, memory_limit=0.5)]:
        assert problem.sentence and "\n" not in problem.sentence and not problem.sentence.endswith(".")
        assert all(str(action) in problem.sentence for action in problem.actions)
    try:
        check(schedule)
    except ScheduleError as error:
        assert found[0] == error.problem and str(error) == error.problem.sentence
        with pytest.raises(ScheduleError, match="^" + re.escape(str(error)) + "$"):
            simulate(schedule)
        return False
    assert not found and len(simulate(schedule).spans) == schedule.num_actions
    return True


legal = st.one_of(
    st.builds(
        lambda name, p, m: FAMILIES[name].make(p, m), st.sampled_from([*FAMILIES]), st.integers(1, 4), st.integers(1, 5)
    ),
    schedules(),
)


@st.composite
def mutated(draw: st.DrawFn) -> Schedule:
    """A legal schedule after up to four slips of a pen."""
    rows = [list(row) for row in draw(legal).rows]
    for _ in range(draw(st.integers(1, 4))):
        row, goal = draw(st.sampled_from(rows)), draw(st.sampled_from(rows))
        if not row:
            continue
        action = row.pop(here := draw(st.integers(0, len(row) - 1)))
        other = Action(action.stage, draw(st.sampled_from(Kind)), draw(st.integers(-1, 5)))
        written = draw(st.sampled_from([[], [action], [action] * 2, [action._replace(kind=other.kind)], [other]]))
        there = draw(st.sampled_from([here, max(0, here - 1), draw(st.integers(0, len(goal)))]))
        goal[there:there] = written
    return Schedule.of(rows)


@st.composite
def shuffled(draw: st.DrawFn) -> Schedule:
    """All the right actions on the right ranks in any order: legal or a deadlock, nothing else."""
    return Schedule.of(draw(st.permutations(row)) for row in draw(legal).rows)


anything = st.lists(
    st.lists(st.builds(Action, st.integers(-1, 2), st.sampled_from(Kind), st.integers(-1, 2)), max_size=6), max_size=3
).map(Schedule.of)


@settings(max_examples=1500)
@given(st.one_of(legal, mutated(), shuffled(), anything))
def test_a_schedule_is_legal_if_its_actions_are_complete_and_can_all_run(schedule: Schedule) -> None:
    assert says(schedule) == oracle(schedule)


CIRCLES = [
    (
        ["0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"],
        "0B0 waits for 1B0, which comes after 1F1 on rank 1; 1F1 waits for 0F1, which comes after 0B0 on rank 0",
        "0B0 1B0 1F1 0F1",
    ),
    (  # what is next on its rank does not come after itself
        ["0F0 2F0 2B0 0B0", "1F0 3F0 1B0 3B0"],
        "2B0 waits for 3B0, which comes after 1B0 on rank 1; 1B0 waits for 2B0",
        "2B0 3B0 1B0 2B0",
    ),
    (  # rank 0 waits too, and is not in the circle
        ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F0 2F1 2B0 2B1"],
        "1B0 waits for 2B0, which comes after 2F1 on rank 2; 2F1 waits for 1F1, which comes after 1B0 on rank 1",
        "1B0 2B0 2F1 1F1",
    ),
]


@pytest.mark.parametrize(("rows", "waits", "actions"), CIRCLES)
def test_a_deadlock_is_told_as_its_circle(rows: list[str], waits: str, actions: str) -> None:
    named = tuple(map(Action.parse, actions.split()))
    assert problems(Schedule.of(map(str.split, rows))) == [Problem(f"the schedule deadlocks: {waits}", named)]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "the schedule is empty; give every rank at least one forward and its backward"),
        ([[]], "the schedule is empty"),
        ([["0F0", "0B0"], []], "rank 1 has nothing to do; leave it out or give it a stage"),
        ([["0F0", "0B0", "0R0"]], "0R0 is not an action a schedule orders; it orders F, B, I and W"),
        ([["0F0", "0F0", "0B0"]], "0F0 is scheduled 2 times; every action runs once"),
        (
            [["0F0"], ["0B0"]],
            "stage 0 is on rank 0 (0F0) and on rank 1 (0B0); a stage has one rank, because its weights",
        ),
        ([["0F1", "0B1", "0B0"]], "0F0 is missing; every stage runs every micro-batch forward"),
        ([["0F0", "0B0", "0F2", "0B2"]], "0F1 is missing"),
        ([["0F0", "0B0"], ["2F0", "2B0"]], "1F0 is missing"),
        ([["0F0", "0B0", "0F99999999999", "0B99999999999"]], "0F1 is missing"),
        ([["0F0"]], "0B0 is missing; write 0B0, or 0I0 and 0W0"),
        ([["0F0", "0I0"]], "0W0 is missing; 0I0 is only half of a backward"),
        ([["0F0", "0B0", "0W0"]], "0W0 has no 0I0; a weight gradient follows its input gradient"),
        ([["0F0", "0B0", "0I0", "0W0"]], "0B0 and 0I0 both go back through one micro-batch; keep one"),
        # Step 2 of micro-batch -1 would have the same inbox as step 1 of micro-batch 1.
        ([["0F0", "0F1", "0B0", "0B1"], ["1F0", Action(1, Kind.B, -1), "1B0", "1B1"]], "1B-1 counts below zero"),
        ([["0F0", "0F1", "0B0", "0B1"], ["1F0", Action(-1, Kind.F, 1), "1B0", "1B1"]], "-1F1 counts below zero"),
        ([["0B0", "0F0"]], "the schedule deadlocks: 0B0 waits for 0F0, which comes after it on rank 0"),
        ([["0F0", "0W0", "0I0"]], "the schedule deadlocks: 0W0 waits for 0I0, which comes after it on rank 0"),
    ],
)
def test_the_first_sentence(rows: list[list[str]], sentence: str) -> None:
    for judge in (check, simulate):
        with pytest.raises(ScheduleError, match="^" + re.escape(sentence)):
            judge(Schedule.of(rows))


def test_memory_is_refused_at_the_action_that_breaks_the_limit() -> None:
    check(one_f_one_b(4, 8), memory_limit=4)
    with pytest.raises(ScheduleError, match="^rank 0 holds 4 micro-batches at 0F3, more than the limit of 3; run a"):
        check(one_f_one_b(4, 8), memory_limit=3)
    first, second = problems(one_f_one_b(4, 8), memory_limit=2)
    assert first.actions + second.actions == (Action.parse("0F2"), Action.parse("1F2"))
    zb_h1 = FAMILIES["zb_h1"].make(4, 8)
    check(zb_h1, memory_limit=4)
    *_, last = problems(zb_h1, memory_limit=2.4)  # an F before its I, and three I's before their W's
    assert last.sentence.startswith("rank 3 holds 2.5 micro-batches at 3F3")


def test_a_broken_file_of_many_problems_stays_short() -> None:
    assert len(problems(Schedule.of([["900F900"]]))) == 100


@pytest.mark.parametrize("rows", [[["0F0", "0B0"]], [["0F0", "0W0", "0I0"]]])
def test_a_kind_that_is_plain_text_is_named(rows: list[list[str]]) -> None:
    """It compares equal to a `Kind` and is none, so a W before its I would pass, and an F wait for itself."""
    actions = [[Action(0, text[1], int(text[2])) for text in row] for row in rows]  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="the kind of 0F0 is 'F', a str; make it with Action.parse"):
        check(Schedule.of(actions))


@pytest.mark.parametrize("limit", [float("nan"), -1.0, "2"])
def test_a_memory_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match=f"memory_limit is {limit}; give the most micro-batches"):
        check(gpipe(1, 1), memory_limit=limit)
