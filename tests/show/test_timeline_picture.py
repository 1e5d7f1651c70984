"""The picture of a timeline, read back from its SVG; its sentence against numbers worked out by hand."""

import re

import pytest
from matplotlib.colors import to_hex

from pllab.schedule import Action, Kind
from pllab.show import draw_timeline
from pllab.show.boxes import Labels, label_of
from pllab.show.theme import LIGHT, NAMES
from pllab.show.timeline_picture import describe_timeline
from pllab.timeline import Span, Timeline


def texts_of(shown):
    return [re.sub(r"<[^>]+>", "", text) for text in re.findall(r"<text[^>]*>.*?</text>", shown.svg, re.S)]


def test_each_span_is_labelled_and_each_rank_named_and_how_long_it_idles_stands_on_its_slab(forward_only):
    texts = texts_of(draw_timeline(forward_only))
    assert sorted(text for text in texts if re.fullmatch(r"F\d", text)) == ["F0", "F0", "F1", "F1", "F2", "F2"]
    assert texts.count("idle 100 ms") == 2
    assert {"rank 0", "rank 1", "time (ms)", "real: makespan 400 ms, bubble fraction 25.0 %"} <= set(texts)


def test_the_clock_starts_at_zero(forward_only):
    assert forward_only.start == 7
    shown = draw_timeline(forward_only)
    assert shown.png == draw_timeline(forward_only.from_zero()).png and shown.alt == describe_timeline(forward_only)


def test_stacked_timelines_share_one_axis_and_name_their_engines(forward_only):
    faster = Timeline.of([Span(s.rank, s.action, s.start / 2, s.end / 2) for s in forward_only.spans], "simulated")
    shown = draw_timeline(faster, forward_only, titles=["prediction $\\frac$", "measurement"])
    texts = texts_of(shown)
    assert texts.count("time (ms)") == 1
    assert any(text.startswith("prediction $\\frac$, simulated:") for text in texts)
    assert any(text.startswith("measurement, real:") for text in texts)
    assert shown.alt.count("makespan") == 2


def test_every_kind_is_in_the_legend(every_kind):
    texts = texts_of(draw_timeline(every_kind))
    assert {"idle", *(f"{letter}  {NAMES[letter]}" for letter in "FBWCR")} <= set(texts)


def test_work_lies_in_outlined_tints_on_the_ink_of_idle_time():
    """Two stages on a rank: the second is paler; a bar on top of F and at the foot of B, none for W; no other hatch."""
    kinds = ((0, Kind.F), (2, Kind.F), (2, Kind.B), (0, Kind.W))
    spans = [Span(0, Action(stage, kind, 0), 1.5 * at, 1.5 * at + 1) for at, (stage, kind) in enumerate(kinds)]
    (axes,) = draw_timeline(Timeline.of(spans, "simulated")).canvas.axes
    boxes = [(to_hex(one.get_facecolor()[0]).upper(), one.get_paths()[0].get_extents()) for one in axes.collections]
    (slab, whole), *work = boxes
    assert (slab, whole.width) == (LIGHT.idle, 5.5)
    assert [one.get_hatch() for one in axes.collections].count("///") == 1
    fills = [LIGHT.fill_of("F"), LIGHT.fill_of("F", True), LIGHT.fill_of("B", True), LIGHT.fill_of("W")]
    lines = [LIGHT.outline_of(kind) for kind in "FFB"]
    assert [fill for fill, _ in work] == [fills[0], lines[0], fills[1], lines[1], fills[2], lines[2], fills[3]]
    places = [extent for _, extent in work]
    assert places[1].y0 == places[0].y0 and places[5].y1 == pytest.approx(places[4].y1)  # rows grow downwards
    assert "later stage of its rank" in texts_of(draw_timeline(Timeline.of(spans, "simulated")))


def test_many_narrow_boxes_are_tints_in_one_stroke_without_labels():
    spans = [Span(0, Action(0, Kind.F, index), float(index), index + 1.0) for index in range(2100)]
    shown = draw_timeline(Timeline.of(spans, "simulated"))
    assert not [text for text in texts_of(shown) if re.fullmatch(r"F\d+", text)]
    _, work = shown.canvas.axes[0].collections
    assert len(work.get_paths()) == 2100 and set(work.get_linewidths()) == {0}
    assert {to_hex(colour).upper() for colour in work.get_facecolors()} == {LIGHT.fill_of("F")}


def test_of_overlapping_messages_only_what_is_seen_is_labelled():
    starts_and_ends = [(0.0, 1.0), (0.9, 1.05), (0.95, 2.0), (1.5, 4.0)]  # C1 is covered by C2 but for a sliver
    spans = [Span(0, Action(0, Kind.C, n), start, end) for n, (start, end) in enumerate(starts_and_ends)]
    spans.append(Span(0, Action(0, Kind.B, 0), 0.0, 4.0))
    texts = texts_of(draw_timeline(Timeline.of(spans, "real")))
    assert [text for text in texts if re.fullmatch(r"[BC]\d+", text)] == ["B0", "C0", "C2", "C3"]


def test_an_empty_timeline_can_be_drawn():
    assert draw_timeline(Timeline.of([], "simulated", 2)).alt.startswith(
        "simulated, 2 ranks, 0 micro-batches: makespan 0 s"
    )


# In words


def test_the_sentence_is_made_from_the_numbers(forward_only):
    # GPipe with p = 2, m = 3: (p-1)/(m+p-1) = 1/4 and (p-1)/m = 1/3
    assert describe_timeline(forward_only) == (
        "real, 2 ranks, 3 micro-batches: makespan 400 ms, bubble fraction 25.0 %, bubble overhead 33.3 %, "
        "at most 3 micro-batches in flight on every rank"
    )


def test_buckets_of_a_reduction_are_not_micro_batches(every_kind):
    extra = [Span(0, Action(0, Kind.C, bucket), 6.0, 7.0) for bucket in range(5)]
    timeline = Timeline.of([*every_kind.spans, *extra], "emulated", 1)
    assert describe_timeline(timeline).startswith("emulated (sleep), 1 rank, 1 micro-batch:")


def test_the_rank_with_the_peak_is_named():
    spans = [
        Span(0, Action(0, Kind.F, 0), 0, 1),
        Span(1, Action(1, Kind.F, 0), 1, 2),
        Span(1, Action(1, Kind.F, 1), 2, 3),
    ]
    assert describe_timeline(Timeline.of(spans, "simulated")).endswith("at most 2 micro-batches in flight on rank 1")


def test_a_label_names_the_stage_only_where_a_rank_has_several(forward_only):
    assert not Labels.of(forward_only).staged
    second = Span(0, Action(2, Kind.B, 1), 6.0, 7.0)
    both = Timeline.of([*forward_only.spans, second], "real")
    assert Labels.of(both).staged
    assert (label_of(second.action, False), label_of(second.action, True)) == ("B1", "2B1")


@pytest.mark.parametrize(("num_ranks", "named"), [(2, 2), (31, 31), (40, 20), (64, 16)])
def test_many_ranks_are_named_as_far_as_there_is_room(num_ranks, named):
    spans = [Span(rank, Action(rank, Kind.F, 0), rank, rank + 1) for rank in range(num_ranks)]
    [axes] = draw_timeline(Timeline.of(spans, "simulated", num_ranks)).canvas.axes
    names = {place: label.get_text() for place, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)}
    assert names == {rank: f"rank {rank}" for rank in range(0, num_ranks, -(-num_ranks // named))}
    assert axes.yaxis_inverted()
