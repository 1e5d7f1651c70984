"""One training step, the same for all four modes: forward, token-weighted loss, backward, clip, update.

The loss of a step is the sum over the target tokens of the whole batch divided by their number. A mean of the
ranks' means would weigh a token by how short its neighbours happen to be.
"""

from dataclasses import dataclass

import torch
from torch import nn

from pllab.parallel import global_sum, num_target_tokens, token_weighted
from pllab.train.config import TrainConfig

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class StepRecord:
    """What one rank knows of a step without having waited for its GPU."""

    loss_sum: torch.Tensor
    """Sum of the losses of this rank's target tokens, a scalar on the device."""
    num_targets: int
    """Target tokens of this rank."""

    @property
    def mean_loss(self) -> float:
        """Loss per target token of this rank; waits for the device."""
        return self.loss_sum.item() / max(1, self.num_targets)


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, device: torch.device, config: TrainConfig
) -> StepRecord:
    """Train on this rank's share of a batch: `input_ids` and `labels`, both (rows, time) int64."""
    num_targets = num_target_tokens(batch["labels"])
    total = global_sum(num_targets)  # before the forward is queued, so that a GPU is not waited for
    if not total:
        raise ValueError(
            f"max_length {config.max_length} cuts off every target of a batch, so there is nothing to learn; "
            "give a larger max_length"
        )
    loss_sum = sum_of_losses(model, batch, device)
    token_weighted(loss_sum, num_targets, total=total).backward()
    if config.gradient_clipping is not None:
        nn.utils.clip_grad_norm_(model.parameters(), config.gradient_clipping)
    optimizer.step()
    optimizer.zero_grad()
    return StepRecord(loss_sum.detach(), num_targets)


def sum_of_losses(model: nn.Module, batch: Batch, device: torch.device) -> torch.Tensor:
    """Cross-entropy summed over the target tokens of a batch, a scalar in nats."""
    inputs = {name: batch[name].to(device, non_blocking=True) for name in ("input_ids", "labels")}
    return model(**inputs, num_items_in_batch=1).loss


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Make the optimizer over the parameters in order of their names, which no mode changes."""
    parameters = [parameter for _, parameter in sorted(model.named_parameters())]
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=config.learning_rate)
    return torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=0.0)
