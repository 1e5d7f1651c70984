"""The sentence of a timeline against numbers worked out by hand."""

from pllab.schedule.action import Action, Kind
from pllab.show import describe_timeline
from pllab.show.timeline_text import has_several_stages, label_of
from pllab.timeline import Span, Timeline


def test_the_sentence_is_made_from_the_numbers(forward_only):
    # GPipe with p = 2, m = 3: (p-1)/(m+p-1) = 1/4 and (p-1)/m = 1/3
    assert describe_timeline(forward_only) == (
        "real, 2 devices, 3 micro-batches: makespan 400 ms, bubble fraction 25.0 %, bubble overhead 33.3 %, "
        "at most 3 micro-batches in flight on every device"
    )


def test_buckets_of_a_reduction_are_not_micro_batches(every_kind):
    extra = [Span(0, Action(0, Kind.C, bucket), 6.0, 7.0) for bucket in range(5)]
    timeline = Timeline.of([*every_kind.spans, *extra], "emulated", 1)
    assert describe_timeline(timeline).startswith("emulated (sleep), 1 device, 1 micro-batch:")


def test_the_device_with_the_peak_is_named():
    spans = [
        Span(0, Action(0, Kind.F, 0), 0, 1),
        Span(1, Action(1, Kind.F, 0), 1, 2),
        Span(1, Action(1, Kind.F, 1), 2, 3),
    ]
    assert describe_timeline(Timeline.of(spans, "simulated")).endswith("at most 2 micro-batches in flight on device 1")


def test_an_empty_timeline_says_so():
    assert describe_timeline(Timeline.of([], "simulated", 2)) == "simulated, 2 devices: nothing ran"


def test_a_label_names_the_stage_only_where_a_device_has_several(forward_only):
    assert not has_several_stages(forward_only)
    second = Span(0, Action(2, Kind.B, 1), 6.0, 7.0)
    both = Timeline.of([*forward_only.spans, second], "real")
    assert has_several_stages(both)
    assert (label_of(second, False), label_of(second, True)) == ("B1", "2B1")
