"""The index map's counting, words and squares, against `partition_dataset` and by hand."""

from collections import Counter
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from pllab.data import partition_dataset
from pllab.show import draw_index_map

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


def squares(picture):
    """For each panel its title and, for each sample, the mark of its square: `0 +1 r0 s1`."""
    found = {}
    for axes in picture.canvas.axes:
        _, title, *texts = [text.get_text() for text in axes.texts]
        found[title] = marks = []
        for text in texts:
            if text.isdigit():
                marks.append(text)
            else:
                marks[-1] += f" {text}"
    return found


def edges(picture):
    """For each panel the samples with a thick edge, and those with a dashed one."""
    panels = [axes.patches for axes in picture.canvas.axes]
    thick = [[at for at, one in enumerate(patches) if one.get_linewidth() > 2] for patches in panels]
    return thick, [[at for at, one in enumerate(patches) if one.get_linestyle() == "--"] for patches in panels]


def test_squares_and_words_by_hand():
    picture = draw_index_map(5, by_hand, 2, epochs=[0, 1], remainders=["as it comes"])
    marks = ["0 +1 r0 s1", "1 r0 s1", "2 r0 s2", "3 r1 s1", "4 none"]
    assert squares(picture) == {"as it comes, epoch 0": marks, "as it comes, epoch 1": marks}
    assert edges(picture) == ([[0], [0]], [[4], [4]])
    assert picture.alt.splitlines() == [
        "5 samples, 2 ranks, epoch 0, as it comes: 2 and 1 steps, so rank 0 waits for ever in step 2, "
        "1 sample loaded more than once (1 load too many), 1 left out. In epoch 0 a sample was loaded 0 to 2 times.",
        "5 samples, 2 ranks, epoch 1, as it comes: 2 and 1 steps, so rank 0 waits for ever in step 2, "
        "1 sample loaded more than once (1 load too many), 1 left out. "
        "In epochs 0 to 1 a sample was loaded 0 to 4 times.",
    ]
    for axes, sentence in zip(picture.canvas.axes, picture.alt.splitlines(), strict=True):
        assert sentence.endswith(": " + axes.texts[0].get_text().replace("\n", " "))  # the reader sees the counts too
    assert "r1 s2" in picture.caption


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("remainder", ["pad", "drop"])
def test_a_map_agrees_with_counting_the_batches(world_size, remainder):
    picture = draw_index_map(NUMBER, dealt_by_the_package, world_size, remainders=[remainder])
    visits = Counter()
    for epoch, sentence in enumerate(picture.alt.splitlines()):
        dealt = dealt_by_the_package(world_size, epoch, remainder)
        seen = Counter(sample for steps in dealt for samples in steps for sample in samples)
        visits += seen
        for sample, mark in enumerate(squares(picture)[f"{remainder}, epoch {epoch}"]):
            number, *more, rank, step = mark.split() if seen[sample] else [*mark.split()[:1], "r0", "s0"]
            assert int(number) == sample
            assert more == ([f"+{seen[sample] - 1}"] if seen[sample] > 1 else [])
            assert (mark == f"{sample} none") is (seen[sample] == 0)
            assert not seen[sample] or sample in dealt[int(rank[1:])][int(step[1:]) - 1]
        left_out = NUMBER % world_size if remainder == "drop" else 0
        assert f", {left_out} left out." in sentence
        assert f": {len(dealt[0])} steps" in sentence
        assert "for ever" not in sentence
        times = {visits[sample] for sample in range(NUMBER)}
        once = {1: "loaded once", 2: "loaded twice"}.get(max(times), f"loaded {max(times)} times")
        assert sentence.endswith(
            f"a sample was {once}." if len(times) == 1 else f"was loaded {min(times)} to {max(times)} times."
        )


def test_epochs_that_are_not_shown_are_counted():
    shown = draw_index_map(NUMBER, dealt_by_the_package, 4, epochs=(0, 2), remainders=["pad"]).alt.splitlines()
    every = draw_index_map(NUMBER, dealt_by_the_package, 4, remainders=["pad"]).alt.splitlines()
    assert shown == [every[0], every[2]] and "In epochs 0 to 2" in shown[1]


def test_a_colour_is_a_rank():
    picture = draw_index_map(NUMBER, dealt_by_the_package, 8, epochs=[0], remainders=["drop"])
    [axes] = picture.canvas.axes
    colours = {}
    for mark, patch in zip(squares(picture)["drop, epoch 0"], axes.patches, strict=True):
        colours.setdefault(mark.split()[1], set()).add(patch.get_facecolor())
    assert len(colours) == 9 and all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == 9  # eight ranks and nobody


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


def test_loads_too_many_are_more_than_the_samples_loaded_more_than_once():
    def same_share(world_size, epoch, remainder):
        return [[[0, 1]]] * world_size

    alt = draw_index_map(3, same_share, 4, epochs=[0], remainders=["same"]).alt
    assert "2 samples loaded more than once (6 loads too many), 1 left out" in alt
    once = draw_index_map(3, lambda *_: [[[0, 1, 2]]], 1, epochs=[0], remainders=["once"]).alt
    assert "0 samples loaded more than once, 0 left out" in once
    never = draw_index_map(1, lambda *_: [[]], 1, epochs=[0], remainders=["never"]).alt
    assert never.endswith("In epoch 0 a sample was never loaded.")


@pytest.mark.parametrize("world_size", [1, 4, 8])
def test_no_word_is_cut_and_none_lies_on_another(world_size):
    picture = draw_index_map(NUMBER, dealt_by_the_package, world_size)
    canvas = FigureCanvasAgg(picture.canvas)
    canvas.draw()
    whole = picture.canvas.bbox
    words = [text for axes in picture.canvas.axes for text in axes.texts]
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in words]
    assert all(0 <= box.x0 and box.x1 <= whole.x1 and 0 <= box.y0 and box.y1 <= whole.y1 for box in boxes)
    for (one, first), (other, second) in combinations(zip(words, boxes, strict=True), 2):
        assert not first.overlaps(second), f"{one.get_text()!r} and {other.get_text()!r} overlap"


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="the data set has 2; deal the numbers of the samples"):
        draw_index_map(2, lambda *_: [[[0, 2]]], 1)
    with pytest.raises(ValueError, match="3 ranks were asked for and 2 dealt"):
        draw_index_map(5, by_hand, 3)
    for options in ({"remainders": []}, {"epochs": []}):
        with pytest.raises(ValueError, match="leave nothing to show"):
            draw_index_map(5, by_hand, 2, **options)
    with pytest.raises(ValueError, match="0 samples, 3 epochs and 2 policies leave nothing to show"):
        draw_index_map(0, by_hand)
