"""The fingerprint's arithmetic and its verdicts, without a browser."""

import pytest

from pllab.show import draw_fingerprint

RIGHT = {"wte": [1.0, -2.0, 3.0], "w": [4.0, 5.0], "b": [0.5], "frozen": None}


def times(factor, *names):
    """The right gradients, some of them (or all) times a factor."""
    chosen = names or tuple(RIGHT)
    return {
        name: None if values is None else [value * (factor if name in chosen else 1) for value in values]
        for name, values in RIGHT.items()
    }


def shown(mine, num_ranks=2, reference=None):
    """What is drawn beside the name of every parameter, and the verdict."""
    drawn = draw_fingerprint(reference or RIGHT, {"mine": mine}, num_ranks=num_ranks, title="ratio")
    [axes] = drawn.canvas.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    texts = [text.get_text() for text in axes.texts]
    return dict(zip(names, texts, strict=True)), drawn.alt.partition("mine: ")[2]


ONE_FACTOR = "3 of 4 gradients differ by one factor:"
TURNED = {"wte": [3.0, 1.0, 1.0], "w": [-5.0, 5.0], "b": [9.0]}
SHOWN = [
    (times(1.0), 2, "1 1 1 none", "All 4 gradients equal those of one process."),
    (times(0.5, "wte"), 2, "x 0.5 1 1 none", "Only wte differs (1 of 4): 0.5 times, divided by 2 ranks once"),
    ({**times(2.0), "w": [12.0, 15.0]}, 2, "x 2 x 3 x 2 none", "3 of 4 gradients differ, by no common factor"),
    ({**times(1.0), **TURNED}, 2, "! 0.286 ! 0.122 x 18 none", "3 of 4 gradients differ, by no common factor"),
    ({**times(1.0), "b": None, "frozen": [0.0]}, 2, "1 1 ! none ! extra", "Only b, frozen differ (2 of 4)"),
    (times(4.0), 4, "x 4 x 4 x 4 none", f"{ONE_FACTOR} 4 times, the sum over 4 ranks and not the mean."),
    (times(0.5), 2, "x 0.5 x 0.5 x 0.5 none", f"{ONE_FACTOR} 0.5 times, divided by 2 ranks once too often."),
    (times(1.5), 2, "x 1.5 x 1.5 x 1.5 none", f"{ONE_FACTOR} 1.5 times."),
]


@pytest.mark.parametrize(("mine", "num_ranks", "texts", "words"), SHOWN)
def test_what_is_shown_and_said(mine, num_ranks, texts, words):
    ratios, verdict = shown(mine, num_ranks)
    assert list(ratios) == list(RIGHT) and " ".join(ratios.values()) == texts
    assert verdict.startswith(words)


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


def test_one_parameter_is_not_all_1_gradients():
    assert shown({"w": [1.0]}, reference={"w": [1.0]})[1] == "The one gradient equals that of one process."


def test_all_ways_stand_beside_each_other_and_the_sentence_has_every_verdict():
    ways = {"averaged": times(1.0), "summed": times(2.0)}
    drawn = draw_fingerprint(RIGHT, ways, num_ranks=2, title="ratio, engine: real")
    [axes] = drawn.canvas.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["averaged", "summed"]
    assert [text.get_text() for text in axes.texts] == ["1", "1", "1", "none", "x 2", "x 2", "x 2", "none"]
    sentence = (
        "Ratio, engine: real. averaged: All 4 gradients equal those of one process. summed: 3 of 4 gradients "
        "differ by one factor: 2 times, the sum over 2 ranks and not the mean."
    )
    assert drawn.alt == drawn.caption == sentence


@pytest.mark.parametrize("mine", [{"wte": [1.0]}, {"wte": [1.0], "b": [1.0]}, {"w": [1.0, 2.0]}])
def test_another_model_is_refused(mine):
    with pytest.raises(ValueError, match="'mine' and the reference differ in parameter|zip"):
        draw_fingerprint({"w": [1.0]}, {"mine": mine}, num_ranks=2, title="ratio")


def test_a_text_stands_in_the_box_of_its_parameter_and_way_and_a_box_wears_its_kind():
    mine = {"wte": [2.0, -4.0, 6.0], "w": [-5.0, 4.0], "b": None, "frozen": None}
    [axes] = draw_fingerprint(RIGHT, {"averaged": times(1.0), "odd": mine}, num_ranks=2, title="").canvas.axes
    assert axes.yaxis_inverted()
    looks = {}
    for number, (box, text) in enumerate(zip(axes.patches, axes.texts, strict=True)):
        way, parameter = divmod(number, len(RIGHT))
        assert box.get_bbox().contains(*text.xy)
        assert box.get_bbox().contains(axes.get_xticks()[way], axes.get_yticks()[parameter])
        looks[text.get_text()] = box.get_facecolor(), box.get_edgecolor(), box.get_linestyle()
    assert looks["1"] == looks["none"]
    assert len(set(looks.values())) == len({fill for fill, *_ in looks.values()}) == 4
    assert [text for text, (*_, style) in looks.items() if style == "--"] == ["! none"]
