"""Parameters that live in more than one stage, such as a language model's tied embedding.

The first stage that has such a parameter owns it. Every later stage works with a shadow: the same values as a leaf
of its own, so that two workers never add to one gradient at the same time and the sum does not depend on timing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn


class Shared(NamedTuple):
    """A parameter of an earlier stage under the name it has in this one."""

    stage: int
    name: str
    parameter: nn.Parameter

    def shadow(self, device: torch.device) -> torch.Tensor:
        """The values as a new leaf on the stage's device; on the same device nothing is copied."""
        values = self.parameter.detach().to(device.type if device.type == "cpu" else device)
        return values.requires_grad_(self.parameter.requires_grad)


def shared_parameters(partitions: Sequence[nn.Module]) -> list[Shared]:
    """Find the parameters of later partitions that an earlier one has too; one name of each, for all its names there.

    Raises:
        ValueError: two partitions hold the same module, so that two workers would run it at once.
    """
    _refuse_shared_modules(partitions)
    owned: set[int] = set()
    found = []
    for index, partition in enumerate(partitions):
        named = list(partition.named_parameters())
        found += [Shared(index, name, parameter) for name, parameter in named if id(parameter) in owned]
        owned |= {id(parameter) for _, parameter in named}
    return found


def _refuse_shared_modules(partitions: Sequence[nn.Module]) -> None:
    owner: dict[int, int] = {}
    for index, partition in enumerate(partitions):
        for name, module in partition.named_modules():
            if next(module.parameters(), None) is None:
                continue
            if owner.setdefault(id(module), index) != index:
                raise ValueError(
                    f"layer {name!r} of stage {index} is the same module as one of stage {owner[id(module)]}; "
                    "use two modules that share the parameter"
                )
