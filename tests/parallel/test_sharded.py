"""FullyShardedDataParallel against the plain model with the whole batch, against FSDP2, and by counted messages."""

import copy
from functools import cache
from typing import Any

import pytest
import torch

from pllab import comm
from tests.parallel import programs_sharded as programs
from tests.parallel.programs import assert_same, batch, loss_of, weights
from tests.parallel.programs_sharded import NUM_BLOCKS, NUM_STEPS, Chain, sgd

Results = list[dict[str, Any]]
WHERE = ("memory", "messages")
pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module")
def ranks(launch_quickly: Any) -> Results:
    """What each program returned on each of two ranks, started once."""
    return launch_quickly(programs.run_all, 2, timeout_s=200)


@cache
def one_process(*steps: int, freeze: bool = False, chain: Chain | None = None) -> dict[str, torch.Tensor]:
    """The weights after steps on whole batches, in one process."""
    chain = chain or Chain(freeze=freeze)
    optimizer = sgd(chain)
    for step in steps:
        optimizer.zero_grad()
        loss_of(chain, *batch(step)).backward()
        optimizer.step()
    return weights(chain)


@cache
def one_step(*steps: int) -> dict[str, torch.Tensor]:
    """The weights after one step on the sum of the gradients of some batches."""
    chain = Chain()
    for step in steps:
        loss_of(chain, *batch(step)).backward()
    sgd(chain).step()
    return weights(chain)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("freeze", [False, True])
def test_three_steps_equal_one_process(ranks: Results, where: str, zero: int, freeze: bool) -> None:
    """Tied, unused and frozen parameters, buffers, momentum and weight decay included."""
    for result in ranks:
        assert_same(result[f"train {where} {zero} {freeze}"]["weights"], one_process(*range(NUM_STEPS), freeze=freeze))


@pytest.mark.parametrize("size", [1, 3])
def test_any_number_of_ranks(size: int, quick_ranks: None) -> None:
    tokens, targets = batch(0, 9)
    chain = Chain()
    loss_of(chain, tokens, targets).backward()
    sgd(chain).step()
    for result in comm.launch(programs.one_step_of_nine_rows, size, backend="gloo", timeout_s=120.0):
        assert_same(result, weights(chain))


def test_every_rank_keeps_its_share(ranks: Results) -> None:
    total = sum(parameter.numel() for parameter in Chain().parameters())
    for where in WHERE:
        assert sum(result[f"train {where} 3 False"]["numel"] for result in ranks) == total


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("freeze", [False, True])
def test_at_most_two_units_are_gathered(ranks: Results, where: str, freeze: bool) -> None:
    for result in ranks:
        assert result[f"train {where} 3 {freeze}"]["gathered"] <= 2
        assert result[f"train {where} 1 {freeze}"]["gathered"] == NUM_BLOCKS  # the counter counts
    if where == "messages":
        assert ranks[0][f"train {where} 3 {freeze}"]["gathered"] == 2  # the next one is under way


@pytest.mark.parametrize("where", WHERE)
def test_messages_of_a_step(ranks: Results, where: str) -> None:
    """ZeRO 3 gathers a block twice and the root once; the last block stays for its backward."""
    once = {"all_gather": NUM_BLOCKS + 1, "reduce_scatter": NUM_BLOCKS + 1, "all_reduce": 1}
    twice = once | {"all_gather": 2 * NUM_BLOCKS}
    for result in ranks:
        assert result[f"train {where} 1 False"]["counts"] == [once] * NUM_STEPS
        assert result[f"train {where} 2 False"]["counts"] == [once] * NUM_STEPS
        assert result[f"train {where} 3 False"]["counts"] == [twice] * NUM_STEPS


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("zero", [1, 2, 3])
def test_accumulation_reduces_once(ranks: Results, where: str, zero: int) -> None:
    for result in ranks:
        found = result[f"accumulate {where} {zero}"]
        assert found["silent"] == 0 and found["reductions"] == NUM_BLOCKS + 1
        if zero < 3:
            assert found["gathers"] == NUM_BLOCKS + 1  # for both forwards
        assert_same(found["weights"], one_step(0, 1))


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("program", ["twice_with_messages", "two_forwards"])
def test_gradients_of_two_batches_add_up(ranks: Results, where: str, program: str) -> None:
    for result in ranks:
        assert_same(result[f"{program} {where}"], one_step(0, 1))


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("program", ["recomputed", "optimizer_first"])
def test_one_step_equals_one_process(ranks: Results, where: str, program: str) -> None:
    for result in ranks:
        assert_same(result[f"{program} {where}"], one_step(0))


@pytest.mark.parametrize("where", WHERE)
def test_a_step_after_an_error_is_right(ranks: Results, where: str) -> None:
    for result in ranks:
        assert_same(result[f"after_error {where}"], one_step(1))


@pytest.mark.parametrize("where", WHERE)
def test_a_parameter_that_one_rank_uses(ranks: Results, where: str) -> None:
    """The other rank counts as zeros, and a parameter that no rank uses keeps no gradient and its value."""
    chain = Chain()
    before = copy.deepcopy(chain.blocks[1].extra.detach())
    tokens, targets = batch(0)
    for number, (part, wanted) in enumerate(zip(tokens.chunk(2), targets.chunk(2), strict=True)):
        chain.blocks[0].uses_extra = number == 0
        (loss_of(chain, part, wanted) / 2).backward()
    sgd(chain).step()
    for result in ranks:
        found = result[f"used_by_one {where}"]
        assert_same(found["weights"], weights(chain))
        assert torch.equal(found["weights"]["blocks.1.extra"], before)
        assert found["found"]["blocks.0.extra"] and not found["found"]["blocks.1.extra"]


@pytest.mark.parametrize("where", WHERE)
def test_evaluation_sees_the_new_weights_and_frees_everything(ranks: Results, where: str) -> None:
    chain = Chain()
    chain.load_state_dict(one_step(0))
    for result in ranks:
        found = result[f"evaluated {where}"]
        assert found["loss"] == pytest.approx(float(loss_of(chain, *batch(0))), rel=1e-12)
        assert not any(found["left"])


def test_an_error_while_the_model_is_whole_leaves_pieces(ranks: Results) -> None:
    assert [result["whole_until_an_error messages"] for result in ranks] == [[False, True]] * 2


@pytest.mark.parametrize("where", WHERE)
def test_a_model_on_the_meta_device_is_made_unit_by_unit(ranks: Results, where: str) -> None:
    chain = Chain()
    for part in reversed(list(chain.modules())):
        programs.initialise(part)
    expected = one_process(0, chain=chain)
    for result in ranks:
        assert_same(result[f"deferred {where}"], expected)


def test_no_rank_ever_holds_a_model_that_is_made_on_the_meta_device(ranks: Results) -> None:
    """Half of 32 layers, and of one at a time the real one, the one that is cut, and what messages need."""
    for peak, whole in (result["bytes"] for result in ranks):
        assert whole / 2 <= peak <= whole * (1 / 2 + 4 / 32)


@pytest.mark.parametrize("where", WHERE)
def test_units_by_class_and_an_unreferenced_model(ranks: Results, where: str) -> None:
    for result in ranks:
        assert_same(result[f"units {where}"]["weights"], one_process(*range(NUM_STEPS)))
        assert result[f"forgotten {where}"]
        assert result[f"beside_another {where}"]


@pytest.mark.parametrize("name, most", [("float32", 1e-6), ("bfloat16", 1e-6)])
def test_losses_equal_those_of_fsdp2(ranks: Results, name: str, most: float) -> None:
    for result in ranks:
        found = result[f"fsdp2 {name}"]
        assert found["ours"] == pytest.approx(found["torch"], rel=most)
        assert found["ours"][-1] < found["ours"][0]


def test_refusals(ranks: Results) -> None:
    for result in ranks:
        zero, units, differ, meta, no_reset = result["refusals messages"]
        assert "zero is 4; give 1" in zero
        assert "Chain has no layer of class Conv2d" in units
        assert "build the same model on every rank" in differ
        assert "buffer scale is on the meta device" in meta
        assert "the model is on the meta device; say with initialise=" in no_reset
