import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.pipeline.clock import clock_cycles
from pllab.schedule import Action, Kind
from pllab.timeline import Span, Timeline


def gpipe(m: int, p: int, forward: float, backward: float) -> Timeline:
    """The synchronous clock with constant costs: every tick takes its cost, backward mirrors forward."""
    ticks = list(clock_cycles(m, p))
    spans = [
        Span(j, Action(j, Kind.F, i), t * forward, (t + 1) * forward) for t, tick in enumerate(ticks) for i, j in tick
    ]
    half = len(ticks) * forward
    for t, tick in enumerate(reversed(ticks)):
        spans += [Span(j, Action(j, Kind.B, i), half + t * backward, half + (t + 1) * backward) for i, j in tick]
    return Timeline.of(spans, "simulated")


@given(m=st.integers(1, 8), p=st.integers(1, 6), forward=st.integers(1, 3), backward=st.integers(1, 5))
def test_gpipe_has_the_bubble_and_the_memory_of_the_closed_forms(m: int, p: int, forward: int, backward: int) -> None:
    timeline = gpipe(m, p, forward, backward)
    assert timeline.makespan == pytest.approx((m + p - 1) * (forward + backward))
    assert timeline.busy == pytest.approx(m * p * (forward + backward))
    assert timeline.bubble_fraction == pytest.approx((p - 1) / (m + p - 1))
    assert timeline.bubble_overhead == pytest.approx((p - 1) / m)
    assert timeline.peak_in_flight == (m,) * p


def test_a_split_backward_releases_half_and_half() -> None:
    kinds = [Kind.F, Kind.F, Kind.I, Kind.F, Kind.W, Kind.I]
    spans = [Span(0, Action(0, kind, n), n, n + 1) for n, kind in enumerate(kinds)]
    assert Timeline.of(spans, "simulated").peak_in_flight == (2.5,)


def test_overlapping_spans_count_once_and_communication_is_not_work() -> None:
    spans = [
        Span(0, Action(0, Kind.B, 0), 0.0, 2.0),
        Span(0, Action(0, Kind.C, 0), 1.0, 4.0),
        Span(0, Action(0, Kind.U, 0), 1.5, 3.0),
    ]
    timeline = Timeline.of(spans, "real")
    assert timeline.busy == 3.0 and timeline.makespan == 4.0 and timeline.idle == 1.0


def test_a_rank_that_did_nothing_is_idle_and_an_empty_run_is_nothing() -> None:
    span = Span(0, Action(0, Kind.F, 0), 0.0, 1.0)
    assert Timeline.of([span], "real", num_ranks=2).bubble_fraction == 0.5
    empty = Timeline.of([], "real")
    assert (empty.makespan, empty.bubble_fraction, empty.bubble_overhead, empty.peak_in_flight) == (0.0, 0.0, 0.0, ())


def test_from_zero_moves_the_clock_and_nothing_else() -> None:
    timeline = Timeline.of([Span(1, Action(1, Kind.F, 0), 5.0, 6.0), Span(0, Action(0, Kind.F, 0), 4.0, 5.5)], "real")
    moved = timeline.from_zero()
    assert [(span.start, span.end) for span in moved.spans] == [(0.0, 1.5), (1.0, 2.0)]
    assert (moved.makespan, moved.busy, moved.num_ranks) == (timeline.makespan, timeline.busy, 2)


def test_rows_are_plain_values() -> None:
    row = {"rank": 0, "stage": 0, "kind": "F", "microbatch": 3, "start": 0.0, "end": 1.0}
    assert Timeline.of([Span(0, Action(0, Kind.F, 3), 0.0, 1.0)], "real").to_rows() == [row]
