"""A rank's part of a pipelined step on tensors without values, for counting: its stages run, its packets are noted.

PyTorch's runtime needs values: its ranks vote before the first step. The messages between stages are told by the
schedule and the size of a packet, so this runs each action of the rank's row and tells the ledger what it would send.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pllab import comm
from pllab.comm.collectives import in_world
from pllab.comm.ledger import note_tensor
from pllab.models.layers import token_losses
from pllab.pipeline.tied import Place, Tied
from pllab.schedule import Action, Kind, Schedule

Saved = tuple[torch.Tensor, torch.Tensor]


class CountedPipeline:
    """A rank's part of a step on the meta device; `hidden` is like the packet of a micro-batch, and losses are nan."""

    def __init__(
        self,
        schedule: Schedule,
        stages: Mapping[int, nn.Sequential],
        tied: Sequence[Sequence[Place]],
        group: comm.Group | None,
        hidden: torch.Tensor,
    ) -> None:
        self._schedule, self._stages, self._group, self._hidden = schedule, stages, group, hidden
        self._tied = Tied(tied, schedule, stages, group)
        self._own, self._last = comm.rank(group), schedule.num_stages - 1
        self._current: Action | None = None

    def running(self) -> Action | None:
        """The action that runs now."""
        return self._current

    def step(self, input_ids: torch.Tensor, labels: torch.Tensor) -> float:
        """Run this rank's actions, on micro-batches of equal size."""
        rows = len(self._hidden)
        saved: dict[tuple[int, int], Saved] = {}
        with self._tied.summed():
            for action in self._schedule.rows[self._own]:
                self._current, key = action, (action.stage, action.microbatch)
                if action.kind is Kind.F:
                    saved[key] = self._forward(action.stage, input_ids[:rows], labels[:rows])
                elif action.kind is not Kind.W:  # what I leaves to W sends nothing more
                    self._backward(action.stage, *saved.pop(key))
            self._current = None
        comm.all_reduce(torch.zeros((), dtype=torch.float64, device="meta"), self._group)  # of the loss
        return float("nan")

    def _forward(self, number: int, input_ids: torch.Tensor, labels: torch.Tensor) -> Saved:
        value = input_ids if number == 0 else torch.empty_like(self._hidden, requires_grad=True)
        self._note("receive", number - 1, value)
        output = self._stages[number](value)
        if number == self._last:
            head: Any = self._stages[number][-1].lm_head
            return value, token_losses(head, output[:, :-1], labels[:, 1:]).sum()
        self._note("send", number + 1, output)
        return value, output

    def _backward(self, number: int, value: torch.Tensor, output: torch.Tensor) -> None:
        self._note("receive", number + 1, output)
        torch.autograd.backward(output, torch.empty_like(output))
        self._note("send", number - 1, value)

    def _note(self, name: str, stage: int, packet: torch.Tensor) -> None:
        """Tell the ledger of a packet from or to another stage, if that is on another rank."""
        rank = self._schedule.rank_of_stage.get(stage, self._own)
        if rank != self._own:
            note_tensor(name, packet, in_world(rank, self._group), self._group)
