"""The fingerprint's arithmetic and its verdicts, without a browser."""

import json

import pytest
import traitlets

from pllab.show import GradientFingerprint

RIGHT = {"wte": [1.0, -2.0, 3.0], "w": [4.0, 5.0], "b": [0.5], "frozen": None}


def times(factor, *names):
    """The right gradients, some of them (or all) times a factor."""
    chosen = names or tuple(RIGHT)
    return {
        name: None if values is None else [value * (factor if name in chosen else 1) for value in values]
        for name, values in RIGHT.items()
    }


def shown(mine, num_ranks=2, reference=None):
    """The text of every parameter and the verdict."""
    [way] = GradientFingerprint(reference or RIGHT, {"mine": mine}, num_ranks=num_ranks).ways
    return {cell["name"]: cell["text"] for cell in way["cells"]}, way["verdict"]


def test_right_gradients_are_all_one_and_none_stays_none():
    ratios, verdict = shown(times(1.0))
    assert ratios == {"wte": "1", "w": "1", "b": "1", "frozen": "none"}
    assert verdict == "All 4 gradients equal those of one process."


@pytest.mark.parametrize(
    ("factor", "num_ranks", "words"),
    [
        (2.0, 2, "2 times, the sum over 2 ranks and not the mean"),
        (4.0, 4, "4 times, the sum over 4 ranks and not the mean"),
        (0.5, 2, "0.5 times, divided by 2 ranks once too often"),
        (1.5, 2, "differ by one factor: 1.5 times."),
    ],
)
def test_a_constant_factor_is_named(factor, num_ranks, words):
    ratios, verdict = shown(times(factor), num_ranks)
    assert ratios["w"] == f"x {factor:g}"
    assert words in verdict


def test_one_parameter_that_stands_out_is_named():
    ratios, verdict = shown(times(0.5, "wte"))
    assert verdict.startswith("Only wte differs (1 of 4): 0.5 times")
    assert ratios == {"wte": "x 0.5", "w": "1", "b": "1", "frozen": "none"}


def test_another_direction_is_no_factor():
    ratios, verdict = shown({**times(1.0), "wte": [3.0, 1.0, 1.0], "w": [-5.0, 5.0], "b": [9.0]})
    assert ratios["wte"].startswith("! ")
    assert "by no common factor" in verdict


def test_a_gradient_that_is_missing_or_invented_is_seen():
    ratios, verdict = shown({**times(1.0), "b": None, "frozen": [0.0]})
    assert (ratios["b"], ratios["frozen"]) == ("! none", "! extra")
    assert verdict.startswith("Only b, frozen differ (2 of 4)")
    widget = GradientFingerprint(RIGHT, {"mine": {**times(1.0), "b": None}})
    assert widget.ways[0]["cells"][2]["words"] == "b: the gradient is None, and one process has one"


@pytest.mark.parametrize(
    ("mine", "right", "text"),
    [
        ([0.0, 0.0], [0.0, 0.0], "1"),
        ([0.0, 1.0], [0.0, 0.0], "! 1"),
        ([0.0, 0.0], [1.0, 2.0], "x 0"),
        ([float("nan"), 1.0], [1.0, 1.0], "! nan"),
        ([], [], "1"),
    ],
)
def test_zeros_and_nan_do_not_divide_by_zero(mine, right, text):
    assert shown({"w": mine}, reference={"w": right})[0] == {"w": text}


def test_the_static_figure_says_every_verdict():
    widget = GradientFingerprint(RIGHT, {"averaged": times(1.0), "summed": times(2.0)}, num_ranks=2)
    alt = widget.static().alt
    for way in widget.ways:
        assert f"{way['name']}: {way['verdict']}" in alt
    assert repr(widget.static()) == alt


def test_traits_are_plain_json_and_without_the_gradients():
    widget = GradientFingerprint({"w": [1.0] * 10_000}, {"mine": {"w": [2.0] * 10_000}})
    assert len(json.dumps([widget.ways, widget.theme])) < 10_000


@pytest.mark.parametrize(
    ("reference", "ways", "sentence"),
    [
        ({}, {"mine": {}}, "at least one way"),
        (RIGHT, {}, "at least one way"),
        (RIGHT, {"mine": {"wte": [1.0, 2.0, 3.0]}}, "'mine' and the reference differ in parameter 'b'"),
        ({"w": [1.0]}, {"mine": {"w": [1.0, 2.0]}}, "'w' has 2 numbers in 'mine' and 1 in the reference"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(reference, ways, sentence):
    with pytest.raises(ValueError, match=sentence):
        GradientFingerprint(reference, ways)


@pytest.mark.parametrize(("trait", "value"), [("way", 1), ("way", -1), ("cell", 4)])
def test_what_does_not_exist_cannot_be_chosen(trait, value):
    widget = GradientFingerprint(RIGHT, {"mine": times(1.0)})
    with pytest.raises(traitlets.TraitError, match="does not exist"):
        setattr(widget, trait, value)
