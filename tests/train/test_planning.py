"""The closed form against `scale`, schedules and groups of ranks; and what its choices are worth."""

from itertools import product

import pytest

from pllab.models.new_gpt2 import SIZES
from pllab.schedule import one_f_one_b
from pllab.simulate import Costs, simulate
from pllab.train.planning import Layout, Model, measured_groups, on_hosts, price_of
from pllab.train.scale import Machine, scale
from tests.tiers import exhaustive

FREE = Machine(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("size", "layout"),
    [
        ("gpt2", Layout(4, 2, 2, 1, 4)),
        *exhaustive(("1B", Layout(8, 4, 2, 1, 2)), ("13B", Layout(16, 8, 2, 1, 2, zero=1))),
    ],
)
def test_of_three_sizes_the_form_is_at_most_a_sixth_below_what_scale_counts(size: str, layout: Layout) -> None:
    """`scale` has no activations; the form has no tied embedding, no logits and no unequal stages."""
    num_layers, width, _ = SIZES[size]
    price = price_of(Model(num_layers, width, 50257, 1024, element_bytes=4, kept=0.0), layout, Machine())
    found = scale(model=size, **layout._asdict())
    assert 5 / 6 * found.time.total_s < price.seconds < found.time.total_s
    assert 5 / 6 * found.peak_bytes < price.num_bytes < found.peak_bytes


@pytest.mark.exhaustive
@pytest.mark.parametrize("axes", [{"dp": 4}, {"tp": 4}, {"pp": 2}], ids=str)
def test_along_each_axis_alone_the_form_is_near(axes: dict[str, int]) -> None:
    """With few words. tp splits no norm, bias or position, and embedding, head and logits send too: not in the form."""
    model = Model(12, 768, 512, 1024, element_bytes=4, kept=0.0)
    layout = Layout(**{"dp": 1, "tp": 1, "pp": 1} | axes, rows=2, num_microbatches=8)
    price, found = price_of(model, layout, Machine()), scale(model="gpt2", vocab_size=512, **layout._asdict())
    assert price.seconds == pytest.approx(found.time.total_s, rel=0.05)
    assert price.num_bytes == pytest.approx(found.peak_bytes, rel=0.05)


@pytest.mark.parametrize(("pp", "parts"), list(product([2, 3, 4, 8], [1, 4, 9, 32])))
def test_a_pipeline_takes_as_long_as_its_schedule_and_holds_as_much(pp: int, parts: int) -> None:
    model, layout = Model(24, 64, 0, 128), Layout(1, 1, pp, 3, parts)
    work = price_of(model, layout._replace(pp=1, num_microbatches=1), Machine(1e-9)).seconds / pp
    machine = Machine(1e-9, alpha_s=work / 7, beta_s=0.0)
    schedule = one_f_one_b(pp, parts)
    together = simulate(schedule, Costs(work / 3, work / 3, work / 3, p2p=work / 7))
    assert price_of(model, layout, machine).seconds == pytest.approx(together.makespan)
    whole, states = (price_of(each, layout, FREE).num_bytes for each in (model, model._replace(kept=0.0)))
    a_microbatch = 34 * 64 * 3 * 128 * 24 / pp
    assert whole - states == pytest.approx(a_microbatch * max(together.peak_in_flight))


def test_zero_shards_the_optimizer_and_small_weights_have_a_large_copy() -> None:
    model, weights = Model(1, 8, 0, 4, kept=0.0), 12 * 64

    def held(zero: int, element_bytes: int) -> float:
        layout = Layout(4, 1, 1, zero=zero)
        return price_of(model._replace(element_bytes=element_bytes), layout, FREE).num_bytes / weights

    assert (held(0, 4), held(0, 2)) == (4 + 4 + 8, 2 + 4 + 12)
    assert (held(1, 4), held(1, 2)) == (4 + 4 + 8 / 4, 2 + 4 + 12 / 4)


@pytest.mark.parametrize(
    ("dp", "tp", "pp", "near"),
    [(2, 4, 2, "tp"), (8, 1, 1, ""), (1, 8, 1, ""), (2, 2, 2, "dp tp"), (1, 2, 4, "tp")],
)
def test_an_axis_whose_groups_need_two_hosts_gets_the_slow_wire(dp: int, tp: int, pp: int, near: str) -> None:
    """Of 4 ranks, with tp innermost and pp outermost."""
    machine = on_hosts(Machine(1.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0), dp, tp, pp, ranks_per_host=4)
    found = {axis: machine.message_s(axis, 0.0) for axis, size in (("dp", dp), ("tp", tp), ("pp", pp)) if size > 1}
    assert found == {axis: 2.0 if axis in near else 4.0 for axis in found}


def test_the_measured_layouts_are_of_seven_groups_and_make_up_their_batch() -> None:
    groups = measured_groups()
    assert [(group.billions, group.num_hosts) for group in groups] == [
        (1, 1), (1, 4), (3, 2), (3, 8), (8, 1), (8, 4), (8, 16),
    ]  # fmt: skip
    assert sum(len(group.mfu) for group in groups) == 490
    for group in groups:
        assert list(group.mfu) == sorted(group.mfu), "the best must not come first, where a tie would find it"
        for layout, mfu in group.mfu.items():
            assert layout.dp * layout.rows * layout.num_microbatches == 256
            assert layout.dp * layout.tp * layout.pp == 8 * group.num_hosts
            assert (mfu is None) == (layout not in group.memory_gib)
            assert mfu is None or 0 < mfu < 1


def test_regret_compares_with_the_best_and_a_crash_is_the_slowest() -> None:
    group = measured_groups()[4]
    ran = {layout: mfu for layout, mfu in group.mfu.items() if mfu}
    best, worst = max(ran, key=ran.__getitem__), min(ran, key=ran.__getitem__)
    crashed = next(layout for layout, mfu in group.mfu.items() if mfu is None)
    assert group.regret(lambda layouts, price: best) == 0
    of_worst = group.regret(lambda layouts, price: worst)
    assert of_worst == pytest.approx(ran[best] / ran[worst] - 1) and of_worst > 1
    assert group.regret(lambda layouts, price: crashed) == of_worst
