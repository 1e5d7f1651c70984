"""DataParallel, and the loop over gradients, against one process, against torch's DDP, and by counted messages."""

import gc
import weakref
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from pllab import comm
from pllab.parallel import (
    DataParallel,
    average_gradients,
    broadcast_parameters,
    check_same_parameters_used,
    global_sum,
    num_target_tokens,
    token_weighted,
)
from tests.parallel import programs
from tests.parallel.programs import assert_same

Results = list[dict[str, Any]]
STRATEGIES = programs.STRATEGIES


@pytest.fixture(scope="module")
def ranks(launch_quickly: Any) -> Results:
    """Per rank, what each program returned; two gloo ranks, started once."""
    return launch_quickly(programs.run_all, 2)


linux = pytest.mark.skipif("shared" not in STRATEGIES, reason="memory is shared through /proc and /dev/shm")


@cache
def one_process(num_steps: int = programs.NUM_STEPS) -> dict[str, torch.Tensor]:
    """The weights after training on the concatenated batches, from rank 0's weights."""
    model = programs.Odd(seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=0.1)
    for step in range(num_steps):
        optimizer.zero_grad()
        programs.loss_of(model, *programs.batch(step)).backward()
        optimizer.step()
    return programs.weights(model)


@cache
def one_gradient(*steps: int) -> dict[str, torch.Tensor | None]:
    """The sum of the gradients of some batches at rank 0's weights."""
    model = programs.Odd(seed=0)
    for step in steps:
        programs.loss_of(model, *programs.batch(step)).backward()
    return programs.gradients(model)


@pytest.mark.ranks
@pytest.mark.parametrize("how", programs.HOWS)
def test_three_steps_equal_one_process_with_the_whole_batch(ranks: Results, how: str) -> None:
    """Torch's DDP, the last way, included: so all are equal to it."""
    for result in ranks:
        assert_same(result[f"train {how}"]["weights"], one_process())


@pytest.mark.ranks
@pytest.mark.parametrize("size", [1, 4])
def test_any_number_of_ranks_equals_one_process(size: int, quick_ranks: None) -> None:
    for result in comm.launch(programs.train_all, size, backend="gloo", timeout_s=120.0):
        for weights in result.values():
            assert_same(weights, one_process())


def test_the_comparison_above_would_notice_a_missing_step() -> None:
    with pytest.raises(AssertionError):
        assert_same(one_process(2), one_process(3))


@pytest.mark.ranks
def test_number_of_messages(ranks: Results) -> None:
    # Trained and used: the tied embedding once, the body's weight and bias.
    for result in ranks:
        assert result["train average"]["counts"] == [(3, 3)] * programs.NUM_STEPS
        assert result["train flat"]["counts"] == [(1, 1)] * programs.NUM_STEPS
        if "shared" in STRATEGIES:
            assert result["train shared"]["counts"] == [(1, 1)] * programs.NUM_STEPS
        num_buckets = result["train overlapped"]["num_buckets"]
        assert num_buckets > 1
        assert result["train overlapped"]["counts"] == [(num_buckets, num_buckets)] * programs.NUM_STEPS


@pytest.mark.ranks
@pytest.mark.parametrize("how", STRATEGIES)
def test_parameters_used_by_some_ranks_or_none(ranks: Results, how: str) -> None:
    model, x = programs.Branches(), torch.arange(6.0, dtype=torch.float64).view(2, 3)
    loss = [model(x + rank, rank == 0).square().mean() for rank in range(2)]
    (sum(loss) / 2).backward()
    expected = programs.gradients(model)
    assert expected["sometimes.weight"] is not None and expected["never.weight"] is None
    for result in ranks:
        assert_same(result[f"branches {how}"], expected)


@pytest.mark.ranks
@pytest.mark.parametrize("how", STRATEGIES)
def test_accumulation_sends_once_and_sums(ranks: Results, how: str) -> None:
    for result in ranks:
        accumulated = result[f"accumulate {how}"]
        per_step = 1 if how != "overlapped" else accumulated["num_buckets"]
        assert accumulated["counts"] == [(0, per_step)] * 3
        expected = one_gradient(0, 1, 2)
        for gradients in accumulated["gradients"]:
            assert_same(gradients, expected)


@pytest.mark.ranks
def test_a_gradient_of_the_quiet_backward_only_is_averaged_too(ranks: Results) -> None:
    model = programs.Branches()
    for rank in range(2):
        x = torch.ones(2, 3, dtype=torch.float64) * (rank + 1)
        ((model(x, True).sum() + model(x, False).sum()) / 2).backward()
    for result in ranks:
        assert_same(result["touched_before_no_sync"], programs.gradients(model))


@pytest.mark.ranks
@pytest.mark.parametrize("how", STRATEGIES)
def test_gradients_live_in_the_buckets(ranks: Results, how: str) -> None:
    trained = [parameter for parameter in programs.Odd().parameters() if parameter.requires_grad]
    for result in ranks:
        assert result[f"views {how}"]["inside"] == [True, True, True]
        numbers = sum(parameter.numel() for parameter in trained) + len(trained)
        assert result[f"views {how}"]["num_bytes"] == numbers * 8


@linux
@pytest.mark.ranks
def test_shared_and_flat_have_the_same_bits(ranks: Results) -> None:
    for result in ranks:
        for name, weight in result["train flat"]["weights"].items():
            assert torch.equal(weight, result["train shared"]["weights"][name]), name


@linux
@pytest.mark.ranks
def test_ranks_of_one_host_share_memory_and_give_it_back(ranks: Results) -> None:
    for result in ranks:
        assert result["sharing"]["default"] == (
            "shared",
            "shared: one sum in the memory of this host after backward, gloo",
        )
        assert result["sharing"]["mapped"] - result["sharing"]["dropped"] == 1  # one bucket, of both


@linux
@pytest.mark.ranks
def test_one_rank_without_memory_to_share_makes_all_send(ranks: Results) -> None:
    for result in ranks:
        strategy, reason, mapped = result["sharing"]["full"]
        assert (strategy, mapped) == ("flat", result["sharing"]["dropped"])
        assert reason == "flat: one flat message after backward, gloo"
        assert_same(result["sharing"]["gradients"], one_gradient(0))
        assert result["sharing"]["later"] == ("shared", mapped + 1)


@pytest.mark.ranks
def test_one_message_per_type(ranks: Results) -> None:
    for result in ranks:
        mixed = result["mixed_types"]
        assert mixed["count"] == mixed["types"] == 3
        for name, gradient in mixed["gradients"].items():
            expected = 1.5 if name.endswith("weight") else 1.0
            assert torch.equal(gradient, torch.full_like(gradient, expected)), name


@pytest.mark.ranks
def test_parameters_unfrozen_or_cast_after_wrapping_are_averaged(ranks: Results) -> None:
    for name in ("0.weight", "1.weight"):
        assert torch.equal(ranks[0]["unfreeze"][name], ranks[1]["unfreeze"][name])
        assert ranks[0]["unfreeze"][name].dtype == torch.float64


@pytest.mark.ranks
def test_a_step_after_a_failed_backward_is_right(ranks: Results) -> None:
    for result in ranks:
        assert result["after_error"]["raised"] == [True, True]
        assert result["after_error"]["count"] == 1
        assert_same(result["after_error"]["gradients"], one_gradient(0))


@pytest.mark.ranks
def test_overlapped_buckets_leave_during_backward_last_layer_first(ranks: Results) -> None:
    for result in ranks:
        overlap = result["overlap"]
        assert overlap["sent"] == overlap["buckets"] and len(overlap["buckets"]) == 4
        assert overlap["seen"] == [3]  # three layers were sent when the first layer's gradient appeared


@pytest.mark.ranks
def test_transposed_parameters_and_buffers_of_any_type(ranks: Results) -> None:
    for result in ranks:
        odd = result["odd_memory"]
        assert_same(odd["weights"], ranks[0]["odd_memory"]["weights"])
        assert odd["weights"]["count"] == 0 and odd["weights"]["mask"].tolist() == [True, False]
        for how in ("views", "average"):
            assert torch.equal(odd[how]["weight"], torch.full((2, 3), 1.5))


@pytest.mark.ranks
def test_refusals_name_the_value_and_the_way_out(ranks: Results) -> None:
    for result in ranks:
        said = result["refusals"]
        assert "rank 1 has parameter weight float32[3, 4]" in said["model"]
        assert "sparse=False" in said["sparse"]


def test_alone_it_changes_nothing() -> None:
    model = programs.Odd()
    wrapped = DataParallel(model)
    programs.loss_of(wrapped, *programs.batch(0)).backward()
    assert_same(programs.gradients(model), one_gradient(0))
    assert wrapped.module is model
    assert (wrapped.strategy, "no group" in wrapped.reason) == ("flat", True)


@pytest.mark.parametrize(("backend", "strategy"), [("gloo", "flat"), ("nccl", "overlapped")])
def test_the_backend_chooses_and_the_reason_names_it(
    monkeypatch: pytest.MonkeyPatch, backend: str, strategy: str
) -> None:
    monkeypatch.setattr(comm, "backend_name", lambda: backend)
    model = DataParallel(nn.Linear(1, 1))
    assert model.strategy == strategy
    assert backend in model.reason and strategy in model.reason


def test_no_sync_ends_with_its_block_even_by_an_exception() -> None:
    model = DataParallel(programs.Odd())
    with pytest.raises(KeyError), model.no_sync():
        raise KeyError
    with comm.record_messages() as ledger:
        programs.loss_of(model, *programs.batch(0)).backward()
    assert ledger.count("all_reduce") == 1


def test_evaluation_sends_nothing() -> None:
    model = DataParallel(programs.Odd())
    with comm.record_messages() as ledger, torch.no_grad():
        model(programs.batch(0)[0])
    assert ledger.count() == 0


def test_a_dropped_wrapper_frees_its_buckets_and_stops_sending() -> None:
    model = programs.Odd()
    wrapped = DataParallel(model)
    flat = weakref.ref(wrapped.buckets[0].flat)
    del wrapped
    gc.collect()
    assert flat() is None
    with comm.record_messages() as ledger:
        programs.loss_of(model, *programs.batch(0)).backward()
    assert ledger.count() == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"strategy": "eager"}, "strategy 'eager' is unknown; choose flat or overlapped, or leave it out"),
        ({"bucket_bytes": 0}, "bucket_bytes=0 holds nothing"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DataParallel(nn.Linear(1, 1), **arguments)


def test_nothing_to_train() -> None:
    with pytest.raises(ValueError, match="all 2 parameters of Linear are frozen"):
        DataParallel(nn.Linear(1, 1).requires_grad_(False))


# The loop to read first, alone and refused, and losses of ranks with 10 and with 100 targets.


@pytest.mark.ranks
def test_a_gradient_on_one_rank_only_is_named_on_every_rank(ranks: Results) -> None:
    for result in ranks:
        assert result["refusals"]["gradients"].startswith(
            "sometimes.weight has a gradient on rank 0 and none on rank 1;"
        )


def test_one_message_per_gradient_and_none_for_frozen_tied_or_unused() -> None:
    model = programs.Odd()
    programs.loss_of(model, *programs.batch(0)).backward()
    before = programs.gradients(model)
    with comm.record_messages() as ledger:
        average_gradients(model)
    assert [message.shape for message in ledger.messages] == [(11, 6), (6, 6), (6,)]
    assert all(torch.equal(before[n], p.grad) for n, p in model.named_parameters() if p.grad is not None)
    check_same_parameters_used(model)


def test_broadcast_sends_parameters_once_and_buffers() -> None:
    model = programs.Odd()
    with comm.record_messages() as ledger:
        broadcast_parameters(model)
    assert ledger.count("broadcast") == len(list(model.parameters())) + 1
    assert {message.peer for message in ledger.messages} == {0}


@cache
def of_unequal_targets() -> dict[str, torch.Tensor | None]:
    model = programs.Odd()
    ids, labels = (torch.cat(parts) for parts in zip(programs.unequal(0), programs.unequal(1), strict=True))
    logits = model(ids)[:, :-1].flatten(0, 1)
    nn.functional.cross_entropy(logits, labels[:, 1:].flatten()).backward()
    return programs.gradients(model)


@pytest.mark.ranks
def test_token_weighted_gives_the_one_process_gradient(ranks: Results) -> None:
    for result in ranks:
        assert result["tokens token_weighted"]["total"] == 110
        for name, gradient in of_unequal_targets().items():
            if gradient is not None:
                torch.testing.assert_close(result["tokens token_weighted"]["gradients"][name], gradient)


@pytest.mark.ranks
def test_the_mean_of_means_does_not(ranks: Results) -> None:
    expected = of_unequal_targets()["body.weight"]
    actual = ranks[0]["tokens mean of means"]["gradients"]["body.weight"]
    assert expected is not None
    assert (actual - expected).norm() > 0.1 * expected.norm()


@pytest.mark.ranks
def test_no_target_anywhere_is_refused(ranks: Results) -> None:
    for result in ranks:
        assert "0 target tokens on all ranks" in result["refusals"]["no targets"]


def test_targets_are_counted_after_the_shift() -> None:
    assert num_target_tokens(torch.tensor([[5, 6, -100], [7, 8, 9]])) == 3
    assert num_target_tokens(torch.tensor([[5], [6]])) == 0


def test_alone_it_is_the_mean() -> None:
    assert global_sum(3) == 3.0
    assert token_weighted(torch.tensor(6.0), 3).item() == 2.0


def test_a_known_total_sends_nothing_and_covers_accumulation() -> None:
    parts = [token_weighted(torch.tensor(loss), tokens, total=4) for loss, tokens in ((1.0, 1), (6.0, 3))]
    assert sum(parts).item() == 1.75
