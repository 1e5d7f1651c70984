"""Every generator over a grid of sizes: legal, with the memory and the bubble that its paper and docstring claim."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest

from pllab.schedule import (
    FAMILIES,
    FamilyName,
    Held,
    Kind,
    Schedule,
    breadth_first,
    check,
    dual_pipe_v,
    eager_one_f_one_b,
    family_of,
    gpipe,
    interleaved,
    interleaved_zero_bubble,
    one_f_one_b,
    peak_in_flight,
    v_half,
    v_min,
    zb_h1,
    zb_h2,
    zbv,
)
from pllab.simulate import Costs, simulate
from tests.simulate.legal import period

Generator = Callable[[int, int], Schedule]
ONE_STAGE = [gpipe, one_f_one_b, eager_one_f_one_b, zb_h1, zb_h2]
IN_A_V = [zbv, v_half, v_min, dual_pipe_v]


def looped(p: int, m: int, stages_per_rank: int) -> Schedule:
    return breadth_first([*range(p)] * stages_per_rank, m)


LOOPED = [
    pytest.param(partial(family, stages_per_rank=v), id=f"{family.__name__}-{v}")
    for family in (interleaved, interleaved_zero_bubble, looped)
    for v in range(1, 5)
]
RANKS = range(1, 9)
SIZES = [(p, m) for p in RANKS for m in range(1, 21)]
WHOLE = Costs(forward=1.0, backward_input=1.0, backward_weight=1.0)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.title)
def test_a_family_is_known_by_its_rows_and_by_nothing_else(family):
    made = family.make(4, 8)
    assert made.name in (family.title, f"{family.title.removesuffix(' 1F1B')}, 2 stages a rank")
    assert family_of(Schedule(made.rows, "mine")) == family.title
    first, *rest = made.rows
    swapped = Schedule(((first[1], first[0], *first[2:]), *rest))
    assert family_of(swapped) is None


def idle(schedule: Schedule, costs: Costs = WHOLE) -> float:
    """How long the busiest rank does not compute, from the first start to the last end."""
    timeline = simulate(schedule, costs)
    return timeline.makespan - max(timeline.busy_of_ranks)


@pytest.mark.parametrize("generator", [*ONE_STAGE, *LOOPED, *IN_A_V])
def test_every_size_is_legal_and_has_every_stage_where_it_belongs(generator: Generator) -> None:
    for p, m in SIZES:
        schedule = generator(p, m)
        check(schedule)
        assert (schedule.num_ranks, schedule.num_microbatches) == (p, m)
        for rank in range(p):
            if generator in ONE_STAGE:
                assert schedule.stages_of_rank(rank) == (rank,)
            elif generator in IN_A_V:
                assert schedule.stages_of_rank(rank) == (rank, 2 * p - 1 - rank)
            else:
                assert schedule.stages_of_rank(rank) == tuple(range(rank, schedule.num_stages, p))


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0), (-1, 4), (4, True), (2.0, 4), ("4", 4), (np.int64(0), 4)], ids=str)
def test_a_size_that_is_none_is_refused_by_name(sizes: tuple[int, int]) -> None:
    for generator in (*ONE_STAGE, interleaved, interleaved_zero_bubble, *IN_A_V):
        with pytest.raises(ValueError, match=r"num_\w+ is .*; give a whole number of at least 1"):
            generator(*sizes)
    for looping in (interleaved, interleaved_zero_bubble):
        with pytest.raises(ValueError, match="stages_per_rank is 0; give a whole number of at least 1"):
            looping(2, 2, stages_per_rank=0)


def test_more_actions_than_memory_holds_are_refused_at_once() -> None:
    for sizes in [(2, 10**30), (2, 2, 10**30)]:
        with pytest.raises(ValueError, match="are more than 10,000,000 actions; give smaller sizes"):
            interleaved(*sizes)


@pytest.mark.parametrize("rank", [10**9, -1, 1.0])
def test_a_rank_that_no_stage_can_have_is_refused_at_once(rank: int) -> None:
    with pytest.raises(ValueError, match=f"the rank of a stage is {rank}; give a whole number from 0 to 1"):
        breadth_first([0, rank], 2)


def test_a_size_of_another_library_is_taken_as_an_int() -> None:
    assert gpipe(np.int64(2), np.int32(4)) == gpipe(2, 4)
    assert {type(action.microbatch) for action in gpipe(2, np.int32(4)).actions()} == {int}


def test_with_one_stage_a_rank_interleaved_zero_bubble_is_zb_h1() -> None:
    """So ZB-H1 has a third of 1F1B's bubble, and its memory."""
    for p, m in SIZES:
        assert interleaved_zero_bubble(p, m, 1) == zb_h1(p, m)


def test_zb_h2_never_waits_and_holds_2p_minus_1() -> None:
    for p in RANKS:
        for m in range(2 * p - 1, 21):
            assert idle(zb_h2(p, m)) == p - 1  # the last rank starts that much later
            assert max(peak_in_flight(zb_h2(p, m))) == peak_in_flight(zb_h2(p, m))[0] == 2 * p - 1


def test_zbv_never_waits_and_holds_2p_on_every_rank() -> None:
    for p, m in SIZES:
        assert max(peak_in_flight(zbv(p, m))) <= 2 * p
        if m >= 2 * p - 1:
            timeline = simulate(zbv(p, m), WHOLE)
            assert period(timeline) == timeline.busy_of_ranks[0]
            assert peak_in_flight(zbv(p, m)) == (2 * p,) * p


def test_v_half_holds_half_and_waits_half_as_long() -> None:
    for p, m in SIZES:
        assert max(peak_in_flight(v_half(p, m))) <= 2 * ((p + 2) // 2)  # the paper's, in half-size stages
        if m > p:
            assert max(peak_in_flight(v_half(p, m))) == (p + 1 if p % 2 else p + 2)
            assert idle(v_half(p, m)) == {1: 0, 2: 2}.get(p, 3 * p - 4 if p % 2 else 3 * p - 6)


def test_v_min_holds_a_third_and_waits_two_thirds_as_long() -> None:
    for p, m in SIZES:
        assert max(peak_in_flight(v_min(p, m))) <= 2 * ((p + 4) // 3)  # the paper's, in half-size stages
        assert idle(v_min(p, m)) == max(0, 4 * p - 5)


def test_eager_1f1b_hides_what_messages_cost_1f1b() -> None:
    """Zhuang et al. 2022: with twice the warm-up the messages of the steady state travel behind the compute."""
    costs = Costs(4.0, 4.0, 4.0, p2p=1.0)
    exposed = [simulate(make(4, 32), costs).makespan - 35 * 12.0 for make in (one_f_one_b, eager_one_f_one_b)]
    assert exposed == [2.0 * (32 + 4 - 2 - 8), 2.0 * 3]


def test_where_the_v_of_half_the_memory_is_slower_than_1f1b() -> None:
    """The milliseconds are those of the Zero Bubble paper's 1.5B model on 8 GPUs."""
    paper, halves = Costs(18.522, 18.086, 9.337, p2p=0.601), Costs(9.261, 9.043, 4.6685, p2p=0.601)
    timelines = simulate(v_half(8, 32), halves), simulate(one_f_one_b(8, 32), paper)
    assert [round(timeline.bubble_fraction, 3) for timeline in timelines] == [0.215, 0.198]


@pytest.mark.parametrize("generator", [zb_h1, zb_h2, *IN_A_V])
def test_none_is_slower_than_1f1b_for_equal_costs(generator: Generator) -> None:
    """Few micro-batches included; a stage of a V is half the work of a stage of 1F1B."""
    share = 0.5 if generator in IN_A_V else 1.0
    costs = Costs(forward=share, backward_input=share, backward_weight=share)
    for p, m in SIZES:
        assert simulate(generator(p, m), costs).makespan <= simulate(one_f_one_b(p, m)).makespan


def test_the_names_that_commands_take_are_those_of_the_table() -> None:
    assert get_args(FamilyName) == tuple(FAMILIES)


# the tables drawn in the docstrings are what the virtual clock draws: cell by cell, `.` for idle
EQUAL_BACKWARD = Costs(forward=1.0, backward_input=0.5, backward_weight=0.5)
EQUAL_KINDS = Costs(forward=1.0, backward_input=1.0, backward_weight=1.0)


def drawn(generator: Callable[..., Schedule]) -> list[list[str]]:
    """The cells of the docstring's rows; the same text without a stage stands for the row's own stage."""
    lines = (line.split() for line in inspect.getdoc(generator).splitlines())  # type: ignore[union-attr]
    return [cells[2:] for cells in lines if cells[:1] == ["rank"]]


def simulated(schedule: Schedule, costs: Costs, *, with_stage: bool) -> list[list[str]]:
    timeline = simulate(schedule, costs)
    rows = [["."] * round(timeline.makespan) for _ in range(schedule.num_ranks)]
    for span in timeline.spans:
        for unit in range(round(span.start), round(span.end)):
            rows[span.rank][unit] = str(span.action) if with_stage else str(span.action).removeprefix(str(span.rank))
    return rows


@pytest.mark.parametrize(
    ("generator", "sizes", "costs"),
    [
        (gpipe, (2, 3), EQUAL_BACKWARD),
        (one_f_one_b, (3, 4), EQUAL_BACKWARD),
        (interleaved, (2, 4), EQUAL_BACKWARD),
        (breadth_first, ([0, 1, 0, 1], 3), EQUAL_BACKWARD),
        (interleaved_zero_bubble, (2, 4), EQUAL_KINDS),
        (zb_h1, (3, 4), EQUAL_KINDS),
        (zb_h2, (3, 5), EQUAL_KINDS),
        (zbv, (2, 3), EQUAL_KINDS),
        (v_half, (2, 3), EQUAL_KINDS),
        (v_min, (2, 3), EQUAL_KINDS),
        (dual_pipe_v, (2, 4), EQUAL_KINDS),
    ],
)
def test_the_table_is_the_schedule(generator: Callable[..., Schedule], sizes: tuple[Any, int], costs: Costs) -> None:
    schedule = generator(*sizes)
    with_stage = schedule.num_stages > schedule.num_ranks
    assert drawn(generator) == simulated(schedule, costs, with_stage=with_stage)


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


def test_kinds_that_are_drawn_only_hold_nothing() -> None:
    assert not {Kind.C, Kind.U, Kind.R} & Held().changes.keys()


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=f"input_share is {share}; it is the part I frees, from 0 to 1"):
        Held(share)
