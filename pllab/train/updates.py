"""The update of the weights: the optimizer of a process, under a schedule of the learning rate.

States are saved and restored by the names of parameters: their numbers depend on how the model is cut.
"""

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LambdaLR

from pllab.train.config import TrainConfig


class Part(NamedTuple):
    """What a process has of a parameter, and its state in the optimizer."""

    name: str
    parameter: nn.Parameter
    state: dict[str, torch.Tensor]


class Updates:
    """The optimizer of one process, for the parameters that it trains.

    Example:

        updates = Updates(model, names, config)
        updates.begin(num_steps=96)
        loss.backward()
        updates.step()
    """

    def __init__(self, model: nn.Module, names: Iterable[str], config: TrainConfig) -> None:
        self._config = config
        self._names = sorted(names)
        self._scheduler: LambdaLR | None = None
        parameters = [model.get_parameter(name) for name in self._names]
        kind: Any = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[config.optimizer]
        # Fused, it is one call of torch for all of them; for DTensors and on the meta device torch has no such call.
        is_plain = not any(isinstance(parameter, DTensor) or parameter.is_meta for parameter in parameters)
        self.optimizer = kind(parameters, config.learning_rate, weight_decay=0.0, fused=is_plain or None)

    def begin(self, num_steps: int, done: int = 0) -> None:
        """Start the schedule of the learning rate over `num_steps` steps, of which `done` lie behind a resumed run."""
        factor = partial(learning_rate_factor, num_steps=num_steps, config=self._config)
        self.optimizer.param_groups[0]["initial_lr"] = self._config.learning_rate
        self._scheduler = LambdaLR(self.optimizer, factor, last_epoch=done - 1)

    def step(self) -> float:
        """Update all parameters, forget their gradients, and return the learning rate that was used."""
        rate: float = self.optimizer.param_groups[0]["lr"]
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self._scheduler is not None:
            self._scheduler.step()
        return rate

    def parts(self) -> Iterator[Part]:
        """Every parameter of this process with its name and its optimizer's state, which is filled to restore it."""
        for name, parameter in zip(self._names, self.optimizer.param_groups[0]["params"], strict=True):
            yield Part(name, parameter, self.optimizer.state[parameter])


def learning_rate_factor(step: int, num_steps: int, config: TrainConfig) -> float:
    """The share of the learning rate that a step takes, counted from 0.

    Example, cosine with 2 steps of warm-up, over 6 steps:

        step      0     1     2     3     4     5
        factor   1/3   2/3    1   0.85  0.5   0.15

    Source: the warm-up is torch's LinearLR from 1/(N+1), the rest CosineAnnealingLR, or LinearLR to 0.
    """
    warmup = config.warmup_steps
    if step < warmup:
        return (step + 1) / (warmup + 1)
    progress = min(1.0, (step - warmup) / max(1, num_steps - warmup))
    falling = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    return falling[config.lr_schedule]
