"""The cut editor's sums, words and limits, without a browser."""

import json
import re

import pytest
from traitlets import TraitError

from pllab.show import CutEditor

COSTS = [1, 10, 10, 10, 30]
NAMES = ["embed", "block 0", "block 1", "block 2", "head"]


@pytest.fixture
def editor():
    return CutEditor(COSTS, [2, 3], names=NAMES, best=[4, 1], title="one batch")


def test_the_sentence_names_the_slowest_stage_its_sum_and_the_bound(editor):
    assert editor.sentence == (
        "The slowest stage is stage 1, block 1 to head: 50 ms. 2 devices are at most 1.22 times as fast as one."
    )
    assert (editor.title, editor.sizes) == ("one batch, engine: real", [2, 3])
    assert [editor.runs[run]["cost"] for run in ("0-2", "2-5")] == [11.0, 50.0]


def test_the_best_cut_is_told_on_demand_and_confirmed_when_found(editor):
    editor.show_best = True
    assert editor.sentence.endswith("The best cut is after block 2: its slowest stage costs 31 ms.")
    editor.cuts = [4]
    assert editor.sentence.endswith("No other cut is better.")
    assert editor.sizes == [4, 1]


def test_of_two_slowest_stages_the_first_is_named():
    assert "stage 0, layer 0: 2 ms" in CutEditor([2, 2], [1, 1]).sentence


def test_three_stages_have_two_lines():
    editor = CutEditor([1, 1, 1, 1], [1, 2, 1], best=[1, 1, 2])
    assert editor.cuts == [1, 3]
    editor.cuts = [2, 3]
    assert editor.sizes == [2, 1, 1]


def test_static_twin_has_the_words_of_the_widget(editor):
    editor.show_best = True
    assert editor.static().alt == f"{editor.title}. {editor.sentence}"
    assert editor.static().png.startswith(b"\x89PNG")


def test_the_picture_itself_says_what_the_cut_allows(editor):
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", editor.static().svg))
    assert all(word in words for word in editor.sentence.split())
    assert "at most 1.22 times as fast as one" in words


def test_the_output_holds_the_widget_and_its_twin(editor):
    data, _ = editor._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == editor.model_id
    assert data["text/plain"] == editor.static().alt


def test_traits_are_plain_json(editor):
    for name in ("layers", "cuts", "runs", "best", "theme"):
        json.dumps(getattr(editor, name))


def test_a_line_never_leaves_a_stage_without_a_layer(editor):
    for cuts in ([0], [5], [-1]):
        with pytest.raises(TraitError, match="leave a stage without a layer"):
            editor.cuts = cuts
    assert editor.cuts == [2]


@pytest.mark.parametrize(
    ("costs", "sizes", "options", "sentence"),
    [
        ([1, 1], [1, 2], {}, r"sizes \[1, 2\] do not cut 2 layers"),
        ([1, 1], [0, 2], {}, "do not cut"),
        ([1, 1], [1, 1], {"best": [2, 1]}, r"sizes \[2, 1\]"),
        ([1, 1], [1, 1], {"names": ["a"]}, "1 names do not fit 2 layers"),
        ([0, 0], [1, 1], {}, "cannot be balanced"),
        ([1, -1], [1, 1], {}, "cannot be balanced"),
    ],
)
def test_bad_input_is_refused(costs, sizes, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        CutEditor(costs, sizes, **options)


def test_a_best_cut_that_nobody_gave_cannot_be_shown():
    with pytest.raises(TraitError, match="no best cut was given"):
        CutEditor([1, 1], [1, 1]).show_best = True


def test_a_free_layer_alone_on_a_stage_is_no_division_by_zero():
    assert CutEditor([0, 3], [1, 1]).sentence.startswith("The slowest stage is stage 1")
