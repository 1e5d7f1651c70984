"""Simulated collectives against the closed forms of theory."""

from math import ceil, log2

import pytest

from pllab.simulate import MessageCost, simulate_transfers
from pllab.transfers import Collective, Transfer, ring_all_reduce, tree_all_reduce, tree_broadcast, tree_reduce

COST = MessageCost(alpha_s=1e-4, beta_s=1e-9)
NUM_BYTES = 1e6
WHOLE_S = 1e-4 + 1e-9 * NUM_BYTES


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 17])
def test_collectives_take_as_long_as_theory_says(size: int) -> None:
    def seconds(collective: Collective) -> float:
        return simulate_transfers(collective, NUM_BYTES, COST).makespan

    depth = ceil(log2(size))
    assert seconds(ring_all_reduce(size)) == pytest.approx(2 * (size - 1) * (1e-4 + 1e-9 * NUM_BYTES / size))
    assert seconds(tree_broadcast(size, size - 1)) == pytest.approx(depth * WHOLE_S)
    assert seconds(tree_reduce(size)) == pytest.approx(depth * WHOLE_S)
    assert seconds(tree_all_reduce(size)) == pytest.approx(2 * depth * WHOLE_S)


def test_a_message_waits_for_both_of_its_ranks_and_for_nobody_else() -> None:
    """Ranks 2 and 3 exchange in round 2 what nobody else has; they need not wait for round 1."""
    first, second = Transfer(1, 0, 0, True), Transfer(3, 2, 0, True)
    collective = Collective("two trees", "reduce", 4, ((first,), (second,), (Transfer(2, 0, 0, True),)))
    timeline = simulate_transfers(collective, NUM_BYTES, COST)
    assert [(span.rank, span.start) for span in timeline.spans] == [(1, 0.0), (3, 0.0), (2, pytest.approx(WHOLE_S))]
    assert (timeline.engine, str(timeline.spans[2].action)) == ("simulated", "0C2")


def test_a_collective_without_its_goal_has_no_time() -> None:
    with pytest.raises(ValueError, match="leaves rank 0"):
        simulate_transfers(Collective("nothing", "all_reduce", 2, ()), NUM_BYTES, COST)
