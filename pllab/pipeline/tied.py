"""A weight that several stages share, such as a language model's embedding: one gradient, wherever the stages are.

On lanes the stages are in one process. The first stage that has the weight owns it; each later one works with a shadow,
the same values as a separate leaf, so that two workers never add to one gradient and the sum does not depend on
timing. On ranks each process has a copy, and what a step adds to the copies is summed once over the ranks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from pllab.comm import Group, all_gather_object, all_reduce, make_groups, rank
from pllab.comm.collectives import in_world
from pllab.pipeline.split import as_sequential
from pllab.schedule import Schedule

Place = tuple[int, str]  # a stage, and the name of the weight in it


class Shared(NamedTuple):
    """A parameter of an earlier stage under the name it has in this one."""

    stage: int
    name: str
    parameter: nn.Parameter

    def shadow(self, device: torch.device) -> torch.Tensor:
        """The values as a new leaf on the stage's device; on the same device nothing is copied."""
        return self.parameter.detach().to(device).requires_grad_(self.parameter.requires_grad)


def shared_parameters(stages: Sequence[nn.Module]) -> list[Shared]:
    """Find the parameters that a stage shares with an earlier one; each comes once, under one of its names.

    Raises:
        ValueError: two stages hold the same module, so that two workers would run it at once.
    """
    owner: dict[int, int] = {}  # the first stage of a module or a parameter, by identity
    shared = []
    for number, stage in enumerate(stages):
        for name, module in stage.named_modules():
            if next(module.parameters(), None) is not None and owner.setdefault(id(module), number) != number:
                raise ValueError(
                    f"layer {name!r} of stage {number} is the same module as one of stage {owner[id(module)]}; "
                    "use two modules that share the parameter"
                )
        for name, parameter in stage.named_parameters():
            if owner.setdefault(id(parameter), number) != number:
                shared.append(Shared(number, name, parameter))
    return shared


def tie_gradients(first: nn.Parameter, last: nn.Parameter) -> None:
    """Give both copies of a tied weight the sum of their gradients, so that they take the same step.

    Call it once a step, after its last backward and before the optimizer's step, on copies that began with equal
    values. A copy without a gradient counts as zero.

    Example: gradients 1 and 10 before the call, 11 and 11 after it.

    Source: Megatron-LM, where an all-reduce between the first and the last stage does it. Lesson 07.
    """
    grads = [copy.grad for copy in (first, last) if copy.grad is not None]
    if not grads:
        return
    for copy in (first, last):
        copy.grad = torch.stack([grad.to(copy.device) for grad in grads]).sum(0)


def tied_weights(stages: Sequence[nn.Module]) -> tuple[tuple[Place, ...], ...]:
    """Where stages share a parameter: one tuple of places for each such parameter.

    Example: `(((0, "0.wte.weight"), (3, "2.lm_head.weight")),)` for a GPT-2 in four stages.
    """
    places: dict[int, list[Place]] = defaultdict(list)
    for number, stage in enumerate(stages):
        for name, parameter in as_sequential(stage).named_parameters(remove_duplicate=False):
            places[id(parameter)].append((number, name))
    return tuple(tuple(uses) for uses in places.values() if len({number for number, _ in uses}) > 1)


class Tied:
    """The tied weights that this rank shares with others; every rank makes one, with the same `tied`.

    During a step the earlier gradients are set aside, so that only what the step adds is summed.
    """

    def __init__(
        self,
        tied: Sequence[Sequence[Place]],
        schedule: Schedule,
        modules: Mapping[int, nn.Sequential],
        group: Group | None = None,
    ) -> None:
        homes = {stage: in_world(number, group) for stage, number in schedule.rank_of_stage.items()}
        members = [(tuple(sorted({homes[stage] for stage, _ in places})), places) for places in tied]
        apart = [(ranks, places) for ranks, places in members if len(ranks) > 1]
        # Every rank makes every group, also those of other pipelines beside this one.
        everywhere = sorted({ranks for part in all_gather_object([ranks for ranks, _ in apart]) for ranks in part})
        groups = dict(zip([ranks for ranks in everywhere if rank() in ranks], make_groups(everywhere), strict=True))
        self._modules = modules
        self._weights = [(places, groups[ranks]) for ranks, places in apart if rank() in ranks]
        for ranks, places in apart:
            for copy in self._copies(places):
                copy.num_stages = len(ranks)  # type: ignore[attr-defined]  # read where norms are summed over ranks

    @contextmanager
    def summed(self) -> Iterator[None]:
        """Sum over the ranks what the block adds to the weights' gradients; every copy gets the sum.

        Raises:
            PeerError: another rank went away or did not come in time.
        """
        everywhere = [place for places, _ in self._weights for place in places]
        before = [copy.grad for copy in self._copies(everywhere)]
        for copy in self._copies(everywhere):
            copy.grad = None
        try:
            yield
            totals = [self._added(places, group) for places, group in self._weights]
        finally:  # what was there before outlives a step that fails
            for copy, grad in zip(self._copies(everywhere), before, strict=True):
                copy.grad = grad
        for (places, _), added in zip(self._weights, totals, strict=True):
            for copy in self._copies(places):
                if copy.requires_grad:
                    copy.grad = added.clone() if copy.grad is None else copy.grad + added

    def _copies(self, places: Iterable[Place]) -> list[nn.Parameter]:
        """This rank's parameters at the places, each once; looked up anew, because sharded stages swap theirs."""
        mine = [self._modules[stage].get_parameter(name) for stage, name in places if stage in self._modules]
        return list({id(parameter): parameter for parameter in mine}.values())

    def _added(self, places: Sequence[Place], group: Group) -> torch.Tensor:
        """The sum of all copies' gradients, on all ranks."""
        copies = self._copies(places)
        total = torch.zeros_like(copies[0], requires_grad=False)
        for copy in copies:
            if copy.grad is not None:
                total += copy.grad
        all_reduce(total, group)
        return total
