"""The memory bars' numbers, words and picture, without a browser."""

import json

import pytest
import traitlets

from pllab.show import MemoryBars
from pllab.show.widgets.memory_bars import ZeroStage

PLAIN = {"parameters": 4.0, "gradients": 4.0, "optimizer": 8.0}
STAGES = [
    ZeroStage("plain", [PLAIN, PLAIN], PLAIN, "A step sends 2 times the model."),
    ZeroStage("ZeRO-1", [{**PLAIN, "optimizer": 4.0}, {**PLAIN, "optimizer": 4.5, "messages": 0.0}], PLAIN),
]


def bars(**changes):
    return MemoryBars(STAGES, **({"unit": "bytes per parameter"} | changes))


def test_a_bar_for_each_rank_and_one_for_the_formula_last():
    [plain, sharded] = bars().stages
    assert [bar["label"] for bar in plain["bars"]] == ["rank 0", "rank 1", "closed form"]
    assert [bar["total"] for bar in sharded["bars"]] == [12.0, 12.5, 16.0]


def test_parts_come_in_one_order_and_without_what_is_nothing():
    shuffled = ZeroStage("x", [{"optimizer": 1.0, "messages": 0.0, "parameters": 2.0}], {"gradients": 1.0})
    widget = MemoryBars([shuffled], unit="bytes")
    assert [part["kind"] for part in widget.stages[0]["bars"][0]["parts"]] == ["parameters", "optimizer"]
    assert [kind["name"] for kind in widget.kinds] == ["parameters", "gradients", "optimizer", "messages"]


def test_the_sentence_is_of_the_fullest_rank_and_ends_with_the_remark():
    [plain, sharded] = bars().stages
    assert plain["sentence"] == (
        "plain: a rank holds 16.0 bytes per parameter (parameters 4.0, gradients 4.0, optimizer 8.0); the closed form "
        "says 16.0. A step sends 2 times the model."
    )
    assert "a rank holds 12.5 bytes per parameter" in sharded["sentence"]


def test_all_stages_have_one_scale():
    assert bars().top == 16.0


def test_the_static_figure_says_every_sentence():
    widget = bars(engine="simulated")
    assert all(view["sentence"] in widget.static().alt for view in widget.stages)
    assert "engine: simulated" in widget.static().alt


def test_traits_are_plain_json():
    widget = bars()
    assert json.loads(json.dumps([widget.stages, widget.kinds]))


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ([], "at least one stage"),
        ([ZeroStage("empty", [], PLAIN)], "at least one rank"),
        ([ZeroStage("odd", [{"cache": 1.0}], PLAIN)], "kind 'cache' is unknown; choose of parameters"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(stages, sentence):
    with pytest.raises(ValueError, match=sentence):
        MemoryBars(stages, unit="bytes")


@pytest.mark.parametrize("stage", [-1, 2])
def test_a_stage_that_does_not_exist_cannot_be_chosen(stage):
    with pytest.raises(traitlets.TraitError, match="does not exist"):
        bars().stage = stage
