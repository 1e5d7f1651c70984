"""A GPT-2 as the stages of a pipeline: where it is cut, which stage owns a weight, and how dp shares a stage."""

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from pllab import comm
from pllab.models import GPT2LMHeadModelParallel, layer_costs, layers_of
from pllab.models.layers import cut
from pllab.parallel import DataParallel, FullyShardedDataParallel, num_target_tokens
from pllab.pipeline import balance
from pllab.train.config import TrainConfig


def stages_of(model: GPT2LMHeadModelParallel, config: TrainConfig) -> list[nn.Sequential]:
    """The model's layers in balanced stages, all of them."""
    sizes = balance(layer_costs(model.config, config.max_length), config.num_stages)
    return cut(layers_of(model), sizes)


def owned(stages: Sequence[nn.Module]) -> Iterator[tuple[int, str, nn.Parameter]]:
    """Each parameter once, with the first stage that has it and its name in that stage."""
    counted: set[int] = set()
    for number, stage in enumerate(stages):
        for name, parameter in stage.named_parameters():
            if id(parameter) not in counted:
                counted.add(id(parameter))
                yield number, name, parameter


def shared(
    stages: nn.ModuleList, config: TrainConfig, mesh: comm.Mesh | None
) -> DataParallel | FullyShardedDataParallel:
    """A rank's stages shared over dp, their gradients sent once in a step; under zero a layer is a unit."""
    if not config.zero:
        return DataParallel(stages, mesh=mesh)
    units = {type(layer): None for stage in stages.children() for layer in stage.children()}
    return FullyShardedDataParallel(stages, zero=config.zero, units=list(units), mesh=mesh)


def mean_loss(sums: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A pipeline's loss: the mean over targets of the losses that the last layer has summed per row."""
    return sums.sum() / max(1, num_target_tokens(labels))
