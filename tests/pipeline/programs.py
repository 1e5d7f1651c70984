"""Functions that the rank tests run on their ranks: a new process can only import what is in a module."""

import time
from typing import Any

import pytest
import torch
from torch import nn

from pllab.comm import all_reduce
from pllab.pipeline import to_torch
from pllab.schedule import Schedule, gpipe
from tests.pipeline.families import GENERATORS, next_token_loss, plain_copy, stages_of, tiny_gpt2, tokens, worst


def own(schedule: Schedule, stages: list[nn.Sequential], rank: int) -> dict[int, nn.Module]:
    return {stage: stages[stage] for stage in schedule.stages_of_rank(rank)}


def names_of(model: nn.Module, stages: dict[int, nn.Module]) -> set[str]:
    here = {id(parameter) for stage in stages.values() for parameter in stage.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in here}


def refusals(rank: int, size: int) -> None:
    linear = nn.Linear(4, 4)
    refused: list[tuple[Schedule, Any, str]] = [
        (gpipe(3, 2), {rank: linear}, "3 ranks and the group 2"),
        (gpipe(2, 2), {1 - rank: linear}, "runs stages"),
    ]
    for schedule, stages, words in refused:
        with pytest.raises(ValueError, match=words):
            to_torch(schedule, stages, nn.functional.mse_loss)


def against_the_plain_model(rank: int, size: int) -> None:
    """PyTorch's runtime of every family has the plain model's loss and gradients, and runs our rows.

    Under split backwards also what comes after a frozen beginning: PyTorch's I looks for weights on the way to the
    stage's input, and there is no way to one without a gradient.
    """
    frozen = [("zb_h1", 1), ("zero_bubble", 1), ("zbv", 1), ("zbv", 2), ("zbv", 3)]
    ids = tokens(8)
    for family, num_frozen in [*((family, 0) for family in GENERATORS), *frozen]:
        schedule, model = GENERATORS[family](size, 4), tiny_gpt2()
        stages = stages_of(model, schedule.num_stages)
        for stage in stages[:num_frozen]:
            stage.requires_grad_(False)
        plain, (loss,) = plain_copy(model, (ids, ids))
        mine = own(schedule, stages, rank)
        theirs = to_torch(schedule, mine, next_token_loss)
        if not num_frozen:
            rows = [[str(action) for action in theirs.pipeline_order[r] if action] for r in range(size)]
            assert rows == [[*map(str, row)] for row in schedule.rows], family
        assert abs(_their_loss(theirs, schedule, rank, ids) - loss) < 1e-5, (family, num_frozen)
        names = names_of(model, mine)
        trained = {name for name in names if model.get_parameter(name).requires_grad}
        assert all(model.get_parameter(name).grad is None for name in names - trained), (family, num_frozen)
        if schedule.rank_of_stage[0] != schedule.rank_of_stage[len(stages) - 1]:
            trained -= {name for name in trained if "wte" in name}  # the tied weight is for the caller to sum
        assert not trained or worst(model, plain, trained) < 1e-6, (family, num_frozen)


def _their_loss(theirs, schedule: Schedule, rank: int, ids: torch.Tensor) -> float:
    mine, losses = schedule.stages_of_rank(rank), []
    target = {"target": ids, "losses": losses} if schedule.num_stages - 1 in mine else {}
    theirs.step(*([ids] if 0 in mine else []), **target)
    total = torch.tensor([float(sum(loss.item() for loss in losses))])
    all_reduce(total)
    return total.item()


def few_targets() -> tuple[torch.Tensor, torch.Tensor]:
    """Rows with 7, 2, 0 and 5 tokens to predict, and what is predicted in them."""
    ids = tokens(4)
    labels = ids.clone()
    for row, count in enumerate((7, 2, 0, 5)):
        labels[row, count + 1 :] = -100
    return ids, labels


class Sleeps(nn.Linear):
    """A square layer that takes its time, forward and backward."""

    def __init__(self, width: int, forward_s: float, backward_s: float) -> None:
        super().__init__(width, width)
        self.forward_s, self.backward_s = forward_s, backward_s

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.forward_s)
        y = super().forward(x)
        y.register_hook(lambda _: time.sleep(self.backward_s))
        return y
