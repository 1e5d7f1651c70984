"""The cube of ranks: its groups against a reshaped count, its words and its twin, without a browser."""

import json
from itertools import permutations

import pytest
import torch
from traitlets import TraitError

from pllab.comm import AXES
from pllab.show import RankCube
from pllab.show.widgets.rank_cube import letter_of, view_of


@pytest.mark.parametrize("order", list(permutations(AXES)), ids=" ".join)
@pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 3, 4), (4, 1, 2), (1, 1, 1)], ids=str)
def test_the_groups_are_the_lines_of_a_box_of_ranks(order, sizes):
    view = view_of(dict(zip(order, sizes, strict=True)))
    box = torch.arange(torch.tensor(sizes).prod().item()).view(sizes)
    for number, axis in enumerate(view["axes"]):
        assert axis["name"] == order[number]
        assert sorted(axis["groups"]) == sorted(box.movedim(number, -1).reshape(-1, sizes[number]).tolist())
    for rank, one in enumerate(view["ranks"]):
        assert box[one["place"]].item() == rank


def test_what_crosses_hosts_in_words():
    assert [axis["sentence"] for axis in view_of({"pp": 2, "dp": 2, "tp": 2}, 4)["axes"]] == [
        "pp: 4 groups of 2 ranks, all of them across hosts",
        "dp: 4 groups of 2 ranks, none of them across hosts",
        "tp: 4 groups of 2 ranks, none of them across hosts",
    ]
    [_, axis] = view_of({"dp": 2, "tp": 3}, 4)["axes"]  # the second tp group is ranks 3, 4 and 5
    assert (axis["sentence"], axis["across"]) == ("tp: 2 groups of 3 ranks, 1 of them across hosts", [False, True])


def test_an_order_puts_tp_across_hosts():
    cube = RankCube(pp=1, dp=4, tp=2, ranks_per_host=4, order=("tp", "pp", "dp"))
    assert cube.view["axes"][0]["sentence"] == "tp: 4 groups of 2 ranks, all of them across hosts"
    assert (cube.view["title"], cube.view["summary"]) == ("tp 2 x pp 1 x dp 4", "8 ranks on 2 hosts")
    assert cube.view["axes"][cube.axis]["name"] == "dp"


def test_the_static_twin_lists_every_group():
    cube = RankCube(pp=2, dp=2, tp=2)
    data, _ = cube._repr_mimebundle_()
    assert "tp: 4 groups of 2 ranks, none of them across hosts: A 0 1, B 2 3, C 4 5, D 6 7" in data["text/plain"]
    assert "pp: 4 groups of 2 ranks, none of them across hosts: A 0 4, B 1 5, C 2 6, D 3 7" in data["text/plain"]
    assert "<img alt=" in data["text/html"]
    json.dumps(cube.view)


def test_letters_go_on_after_z():
    assert [letter_of(number) for number in (0, 25, 26, 51, 52)] == ["A", "Z", "AA", "AZ", "BA"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dp": 0}, "dp is 0; give 1 or more"),
        ({"ranks_per_host": 0}, "ranks_per_host is 0; give 1 or more"),
        ({"dp": 8, "tp": 9}, "these sizes make 72 ranks, and the cube has room for 64"),
        ({"order": ("pp", "dp")}, "name each of pp, dp and tp once"),
    ],
    ids=str,
)
def test_what_is_no_cube_is_refused_with_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        RankCube(**options)


def test_an_axis_or_rank_that_does_not_exist_is_refused():
    cube = RankCube(dp=2)
    with pytest.raises(TraitError, match="axis 3 does not exist; choose 0 to 2"):
        cube.axis = 3
    with pytest.raises(TraitError, match="rank 2 does not exist; choose 0 to 1"):
        cube.cell = 2
