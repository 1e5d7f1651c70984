from itertools import pairwise

from hypothesis import given

from pllab.schedule import Schedule, gpipe, needs
from pllab.simulate import Costs, critical_steps, simulate
from pllab.timeline import Span, Timeline
from tests.simulate.legal import positive, recorded, runs


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
