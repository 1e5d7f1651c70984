"""The picture of a clock: its ticks, words and numbers, and the clocks that it refuses."""

import re
import signal
import threading

import pytest

from pllab.show import draw_clock
from pllab.show.pictures import stages


def staircase(m, p):
    """The clock written down by cells: this room may not import the pipeline's."""
    ticks = [[] for _ in range(m + p - 1)]
    for i in range(m):
        for j in range(p):
            ticks[i + j].append((i, j))
    return ticks


def test_three_micro_batches_on_two_stages_in_words():
    picture = draw_clock(staircase, 3, 2)
    assert picture.alt == (
        "3 micro-batches on 2 stages: 4 ticks, 2 of 8 cells idle, engine: simulated. "
        "bubble fraction, idle / all: 2/8 = 25.0 %. "
        "bubble overhead, idle / busy: 2/6 = 33.3 %. "
        "tick 0: micro-batch 0 on stage 0; idle: stage 1. "
        "tick 1: micro-batch 1 on stage 0, micro-batch 0 on stage 1; nobody is idle. "
        "tick 2: micro-batch 2 on stage 0, micro-batch 1 on stage 1; nobody is idle. "
        "tick 3: micro-batch 2 on stage 1; idle: stage 0"
    )
    [axes] = picture.canvas.axes
    assert re.split(r"\n|;  ", axes.get_title(loc="left")) == picture.alt.split(". ")[:3]


def test_a_row_is_a_stage_and_a_column_a_tick():
    [axes] = draw_clock(staircase, 3, 2).canvas.axes
    at = {text.get_position(): text.get_text() for text in axes.texts}
    assert at == {(tick + 0.5, stage): f"F{tick - stage}" for stage in range(2) for tick in range(stage, stage + 3)}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["stage 0", "stage 1"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2", "3"]
    drawn = [collection.get_paths()[0].get_extents() for collection in axes.collections]
    slabs, boxes = drawn[:2], drawn[2::2]  # each box has a bar
    assert axes.yaxis_inverted() and [(slab.x0, slab.x1) for slab in slabs] == [(0, 4)] * 2
    assert all(slab.contains(2, stage) for stage, slab in enumerate(slabs))
    assert [(box.x0, box.x1) for box in boxes] == [(int(x), int(x) + 1) for x, _ in at]
    assert all(box.contains(*place) for box, place in zip(boxes, at, strict=True))


def test_a_generator_is_a_clock():
    picture = draw_clock(lambda m, p: (iter(tick) for tick in staircase(m, p)), 3, 2)
    assert picture.alt == draw_clock(staircase, 3, 2).alt


def endless(_m, _p):
    while True:
        yield []


def stuck(_m, _p):
    while True:
        pass


@pytest.mark.parametrize(
    ("clock", "sentence"),
    [
        (
            lambda _m, _p: [iter(lambda: (0, 0), None)],
            r"tick 0 of the clock is \[\(0, 0\), .*; it can name each stage once",
        ),
        (lambda m, p: staircase(m + 1, p), "tick 2 of the clock is .*, with a micro-batch that exists"),
        (lambda m, p: staircase(m, p + 1), "tick 2 of the clock is"),
        (lambda _m, _p: [[(-1, 0)]], "tick 0 of the clock is"),
    ],
)
def test_a_clock_that_is_none_is_refused_with_a_sentence(clock, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw_clock(clock, 2, 2)


def test_a_clock_that_loops_without_a_tick_is_ended(monkeypatch):
    monkeypatch.setattr(stages, "PATIENCE_S", 0.5)
    with pytest.raises(TimeoutError, match=r"the clock had not ended after 0.5 s; look for a loop without an end"):
        draw_clock(stuck, 2, 2)
    draw_clock(staircase, 3, 2)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)  # nothing ends what comes after it


def test_another_thread_draws_without_a_deadline():
    drawn = []
    thread = threading.Thread(target=lambda: drawn.append(draw_clock(staircase, 3, 2)))
    thread.start()
    thread.join(60)
    assert drawn[0].alt == draw_clock(staircase, 3, 2).alt
