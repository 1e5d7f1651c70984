"""The groups of ranks: against a reshaped count, in words, and what is dashed on paper."""

from itertools import pairwise, permutations

import pytest
import torch

from pllab.comm import AXES
from pllab.show import draw_mesh
from pllab.show.pictures.sharding import axes_of, letter_of


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
        assert [[host.contains(*at[rank]) for rank in range(12)] for host in hosts] == [
            [True] * 6 + [False] * 6,
            [False] * 6 + [True] * 6,
        ]
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
