"""A GPT-2 as the stages of a pipeline: where it is cut, and what works when."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from transformers import GPT2Config

from pllab import comm
from pllab.comm.devices import fork_rng
from pllab.data import IGNORED
from pllab.models import GPT2LMHeadModelParallel, layer_costs, layers_of
from pllab.models.layers import cut
from pllab.pipeline import balance, calibrate
from pllab.schedule import FAMILIES, Kind, Schedule, zero_bubble
from pllab.simulate import Costs
from pllab.train.config import TrainConfig


def stages_of(model: GPT2LMHeadModelParallel, config: TrainConfig) -> list[nn.Sequential]:
    """The model's layers in balanced stages, all of them."""
    return cut(layers_of(model), stage_sizes(model.config, config))


def stage_sizes(settings: GPT2Config, config: TrainConfig) -> list[int]:
    """Layers of each stage, embedding and head included, so that the slowest stage is as fast as can be."""
    return balance(layer_costs(settings, config.max_length), config.num_stages)


def schedule_of(
    stages: Sequence[nn.Sequential],
    config: TrainConfig,
    vocab_size: int,
    devices: Sequence[torch.device],
    mesh: comm.Mesh | None,
) -> Schedule:
    """The order of work of a configuration; `zero_bubble` is searched for what the stages cost on this machine.

    Args:
        stages: all of them, whose costs are measured with random tokens.
        config: names the schedule.
        vocab_size: entries of the vocabulary.
        devices: the lanes, or the device of this rank.
        mesh: the ranks, all of which call it; none for lanes.
    """
    rows = config.batch_size // config.dp
    num_parts = config.num_microbatches or min(2 * config.pp, rows)
    family = FAMILIES.get(config.schedule)
    if family is not None:
        return family.make(config.pp, num_parts)
    measured = max(num_parts, 2 * config.pp)
    options: Any = {"num_microbatches": measured, "repeats": 2, "timeout_s": config.timeout_s, "devices": devices}
    with fork_rng(devices[0]):
        ids = torch.randint(vocab_size, (measured * max(1, rows // num_parts), config.max_length))
        if mesh is None:
            costs = calibrate(stages, (ids, ids), ids, mean_loss, num_ranks=config.pp, **options)
        else:
            costs = _costs_of_ranks(stages, ids, options, comm.group_of(mesh, "pp"))
    limit = float(config.pp) if config.memory_limit is None else config.memory_limit
    return zero_bubble(config.pp, num_parts, costs, limit)


def _costs_of_ranks(
    stages: Sequence[nn.Sequential], ids: torch.Tensor, options: dict[str, Any], group: comm.Group | None
) -> Costs:
    """Each rank times its own stage, behind the embedding and before the head, which make its input and its loss."""
    own, last = comm.rank(group), len(stages) - 1
    # Copies, which go with the calibration: on a GPU the rank's own would stay there.
    before = [deepcopy(stages[0][:1])] if own > 0 else []
    after = [deepcopy(stages[last][-1:])] if own < last else []
    chain = [stage.to(options["devices"][0]) for stage in (*before, stages[own], *after)]
    costs = calibrate(chain, (ids, ids), ids, mean_loss, num_ranks=1, **options)
    mine = [costs.duration(len(before), kind) for kind in (Kind.F, Kind.I, Kind.W, Kind.B)]
    forward, backward_input, backward_weight, backward = zip(*comm.all_gather_object(mine, group), strict=True)
    of_ranks = Costs(forward, backward_input, backward_weight, backward=backward)
    return comm.all_gather_object(of_ranks)[0]  # all pipelines take the same schedule


def mean_loss(sums: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A pipeline's loss: the mean over targets of the losses that the last layer has summed per row."""
    return sums.sum() / (labels[:, 1:] != IGNORED).sum().clamp(min=1)  # counted where it is: nothing waits for a GPU


def packet_of(config: TrainConfig, num_microbatches: int) -> torch.Tensor:
    """What crosses from stage to stage for a micro-batch, without values: hidden states (rows, time, width)."""
    rows = -(-config.batch_size // config.dp // num_microbatches)
    shape = rows, config.max_length, config.n_embd
    return torch.empty(shape, dtype=getattr(torch, config.dtype), device="meta")
