"""Stages that begin with a layer that works in place, against the plain chain of the same layers."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from pllab.comm import launch
from pllab.pipeline import LaneExecutor, Pipe, WithDevice, checkpointed
from pllab.pipeline.in_place import overwrites_input
from pllab.schedule import Schedule, gpipe, one_f_one_b, zb_h1
from tests.pipeline import programs
from tests.pipeline.programs import IN_PLACE

mse = nn.functional.mse_loss


def expected(stages: list[nn.Sequential], x: torch.Tensor, y: torch.Tensor) -> tuple[float, list[torch.Tensor]]:
    """Loss and gradients of a plain chain in which nothing works in place."""
    plain = copy.deepcopy(nn.Sequential(*stages))
    for part in plain.modules():
        if hasattr(part, "inplace"):
            part.inplace = False
    loss = mse(plain(x), y)
    loss.backward()
    return loss.item(), [parameter.grad for parameter in plain.parameters()]


def assert_gradients(stages: list[nn.Sequential], gradients: list[torch.Tensor]) -> None:
    for parameter, gradient in zip(nn.Sequential(*stages).parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


@pytest.mark.parametrize("make", [gpipe, one_f_one_b, zb_h1])
@pytest.mark.parametrize("first", IN_PLACE)
def test_lanes_give_the_plain_models_loss_and_gradients_and_leave_the_batch(
    first: str, make: Callable[[int, int], Schedule]
) -> None:
    stages, (x, y) = programs.stages_in_place(first, 3), programs.batch_in_place()
    loss, gradients = expected(stages, x, y)
    before = x.clone()
    with LaneExecutor(make(3, 3), stages, mse, timeout_s=20) as executor:
        assert executor.step(x, y).loss == pytest.approx(loss, abs=1e-6)
    assert torch.equal(x, before)
    assert_gradients(stages, gradients)


@pytest.mark.ranks
def test_ranks_give_the_plain_models_loss_and_gradients() -> None:
    """Two stages a rank, so that some receive a message and some a tensor of this process."""
    for off in launch(programs.in_place_on_ranks, 2, backend="gloo", timeout_s=60):
        assert set(off) == set(IN_PLACE) and max(off.values()) < 1e-6


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("first", IN_PLACE)
def test_a_pipe_gives_the_plain_models_loss_and_gradients(first: str, recompute: bool) -> None:
    """With recompute the layers run twice, and both times from what came in."""
    stages, (x, y) = programs.stages_in_place(first, 3), programs.batch_in_place()
    loss, gradients = expected(stages, x, y)
    lanes = ["cpu:0", "cpu:1", "cpu:2"]
    with Pipe.from_partitions(stages, lanes, num_microbatches=3, recompute=recompute, timeout_s=20) as pipe:
        found = mse(pipe(x), y)
        found.backward()
    assert found.item() == pytest.approx(loss, abs=1e-6)
    assert_gradients(stages, gradients)


def dropped(inplace: bool, recompute: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    stages = [nn.Sequential(nn.Dropout(0.5, inplace), nn.Linear(4, 4)) for _ in range(2)]
    x = torch.randn(6, 4)
    with Pipe.from_partitions(stages, ["cpu:0", "cpu:1"], num_microbatches=3, recompute=recompute) as pipe:
        pipe(x).square().sum().backward()
    return [parameter.grad for parameter in nn.Sequential(*stages).parameters()]


def test_dropout_in_place_drops_what_dropout_drops() -> None:
    wanted = dropped(False, False)
    for recompute in (False, True):
        for ours, theirs in zip(dropped(True, recompute), wanted, strict=True):
            torch.testing.assert_close(ours, theirs)


class AddsOne(nn.Module):
    """Overwrites its input, and does not say so."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x += 1
        return x


def test_a_layer_that_overwrites_unannounced_is_named_with_the_way_out() -> None:
    stages = [nn.Sequential(nn.Linear(4, 4)), nn.Sequential(AddsOne(), nn.Linear(4, 4))]
    x = torch.randn(4, 4)
    with LaneExecutor(gpipe(2, 2), stages, mse, timeout_s=20) as executor:
        with pytest.raises(RuntimeError, match="in-place operation") as caught:
            executor.step(x, x)
    assert "the input of stage 1, begin the stage with x = x.clone()" in caught.value.__notes__[0]
    lanes = ["cpu:0", "cpu:1"]
    with Pipe.from_partitions(stages, lanes, num_microbatches=2, recompute=True, timeout_s=20) as pipe:
        with pytest.raises(ValueError, match="stage 1 overwrites its input, from which it is to be computed again"):
            pipe(x)


@pytest.mark.parametrize("first", [AddsOne(), nn.ReLU(inplace=True)])
@pytest.mark.parametrize("needs_grad", [False, True])
def test_a_checkpointed_stage_that_overwrites_its_input_is_refused(first: nn.Module, needs_grad: bool) -> None:
    """It would be computed again from what it left there, and its gradients would be of another input."""
    x = torch.randn(4, 4).requires_grad_(needs_grad) * 1
    with pytest.raises(ValueError, match="the stage overwrites its input, .* give its first layer inplace=False"):
        checkpointed(nn.Sequential(first, nn.Linear(4, 4)), x)


@pytest.mark.parametrize(
    ("stage", "answer"),
    [
        (nn.ReLU(inplace=True), True),
        (nn.Sequential(nn.Flatten(), nn.Sequential(WithDevice(nn.ReLU(inplace=True), "cpu:0"))), True),
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True)), False),
        (nn.Sequential(WithDevice(nn.Sequential(nn.Linear(2, 2)), "cpu:0"), nn.ReLU(inplace=True)), False),
        (nn.Sequential(nn.ReLU(), nn.Tanh()), False),
    ],
)
def test_only_stages_that_need_a_copy_get_one(stage: nn.Module, answer: bool) -> None:
    assert overwrites_input(stage) is answer
