"""The clock player's ticks, words and numbers, without a browser."""

import json

import pytest
from traitlets import TraitError

from pllab.show import ClockPlayer
from pllab.show.theme import write_percent
from pllab.show.widgets.clock_player import LIMITS, view_of


def staircase(m, p):
    """The clock written down by cells: this room may not import the pipeline's."""
    ticks = [[] for _ in range(m + p - 1)]
    for i in range(m):
        for j in range(p):
            ticks[i + j].append((i, j))
    return ticks


def test_two_micro_batches_on_two_stages_in_words():
    view = view_of(staircase, 2, 2)
    assert view["sentences"] == [
        "tick 0: micro-batch 0 on stage 0; idle: stage 1",
        "tick 1: micro-batch 1 on stage 0, micro-batch 0 on stage 1; nobody is idle",
        "tick 2: micro-batch 1 on stage 1; idle: stage 0",
    ]
    assert view["summary"] == "3 ticks, 2 of 6 cells idle, engine: simulated"
    assert view["numbers"] == [
        "bubble fraction, idle / all: 2/6 = 33.3 %",
        "bubble overhead, idle / busy: 2/4 = 50.0 %",
    ]


def test_both_numbers_follow_the_formulas_for_every_position_of_the_sliders():
    for m in range(1, LIMITS["num_batches"] + 1):
        for p in range(1, LIMITS["num_partitions"] + 1):
            view = view_of(staircase, m, p)
            assert view["numbers"][0].endswith(f" = {write_percent((p - 1) / (m + p - 1))}")
            assert view["numbers"][1].endswith(f" = {write_percent((p - 1) / m)}")
            assert not view["problem"]


def test_a_slider_asks_the_clock_again_and_starts_at_the_first_tick():
    player = ClockPlayer(staircase, 8, 4)
    player.step = 10
    player.num_partitions = 2
    assert (len(player.view["ticks"]), player.step) == (9, 0)
    assert player.view["sentences"][0] == "tick 0: micro-batch 0 on stage 0; idle: stage 1"
    assert player.view["numbers"][0].endswith("2/18 = 11.1 %")


def test_static_twin_has_the_numbers_of_the_widget():
    player = ClockPlayer(staircase, 8, 4)
    alt = player.static().alt
    assert alt.startswith("8 micro-batches on 4 stages, one second a tick, simulated, 4 ranks")
    assert "makespan 11 s, bubble fraction 27.3 %, bubble overhead 37.5 %" in alt
    assert "27.3 %" in player.view["numbers"][0]
    data, _ = player._repr_mimebundle_()
    assert data["text/plain"] == alt


def test_traits_are_plain_json_and_a_generator_is_a_clock():
    player = ClockPlayer(lambda m, p: (iter(tick) for tick in staircase(m, p)), 3, 2)
    assert player.view["ticks"] == [[tuple(pair) for pair in tick] for tick in staircase(3, 2)]
    json.dumps(player.view)


def raises(_m, _p):
    raise KeyError("no idea")


def endless(_m, _p):
    while True:
        yield []


@pytest.mark.parametrize(
    ("clock", "sentence"),
    [
        (lambda _m, _p: [], "the clock gave no pair for 2 micro-batches on 2 stages"),
        (endless, "the clock gave no pair"),
        (raises, "the clock raised KeyError: 'no idea'"),
        (lambda _m, _p: None, "the clock raised TypeError"),
        (lambda m, p: staircase(m + 1, p), "names micro-batch 2 on stage 0, which does not exist"),
        (lambda m, p: [sum(staircase(m, p), [])], "gives one stage two micro-batches"),
    ],
)
def test_a_clock_that_is_none_is_refused_with_a_sentence(clock, sentence):
    with pytest.raises(ValueError, match=sentence):
        ClockPlayer(clock, 2, 2)


def test_a_clock_that_fails_at_a_slider_says_so_and_recovers():
    def few_only(m, p):
        return raises(m, p) if m > 4 else staircase(m, p)

    player = ClockPlayer(few_only, 4, 2)
    player.num_batches = 5
    assert player.view["problem"] == "the clock raised KeyError: 'no idea'" and player.view["ticks"] == []
    player.num_batches = 3
    assert len(player.view["ticks"]) == 4 and not player.view["problem"]


def test_what_does_not_exist_is_refused():
    player = ClockPlayer(staircase, 3, 2)
    for trait, value, sentence in [
        ("num_batches", 0, "num_batches is 0; choose 1 to 16"),
        ("num_partitions", 9, "num_partitions is 9; choose 1 to 8"),
        ("step", 4, "tick 4 does not exist; choose 0 to 3"),
    ]:
        with pytest.raises(TraitError, match=sentence):
            setattr(player, trait, value)
    assert (player.num_batches, player.num_partitions, player.step) == (3, 2, 0)
