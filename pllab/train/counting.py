"""A step on the meta device, where tensors have no values, for counting: its operations, and a pipeline's messages."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pllab import comm
from pllab.comm.collectives import in_world
from pllab.comm.ledger import note_tensor
from pllab.parallel.tensor import token_losses
from pllab.schedule import Kind
from pllab.train.torch_pipeline import TorchPipeline


class _Outline(NamedTuple):
    """All that a tensor on the meta device has."""

    size: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class RememberedShapes(TorchDispatchMode):
    """Inside the block, an operation on outlines that were seen before makes its tensors without asking torch again.

    A tensor without values is made by Python code in torch that takes up to milliseconds, and a step makes the same
    ones for every layer and micro-batch: a step of any model is several times as fast.

    Example: `with RememberedShapes(): model(ids).loss.backward()`, for a model and ids on the meta device.
    """

    def __init__(self) -> None:
        super().__init__()
        self._results: dict[object, Any] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and switching the compiler off takes longer than an operation

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],  # noqa: ARG002 - torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if not _makes_new_tensors(func):
            return func(*args, **options)
        key = func, _outlined(args), _outlined(tuple(options.items()))
        if key in self._results:
            return _made(self._results[key])
        result = func(*args, **options)
        outlined = _outlined(result)
        if all(isinstance(each, _Outline) and each.device.type == "meta" for each in _flat(outlined)):
            self._results[key] = outlined
        return result


@cache
def _makes_new_tensors(func: Any) -> bool:
    """Whether an operation of torch changes none of its arguments, and returns no view of one."""
    schema = func._schema
    changes = any(each.alias_info for each in (*schema.arguments, *schema.returns))
    return func.namespace == "aten" and not changes and bool(schema.returns)


def _outlined(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _Outline(value.shape, value.stride(), value.dtype, value.device)
    return tuple(map(_outlined, value)) if isinstance(value, tuple | list) else value


def _flat(outlined: Any) -> tuple[Any, ...]:
    return outlined if type(outlined) is tuple else (outlined,)


def _made(outlined: Any) -> Any:
    if isinstance(outlined, _Outline):
        size, stride, dtype, device = outlined
        return torch.empty_strided(size, stride, dtype=dtype, device=device)
    return tuple(map(_made, outlined))


Saved = tuple[torch.Tensor, torch.Tensor]


class CountedPipeline(TorchPipeline):
    """A rank's part of a pipelined step on the meta device: its stages run, and the ledger is told of its packets.

    PyTorch's runtime needs values, because its ranks vote before the first step. What stages send to each other follows
    from the schedule and the size of a packet. `packet` is like that of a micro-batch; losses are nan.
    """

    def __init__(self, *args: Any, packet: torch.Tensor) -> None:
        super().__init__(*args)
        self._packet, self._own = packet, comm.rank(self._group)

    def _run(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor,
        num_targets: int,  # noqa: ARG002 - nothing is divided
        trains: bool,  # noqa: ARG002 - a step is what is counted
    ) -> torch.Tensor:
        """Run this rank's actions, on micro-batches of equal size."""
        rows = len(self._packet)
        saved: dict[tuple[int, int], Saved] = {}
        for action in self._schedule.rows[self._own]:
            with self._timed(action):
                if action.kind is Kind.F:
                    saved[action.stage, action.microbatch] = self._forward(
                        action.stage, input_ids[:rows], labels[:rows]
                    )
                elif action.kind is not Kind.W:  # what I leaves to W sends nothing more
                    self._backward(action.stage, *saved.pop((action.stage, action.microbatch)))
        comm.all_reduce(torch.zeros((), dtype=torch.float64, device="meta"), self._group)  # of the loss
        return torch.tensor(float("nan"))

    def _forward(self, number: int, input_ids: torch.Tensor, labels: torch.Tensor) -> Saved:
        value = input_ids if number == 0 else torch.empty_like(self._packet, requires_grad=True)
        self._note("receive", number - 1, value)
        output = self._stages[number](value)
        if number == self._last:
            return value, token_losses(self._head, output[:, :-1], labels[:, 1:]).sum()
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
