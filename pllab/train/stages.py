"""A GPT-2 as the stages of a pipeline: where it is cut, which stage owns a weight, and how dp shares a stage."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from transformers import GPT2Config

from pllab import comm
from pllab.data import IGNORED
from pllab.models import GPT2LMHeadModelParallel, layer_costs, layers_of
from pllab.models.layers import cut
from pllab.parallel import DataParallel, FullyShardedDataParallel
from pllab.pipeline import balance
from pllab.train.config import TrainConfig


def stages_of(model: GPT2LMHeadModelParallel, config: TrainConfig) -> list[nn.Sequential]:
    """The model's layers in balanced stages, all of them."""
    return cut(layers_of(model), stage_sizes(model.config, config))


def stage_sizes(settings: GPT2Config, config: TrainConfig) -> list[int]:
    """Layers of each stage, embedding and head included, so that the slowest stage is as fast as can be."""
    return balance(layer_costs(settings, config.max_length), config.num_stages)


def owned(stages: Sequence[nn.Module]) -> Iterator[tuple[int, nn.Parameter]]:
    """Each parameter once, with the first stage that has it."""
    counted: set[int] = set()
    for number, stage in enumerate(stages):
        for parameter in stage.parameters():
            if id(parameter) not in counted:
                counted.add(id(parameter))
                yield number, parameter


def packet_of(config: TrainConfig, num_microbatches: int) -> torch.Tensor:
    """What crosses from stage to stage for a micro-batch, without values: hidden states (rows, time, width)."""
    rows = -(-config.batch_size // config.dp // num_microbatches)
    shape = rows, config.max_length, config.n_embd
    return torch.empty(shape, dtype=getattr(torch, config.dtype), device="meta")


def shared(
    stages: nn.ModuleList, config: TrainConfig, mesh: comm.Mesh | None
) -> DataParallel | FullyShardedDataParallel:
    """A rank's stages shared over dp, their gradients sent once in a step; under zero a layer is a unit."""
    if not config.zero:
        return DataParallel(stages, mesh=mesh)
    units = {type(layer): None for stage in stages.children() for layer in stage.children()}
    return FullyShardedDataParallel(stages, zero=config.zero, units=list(units), mesh=mesh)


def unsent(replica: DataParallel | FullyShardedDataParallel | None) -> AbstractContextManager[None]:
    """A block for the forwards and backwards of a schedule: on whole weights, and nothing is sent over dp."""
    if isinstance(replica, FullyShardedDataParallel):
        return replica.held()
    return replica.no_sync() if replica else nullcontext()


def mean_loss(sums: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A pipeline's loss: the mean over targets of the losses that the last layer has summed per row."""
    return sums.sum() / (labels[:, 1:] != IGNORED).sum().clamp(min=1)  # counted where it is: nothing waits for a GPU


def first_mean(outputs: tuple[torch.Tensor, torch.Tensor], _: torch.Tensor) -> torch.Tensor:
    """Stands for the loss of a stage in the middle, which costs next to nothing."""
    return outputs[0].float().mean()


class Weightless(nn.Module):
    """Passes hidden states and labels on, and needs a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.zero = nn.Parameter(torch.zeros(()))

    def forward(self, value: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """The hidden states as they are."""
        hidden, labels = value
        return hidden + self.zero.to(hidden.dtype), labels
