"""The index map's counting, words and squares, against `partition_dataset` and by hand."""

import pytest
from matplotlib.colors import to_hex

from pllab.data import partition_dataset
from pllab.show import draw_index_map
from tests.show.colours import contrast
from tests.show.extents import extents_of

NUMBER = 29


def dealt_by_the_package(world_size, epoch, remainder):
    ranks = []
    for rank in range(world_size):
        loader = partition_dataset(rank, world_size, range(NUMBER), 4 * world_size, list, remainder=remainder)
        loader.set_epoch(epoch)
        ranks.append(list(loader))
    return ranks


def by_hand(world_size, epoch, remainder):
    """Five samples on two ranks; sample 0 twice, sample 4 never; rank 0 makes a step more."""
    return [[[0, 1], [2]], [[3, 0]]]


def test_squares_and_words_by_hand():
    picture = draw_index_map(5, by_hand, 2, epochs=[0, 1], remainders=["as it comes"])
    assert picture.alt.splitlines() == [
        "5 samples, 2 ranks, epoch 0, as it comes: 2, 1 steps on ranks 0 to 1, so those with more wait for ever, "
        "1 sample loaded more than once (1 load too many), 1 left out. In epoch 0 a sample was loaded 0 to 2 times.",
        "5 samples, 2 ranks, epoch 1, as it comes: 2, 1 steps on ranks 0 to 1, so those with more wait for ever, "
        "1 sample loaded more than once (1 load too many), 1 left out. "
        "In epochs 0 to 1 a sample was loaded 0 to 4 times.",
    ]
    for epoch, (axes, sentence) in enumerate(zip(picture.canvas.axes, picture.alt.splitlines(), strict=True)):
        counted, title, *marks = [text.get_text() for text in axes.texts]
        assert sentence.endswith(": " + counted.replace("\n", " "))  # the reader sees the counts too
        assert title == f"as it comes, epoch {epoch}"
        assert " ".join(marks) == "0 +1 r0 s1 1 r0 s1 2 r0 s2 3 r1 s1 4 none"
        assert [square.get_linewidth() > 2 for square in axes.patches] == [True, False, False, False, False]
        assert [square.get_linestyle() == "--" for square in axes.patches] == [False, False, False, False, True]
    assert "r1 s2" in picture.caption


WHOLE, NO_MORE = [[[0, 1, 2]]], "0 samples loaded more than once"
SAME = "1 step on every rank, 2 samples loaded more than once"
THREE = [[[0], [1]], [[2], [0]], [[1]]]
UNEVEN = "2, 2, 1 steps on ranks 0 to 2, so those with more wait for ever, 2 samples loaded more than once"
COUNTED = [
    ([[[0, 1]]] * 4, 0, f"{SAME} (6 loads too many), 1 left out", "In epoch 0 a sample was loaded 0 to 4 times."),
    (THREE, 0, f"{UNEVEN} (2 loads too many), 0 left out", "In epoch 0 a sample was loaded 1 to 2 times."),
    ([[]], 0, f"0 steps, {NO_MORE}, 3 left out", "In epoch 0 a sample was never loaded."),
    (WHOLE, 0, f"1 step, {NO_MORE}, 0 left out", "In epoch 0 a sample was loaded once."),
    (WHOLE, 1, f"1 step, {NO_MORE}, 0 left out", "In epochs 0 to 1 a sample was loaded twice."),
    (WHOLE, 2, f"1 step, {NO_MORE}, 0 left out", "In epochs 0 to 2 a sample was loaded 3 times."),
]


@pytest.mark.parametrize(("dealt", "epoch", "counted", "loaded"), COUNTED)
def test_an_epoch_is_counted_in_words_also_after_epochs_that_are_not_shown(dealt, epoch, counted, loaded):
    alt = draw_index_map(3, lambda *_: dealt, len(dealt), epochs=[epoch], remainders=["as it comes"]).alt
    assert alt.partition(", epoch ")[2] == f"{epoch}, as it comes: {counted}. {loaded}"


def test_a_colour_is_a_rank_and_numbers_can_be_read_on_it():
    picture = draw_index_map(NUMBER, dealt_by_the_package, 8, epochs=[0], remainders=["drop"])
    [axes] = picture.canvas.axes
    colours = {}
    for mark, patch in zip(axes.texts[3::2], axes.patches, strict=True):
        colours.setdefault(mark.get_text().split()[0], set()).add(patch.get_facecolor())
    assert len(colours) == 9 and all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == 9  # eight ranks and nobody
    numbers = [text.get_color() for text in axes.texts if text.get_text().isdigit()]
    fills = [to_hex(patch.get_facecolor()) for patch in axes.patches]
    assert min(contrast(ink, fill) for ink, fill in zip(numbers, fills, strict=True)) >= 4.5  # as WCAG asks of words


def test_squares_are_read_as_lines_and_panels_as_a_table():
    picture = draw_index_map(NUMBER, dealt_by_the_package, 2, epochs=(0, 1))
    for axes in picture.canvas.axes:
        numbers = [text for text in axes.texts if text.get_text().isdigit()]
        assert axes.yaxis_inverted() and len(numbers) == NUMBER
        for sample, (square, number) in enumerate(zip(axes.patches, numbers, strict=True)):
            assert number.get_text() == str(sample)
            assert square.get_bbox().contains(*number.get_position())
            assert square.get_bbox().contains(sample % 10 + 0.5, sample // 10 + 0.5)
    corners = {axes.texts[1].get_text(): axes.get_position().min.tolist() for axes in picture.canvas.axes}
    assert corners["pad, epoch 0"] == [0, 0.5] and corners["pad, epoch 1"] == [0.5, 0.5]
    assert corners["drop, epoch 0"] == [0, 0] and corners["drop, epoch 1"] == [0.5, 0]


@pytest.mark.parametrize("world_size", [4, 8])
def test_no_word_is_cut_and_none_lies_on_another(world_size):
    picture = draw_index_map(NUMBER, dealt_by_the_package, world_size)
    extents_of(picture, [text for axes in picture.canvas.axes for text in axes.texts])


@pytest.mark.parametrize("sample", [-1, 3])
def test_a_sample_that_does_not_exist_is_not_counted_for_another(sample):
    with pytest.raises(KeyError, match=str(sample)):
        draw_index_map(3, lambda *_: [[[sample]]], 1)
