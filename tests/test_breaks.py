"""The breaks of `tests/breaks.py` still fit the code: each finds its text once, and what stands instead is Python."""

import ast

import pytest

from tests.breaks import BREAKS, ROOT, patched


@pytest.mark.parametrize("each", BREAKS, ids=lambda each: each.says)
def test_a_break_can_be_made(each):
    text = (ROOT / each.file).read_text()
    broken = patched(text, each)
    assert broken is not None and broken != text
    ast.parse(broken)
