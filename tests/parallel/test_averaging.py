"""The loop to read first, alone and refused, and losses of ranks with 10 and with 100 targets.

That average_gradients equals one process is in test_data_parallel.py.
"""

from typing import Any

import pytest
import torch
from torch import nn

from pllab import comm
from pllab.parallel import (
    average_gradients,
    broadcast_parameters,
    check_same_parameters_used,
    global_sum,
    num_target_tokens,
    token_weighted,
)
from tests.parallel import programs


@pytest.mark.ranks
def test_a_gradient_on_one_rank_only_is_named_on_every_rank(ranks: list[dict[str, Any]]) -> None:
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


def one_process() -> dict[str, torch.Tensor | None]:
    model = programs.Odd()
    ids, labels = (torch.cat(parts) for parts in zip(programs.unequal(0), programs.unequal(1), strict=True))
    logits = model(ids)[:, :-1].flatten(0, 1)
    nn.functional.cross_entropy(logits, labels[:, 1:].flatten()).backward()
    return programs.gradients(model)


@pytest.mark.ranks
def test_token_weighted_gives_the_one_process_gradient(ranks: list[dict[str, Any]]) -> None:
    for result in ranks:
        assert result["tokens token_weighted"]["total"] == 110
        for name, gradient in one_process().items():
            if gradient is not None:
                torch.testing.assert_close(result["tokens token_weighted"]["gradients"][name], gradient)


@pytest.mark.ranks
def test_the_mean_of_means_does_not(ranks: list[dict[str, Any]]) -> None:
    expected = one_process()["body.weight"]
    actual = ranks[0]["tokens mean of means"]["gradients"]["body.weight"]
    assert expected is not None
    assert (actual - expected).norm() > 0.1 * expected.norm()


@pytest.mark.ranks
def test_no_target_anywhere_is_refused(ranks: list[dict[str, Any]]) -> None:
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
