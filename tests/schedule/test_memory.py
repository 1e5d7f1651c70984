"""How many micro-batches an order holds, against closed forms and against a count by hand."""

import pytest

from pllab.schedule import Held, Kind, Schedule, eager_one_f_one_b, gpipe, one_f_one_b, peak_in_flight, zb_h1


@pytest.mark.parametrize("p", range(1, 9))
@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 20])
def test_whole_backwards_hold_what_theory_says(p: int, m: int) -> None:
    assert peak_in_flight(gpipe(p, m)) == (m,) * p
    assert peak_in_flight(one_f_one_b(p, m)) == tuple(min(m, p - s) for s in range(p))
    assert peak_in_flight(eager_one_f_one_b(p, m)) == tuple(min(m, 2 * (p - s) - 1) for s in range(p))


def test_each_half_of_a_backward_frees_its_share() -> None:
    row = Schedule.of([["0F0", "0F1", "0I0", "0W0", "0B1"]]).rows[0]
    assert Held().after_each(row) == [1, 2, 1.5, 1, 0]
    assert Held(0.25).after_each(row) == [1, 2, 1.75, 1, 0]
    assert Held(1.0).after_each(row) == [1, 2, 1, 1, 0]


def test_zb_h1_s_last_stage_keeps_what_its_weight_gradients_need() -> None:
    """It owes p - 1 weight gradients while it holds one forward more."""
    for share in (0.0, 0.25, 0.5, 1.0):
        assert peak_in_flight(zb_h1(4, 8), Held(share))[-1] == pytest.approx(1 + 3 * (1 - share))


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=f"input_share is {share}; it is the part I frees, from 0 to 1"):
        Held(share)


def test_kinds_that_are_drawn_only_hold_nothing() -> None:
    assert not {Kind.C, Kind.U, Kind.R} & Held().changes.keys()
