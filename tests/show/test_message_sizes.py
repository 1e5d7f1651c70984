"""Gradients in messages: how buckets fill, what they cost, the words, and the boxes on paper."""

import numpy as np
import pytest
from torch import nn

from pllab.parallel import plan_buckets
from pllab.show import draw_buckets
from pllab.show.pictures.message_sizes import choices_of, fill_buckets, write_bytes

SIZES = [4096, 1024, 8192, 1024, 1024]
POINTS = [
    {"bucket_bytes": 1, "seconds": 0.0011, "low": 0.001, "high": 0.0013},
    {"bucket_bytes": 2**30, "seconds": 0.0003, "low": 0.0002, "high": 0.0004},
]
GIVEN = SIZES, 2e-4, 1e-9, POINTS


@pytest.fixture(scope="module")
def shown():
    return draw_buckets(*GIVEN)


@pytest.mark.parametrize("limit", [1, 1024, 4096, 5120, 8192, 2**20])
def test_buckets_fill_as_those_of_data_parallel_do(limit):
    parameters = [nn.Parameter(nn.Linear(size // 4, 1, bias=False).weight) for size in SIZES][::-1]
    *planned, last = [bucket.flat.nbytes for bucket in plan_buckets(parameters, limit)]
    assert fill_buckets(SIZES, limit) == [*planned, last - 4 * len(SIZES)]  # the last one also tells who was used


def test_the_time_is_alpha_per_message_and_beta_per_byte():
    each, *_, one = choices_of(*GIVEN)
    assert each.seconds == pytest.approx(5 * 2e-4 + 15360e-9)
    assert one.seconds == pytest.approx(2e-4 + 15360e-9)
    assert str(each) == (
        "one each: 5 messages, the largest 8.19 kB, predicted 1.02 ms (calculated), "
        "measured 1.1 ms (real, 1 ms to 1.3 ms)"
    )
    assert str(one).startswith("all in one: 1 message, the largest 15.4 kB, predicted 0.215 ms (calculated), measured ")


def test_the_figure_tells_every_size(shown):
    assert all(str(choice) in shown.alt for choice in choices_of(*GIVEN))
    names = [label.get_text() for label in shown.canvas.axes[0].get_yticklabels()]
    assert names == ["one each: 5", "4 kB: 4", "8 kB: 3", "all in one: 1"]


def test_boxes_are_as_wide_as_their_messages_and_two_tints_tell_them_apart(shown):
    boxes, _ = shown.canvas.axes
    assert boxes.yaxis_inverted() and boxes.get_xlim() == (0, sum(SIZES))
    drawn = iter(boxes.collections)
    for row, choice in enumerate(choices_of(*GIVEN)):
        start, tints = 0, []
        for size in choice.filled:
            message = next(drawn)
            [outline] = message.get_paths()
            assert outline.get_extents().extents == pytest.approx([start, row - 0.36, start + size, row + 0.36])
            tints.append(tuple(message.get_facecolor()[0]))
            start += size
        assert tints[::2] == tints[:1] * len(tints[::2]) and tints[1::2] == tints[1:2] * len(tints[1::2])
        assert len(set(tints)) == min(2, len(tints))
        ends = [line.vertices[0][0] for line in next(drawn).get_paths()]
        assert ends == [4096, 5120, 13312, 14336]  # between gradients
    assert next(drawn, None) is None


def test_predicted_and_measured_times_are_in_milliseconds_with_their_quartiles(shown):
    times = shown.canvas.axes[1]
    predicted = times.get_lines()[0]
    assert predicted.get_xdata() == pytest.approx([1e3 * choice.seconds for choice in choices_of(*GIVEN)])
    assert list(predicted.get_ydata()) == [0, 1, 2, 3]
    assert times.get_xlim()[1] > 1.3
    [measured] = times.containers
    assert measured.lines[0].get_xdata() == pytest.approx([1e3 * point["seconds"] for point in POINTS])
    assert measured.lines[0].get_ydata().tolist() == [0, 3]  # of one each, and of all in one
    for spread, point in zip(measured.lines[2][0].get_segments(), POINTS, strict=True):
        assert spread[:, 0] == pytest.approx([1e3 * point["low"], 1e3 * point["high"]])


@pytest.mark.parametrize(("bucket_bytes", "label"), [(1, "one each"), (8000, "8 kB"), (2**30, "all in one")])
def test_one_size_is_shown_alone_with_its_sentence_and_on_the_scale_of_all(shown, bucket_bytes, label):
    alone = draw_buckets(*GIVEN, bucket_bytes=bucket_bytes)
    sentence = alone.canvas.get_suptitle()
    assert sentence.startswith(f"{label}: {len(fill_buckets(SIZES, bucket_bytes))} message")
    assert alone.alt.endswith(f"measured: real. {sentence}")
    assert ("measured" in sentence) == (label in ("one each", "all in one"))
    assert alone.canvas.axes[1].get_xlim() == shown.canvas.axes[1].get_xlim()


def test_sizes_may_be_numpys(shown):
    assert draw_buckets(np.array(SIZES), *GIVEN[1:]).alt == shown.alt


def test_bytes_in_words():
    assert [write_bytes(number) for number in (512, 256_000, 2_500_000)] == ["512 bytes", "256 kB", "2.5 MB"]
