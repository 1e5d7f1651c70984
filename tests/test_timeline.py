from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import Action, Kind
from pllab.timeline import Span, Timeline


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


def test_each_half_of_a_backward_frees_a_half() -> None:
    spans = [Span(0, Action(0, kind, n // 2), n, n + 1) for n, kind in enumerate([Kind.F, Kind.I, Kind.F, Kind.W])]
    timeline = Timeline.of(spans, "simulated")
    assert timeline.peak_in_flight == (1.5,)
    assert timeline.held_over_time(0) == [(0, 1.0), (2, 0.5), (2, 1.5), (4, 1.0)]


def test_work_without_duration_counts_in_the_order_of_the_row() -> None:
    spans = [Span(0, Action(0, kind, m), 1.0, 1.0) for m in (0, 1) for kind in (Kind.F, Kind.B)]
    assert Timeline.of(spans, "simulated").peak_in_flight == (1.0,)


@given(
    spans=st.lists(
        st.builds(
            lambda rank, start, length, m: Span(rank, Action(0, Kind.F, m), float(start), float(start + length)),
            st.integers(0, 3),
            st.integers(0, 5),
            st.integers(0, 3),
            st.integers(0, 99),
        )
    )
)
def test_spans_come_in_order_of_start_then_rank_then_as_given(spans: list[Span]) -> None:
    timeline = Timeline.of(spans, "real", num_ranks=4)
    assert timeline.spans == tuple(sorted(spans, key=lambda span: (span.start, span.rank)))
    assert (
        timeline.num_ranks == 4 and Timeline.of(spans, "real").num_ranks == max((s.rank for s in spans), default=-1) + 1
    )
    assert [timeline.of_rank(rank) for rank in range(5)] == [
        tuple(span for span in timeline.spans if span.rank == rank) for rank in range(5)
    ]
    assert timeline.busy == sum(timeline.busy_of_ranks)
