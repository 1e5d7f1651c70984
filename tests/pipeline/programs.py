"""Functions that the rank tests run on their ranks: a new process can only import what is in a module."""

import time

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


def what_does_not_fit(rank: int, size: int) -> list[str]:
    linear = nn.Linear(4, 4)
    tries = [
        (gpipe(3, 2), {rank: linear}),
        (gpipe(2, 2), {1 - rank: linear}),
        (gpipe(2, 2), {rank: "linear"}),
        (gpipe(2, 2), [linear]),
    ]
    words = []
    for schedule, stages in tries:
        try:
            to_torch(schedule, stages, nn.functional.mse_loss)  # type: ignore[arg-type]
        except ValueError as error:
            words.append(str(error))
    return words


def every_family(rank: int, size: int) -> dict[str, tuple[float, float, bool]]:
    """Per family: the errors of PyTorch's runtime in loss and worst gradient, and whether it runs our rows."""

    def cells(row) -> list[str]:
        return [str(action) for action in row if action is not None]

    seen, ids = {}, tokens(8)
    for family, make in GENERATORS.items():
        schedule, model = make(size, 4), tiny_gpt2()
        plain, (loss,) = plain_copy(model, ids)
        stages = stages_of(model, schedule.num_stages)
        mine = own(schedule, stages, rank)
        theirs = to_torch(schedule, mine, next_token_loss)
        same_rows = all(cells(row) == cells(theirs.pipeline_order[r]) for r, row in enumerate(schedule.rows))
        off = abs(_their_loss(theirs, schedule, rank, ids) - loss)
        tied = {name for name in names_of(model, mine) if "wte" in name}  # for the caller to sum
        seen[family] = off, worst(model, plain, names_of(model, mine) - tied), same_rows
    return seen


def frozen_beginning(rank: int, size: int) -> dict[str, tuple[float, float, bool]]:
    """Per split schedule and number of frozen stages: PyTorch's runtime against the plain model's loss and gradients.

    The last flag says whether what is frozen got no gradient.
    """
    seen, ids = {}, tokens(8)
    for family, num_frozen in (("zb_h1", 1), ("zero_bubble", 1), ("zbv", 1), ("zbv", 2), ("zbv", 3), ("zbv", 0)):
        schedule, model = GENERATORS[family](size, 4), tiny_gpt2()
        stages = stages_of(model, schedule.num_stages)
        for stage in stages[:num_frozen]:
            stage.requires_grad_(False)
        plain, (loss,) = plain_copy(model, ids)
        mine = own(schedule, stages, rank)
        theirs = to_torch(schedule, mine, next_token_loss)
        off = abs(_their_loss(theirs, schedule, rank, ids) - loss)
        names = names_of(model, mine)
        trained = {name for name in names if model.get_parameter(name).requires_grad}
        frozen_is_left = all(model.get_parameter(name).grad is None for name in names - trained)
        worst_of_trained = worst(model, plain, trained) if trained else 0.0
        seen[f"{family}, {num_frozen} stages"] = off, worst_of_trained, frozen_is_left
    return seen


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
