"""The race's arithmetic, its words, its live table and its picture."""

import pytest

from pllab.show import Race


@pytest.fixture
def race():
    return Race(["one lane", "pipeline"], num_devices=2)


def test_one_that_runs_shows_progress_and_rate_live(race):
    assert race.live.value.count("waiting (0%)") == 2
    race.update("pipeline", progress=0.25, rate=1234.5)
    told = [(runner.name, runner.progress, runner.value) for runner in race.runners.values()]
    assert told == [("one lane", 0.0, "waiting"), ("pipeline", 0.25, "1,230 tokens/s")]
    assert race.top >= 1234.5
    assert "2 devices, engine: real" in race.live.value
    assert race.live.value.index("waiting (0%)") < race.live.value.index("1,230 tokens/s (25%)")
    assert f"width:{1234.5 / race.top:.1%}'" in race.live.value


def test_the_live_table_ends_where_the_picture_begins(race):
    race.finish("one lane", [90.0], "baseline")
    assert "pipeline" in race.live.value
    race.finish("pipeline", [100.0], "1.11x")
    assert race.live.value == ""


def test_a_name_cannot_write_into_the_page():
    assert "<b>" not in Race(["<b>"], 1).live.value


def test_a_bar_is_the_median_with_its_range_and_the_verdict_as_it_was_judged(race):
    race.finish("one lane", [90.0, 100.0, 130.0], "baseline")
    race.finish("pipeline", [170.0, 160.0, 150.0, 140.0], "1.60x")  # the medians have another quotient
    shown = race.static()
    assert shown.alt == (
        "2 devices, engine: real. one lane: median 100 tokens/s (90 to 130), baseline. "
        "pipeline: median 155 tokens/s (140 to 170), 1.60x."
    )
    axes = shown.canvas.axes[0]
    assert axes.yaxis_inverted() and len({bar.get_facecolor() for bar in axes.patches}) == 2
    numbers = [(100.0, 90.0, 130.0), (155.0, 140.0, 170.0)]
    rows = zip(numbers, axes.patches, axes.containers[1::2], axes.texts, strict=True)
    for row, (expected, bar, whisker, text) in enumerate(rows):
        [spread] = whisker.lines[2][0].get_segments()
        assert (bar.get_width(), *spread[:, 0]) == expected
        assert bar.get_y() + bar.get_height() / 2 == spread[0, 1] == text.get_position()[1] == row
    assert [text.get_text() for text in axes.texts] == ["100 tokens/s  baseline", "155 tokens/s  1.60x"]


def test_the_axis_never_shrinks_and_holds_every_whisker(race):
    race.update("pipeline", 0.1, 5000.0)
    widest = race.top
    race.update("pipeline", 0.2, 10.0)
    assert race.top == pytest.approx(widest)
    race.finish("pipeline", [10.0, 20.0, 9000.0], "1.00x")
    assert race.top >= 9000.0
    race.finish("one lane", [10.0], "baseline")
    assert race.static().canvas.axes[0].get_xlim() == (0, race.top)
