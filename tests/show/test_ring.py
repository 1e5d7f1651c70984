"""The picture of a ring: its words, its boxes and arrows, and what it refuses."""

import json
import re
from dataclasses import replace

import pytest
from matplotlib.text import Annotation

from pllab.show import draw_ring
from pllab.transfers import Collective, Transfer, chunk_name, holdings, ring_all_reduce, tree_all_reduce, tree_broadcast
from tests.show.extents import extents_of


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


def drawn(picture):
    """The boxes with text, and the arrows, both in the order in which they were drawn."""
    texts = [text for axes in picture.canvas.axes for text in axes.texts]
    words = [text for text in texts if not isinstance(text, Annotation)]
    return words, [text for text in texts if isinstance(text, Annotation)]


def test_three_ranks_in_words():
    out_of_a_file = json.loads(json.dumps(run_of(3)))  # with lists
    assert draw_ring(out_of_a_file).alt == (
        "3 ranks in a ring, 2 steps. 6 messages, 24 bytes, engine: real. "
        "start: rank 0 holds 1, rank 1 holds 10, rank 2 holds 100. "
        "step 1: rank 0 sends 1 to rank 1, rank 1 sends 10 to rank 2, rank 2 sends 100 to rank 0; "
        "then they hold 101, 11, 110. "
        "step 2: rank 0 sends 100 to rank 1, rank 1 sends 1 to rank 2, rank 2 sends 10 to rank 0; "
        "then they hold 111, 111, 111"
    )


def test_a_ring_of_chunks_in_words_and_in_boxes():
    picture = draw_ring(ring_all_reduce(2))
    assert picture.alt == (
        "ring all-reduce, 2 ranks, 2 steps. 4 messages, a01 is chunk a with the sum of ranks 0 and 1, calculated. "
        "start: rank 0 holds a0 b0, rank 1 holds a1 b1. "
        "step 1: rank 0 sends b0 to rank 1, rank 1 sends a1 to rank 0; then they hold a01 b0, a1 b01. "
        "step 2: rank 0 sends a01 to rank 1, rank 1 sends b01 to rank 0; then they hold a01 b01, a01 b01"
    )
    first, *steps = " ".join(text.get_text() for text in drawn(picture)[0]).split(" step ")
    assert first == "rank 0 rank 1 start a0 b0 a1 b1"
    assert steps == ["1 a01 b0 a1 b01 b0 a1", "2 a01 b01 a01 b01 a01 b01"]
    assert picture.canvas.axes[0].get_title(loc="left").split("\n") == picture.alt.split(". ")[:2]


def test_chunks_stand_in_their_boxes_beside_their_rank_and_what_came_has_the_colour_of_a_message_and_a_thick_edge():
    picture = draw_ring(ring_all_reduce(2))
    [axes] = picture.canvas.axes
    words, _ = drawn(picture)
    ranks = [text.get_position()[1] for text in words[:2]]
    held = [text for text in words if re.fullmatch("[ab][01]+", text.get_text()) and not text.get_bbox_patch()]
    sent = {text.get_bbox_patch().get_facecolor() for text in words if text.get_bbox_patch()}
    came = []
    for box, text in zip(axes.patches, held, strict=True):
        assert box.get_bbox().contains(*text.get_position())
        came.append(box.get_facecolor() in sent)
    assert len(sent) == 1 and axes.yaxis_inverted()
    assert [box.get_linewidth() > 2 for box in axes.patches] == came  # seen without colours too
    assert [text.get_text() for text, new in zip(held, came, strict=True) if new] == ["a01", "b01", "b01", "a01"]
    heights = [text.get_position()[1] for text in held]
    assert heights == pytest.approx([*ranks[:1] * 2, *ranks[1:] * 2] * 3)
    lefts = [text.get_position()[0] for text in held]
    assert all(first < second for first, second in zip(lefts[::2], lefts[1::2], strict=True))
    messages = [text.get_position()[1] for text in words if text.get_bbox_patch()]
    assert messages == pytest.approx(ranks * 2)


def test_two_ranks_that_swap_send_what_they_had_before():
    swap = Collective("swap", "all_reduce", 2, ((Transfer(0, 1, 0, True), Transfer(1, 0, 0, True)),))
    assert "rank 0 sends a0 to rank 1, rank 1 sends a1 to rank 0; then they hold a01, a01" in draw_ring(swap).alt


@pytest.mark.parametrize("collective", [ring_all_reduce(3), tree_all_reduce(5), tree_broadcast(8, 3)], ids=str)
def test_a_collective_is_drawn_with_its_own_transfers(collective):
    alt, held = draw_ring(collective).alt, list(holdings(collective))
    for step, each in enumerate(collective.rounds, 1):
        texts = [chunk_name(one.chunk) + "".join(map(str, held[step - 1][one.source][one.chunk])) for one in each]
        sent = [f"rank {one.source} sends {text} to rank {one.to}" for one, text in zip(each, texts, strict=True)]
        assert f". step {step}: {', '.join(sent)}; then they hold " in alt


@pytest.mark.parametrize(
    "run",
    [run_of(2), run_of(8), ring_all_reduce(1), ring_all_reduce(4), tree_broadcast(8)],
    ids=["run of 2", "run of 8", "one rank", "ring of 4", "tree of 8"],
)
def test_no_message_is_hidden_no_name_is_cut_and_in_a_ring_every_arrow_goes_to_the_next_rank(run):
    picture = draw_ring(run)
    words, arrows = drawn(picture)
    boxes = extents_of(picture, words)
    ways = [one.arrow_patch.get_window_extent() for one in arrows]
    labels = [box for text, box in zip(words, boxes, strict=True) if text.get_bbox_patch()]
    assert len(ways) == len(labels)
    # a message stands left of the arrows of its step
    assert not [1 for way in ways for box in labels if box.x0 < way.x1 and way.x0 < box.x1]
    if isinstance(run, list):
        size, heights = len(run), [(one.xyann[1], one.xy[1]) for one in arrows]
        rows = sorted({start for start, _ in heights})
        assert [text.get_text() for text in words].count("rank 0") == (2 if size == 8 else 1)  # in a second band
        assert len(arrows) == size * (size - 1)
        assert heights == [(rows[r], rows[(r + 1) % size]) for r in range(size)] * (size - 1)


@pytest.mark.parametrize(("peer", "num_bytes"), [(2, 4), (1, 8)])
def test_a_send_without_its_receive_is_refused_with_a_sentence(peer, num_bytes):
    first, *others = run_of(3)
    messages = [("send", peer, num_bytes), ("receive", 2, 4)] * 2
    sentence = f"rank 0 sent {num_bytes} bytes to rank {peer} in step 1, and rank {peer} did not receive them then"
    with pytest.raises(ValueError, match=sentence):
        draw_ring([first | {"messages": messages}, *others])


def test_a_collective_that_misses_its_goal_is_refused():
    with pytest.raises(ValueError, match="ring all-reduce leaves rank 0"):
        draw_ring(replace(ring_all_reduce(3), goal="broadcast"))
