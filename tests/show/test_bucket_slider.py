"""The bucket slider without a browser: how buckets fill, what they cost, and the words."""

import json

import pytest
import traitlets
from torch import nn

from pllab.parallel import plan_buckets
from pllab.show import BucketSlider
from pllab.show.widgets.bucket_slider import fill_buckets, write_bytes

SIZES = [4096, 1024, 8192, 1024, 1024]


@pytest.fixture
def slider():
    points = [
        {"bucket_bytes": 1, "seconds": 0.0011, "low": 0.001, "high": 0.0013},
        {"bucket_bytes": 2**30, "seconds": 0.0003, "low": 0.0002, "high": 0.0004},
    ]
    return BucketSlider(SIZES, alpha_s=2e-4, beta_s=1e-9, measured=points)


@pytest.mark.parametrize("limit", [1, 1024, 4096, 5120, 8192, 2**20])
def test_buckets_fill_as_those_of_data_parallel_do(limit):
    parameters = [nn.Parameter(nn.Linear(size // 4, 1, bias=False).weight) for size in SIZES][::-1]
    *planned, last = [bucket.flat.nbytes for bucket in plan_buckets(parameters, limit)]
    assert fill_buckets(SIZES, limit) == [*planned, last - 4 * len(SIZES)]  # the last one also tells who was used


def test_the_time_is_alpha_per_message_and_beta_per_byte(slider):
    each, *_, one = slider.choices
    assert (each["label"], each["num_messages"]) == ("one each", 5)
    assert each["seconds"] == pytest.approx(5 * 2e-4 + 15360e-9)
    assert (one["label"], one["num_messages"], one["largest"]) == ("all in one", 1, "15.4 kB")
    assert one["seconds"] == pytest.approx(2e-4 + 15360e-9)


def test_measured_points_stand_at_their_sizes_and_nowhere_else(slider):
    assert [choice["label"] for choice in slider.choices if choice["measured_s"] is not None] == [
        "one each",
        "all in one",
    ]
    assert slider.top_s > 0.0013


def test_the_sentence_names_both_engines(slider):
    assert slider.choices[0]["sentence"] == (
        "one each: 5 messages, the largest 8.19 kB, predicted 1.02 ms (simulated), "
        "measured 1.1 ms (real, 1 ms to 1.3 ms)"
    )


def test_choices_are_plain_json_and_others_do_not_exist(slider):
    assert json.loads(json.dumps(slider.choices))[1]["label"] == "4 kB"
    with pytest.raises(traitlets.TraitError, match="step 99 does not exist"):
        slider.step = 99


def test_the_static_twin_tells_every_position(slider):
    slider.step = 1
    alt = slider.static().alt
    assert "Shown: 4 kB." in alt
    assert all(choice["sentence"] in alt for choice in slider.choices)


def test_a_slider_without_measurements_is_a_prediction_alone():
    slider = BucketSlider(SIZES, 1e-4, 1e-9)
    assert all("measured" not in choice["sentence"] for choice in slider.choices)
    assert slider.static().png


@pytest.mark.parametrize(("sizes", "alpha_s"), [([], 1e-4), ([0], 1e-4), ([8], -1.0)])
def test_what_cannot_be_is_refused(sizes, alpha_s):
    with pytest.raises(ValueError, match="bucket slider|cannot cost"):
        BucketSlider(sizes, alpha_s, 1e-9)


def test_bytes_in_words():
    assert [write_bytes(number) for number in (512, 256_000, 2_500_000)] == ["512 bytes", "256 kB", "2.5 MB"]
