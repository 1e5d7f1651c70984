"""A weight that stages on several ranks share: one gradient, summed once in a step.

Each rank has a copy, in memory of its own. What was in its gradient is put aside for the time of a step, so that what
the step adds is known apart; the sum of these goes to every copy, and what was put aside comes back.
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

    def put_aside(self) -> None:
        """Begin a step with no gradient."""
        for weight in self._weights:
            copies = weight.copies(self._modules)
            weight.before = [copy.grad for copy in copies]
            for copy in copies:
                copy.grad = None

    def add_up(self) -> None:
        """Sum what the step added over the ranks and give every copy the sum and what it had before.

        Raises:
            PeerError: another rank went away or did not come in time.
        """
        for weight in self._weights:
            copies = weight.copies(self._modules)
            added = torch.zeros_like(copies[0], requires_grad=False)
            for copy in copies:
                if copy.grad is not None:
                    added += copy.grad
            sum_in_group(weight.group, added)
            for copy, before in zip(copies, weight.before, strict=True):
                copy.grad = before
                if copy.requires_grad:
                    copy.grad = added.clone() if before is None else before + added


class _Weight:
    """One tied weight on this rank."""

    def __init__(self, places: Sequence[Place], group: Any) -> None:
        self.places = places
        self.group = group
        self.before: list[torch.Tensor | None] = []

    def copies(self, modules: Mapping[int, nn.Sequential]) -> list[nn.Parameter]:
        """This rank's parameters, each once."""
        found = [modules[stage].get_parameter(name) for stage, name in self.places]
        return list({id(parameter): parameter for parameter in found}.values())
