"""A weight that stages on several ranks share: one gradient, summed once in a step.

Each rank has a copy, in memory of its own. Every step works with a leaf that stands for it, so that what the step
adds to the gradient is known apart from what was there before; the sum of these goes to every copy.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pllab.comm import make_groups, rank, sum_in_group
from pllab.pipeline.stage_work import as_sequential
from pllab.schedule import Schedule

Place = tuple[int, str]  # a stage, and the name of the weight in it


def tied_weights(stages: Sequence[nn.Module]) -> tuple[tuple[Place, ...], ...]:
    """Where stages share a parameter: one tuple of places for each such parameter.

    Example: `(((0, "0.wte.weight"), (3, "2.lm_head.weight")),)` for a GPT-2 in four stages.
    """
    places: dict[int, list[Place]] = defaultdict(list)
    for number, stage in enumerate(stages):
        for name, parameter in as_sequential(stage).named_parameters(remove_duplicate=False):
            places[id(parameter)].append((number, name))
    return tuple(tuple(found) for found in places.values() if len({number for number, _ in found}) > 1)


class Tied:
    """The tied weights that this rank shares with others; every rank makes one, with the same `tied`."""

    def __init__(
        self, tied: Sequence[Sequence[Place]], schedule: Schedule, modules: Mapping[int, nn.Sequential]
    ) -> None:
        homes = schedule.rank_of_stage
        everywhere = [(sorted({homes[stage] for stage, _ in places}), places) for places in tied]
        apart = [(ranks, places) for ranks, places in everywhere if len(ranks) > 1]
        groups = iter(make_groups([ranks for ranks, _ in apart]))
        mine = [places for ranks, places in apart if rank() in ranks]
        self._weights = [_Weight([place for place in places if place[0] in modules], next(groups)) for places in mine]
        self._modules = modules

    def stand_ins(self) -> dict[int, dict[str, torch.Tensor]]:
        """New leaves for one step, by stage and name."""
        named: dict[int, dict[str, torch.Tensor]] = {stage: {} for stage in self._modules}
        for weight in self._weights:
            weight.leaf = weight.copies(self._modules)[0].detach().requires_grad_()
            for stage, name in weight.places:
                named[stage][name] = weight.leaf
        return named

    def add_up(self) -> None:
        """Sum the leaves' gradients over the ranks and add the sum to every copy's.

        Raises:
            PeerError: another rank went away or did not come in time.
        """
        for weight in self._weights:
            grad = torch.zeros_like(weight.leaf) if weight.leaf.grad is None else weight.leaf.grad
            sum_in_group(weight.group, grad)
            for copy in weight.copies(self._modules):
                copy.grad = grad.clone() if copy.grad is None else copy.grad + grad


class _Weight:
    """One tied weight on this rank."""

    def __init__(self, places: Sequence[Place], group: Any) -> None:
        self.places = places
        self.group = group
        self.leaf = torch.empty(0)

    def copies(self, modules: Mapping[int, nn.Sequential]) -> list[nn.Parameter]:
        """This rank's parameters, each once."""
        found = [modules[stage].get_parameter(name) for stage, name in self.places]
        return list({id(parameter): parameter for parameter in found}.values())
