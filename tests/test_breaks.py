"""The breaks of `tests/breaks.py` still fit the code: each finds its lines once, and what stands instead is Python."""

import ast

import pytest

from tests.breaks import ROOT, read_breaks

BREAKS = tuple(read_breaks())


@pytest.mark.parametrize("each", BREAKS, ids=str)
def test_a_break_can_be_made(each):
    broken = each.made_in(ROOT)
    assert broken is not None and broken != (ROOT / each.file).read_text()
    ast.parse(broken)


def test_there_are_sixty():
    assert [each.number for each in BREAKS] == list(range(1, 61))
