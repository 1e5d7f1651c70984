"""Data parallelism to train with: each rank runs the whole model on its share of the batch.

`average_gradients` sends one message per parameter after backward. `DataParallel` sends a few large ones, at the end of
`loss.backward()` or while it still runs; ranks on one host add up in shared memory and send none. This file decides
when messages leave; `bucketing.py` decides where in memory each gradient lies.

With GPUs the network moves bytes while the GPU computes, so messages leave early. On CPUs the same cores do both, so
the way with the fewest copies wins: one sum in shared memory, or one message where memory cannot be shared.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from pllab import comm
from pllab.arguments import require
from pllab.comm.devices import gpu_backend
from pllab.comm.shared_memory import SharedBuffer
from pllab.parallel.averaging import broadcast_parameters, check_same_model
from pllab.parallel.bucketing import plan_buckets

Strategy = Literal["flat", "overlapped", "shared"]

_MIB = 2**20
_REASONS: dict[Strategy, str] = {
    "flat": "one flat message after backward",
    "overlapped": "messages while backward still runs",
    "shared": "one sum in the memory of this host after backward",
}


class Averaging(nn.Module):
    """What `DataParallel` and `FullyShardedDataParallel` share: when gradients are averaged or only collected."""

    _is_synchronizing = True
    _is_in_backward = False

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        for part in module.modules():
            is_plain = not isinstance(part, Averaging)
            require(is_plain, f"a {type(part).__name__} averages its gradients already; use it as it is")
        self.module = module

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Collect gradients without sending them; the next backward outside sends the sum of all of them.

        Example, one step of two micro-batches and one message:

            with model.no_sync():
                loss(model(first)).backward()
            loss(model(second)).backward()
        """
        before, self._is_synchronizing = self._is_synchronizing, False
        try:
            yield
        finally:
            self._is_synchronizing = before

    def average_now(self) -> None:
        """Average the gradients that `no_sync` collected, without another backward; one set of messages."""
        self._begin()
        self._finish()

    def _enter_backward(self) -> None:
        """Have autograd call `_finish` when this backward ends, on the thread that called it."""
        if not self._is_in_backward:
            self._is_in_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _begin(self) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError


class DataParallel(Averaging):
    """A model whose gradients are averaged over the ranks by the time `loss.backward()` returns.

    Example, on every rank, with an ordinary loop:

        model = DataParallel(model)                # rank 0's weights everywhere
        loss = model(input_ids, labels=labels).loss
        loss.backward()                            # gradients are now the mean over the ranks
        optimizer.step()

    Drawn, for three gradients that appear in the order c, b, a:

        flat         backward  c  b  a |          all_reduce [c b a] | step
        overlapped   backward  c  b  a |          wait | step
        (messages)              [c][b ][a ]
        shared       backward  c  b  a | sum | step

    The wrapped model is `.module`, so `model.module.state_dict()` saves and loads without this class.
    A parameter that no rank used keeps `grad = None`; if only some ranks used it, the others count as zeros.
    Buffers, such as running means, start out equal; after that each rank keeps its own.

    Every rank must call `backward()` the same number of times, on a loss that reaches at least one parameter. A module
    that runs backwards on other threads (a pipeline) needs `no_sync` around it, and `average_now()` afterwards.

    Args:
        module: the same model on each rank.
        strategy: when messages leave, "flat" or "overlapped". The default is "overlapped" under nccl. Under gloo no
            message leaves where all ranks can share memory (`pllab.comm.shared_buffer`); elsewhere it is "flat".
            `.strategy` is the one in use, and `.reason` describes it.
        bucket_bytes: the most bytes in one message of the overlapped strategy.
        mesh: its dp axis is averaged over; by default all ranks are.

    Raises:
        ValueError: the strategy is unknown, the ranks have different models, or the module is wrapped already; in
            forward, also if parameters were frozen, unfrozen, cast or moved since.

    Source: Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020.
    """

    def __init__(
        self,
        module: nn.Module,
        strategy: Literal["flat", "overlapped"] | None = None,
        bucket_bytes: int = 25 * _MIB,
        *,
        mesh: comm.Mesh | None = None,
    ) -> None:
        super().__init__(module)
        self._group = comm.group_of(mesh, "dp")
        self._num_ranks = comm.world_size(self._group)
        is_known = strategy in (None, "flat", "overlapped")
        require(is_known, f"strategy {strategy!r} is unknown; choose flat or overlapped, or leave it out")
        check_same_model(module, self._group)
        broadcast_parameters(module, self._group)
        self._works: list[Any] = []
        self._planned_for = _trainable(module)
        # Under nccl the network moves bytes by itself; under any other backend all ranks may be on one host.
        first_choice: Strategy = "overlapped" if comm.backend_name() == gpu_backend() else "shared"
        self.strategy: Strategy = strategy or first_choice
        most = bucket_bytes if self.strategy == "overlapped" else float("inf")
        self._shared: list[SharedBuffer | None] = []
        self.buckets = plan_buckets(module.parameters(), most, self._new_flat)
        if self.strategy == "shared" and None in self._shared:  # only the attempt shows whether ranks can share memory
            self.strategy = "flat"
        for number, bucket in enumerate(self.buckets):
            for index, parameter in enumerate(bucket.parameters):
                parameter.register_post_accumulate_grad_hook(weak_hook(self._arrived, number, index))
        self._begin()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the wrapped model on this rank's share of the batch."""
        if torch._C._current_graph_task_id() == -1:  # not where a checkpoint computes the whole model again
            self._begin()
        if torch.is_grad_enabled():
            told = "parameters were frozen, unfrozen, cast or moved after wrapping, so the buckets do not fit"
            require(self._planned_for == _trainable(self.module), f"{told}; change the model first, then wrap it")
        return self.module(*args, **kwargs)

    def _new_flat(self, numel: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Memory for a bucket, shared if that is the strategy and the ranks are able to."""
        buffer = comm.shared_buffer(numel, dtype, device, self._group) if self.strategy == "shared" else None
        self._shared.append(buffer)
        return torch.zeros(numel, dtype=dtype, device=device) if buffer is None else buffer.tensor

    @property
    def reason(self) -> str:
        """The strategy in words, and the backend that it was chosen for."""
        return f"{self.strategy}: {_REASONS[self.strategy]}, {comm.backend_name() or 'with no group'}"

    def _begin(self) -> None:
        """Forget an unfinished backward, so that an exception in it does not affect the next one."""
        self._wait()  # its messages still write into the buckets
        self._is_in_backward = False
        self._num_sent = 0
        for bucket in self.buckets:
            bucket.empty()

    def _arrived(self, number: int, index: int, _: torch.Tensor) -> None:
        """A gradient is ready: put it into its bucket, and send the bucket if its turn has come."""
        bucket = self.buckets[number]
        if not self._is_synchronizing:
            bucket.keep(index)
            return
        self._enter_backward()
        bucket.store(index, self._num_ranks)
        if self.strategy == "overlapped":
            # Full buckets go, but never before an earlier one: ranks pair messages by their order.
            while self._num_sent < len(self.buckets) and self.buckets[self._num_sent].is_full:
                self._send()

    def _send(self) -> None:
        """Sum the next bucket over the ranks; the last one also says which gradients this rank has."""
        number = self._num_sent
        bucket = self.buckets[number]
        self._num_sent += 1
        if self._num_sent == len(self.buckets):
            bucket.write_used(self._has_gradient())
        if self.strategy == "overlapped":
            self._works.append(comm.all_reduce_async(bucket.flat, self._group))
        elif shared := self._shared[number]:
            shared.all_reduce()
        else:
            comm.all_reduce(bucket.flat, self._group)

    def _finish(self) -> None:
        """End of backward: send the remaining buckets, wait for all, and use gradients that only other ranks had."""
        while self._num_sent < len(self.buckets):
            self.buckets[self._num_sent].store_rest(self._num_ranks)
            self._send()
        self._wait()
        self._adopt_gradients_of_others()
        self._begin()

    def _wait(self) -> None:
        """Wait for the messages under way."""
        while self._works:
            self._works.pop().wait()

    def _adopt_gradients_of_others(self) -> None:
        """Set gradients that another rank had and this one did not: the mean is in the view already."""
        mine = self._has_gradient()
        if all(mine):
            return
        used = self.buckets[-1].used.tolist()  # on a GPU this waits, so only ranks that miss a gradient ask
        slots = ((bucket, index) for bucket in self.buckets for index in range(len(bucket.parameters)))
        for (bucket, index), is_mine, num_users in zip(slots, mine, used, strict=True):
            if num_users and not is_mine:
                bucket.parameters[index].grad = bucket.views[index]

    def _has_gradient(self) -> list[bool]:
        """Per parameter in the order of the buckets, whether this rank has a gradient."""
        return [parameter.grad is not None for bucket in self.buckets for parameter in bucket.parameters]


def _trainable(module: nn.Module) -> list[tuple[int, torch.dtype, torch.device]]:
    """The trained parameters with their dtypes and devices, which decide the buckets."""
    return [(id(p), p.dtype, p.device) for p in module.parameters() if p.requires_grad]


def weak_hook(method: Callable[..., None], *first: Any) -> Callable[..., None]:
    """A hook that calls a method while its object exists, without keeping the object alive.

    Python never frees what a tensor's hooks refer to, not even in a reference cycle.
    """
    reference = weakref.WeakMethod(method)

    def hook(*arguments: Any) -> None:
        if (bound := reference()) is not None:
            bound(*first, *arguments)

    return hook


def tensors_in(result: Any, *, may_be_none: bool) -> list[torch.Tensor]:
    """The tensors of what a module has returned, also of dataclasses.

    Example: `tensors_in({"logits": logits, "cache": None}, may_be_none=False)` -> `[logits]`.

    Raises:
        ValueError: it has none, but an object that may hide some, or None where that is not allowed.
    """
    leaves = tree_leaves(result)
    for leaf in filter(is_dataclass, leaves):  # this list grows meanwhile: one may be in another
        leaves += tree_leaves([getattr(leaf, field.name) for field in fields(leaf)])
    found = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    for leaf in () if found else leaves:
        is_open = may_be_none if leaf is None else not hasattr(leaf, "__dict__") or is_dataclass(leaf)
        require(is_open, f"a {type(leaf).__name__} hides its tensors; return them in a tuple, dict or dataclass")
    return found
