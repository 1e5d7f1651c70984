"""Collectives as values: what the generators promise for any number of ranks, and what is no collective."""

import re
from dataclasses import replace
from math import ceil, log2

import numpy as np
import pytest

from pllab.transfers import (
    Collective,
    Transfer,
    check,
    chunk_name,
    holdings,
    ring_all_reduce,
    tree_all_reduce,
    tree_broadcast,
    tree_reduce,
)

SIZES = [*range(1, 10), 16, 17]
MAKERS = (ring_all_reduce, tree_broadcast, tree_reduce, tree_all_reduce)


@pytest.mark.parametrize("size", SIZES)
def test_every_collective_reaches_its_goal_from_every_root(size: int) -> None:
    check(ring_all_reduce(size))
    check(tree_all_reduce(size))
    for root in range(size):
        check(tree_broadcast(size, root))
        check(tree_reduce(size, root))


@pytest.mark.parametrize("size", SIZES)
def test_rounds_and_messages_are_those_of_theory(size: int) -> None:
    depth = ceil(log2(size))
    assert [len(each) for each in ring_all_reduce(size).rounds] == [size] * 2 * (size - 1)
    assert len(tree_broadcast(size).rounds) == len(tree_reduce(size).rounds) == depth
    assert sum(map(len, tree_broadcast(size).rounds)) == size - 1
    assert len(tree_all_reduce(size).rounds) == 2 * depth


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_after_half_of_the_ring_each_rank_has_the_sum_of_its_own_chunk(size: int) -> None:
    """This is a reduce-scatter, as gloo's."""
    half = list(holdings(ring_all_reduce(size)))[size - 1]
    assert [half[rank][rank] for rank in range(size)] == [tuple(range(size))] * size


def test_the_ring_adds_in_the_order_of_gloo() -> None:
    """Chunk c starts at rank c - 1 and goes down; rank c adds last."""
    way = [t.to for each in ring_all_reduce(4).rounds[:3] for t in each if t.chunk == 2]
    assert way == [0, 3, 2]


def test_a_number_of_ranks_may_be_numpys() -> None:
    for make in MAKERS:
        make.cache_clear()  # equal numbers share an answer
        made = make(np.int64(4))
        make.cache_clear()
        assert made == make(4) and type(made.num_ranks) is type(made.root) is int


def test_a_collective_is_drawn_as_a_table_of_rounds() -> None:
    assert str(ring_all_reduce(3)).splitlines()[:3] == [
        "round 1  0>2+b  1>0+c  2>1+a",
        "round 2  0>2+c  1>0+a  2>1+b",
        "round 3  0>2=a  1>0=b  2>1=c",
    ]
    assert str(tree_broadcast(5, root=2)) == "round 1  2>3=a\nround 2  2>4=a  3>0=a\nround 3  2>1=a"
    assert [chunk_name(chunk) for chunk in (0, 25, 26)] == ["a", "z", "#26"]


def of(*rounds: tuple[Transfer, ...], goal: str = "all_reduce") -> Collective:
    return Collective("mine", goal, 2, rounds)  # type: ignore[arg-type]


RING = ring_all_reduce(3)
BOTH_TO_0 = (Transfer(1, 0, 0, True), Transfer(2, 0, 0, True))
SWAP = (Transfer(0, 1, 0, True), Transfer(1, 0, 0, True))


def test_a_round_sends_what_was_there_before_it() -> None:
    """Two ranks that swap and add have the sum both, once; a second time they have it twice."""
    check(of(SWAP))
    with pytest.raises(ValueError, match=re.escape("leaves rank 0 with the numbers of ranks (0, 0, 1, 1) in chunk a")):
        check(of(SWAP, SWAP))


@pytest.mark.parametrize(
    ("collective", "sentence"),
    [
        (of(), "mine leaves rank 0 with the numbers of ranks (0,) in chunk a, and all_reduce needs (0, 1)"),
        (of((Transfer(0, 1, 0, True),)), "leaves rank 0 with the numbers of ranks (0,)"),
        (of((Transfer(1, 0, 0, False),), goal="broadcast"), "leaves rank 0 with the numbers of ranks (1,)"),
        (of((Transfer(0, 1, 0, True),), goal="reduce"), "leaves rank 0 with the numbers of ranks (0,)"),
        (
            replace(RING, rounds=(*RING.rounds[:-1], RING.rounds[-1][1:])),
            "leaves rank 2 with the numbers of ranks (0, 2)",
        ),
        (of((Transfer(0, 2, 0, True),)), "0>2+a in round 1 of mine is no transfer between two of 2 ranks"),
        (of((Transfer(0, -1, 0, True),)), "0>-1+a in round 1"),
        (of((Transfer(0, 0, 0, True),)), "0>0+a in round 1"),
        (of((Transfer(0, 1, 1, True),)), "0>1+b in round 1"),
        (of(SWAP, (*SWAP, SWAP[0])), "rank 0 sends 2 messages in round 2 of mine"),
        (Collective("mine", "reduce", 3, (BOTH_TO_0,)), "rank 0 receives 2 messages in round 1 of mine"),
    ],
)
def test_what_reaches_no_goal_is_refused_with_a_sentence(collective: Collective, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        check(collective)


def test_no_ranks_and_no_such_root_are_refused() -> None:
    for make in MAKERS:
        with pytest.raises(ValueError, match="num_ranks is 0"):
            make(0)
    with pytest.raises(ValueError, match="root is 3; give a whole number from 0 to 2"):
        tree_broadcast(3, 3)
