"""Layers cut into stages, and the picture of a clock: numbers, words and marks on paper, and what is refused."""

import re
import signal
import threading

import pytest

from pllab.pipeline import balance, clock_cycles
from pllab.show import draw_clock, draw_cut, draw_cuts
from pllab.show.pictures import stages
from pllab.show.pictures.stages import StageCut

COSTS = [1, 10, 10, 10, 30]
NAMES = ["embedding", "block 0", "block 1", "block 2", "head"]


def cut(costs=COSTS, sizes=(2, 3), names=NAMES):
    return StageCut(costs, sizes, names)


def test_the_sentence_names_the_slowest_stage_its_sum_and_the_bound():
    assert str(cut()) == (
        "The slowest stage is stage 1, block 1 to head: 50 ms. 2 devices are at most 1.22 times as fast as one."
    )
    assert cut().sums == [11.0, 50.0]
    assert draw_cut(COSTS, [2, 3], NAMES, "one batch").alt == f"one batch, engine: real. {cut()}"


def test_of_two_slowest_stages_the_first_is_named():
    assert "stage 0, a: 2 ms" in str(cut([2, 2], [1, 1], ["a", "b"]))


def test_three_stages_have_two_lines():
    [lines] = draw_cut([1, 1, 1, 1], [1, 2, 1], NAMES[:4], "").canvas.axes[0].collections
    assert [path.vertices[0][1] for path in lines.get_paths()] == [0.5, 2.5]


def test_a_bar_is_a_layer_and_the_slowest_stage_is_marked():
    [axes] = draw_cut(COSTS, [2, 3], NAMES, "").canvas.axes
    assert axes.yaxis_inverted()
    assert [bar.get_width() for bar in axes.patches] == COSTS
    assert [bar.get_y() + bar.get_height() / 2 for bar in axes.patches] == pytest.approx(range(5))
    fills = [bar.get_facecolor() for bar in axes.patches]
    assert len(set(fills[:2])) == len(set(fills[2:])) == 1 and fills[0] != fills[2]
    sums = {text.get_text(): text.get_position()[1] for text in axes.texts if "stage" in text.get_text()}
    assert sums == {"stage 0: 11 ms": 0.5, "stage 1: 50 ms (slowest)": 3}
    costs = [(text.get_text(), *text.xy) for text in axes.texts if "stage" not in text.get_text()]
    assert costs == [(f"{cost} ms", cost, layer) for layer, cost in enumerate(COSTS)]
    assert [label.get_text() for label in axes.get_yticklabels()] == NAMES
    assert axes.get_xlabel().replace("\n", " ").endswith(f"two stages {cut()}")  # the picture says what the cut allows


def test_all_cuts_into_two_stages_stand_below_each_other_and_the_best_is_told():
    shown = draw_cuts(COSTS, names=NAMES)
    assert "after embedding: slowest 60 ms, at most 1.02; after block 0: slowest 50 ms, at most 1.22" in shown.alt
    assert shown.alt.endswith("The best cut is after block 2: its slowest stage costs 31 ms.")
    axes = shown.canvas.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"after {name}" for name in NAMES[:-1]]
    bold = [text.get_text() for text in axes.texts if text.get_fontweight() == "bold"]
    assert bold == ["31 ms", " 1.97, best"]
    assert [text.get_position()[0] for text in axes.texts[::2]] == [31, 36, 41, 15.5]  # amid the slower stage
    assert [bar.get_width() for bar in axes.patches] == [1, 60, 11, 50, 21, 40, 31, 30]
    assert [bar.get_x() for bar in axes.patches] == [0, 1, 0, 11, 0, 21, 0, 31]
    assert axes.yaxis_inverted()


@pytest.mark.parametrize("costs", [COSTS, [3, 1, 4, 1, 5, 9, 2], [0, 3]])
def test_the_best_of_all_cuts_is_the_one_that_balances(costs):
    least = max(StageCut(costs, balance(costs, 2), list(map(str, costs))).sums)
    assert draw_cuts(costs, list(map(str, costs))).alt.endswith(f"its slowest stage costs {least:.3g} ms.")


@pytest.mark.parametrize("sizes", [[1, 2], [0, 2], []])
def test_sizes_that_are_no_cut_are_refused(sizes):
    with pytest.raises(ValueError, match=rf"sizes {re.escape(str(sizes))} do not cut 2 layers"):
        draw_cut([1, 1], sizes, ["a", "b"], "")


def test_a_free_layer_alone_on_a_stage_is_no_division_by_zero():
    assert str(cut([0, 3], [1, 1], ["a", "b"])).startswith("The slowest stage is stage 1")
    assert "after a: slowest 3 ms, at most 1.00" in draw_cuts([0, 3], ["a", "b"]).alt


# The clock


def test_three_micro_batches_on_two_stages_in_words():
    picture = draw_clock(lambda m, p: map(iter, clock_cycles(m, p)), 3, 2)  # a generator is a clock too
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
    [axes] = draw_clock(clock_cycles, 3, 2).canvas.axes
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


def stuck(_m, _p):
    while True:
        pass


@pytest.mark.parametrize(
    ("clock", "sentence"),
    [
        (lambda _m, _p: [iter(lambda: (0, 0), None)], r"tick 0 of the clock is \[\(0, 0\), .*; it can name each stage"),
        (lambda m, p: clock_cycles(m + 1, p), "tick 2 of the clock is .*, with a micro-batch that exists"),
        (lambda m, p: clock_cycles(m, p + 1), "tick 2 of the clock is"),
        (lambda _m, _p: [[(-1, 0)]], "tick 0 of the clock is"),
        (lambda _m, _p: [[], []], "the clock runs nothing; give the pairs"),
    ],
)
def test_a_clock_that_is_none_is_refused_with_a_sentence(clock, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw_clock(clock, 2, 2)


def test_a_clock_that_loops_without_a_tick_is_ended(monkeypatch):
    monkeypatch.setattr(stages, "PATIENCE_S", 0.5)
    with pytest.raises(TimeoutError, match=r"the clock had not ended after 0.5 s; look for a loop without an end"):
        draw_clock(stuck, 2, 2)
    draw_clock(clock_cycles, 3, 2)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)  # nothing ends what comes after it


def test_another_thread_draws_without_a_deadline():
    drawn = []
    thread = threading.Thread(target=lambda: drawn.append(draw_clock(clock_cycles, 3, 2)))
    thread.start()
    thread.join(60)
    assert drawn[0].alt == draw_clock(clock_cycles, 3, 2).alt
