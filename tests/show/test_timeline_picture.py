"""A timeline as a picture, read back from its SVG, in words and in the player, against numbers worked out by hand."""

import re

import pytest
from matplotlib.colors import to_hex

from pllab.schedule import Action, Kind
from pllab.show import TimelinePlayer, draw_timeline
from pllab.show.boxes import Labels, label_of
from pllab.show.player.timeline_player import frames_of
from pllab.show.theme import LIGHT, NAMES
from pllab.show.timeline_picture import describe_timeline
from pllab.timeline import Span, Timeline


def spans_of(*forwards):
    """Forwards as (rank, micro-batch, start, end)."""
    return [Span(rank, Action(rank, Kind.F, index), start, end) for rank, index, start, end in forwards]


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
    spans = spans_of(*((0, index, index, index + 1) for index in range(2100)))
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
    alt = draw_timeline(Timeline.of([], "simulated", 2)).alt
    assert alt.startswith("simulated, 2 ranks, 0 micro-batches: makespan 0 s")


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
    said = describe_timeline(timeline)
    assert said.startswith("emulated (sleep), 1 rank, 1 micro-batch:") and said.endswith("in flight on rank 0")


def test_the_rank_with_the_peak_is_named():
    spans = spans_of((0, 0, 0, 1), (1, 0, 1, 2), (1, 1, 2, 3))
    assert describe_timeline(Timeline.of(spans, "simulated")).endswith("at most 2 micro-batches in flight on rank 1")


def test_a_label_names_the_stage_only_where_a_rank_has_several(forward_only):
    assert not Labels.of(forward_only).staged
    second = Span(0, Action(2, Kind.B, 1), 6.0, 7.0)
    both = Timeline.of([*forward_only.spans, second], "real")
    assert Labels.of(both).staged
    assert (label_of(second.action, False), label_of(second.action, True)) == ("B1", "2B1")


@pytest.mark.parametrize(("num_ranks", "named"), [(2, 2), (31, 31), (40, 20), (64, 16)])
def test_many_ranks_are_named_as_far_as_there_is_room(num_ranks, named):
    spans = spans_of(*((rank, 0, rank, rank + 1) for rank in range(num_ranks)))
    [axes] = draw_timeline(Timeline.of(spans, "simulated", num_ranks)).canvas.axes
    names = {place: label.get_text() for place, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)}
    assert names == {rank: f"rank {rank}" for rank in range(0, num_ranks, -(-num_ranks // named))}
    assert axes.yaxis_inverted()


# In the player


def test_the_moments_of_three_micro_batches(forward_only):
    player = TimelinePlayer(forward_only)
    assert [frame["sentence"] for frame in player.view["frames"]] == [
        "t = 0 s: rank 0 runs F0, rank 1 is idle",
        "t = 100 ms: rank 0 runs F1, rank 1 runs F0",
        "t = 200 ms: rank 0 runs F2, rank 1 runs F1",
        "t = 300 ms: rank 0 is idle, rank 1 runs F2",
        "t = 400 ms: every rank is done",
    ]


def test_starts_that_nearly_coincide_are_one_moment():
    spans = spans_of((0, 0, 0.0, 1.0), (1, 0, 0.0001, 1.0), (0, 1, 1.0, 2.0), (1, 1, 1.0001, 2.0))
    assert [len(frame["running"]) for frame in frames_of(Timeline.of(spans, "real"))] == [2, 2, 0]


def test_an_action_shorter_than_the_grouping_is_not_lost():
    spans = spans_of((0, 0, 0.0, 0.001), (0, 1, 0.001, 0.002), (0, 2, 0.002, 1.0))
    frames = frames_of(Timeline.of(spans, "real"))
    assert {index for frame in frames for index in frame["running"]} == {0, 1, 2}


def test_two_things_at_once_on_one_rank(every_kind):
    sentences = [frame["sentence"] for frame in TimelinePlayer(every_kind).view["frames"]]
    assert "t = 2 s: rank 0 runs B0 and C0" in sentences


def test_static_twin_has_the_numbers_of_the_widget(forward_only):
    player = TimelinePlayer(forward_only, title="mine")
    alt = player.static().alt
    assert alt == f"mine, {describe_timeline(forward_only)}"
    assert player.view["summary"] in alt
