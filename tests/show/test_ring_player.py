"""The ring player's moments and words, and what it refuses, without a browser."""

import itertools
import json
from dataclasses import replace

import pytest
from traitlets import TraitError

from pllab.show import RingPlayer
from pllab.show.widgets.ring_player import view_of
from pllab.transfers import Collective, Transfer, ring_all_reduce, tree_all_reduce, tree_broadcast


def run_of(size, num_bytes=4):
    """The records of a ring that adds up 10 ** rank, written down without any message."""
    numbers = [10**rank for rank in range(size)]
    records = []
    for rank in range(size):
        came = [numbers[(rank - step) % size] for step in range(size)]
        pair = [("send", (rank + 1) % size, num_bytes), ("receive", (rank - 1) % size, num_bytes)]
        held = [sum(came[: step + 1]) for step in range(size)]
        records.append({"messages": pair * (size - 1), "held": held, "sent": came[:-1]})
    return records


def test_three_ranks_in_words():
    view = view_of(run_of(3))
    assert [moment["sentence"] for moment in view["moments"]] == [
        "start: rank 0 holds 1, rank 1 holds 10, rank 2 holds 100",
        "step 1: rank 0 sends 1 to rank 1, rank 1 sends 10 to rank 2, rank 2 sends 100 to rank 0; "
        "then they hold 101, 11, 110",
        "step 2: rank 0 sends 100 to rank 1, rank 1 sends 1 to rank 2, rank 2 sends 10 to rank 0; "
        "then they hold 111, 111, 111",
    ]
    assert (view["title"], view["summary"]) == ("3 ranks in a ring, 2 steps", "6 messages, 24 bytes, engine: real")


@pytest.mark.parametrize("size", range(2, 9))
def test_every_hop_goes_to_the_next_rank_and_all_end_with_the_sum(size):
    view = view_of(run_of(size))
    assert len(view["moments"]) == size
    for moment in view["moments"][1:]:
        assert [(hop["source"], hop["to"]) for hop in moment["hops"]] == [(r, (r + 1) % size) for r in range(size)]
    assert set(view["moments"][-1]["held"]) == {f"{int('1' * size):g}"}


def test_a_ring_of_chunks_in_words():
    view = view_of(ring_all_reduce(2))
    assert [moment["sentence"] for moment in view["moments"]] == [
        "start: rank 0 holds a0 b0, rank 1 holds a1 b1",
        "step 1: rank 0 sends b0 to rank 1, rank 1 sends a1 to rank 0; then they hold a01 b0, a1 b01",
        "step 2: rank 0 sends a01 to rank 1, rank 1 sends b01 to rank 0; then they hold a01 b01, a01 b01",
    ]
    assert view["title"] == "ring all-reduce, 2 ranks, 2 steps"
    assert view["summary"] == "4 messages, a01 is chunk a with the sum of ranks 0 and 1, engine: simulated"


def test_two_ranks_that_swap_send_what_they_had_before():
    swap = Collective("swap", "all_reduce", 2, ((Transfer(0, 1, 0, True), Transfer(1, 0, 0, True)),))
    assert [hop["text"] for hop in view_of(swap)["moments"][1]["hops"]] == ["a0", "a1"]


@pytest.mark.parametrize("collective", [ring_all_reduce(3), tree_all_reduce(5), tree_broadcast(8, 3)], ids=str)
def test_a_collective_steps_through_its_own_transfers(collective):
    player = RingPlayer(collective)
    moments = player.view["moments"]
    assert [[(hop["source"], hop["to"]) for hop in moment["hops"]] for moment in moments] == [
        [],
        *([(one.source, one.to) for one in each] for each in collective.rounds),
    ]
    for before, moment in itertools.pairwise(moments):
        assert all(hop["text"] in before["held"][hop["source"]].split("\n") for hop in moment["hops"])
    assert len({*moments[-1]["held"]}) == 1
    assert moments[-1]["sentence"] in player._repr_mimebundle_()[0]["text/plain"]
    json.dumps(player.view)


def test_the_static_twin_says_all_of_it():
    player = RingPlayer(json.loads(json.dumps(run_of(3))))  # a file makes lists of tuples
    player.step = 2
    data, _ = player._repr_mimebundle_()
    for moment in player.view["moments"]:
        assert moment["sentence"] in data["text/plain"]
    assert "<img alt=" in data["text/html"]
    json.dumps(player.view)


def test_a_step_that_does_not_exist_is_refused():
    player = RingPlayer(run_of(2))
    with pytest.raises(TraitError, match="step 2 does not exist; choose 0 to 1"):
        player.step = 2
    assert player.step == 0


def spoil(size=3, rank=0, **parts):
    records = run_of(size)
    records[rank] |= parts
    return records


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        (run_of(2)[:1], "the player shows 2 to 8 ranks; here are those of 1"),
        (run_of(9), "the player shows 2 to 8 ranks; here are those of 9"),
        (spoil(messages=[("send", 1, 4), ("receive", 2, 4)]), "rank 0 has 1 sends, 1 receives, 2 numbers sent and 3"),
        (spoil(rank=1, held=[10]), "rank 1 has 2 sends, 2 receives, 2 numbers sent and 1 held"),
        (spoil(messages=[("send", 2, 4), ("receive", 2, 4)] * 2), "rank 0 sent 4 bytes to rank 2 in step 1"),
        (spoil(messages=[("send", 1, 8), ("receive", 2, 4)] * 2), "rank 0 sent 8 bytes to rank 1 in step 1"),
        (spoil(messages=[("send", 7, 4), ("receive", 2, 4)] * 2), "rank 0 sent 4 bytes to rank 7 in step 1"),
        ([{"messages": [], "held": [1], "sent": []}] * 2, "rank 0 has 0 sends"),
        (ring_all_reduce(9), "the player shows 2 to 8 ranks; here are those of 9"),
        (replace(ring_all_reduce(3), goal="broadcast"), "ring all-reduce leaves rank 0"),
    ],
)
def test_what_is_no_ring_is_refused_with_a_sentence(records, sentence):
    with pytest.raises(ValueError, match=sentence):
        RingPlayer(records)
