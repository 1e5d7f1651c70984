"""A model spread over ranks: matrices, what a rank holds, and groups of ranks, in numbers, words and marks on paper."""

from itertools import pairwise, permutations, product
from pathlib import Path

import nbformat
import pytest
import torch
from matplotlib.text import Annotation

from pllab.comm import AXES
from pllab.show import draw_memory, draw_mesh, draw_shards
from pllab.show.pictures.sharding import axes_of, letter_of, moments_of

X = [[1, 2], [0, 3]]
A = [[1, 0, 2, -1], [0, 1, -1, 1]]
B = [[1, 0], [0, 1], [2, 1], [1, 3]]
Y = [[2, 5], [3, 12]]  # relu(X A) is [[1, 2, 0, 1], [0, 3, 0, 3]]


def cells(moments, step, rank, name):
    found = [held for held in moments[step].ranks[rank] if held.name == name][-1]
    return found.has, found.cells


def test_a_rank_has_its_columns_of_a_and_its_rows_of_b():
    moments = moments_of(X, A, B, 2)
    assert cells(moments, 0, 1, "A") == ("slice", [[None, None, 2, -1], [None, None, -1, 1]])
    assert cells(moments, 0, 1, "B") == ("slice", [[None, None], [None, None], [2, 1], [1, 3]])
    assert cells(moments, 0, 1, "x") == ("whole", X)
    assert [held.name for held in moments[0].ranks[1]] == ["x", "A", "B"]
    assert cells(moments, 1, 0, "h") == ("slice", [[1, 2, None, None], [0, 3, None, None]])
    assert [held.shape for held in moments_of(X, A, B, 4)[0].ranks[1]] == [[2, 2], [2, 1], [1, 2]]


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_the_terms_of_all_ranks_add_up_to_the_product(num_ranks):
    moments = moments_of(X, A, B, num_ranks)
    terms = [cells(moments, 2, rank, "y")[1] for rank in range(num_ranks)]
    assert [[sum(term[i][k] for term in terms) for k in range(2)] for i in range(2)] == Y
    assert all(cells(moments, 3, rank, "y") == ("sum", Y) for rank in range(num_ranks))


def test_the_gradient_of_x_meets_in_the_backward_and_relu_lets_none_through_where_it_is_zero():
    moments = moments_of(X, A, B, 2)
    # ones times B turned is [1, 1, 3, 4]; relu passes columns 0, 1, 3 of the first row and 1, 3 of the second
    assert [cells(moments, 4, rank, "dx")[1] for rank in range(2)] == [[[1, 1], [0, 1]], [[-4, 4], [-4, 4]]]
    assert cells(moments, 5, 1, "dx") == ("sum", [[-3, 5], [-4, 5]])


@pytest.fixture(scope="module")
def all_moments():
    return draw_shards(X, A, B)


def test_the_figure_says_and_draws_every_moment_and_lesson_12_has_saved_it(all_moments):
    """nbval skips the lesson's cell: it takes what a slider draws for an output of its own."""
    assert len(all_moments.canvas.axes) == 6
    notebook = nbformat.read(Path(__file__).parents[2] / "notebooks" / "12_tensor_parallel.ipynb", as_version=4)
    [[output]] = [cell.outputs for cell in notebook.cells if cell.id == "12-viewer"]
    assert output.data["text/plain"] == all_moments.alt and "<img alt=" in output.data["text/html"]


@pytest.mark.parametrize("number", range(6))
def test_each_number_stands_in_its_cell_and_what_a_rank_has_not_is_dotted(number):
    moment, shown = moments_of(X, A, B, 2)[number], draw_shards(X, A, B, moment=number)
    assert shown.alt == f"y = relu(x A) B on 2 ranks. whole numbers, calculated. {moment.sentence}."
    [axes] = shown.canvas.axes
    words = {text.get_position(): text.get_text() for text in axes.texts}
    heads = [text for text in axes.texts if "\n" in text.get_text()]
    boxes = {box.get_xy(): box for box in axes.patches if hasattr(box, "get_xy")}
    held = [matrix for matrices in moment.ranks for matrix in matrices]
    assert axes.yaxis_inverted()
    for matrix, head in zip(held, heads, strict=True):
        assert head.get_text() == f"{matrix.name} {matrix.shape}\n{matrix.has}"
        left, top = head.get_position()[0], head.get_position()[1] + 0.15
        for (i, row), k in product(enumerate(matrix.cells), range(len(matrix.cells[0]))):
            box = boxes.pop((left + k, top + i))
            assert words.get((left + k + 0.5, top + i + 0.5)) == (None if row[k] is None else str(row[k]))
            assert (box.get_linestyle() == ":") is (row[k] is None)
    assert not boxes
    ranks = {text.get_text(): text.get_position()[1] for text in axes.texts if text.get_text().startswith("rank")}
    assert ranks["rank 0"] < ranks["rank 1"]
    arrows = [(text.xyann[1], text.xy[1]) for text in axes.texts if isinstance(text, Annotation)]
    is_exchange = "all-reduce" in moment.sentence
    assert arrows == [(ranks["rank 0"], ranks["rank 1"])] * is_exchange
    assert list(words.values()).count("all-reduce") == is_exchange


def test_what_a_rank_has_of_a_matrix_is_seen_by_its_colour(all_moments):
    boxes = [box for axes in all_moments.canvas.axes for box in axes.patches if hasattr(box, "get_xy")]
    matrices = [matrix for moment in moments_of(X, A, B, 2) for ranks in moment.ranks for matrix in ranks]
    cells = [(matrix.has, cell) for matrix in matrices for row in matrix.cells for cell in row]
    looks = {(has, box.get_facecolor()) for (has, cell), box in zip(cells, boxes, strict=True) if cell is not None}
    assert len(looks) == len(dict(looks)) == len({colour for _, colour in looks}) == 4
    assert set(dict(looks)) == {"whole", "slice", "term", "sum"}


@pytest.mark.parametrize("given", [(X, A, B[:3], 2), (X, A[:1], B, 2), (X, A, B, 3)])
def test_matrices_that_do_not_fit_and_ranks_that_cannot_share_them_are_refused(given):
    with pytest.raises(ValueError, match="mismatch|could not be broadcast|equal division"):
        draw_shards(*given)


# What each rank holds

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


# Groups of ranks


@pytest.mark.parametrize("order", list(permutations(AXES)), ids=" ".join)
@pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 3, 4), (4, 1, 2), (1, 1, 1)], ids=str)
def test_the_groups_are_the_lines_of_a_box_of_ranks(order, sizes):
    box = torch.arange(torch.tensor(sizes).prod().item()).view(sizes)
    for number, axis in enumerate(axes_of(dict(zip(order, sizes, strict=True)), 64)):
        assert axis.name == order[number]
        assert sorted(axis.groups) == sorted(box.movedim(number, -1).reshape(-1, sizes[number]).tolist())


def test_groups_and_what_crosses_hosts_in_words():
    [*_, axis] = axes_of({"dp": 2, "tp": 3}, 4)  # the second tp group is ranks 3, 4 and 5
    assert axis.across == [False, True]
    assert str(axis) == "tp: 2 groups of 3 ranks, 1 of them across hosts: A 0 1 2, B 3 4 5"
    shown = draw_mesh(pp=1, dp=4, tp=2, ranks_per_host=4, order=("tp", "pp", "dp"))
    assert "tp: 4 groups of 2 ranks, all of them across hosts: A 0 4, B 1 5, C 2 6, D 3 7. pp" in shown.alt
    assert shown.alt.endswith("dp: 2 groups of 4 ranks, none of them across hosts: A 0 1 2 3, B 4 5 6 7")
    assert shown.caption.startswith("tp 2 x pp 1 x dp 4: 8 ranks on 2 hosts.")


def test_ranks_stand_on_their_hosts_and_a_line_joins_two_of_one_group():
    sizes = {"pp": 2, "dp": 2, "tp": 3}
    for panel, axis in zip(draw_mesh(**sizes, ranks_per_host=6).canvas.axes, axes_of(sizes, 6), strict=True):
        assert panel.yaxis_inverted() and panel.get_title() == f"groups of {axis.name}"
        boxes = {text.get_text(): text for text in panel.texts if "host" not in text.get_text()}
        assert [text.get_text() for text in panel.texts if text.get_text() not in boxes] == ["host 0", "host 1"]
        assert set(boxes) == {f"{rank} {letter_of(at)}" for at, group in enumerate(axis.groups) for rank in group}
        at = {int(words.split()[0]): text.get_position() for words, text in boxes.items()}
        assert [at[rank] for rank in range(6)] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
        hosts = [patch.get_path().get_extents() for patch in panel.patches if not hasattr(patch, "get_arrowstyle")]
        inside = [[host.contains(*at[rank]) for rank in range(12)] for host in hosts]
        assert inside == [[True] * 6 + [False] * 6, [False] * 6 + [True] * 6]
        lines = [patch for patch in panel.patches if hasattr(patch, "get_arrowstyle")]
        joined = [[at[one], at[other]] for group in axis.groups for one, other in pairwise(group)]
        assert [line._posA_posB for line in lines] == joined
        assert {line.get_linestyle() != "-" for line in lines} == set(axis.across)  # dashed between hosts
        colours = {words: text.get_bbox_patch().get_facecolor() for words, text in boxes.items()}
        of_letter = {words[-1]: colour for words, colour in colours.items()}
        assert all(of_letter[words[-1]] == colour for words, colour in colours.items())
        assert len(set(of_letter.values())) == len(axis.groups)


def test_letters_go_on_after_z():
    assert [letter_of(number) for number in (0, 25, 26, 51, 52)] == ["A", "Z", "AA", "AZ", "BA"]
