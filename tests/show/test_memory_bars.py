"""The memory bars' numbers, words and marks on paper."""

import pytest

from pllab.show import draw_memory

PLAIN = {"parameters": 4.0, "gradients": 4.0, "optimizer": 8.0}
MEASURED = {
    "plain": [PLAIN, PLAIN],
    "ZeRO-1": [{**PLAIN, "optimizer": 4.0}, {**PLAIN, "optimizer": 4.5, "messages": 0.0}],
}
FORM = {"plain": PLAIN, "ZeRO-1": PLAIN}
REMARKS = {"plain": "A step sends 2 times the model.", "ZeRO-1": "No more.", "x": "Nothing."}


def bars(measured=MEASURED, form=FORM, unit="bytes per parameter"):
    return draw_memory(measured, form, REMARKS, unit)


def test_a_bar_for_each_rank_and_one_for_the_formula_last_on_one_scale():
    axes = bars().canvas.axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["plain, rank 0", "rank 1", "closed form", "ZeRO-1, rank 0", "rank 1", "closed form"]
    totals = [text.get_text() for text in axes.texts if text.get_text().startswith(" ")]
    assert totals == [" 16.0", " 16.0", " 16.0", " 12.0", " 12.5", " 16.0"]


def test_parts_come_in_one_order_and_without_what_is_nothing():
    held = {"optimizer": 1.0, "messages": 0.0, "parameters": 2.0}
    shown = bars({"x": [held]}, {"x": {"gradients": 1.0}}, unit="bytes")
    assert [(bar.get_x(), bar.get_width()) for bar in shown.canvas.axes[0].patches] == [(0, 2.0), (2.0, 1.0), (0, 1.0)]
    assert "(parameters 2.0, optimizer 1.0)" in shown.alt
    assert shown.caption == "P: parameters; G: gradients; O: optimizer; M: messages; dashed: closed form"


def test_a_bar_stands_at_its_name_and_wears_the_letter_and_colour_of_its_kinds():
    held = {"parameters": 1.0, "gathered": 2.0, "gradients": 3.0, "optimizer": 4.0, "messages": 5.0}
    axes = bars({"x": [held, held]}, {"x": held}).canvas.axes[0]
    assert axes.yaxis_inverted()
    rows = [axes.patches[first : first + 5] for first in (0, 5, 10)]
    for row, name in zip(rows, axes.get_yticks(), strict=True):
        assert all(bar.get_y() + bar.get_height() / 2 == pytest.approx(name) for bar in row)
    texts = [text for text in axes.texts if not text.get_text().startswith(" ")]
    for bar, text, letter in zip(axes.patches, texts, ["P", "whole", "G", "O", "M"] * 3, strict=True):
        assert text.get_text() == letter and bar.get_bbox().contains(*text.xy)
    fills = [[bar.get_facecolor() for bar in row] for row in rows]
    assert len(set(fills[0])) == 5 and fills[0] == fills[1]
    assert not set(fills[0]) & set(fills[2])  # of the formula
    assert [{bar.get_linestyle() for bar in row} for row in rows] == [{"-"}, {"-"}, {"--"}]


def test_the_sentence_is_of_the_fullest_rank_and_ends_with_the_remark():
    assert bars().alt.startswith(
        "Held at the fullest moment, bytes per parameter, engine: real. "
        "plain: a rank holds 16.0 bytes per parameter (parameters 4.0, gradients 4.0, optimizer 8.0); the closed form "
        "says 16.0. A step sends 2 times the model. ZeRO-1: a rank holds 12.5 bytes per parameter"
    )


def test_a_kind_that_no_bar_shows_is_refused():
    with pytest.raises(ValueError, match="cache"):
        bars({"x": [{"cache": 1.0}]}, {"x": PLAIN})
