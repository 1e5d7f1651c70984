"""Where the time of a run went: gaps with their causes, and the critical path."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import Action, Schedule, gpipe, needs, one_f_one_b
from pllab.simulate import Costs, Gap, critical_steps, gaps, idle_causes, simulate
from pllab.timeline import Span, Timeline
from tests.simulate.legal import positive, recorded, runs


def told(found: tuple[Gap, ...]) -> list[str]:
    return [f"{gap.rank} {gap.start:g}-{gap.end:g} {gap.cause} {gap.waited_for}" for gap in found]


def test_the_causes_of_a_small_pipeline_by_hand() -> None:
    schedule = one_f_one_b(2, 2)
    timeline = simulate(schedule)
    assert list(map(str, gaps(schedule, timeline))) == [
        "rank 0 is idle for 2 s at 2 s: it waits for 1B0",
        "rank 0 is idle for 1 s at 6 s: it waits for 1B1",
        "rank 1 is idle for 1 s at 0 s: it waits for 0F0",
        "rank 1 is idle for 2 s at 7 s: drain",
    ]
    assert [(cause, idle_s, round(6 * share)) for cause, idle_s, share in idle_causes(schedule, timeline)] == [
        ("start-up", 1.0, 1),
        ("action", 3.0, 3),
        ("message", 0.0, 0),
        ("launch", 0.0, 0),
        ("drain", 2.0, 2),
    ]


@given(run=runs())
def test_a_gap_is_idle_time_and_ends_when_what_it_waits_for_is_done_or_there(run: tuple[Schedule, Costs]) -> None:
    schedule, costs = run
    timeline = simulate(schedule, costs)
    spans = {span.action: span for span in timeline.spans}
    found = gaps(schedule, timeline, costs)
    assert sum(gap.duration for gap in found) == timeline.idle
    assert all(a.end <= b.start for a, b in pairwise(found) if a.rank == b.rank)
    for gap in found:
        assert gap.cause in ("start-up", "action", "message", "drain")
        assert not any(span.start < gap.end and gap.start < span.end for span in timeline.of_rank(gap.rank))
        if gap.cause == "drain":
            assert gap.end == timeline.end and gap.start == timeline.of_rank(gap.rank)[-1].end
            continue
        row = schedule.rows[gap.rank]
        receiver = next(action for action in row if gap.waited_for in needs(action, schedule.num_stages, spans))
        computed, started = spans[gap.waited_for].end, spans[receiver].start
        if gap.cause == "start-up":
            assert receiver == row[0] and gap.end == started
        elif gap.cause == "action":
            assert gap.end == computed
        else:
            assert computed <= gap.start and gap.end == started
            assert started == computed + costs.p2p


def test_a_recorded_wait_for_an_input_is_a_message_whatever_the_costs_say() -> None:
    schedule, fast = gpipe(2, 1), Costs(p2p=0.25)
    times = {"0F0": (0.0, 1.0), "1F0": (3.0, 4.0), "1B0": (4.0, 6.0), "0B0": (8.0, 10.0)}
    assert told(gaps(schedule, recorded(times), fast))[1:3] == ["0 6-6.25 message 1B0", "0 6.25-8 launch None"]
    received, sent = (recorded(times | {"0C0": (1.0, end)}) for end in (8.0, 7.0))
    assert told(gaps(schedule, received, fast))[1:2] == ["0 6-8 message 1B0"]
    assert "0 6.25-8 launch None" in told(gaps(schedule, sent, fast))


def test_what_is_left_of_a_measured_wait_is_message_and_launch_by_the_costs() -> None:
    schedule = gpipe(2, 1)
    timeline = recorded({"0F0": (5.0, 6.0), "1F0": (7.5, 8.5), "1B0": (8.75, 10.75), "0B0": (12.0, 14.0)})
    assert told(gaps(schedule, timeline)) == [
        "0 6-10.75 action 1B0",
        "0 10.75-12 message 1B0",
        "1 5-7.5 start-up 0F0",
        "1 8.5-8.75 launch None",
        "1 10.75-14 drain None",
    ]
    assert told(gaps(schedule, timeline, Costs(p2p=1.0)))[:3] == [
        "0 6-10.75 action 1B0",
        "0 10.75-11.75 message 1B0",
        "0 11.75-12 launch None",
    ]


def test_communication_leaves_a_rank_idle_and_overlapping_work_does_not() -> None:
    schedule = gpipe(1, 1)
    times = {"0F0": (0.0, 3.0), "0R0": (1.0, 2.0), "0C0": (3.0, 4.0), "0B0": (4.0, 5.0)}
    timeline = recorded(times, num_ranks=2)
    assert told(gaps(schedule, timeline)) == ["0 3-4 launch None", "1 0-5 drain None"]
    assert sum(gap.duration for gap in gaps(schedule, timeline)) == timeline.idle


def test_a_timeline_of_another_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="the timeline has 0B1 but the schedule has not"):
        gaps(gpipe(2, 1), simulate(gpipe(2, 2)))


@given(run=runs(), noise=st.lists(st.floats(0, 3), min_size=1, max_size=20))
def test_causes_add_up_to_all_idle_time_of_any_run(run: tuple[Schedule, Costs], noise: list[float]) -> None:
    """Also of a measured one, whose spans begin late, overlap and leave a message or a rank idle."""
    schedule, costs = run
    spans = simulate(schedule, costs).spans
    late = [span._replace(end=span.end + noise[n % len(noise)]) for n, span in enumerate(spans)]
    sent = Span(0, Action.parse("0C0"), -1.0, 0.5)
    for timeline in (Timeline.of([*late, sent], "real", schedule.num_ranks + 1), Timeline.of(spans, "real")):
        causes = idle_causes(schedule, timeline, costs)
        assert sum(one.seconds for one in causes) == pytest.approx(timeline.idle, rel=1e-3, abs=1e-9)
        assert sum(one.share for one in causes) == (pytest.approx(1, abs=1e-3) if any(o.seconds for o in causes) else 0)


def critical_path(schedule: Schedule, timeline: Timeline) -> tuple[Span, ...]:
    return tuple(step.span for step in critical_steps(schedule, timeline))


@given(run=runs(positive))
def test_each_step_waits_for_the_one_before_and_together_they_take_the_makespan(run: tuple[Schedule, Costs]) -> None:
    schedule, costs = run
    timeline = simulate(schedule, costs)
    steps, present = critical_steps(schedule, timeline), set(schedule.actions())
    assert steps[0].link == "start" and steps[0].span.start == 0.0 and steps[-1].span.end == timeline.makespan
    assert sum(step.span.duration + step.lag for step in steps) == timeline.makespan
    for before, step in pairwise(steps):
        if step.link == "rank":
            row = schedule.rows[step.span.rank]
            assert row.index(before.span.action) + 1 == row.index(step.span.action) and step.lag == 0.0
        else:
            assert before.span.action in needs(step.span.action, schedule.num_stages, present)
            assert step.lag == costs.p2p


def test_in_a_measured_run_the_later_of_rank_and_input_counts() -> None:
    schedule = gpipe(2, 2)
    times = {
        "0F0": (0.0, 1.0),
        "0F1": (1.01, 2.01),
        "1F0": (1.02, 2.5),
        "1F1": (2.52, 3.5),
        "1B0": (3.51, 5.0),
        "1B1": (5.01, 7.0),
        "0B0": (5.03, 6.9),
        "0B1": (7.6, 9.0),
    }
    path = [(str(step.span.action), step.link) for step in critical_steps(schedule, recorded(times))]
    links = ["start", "input", "rank", "rank", "rank", "input"]
    assert path == list(zip(["0F0", "1F0", "1F1", "1B0", "1B1", "0B1"], links, strict=True))


def test_clocks_that_differ_do_not_send_the_path_in_a_circle() -> None:
    timeline = recorded({"0F0": (1.0, 3.0), "1F0": (0.9, 2.0), "1B0": (2.1, 4.0), "0B0": (3.1, 6.0)})
    assert [str(span.action) for span in critical_path(gpipe(2, 1), timeline)] == ["1F0", "1B0", "0B0"]


def test_the_path_ends_with_what_ends_last_and_not_with_what_starts_last() -> None:
    schedule = Schedule.of([["0F0", "0I0", "0W0"], ["1F0", "1I0", "1W0"]])
    timeline = simulate(schedule, Costs(backward_weight=(1.0, 10.0)))
    assert str(timeline.spans[-1].action) == "0W0"
    assert [str(span.action) for span in critical_path(schedule, timeline)] == ["0F0", "1F0", "1I0", "1W0"]


def test_an_empty_run_has_no_path() -> None:
    assert critical_path(gpipe(1, 1), Timeline.of([], "real", 1)) == ()
