"""The index map's counting and words, without a browser, against `partition_dataset` and by hand."""

import json
from collections import Counter

import pytest
from traitlets import TraitError

from pllab.data import partition_dataset
from pllab.show import IndexMap
from pllab.show.widgets.index_map import map_of, mark_of, owners_of

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


@pytest.fixture(scope="module")
def package_maps():
    return IndexMap(NUMBER, dealt_by_the_package).maps


@pytest.fixture
def index_map():
    return IndexMap(5, by_hand, world_sizes=[2], num_epochs=2, remainders=["as it comes"])


def test_owners_table_and_words_by_hand(index_map):
    first, second = index_map.maps["2/as it comes"]
    assert first["owners"] == [[[0, 1], [1, 1]], [[0, 1]], [[0, 2]], [[1, 1]], []]
    assert first["marks"] == ["r0 s1 +1", "r0 s1", "r0 s2", "r1 s1", "none"]
    assert first["summary"] == (
        "5 samples, 2 ranks, epoch 0, as it comes: 2 and 1 steps, so rank 0 waits for ever in step 2, "
        "1 sample loaded more than once (1 load too many), 1 left out. In epoch 0 a sample was loaded 0 to 2 times."
    )
    assert first["sentences"][0] == "sample 0: rank 0 in step 1 and rank 1 in step 1; loaded twice in epoch 0"
    assert second["sentences"][4] == "sample 4: loaded by nobody; never loaded in epochs 0 to 1"
    assert second["summary"].endswith("In epochs 0 to 1 a sample was loaded 0 to 4 times.")
    assert first["rows"] == [
        ["rank 0", "step 1", "0 1"],
        ["rank 0", "step 2", "2"],
        ["rank 1", "step 1", "3 0"],
    ]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("remainder", ["pad", "drop"])
def test_a_map_agrees_with_counting_the_batches(package_maps, world_size, remainder):
    visits = Counter()
    for epoch, shown in enumerate(package_maps[f"{world_size}/{remainder}"]):
        dealt = dealt_by_the_package(world_size, epoch, remainder)
        seen = Counter(sample for steps in dealt for samples in steps for sample in samples)
        visits += seen
        assert {sample: len(who) for sample, who in enumerate(shown["owners"]) if who} == seen
        for sample, who in enumerate(shown["owners"]):
            assert all(sample in dealt[rank][step - 1] for rank, step in who)
        left_out = NUMBER % world_size if remainder == "drop" else 0
        assert f", {left_out} left out." in shown["summary"]
        assert f": {len(dealt[0])} steps" in shown["summary"]
        assert "for ever" not in shown["summary"]
        sentence = shown["sentences"][3]
        times = {0: "never loaded", 1: "loaded once", 2: "loaded twice"}.get(visits[3], f"loaded {visits[3]} times")
        assert times in sentence


def test_choices_change_the_map_and_others_are_refused():
    index_map = IndexMap(NUMBER, dealt_by_the_package, world_sizes=[2, 4], num_epochs=2)
    assert (index_map.world_size, index_map.epoch, index_map.remainder) == (4, 0, "pad")
    before = index_map.static().alt
    index_map.epoch = 1
    assert index_map.static().alt == index_map.maps["4/pad"][1]["summary"] != before
    for name, value in (("world_size", 3), ("epoch", 2), ("remainder", "keep"), ("sample", NUMBER), ("sample", -1)):
        with pytest.raises(TraitError, match=f"{name} .* is not in this map; choose from"):
            setattr(index_map, name, value)
    assert (index_map.world_size, index_map.epoch, index_map.remainder) == (4, 1, "pad")


def test_static_twin_says_what_the_widget_says(index_map):
    data, _ = index_map._repr_mimebundle_()
    assert data["text/plain"] == index_map.static().alt == index_map.maps["2/as it comes"][0]["summary"]
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == index_map.model_id


def test_marks():
    assert [mark_of(who) for who in ([], [[1, 2]], [[0, 1], [2, 3], [3, 3]])] == ["none", "r1 s2", "r0 s1 +2"]


def test_loads_too_many_are_more_than_the_samples_loaded_more_than_once():
    def same_share(world_size, epoch, remainder):
        return [[[0, 1]]] * world_size

    summary = map_of(same_share, 3, 4, 1, "same")[0]["summary"]
    assert "2 samples loaded more than once (6 loads too many), 1 left out" in summary
    once = map_of(lambda *_: [[[0, 1, 2]]], 3, 1, 1, "once")[0]["summary"]
    assert "0 samples loaded more than once, 0 left out" in once


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="the data set has 2; deal the numbers of the samples"):
        owners_of([[[0, 2]]], 2)
    with pytest.raises(ValueError, match="3 ranks were asked for and 2 dealt"):
        map_of(by_hand, 5, 3, 1, "pad")
    for options in ({"world_sizes": []}, {"remainders": []}, {"num_epochs": 0}):
        with pytest.raises(ValueError, match="leave nothing to show"):
            IndexMap(5, by_hand, **{"world_sizes": [2], **options})
    with pytest.raises(ValueError, match="0 samples"):
        IndexMap(0, by_hand)
    with pytest.raises(TraitError, match="world_size 9"):
        IndexMap(5, by_hand, world_sizes=[2], world_size=9)


def test_maps_are_plain_json():
    json.dumps(IndexMap(NUMBER, dealt_by_the_package, world_sizes=range(1, 9)).maps)
