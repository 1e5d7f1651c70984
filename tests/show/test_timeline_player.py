"""The player's moments and words, without a browser."""

from pllab.schedule import Action, Kind
from pllab.show import TimelinePlayer
from pllab.show.player.timeline_player import frames_of
from pllab.show.timeline_picture import describe_timeline
from pllab.timeline import Span, Timeline


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
    late = 0.0001
    spans = [
        Span(0, Action(0, Kind.F, 0), 0.0, 1.0),
        Span(1, Action(1, Kind.F, 0), late, 1.0),
        Span(0, Action(0, Kind.F, 1), 1.0, 2.0),
        Span(1, Action(1, Kind.F, 1), 1.0 + late, 2.0),
    ]
    frames = frames_of(Timeline.of(spans, "real"))
    assert [len(frame["running"]) for frame in frames] == [2, 2, 0]


def test_an_action_shorter_than_the_grouping_is_not_lost():
    spans = [
        Span(0, Action(0, Kind.F, 0), 0.0, 0.001),
        Span(0, Action(0, Kind.F, 1), 0.001, 0.002),
        Span(0, Action(0, Kind.F, 2), 0.002, 1.0),
    ]
    seen = {index for frame in frames_of(Timeline.of(spans, "real")) for index in frame["running"]}
    assert seen == {0, 1, 2}


def test_two_things_at_once_on_one_rank(every_kind):
    sentences = [frame["sentence"] for frame in TimelinePlayer(every_kind).view["frames"]]
    assert "t = 2 s: rank 0 runs B0 and C0" in sentences


def test_static_twin_has_the_numbers_of_the_widget(forward_only):
    player = TimelinePlayer(forward_only, title="mine")
    alt = player.static().alt
    assert "makespan 400 ms, bubble fraction 25.0 %" in alt
    assert alt == f"mine, {describe_timeline(forward_only)}"
    assert player.view["summary"] in alt
