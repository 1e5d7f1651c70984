"""Messages under way while backward still runs: the version to read before `DataParallel`.

Backward makes the gradients of the last layer first. They can travel while the layers before it are computed.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import nn

from pllab import comm
from pllab.parallel.buckets import Bucket, plan_buckets


class Work(Protocol):
    """A message under way; `pllab.comm.Pending` is the one in use."""

    def wait(self) -> None:
        """Return when the tensor holds the result."""


def average_in_backward(
    model: nn.Module,
    bucket_bytes: float = 2**20,
    send: Callable[[torch.Tensor], Work] = comm.all_reduce_async,
) -> Callable[[], None]:
    """Let `backward()` start the messages by itself; call the returned function before `step()`.

    Example, on every rank:

        wait = average_in_backward(model)
        loss.backward()                     # messages start in here
        wait()                              # every gradient is now the mean over the ranks
        optimizer.step()

    Drawn, for three gradients that appear in the order c, b, a:

        backward   c  b  a | wait | step
        messages     [c][b][a  ]

    Ranks pair messages by their order. So buckets leave in the order of the plan, and one that is full before its
    turn waits, because another rank may get its gradients in another order.

    Args:
        model: the same on every rank; frozen parameters are left out.
        bucket_bytes: the most bytes in one message; 1 sends each gradient by itself.
        send: starts the sum of a tensor over the ranks.

    Source: Li et al., PyTorch Distributed, VLDB 2020, section 3.2.3.
    """
    buckets = plan_buckets(model.parameters(), bucket_bytes)
    works: list[Work] = []

    def arrived(bucket: Bucket, index: int, _: torch.Tensor) -> None:  # a hook gets the parameter, not its gradient
        bucket.store(index, comm.world_size())
        while len(works) < len(buckets) and buckets[len(works)].is_full:
            works.append(send(buckets[len(works)].flat))

    for bucket in buckets:
        for index, parameter in enumerate(bucket.parameters):
            parameter.register_post_accumulate_grad_hook(partial(arrived, bucket, index))

    def wait() -> None:
        for bucket in buckets[len(works) :]:  # what an unused parameter held back
            bucket.store_rest(comm.world_size())
            works.append(send(bucket.flat))
        for bucket, work in zip(buckets, works, strict=True):
            work.wait()
            bucket.empty()
        works.clear()

    return wait
