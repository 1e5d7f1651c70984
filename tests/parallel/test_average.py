"""average_gradients alone and refused; its equality with one process is in test_data_parallel.py."""

from typing import Any

import pytest
import torch

from pllab import comm
from pllab.parallel import average_gradients, broadcast_parameters, check_same_gradients
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
    check_same_gradients(model)


def test_broadcast_sends_parameters_once_and_buffers() -> None:
    model = programs.Odd()
    with comm.record_messages() as ledger:
        broadcast_parameters(model)
    assert ledger.count("broadcast") == len(list(model.parameters())) + 1
    assert {message.peer for message in ledger.messages} == {0}
