"""The numbers and words of matrices split over ranks, and the marks on paper."""

import itertools
from pathlib import Path

import nbformat
import pytest
from matplotlib.text import Annotation

from pllab.show import draw_shards
from pllab.show.pictures.sharding import moments_of

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


def test_the_sentences_say_where_the_ranks_meet():
    sentences = [moment.sentence for moment in moments_of(X, A, B, 2)]
    assert sentences[0] == "start: every rank has all of x, its columns of A and its rows of B"
    assert sentences[2].endswith("no rank has y; first numbers: [1, 1]")
    assert sentences[3].endswith("every rank has all of y; first number: 1 + 1 = 2")
    assert sentences[5].endswith("every rank has all of dx; first number: 1 + (-4) = -3")
    assert ["all-reduce" in sentence for sentence in sentences] == [False, False, False, True, False, True]


@pytest.fixture(scope="module")
def all_moments():
    return draw_shards(X, A, B)


def test_the_figure_says_and_draws_every_moment_and_lesson_12_has_saved_it(all_moments):
    """nbval skips the lesson's cell: it takes what a slider draws for an output of its own."""
    assert len(all_moments.canvas.axes) == 6
    assert all(moment.sentence in all_moments.alt for moment in moments_of(X, A, B, 2))
    assert "y = relu(x A) B on 2 ranks. whole numbers, calculated" in all_moments.alt
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
        for (i, row), k in itertools.product(enumerate(matrix.cells), range(len(matrix.cells[0]))):
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
    colours = {}
    for axes in all_moments.canvas.axes:
        heads = {
            text.get_position()[0]: text.get_text().split("\n")[1] for text in axes.texts if "\n" in text.get_text()
        }
        for box in axes.patches:
            if hasattr(box, "get_xy") and box.get_linestyle() != ":":
                has = heads[max(left for left in heads if left <= box.get_x())]
                colours.setdefault(has, set()).add(box.get_facecolor())
    assert set(colours) == {"whole", "slice", "term", "sum"}
    assert all(len(found) == 1 for found in colours.values()) and len(set.union(*colours.values())) == 4


@pytest.mark.parametrize("given", [(X, A, B[:3], 2), (X, A[:1], B, 2), (X, A, B, 3)])
def test_matrices_that_do_not_fit_and_ranks_that_cannot_share_them_are_refused(given):
    with pytest.raises(ValueError, match="mismatch|could not be broadcast|equal division"):
        draw_shards(*given)
