"""The shard viewer's numbers and words, without a browser."""

import json

import pytest
from traitlets import TraitError

from pllab.show import ShardViewer
from pllab.show.widgets.shard_viewer import view_of

X = [[1, 2], [0, 3]]
A = [[1, 0, 2, -1], [0, 1, -1, 1]]
B = [[1, 0], [0, 1], [2, 1], [1, 3]]
Y = [[2, 5], [3, 12]]  # relu(X A) is [[1, 2, 0, 1], [0, 3, 0, 3]]


def cells(view, step, rank, name):
    found = next(matrix for matrix in view["moments"][step]["ranks"][rank] if matrix["name"] == name)
    return found["has"], [[int(text) if text else None for text in row] for row in found["cells"]]


def test_a_rank_has_its_columns_of_a_and_its_rows_of_b():
    view = view_of(X, A, B, 2)
    assert cells(view, 0, 1, "A") == ("slice", [[None, None, 2, -1], [None, None, -1, 1]])
    assert cells(view, 0, 1, "B") == ("slice", [[None, None], [None, None], [2, 1], [1, 3]])
    assert cells(view, 0, 1, "x") == ("whole", X)
    assert cells(view, 0, 1, "h") == ("", [[None] * 4] * 2)
    assert cells(view, 1, 0, "h") == ("slice", [[1, 2, None, None], [0, 3, None, None]])


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_the_terms_of_all_ranks_add_up_to_the_product(num_ranks):
    view = view_of(X, A, B, num_ranks)
    terms = [cells(view, 2, rank, "y")[1] for rank in range(num_ranks)]
    assert [[sum(term[i][k] for term in terms) for k in range(2)] for i in range(2)] == Y
    assert all(cells(view, 3, rank, "y") == ("sum", Y) for rank in range(num_ranks))


def test_the_gradient_of_x_meets_in_the_backward_and_relu_lets_none_through_where_it_is_zero():
    view = view_of(X, A, B, 2)
    # ones times B turned is [1, 1, 3, 4]; relu passes columns 0, 1, 3 of the first row and 1, 3 of the second
    assert [cells(view, 4, rank, "dx")[1] for rank in range(2)] == [[[1, 1], [0, 1]], [[-4, 4], [-4, 4]]]
    assert cells(view, 5, 1, "dx") == ("sum", [[-3, 5], [-4, 5]])


def test_the_sentences_say_where_the_ranks_meet():
    sentences = [moment["sentence"] for moment in view_of(X, A, B, 2)["moments"]]
    assert sentences[0] == "start: every rank has all of x, its columns of A and its rows of B"
    assert sentences[2].endswith("no rank has y; first numbers: [1, 1]")
    assert sentences[3].endswith("every rank has all of y; first number: 1 + 1 = 2")
    assert sentences[5].endswith("every rank has all of dx; first number: 1 + (-4) = -3")
    assert ["all-reduce" in sentence for sentence in sentences] == [False, False, False, True, False, True]


def test_the_static_twin_says_every_step_and_the_view_is_plain_json():
    viewer = ShardViewer(X, A, B)
    alt = viewer.static().alt
    assert all(moment["sentence"] in alt for moment in viewer.view["moments"])
    assert "y = relu(x A) B on 2 ranks. whole numbers, engine: simulated" in alt
    json.dumps(viewer.view)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((X, A, B[:3], 2), "x has 2 columns, A is 2 by 4, B has 3 rows"),
        ((X, A, B, 3), "3 ranks cannot share 4 features"),
        ((X, A, B, 1), "1 ranks cannot share 4 features"),
        ((X, [[1], [2, 3]], B, 2), "A is no matrix"),
        (([], A, B, 2), "x is no matrix"),
        (([[1, 2]] * 9, A, B, 2), "x is 9 by 2; the viewer has room for 8"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        ShardViewer(*given)


def test_a_step_that_does_not_exist_is_refused():
    viewer = ShardViewer(X, A, B)
    with pytest.raises(TraitError, match="step 6 does not exist; choose 0 to 5"):
        viewer.step = 6
    assert viewer.step == 0
