"""Data parallelism in one loop, the version to read first: equal weights at the start, the mean of the gradients after.

Averaged gradients keep equal models equal; they never make different models equal. So data parallelism begins with one
broadcast per parameter and per buffer. Then one all-reduce per parameter in every step is right and short, but slow if
there are many small parameters; `DataParallel` does the same sums in few messages.

The last part keeps the mean right when ranks predict different numbers of tokens.
"""

from itertools import chain, zip_longest

import torch
from torch import nn

from pllab import comm
from pllab.comm.errors import listed
from pllab.data import IGNORED


def broadcast_parameters(model: nn.Module, group: comm.Group | None = None) -> None:
    """Overwrite this rank's parameters and buffers with those of rank 0 (of a group).

    Example, one weight, before and after:

        rank 0   [1., 2.]        [1., 2.]
        rank 1   [7., 9.]   ->   [1., 2.]

    A tied parameter is sent once. Source: `torch.nn.parallel.DistributedDataParallel`, which does the same
    when it is constructed.
    """
    for tensor in (each.detach() for each in chain(model.parameters(), model.buffers())):
        message = tensor.contiguous()  # a transposed tensor is sent as a copy
        comm.broadcast(message, 0, group)
        if message is not tensor:
            tensor.copy_(message)


def average_gradients(model: nn.Module) -> None:
    """Replace every gradient by its mean over the ranks; call it between `backward()` and `step()`.

    Example, one weight on two ranks:

        rank 0   grad [1., 4.]        [2., 3.]
        rank 1   grad [3., 2.]   ->   [2., 3.]

    The mean of the gradients of two half batches is the gradient of the whole batch when the loss is a mean
    and the halves have equally many targets; `token_weighted` corrects the loss if they do not.

    A frozen parameter has no gradient, so it sends nothing, and a tied one is sent once. A parameter without
    a gradient is skipped, and **every rank must skip the same ones**: ranks pair messages by order and know
    no names, so if one rank skips a parameter that another sends, all later sums mix up parameters and the
    last one waits until its deadline. `check_same_parameters_used` finds such a parameter; `DataParallel` copes.

    Source: Li et al., PyTorch Distributed, VLDB 2020, section 2.2; gloo has no mean, so sum and then divide.
    """
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        comm.all_reduce(parameter.grad)
        parameter.grad /= comm.world_size()


def check_same_model(model: nn.Module, group: comm.Group | None = None) -> None:
    """Refuse a model whose parameters differ from those on rank 0, before the first message hangs because of it.

    Example: rank 0 built `Linear(4, 2)` and rank 1 `Linear(4, 3)`; every rank raises "rank 1 has parameter weight
    float32[3, 4], rank 0 has parameter weight float32[2, 4]; build the same model on every rank".

    Raises:
        ValueError: names, order, shapes, types or frozen parameters differ between ranks; raised on every rank.
    """
    described = [
        f"parameter {name} {str(p.dtype).removeprefix('torch.')}{list(p.shape)}{'' if p.requires_grad else ' frozen'}"
        for name, p in model.named_parameters()
    ]
    first, *others = comm.all_gather_object(described, group)
    for rank, theirs in enumerate(others, start=1):
        for found, wanted in zip_longest(theirs, first, fillvalue="no further parameter"):
            if found != wanted:
                raise ValueError(f"rank {rank} has {found}, rank 0 has {wanted}; build the same model on every rank")


def check_same_parameters_used(model: nn.Module) -> None:
    """Refuse gradients that exist on only some ranks, which would make `average_gradients` hang.

    Example: "head.bias has a gradient on rank 0 and none on rank 1; ...".

    Raises:
        ValueError: a parameter has a gradient on some ranks only; raised on every rank.
    """
    used = comm.all_gather_object({name for name, parameter in model.named_parameters() if parameter.grad is not None})
    for name, _ in model.named_parameters():
        having = [rank for rank, names in enumerate(used) if name in names]
        without = [rank for rank, names in enumerate(used) if name not in names]
        if having and without:
            raise ValueError(
                f"{name} has a gradient on {listed(having)} and none on {listed(without)}; "
                "use pllab's DataParallel, or let every rank's loss depend on it"
            )


def num_target_tokens(labels: torch.Tensor) -> int:
    """Count the targets of a batch: the labels that are not -100, without the first column.

    Nothing predicts the first token of a row, because the model shifts labels by one.

    Example: `[[5, 6, -100], [7, 8, 9]]` -> 3.

    Args:
        labels: (batch, time) int64, -100 where nothing is to be predicted; on the meta device, which has no values,
            everything is.
    """
    if labels.is_meta:
        return labels[:, 1:].numel()
    return int((labels[:, 1:] != IGNORED).sum())


def global_sum(number: float) -> float:
    """Sum a number over the ranks: rank 0 has 10, rank 1 has 100, both get 110.0.

    It costs one message of 8 bytes.
    """
    total = torch.tensor([number], dtype=torch.float64, device=comm.readable_device())
    comm.all_reduce(total)
    return float(total)


def token_weighted(loss_sum: torch.Tensor, num_tokens: int, *, total: float | None = None) -> torch.Tensor:
    """Scale a summed loss so that gradients averaged over ranks are those of one process with all the data.

    Example, one target with loss 1.0 on rank 0 and three with loss 2.0 each on rank 1:

        one process                    (1 + 6) / 4             = 1.75
        mean of means, the usual bug   (1/1 + 6/3) / 2         = 1.5
        token_weighted, then mean      (1 * 2/4 + 6 * 2/4) / 2 = 1.75

    Args:
        loss_sum: scalar, the sum of this rank's losses over its targets (`reduction="sum"`).
        num_tokens: this rank's targets.
        total: the targets of the whole step on all ranks; needed when a step is several backwards
            (`no_sync`), where a sum over one micro-batch is not enough; saves the message when it is known.

    Raises:
        ValueError: there is no target on any rank.

    Source: the same correction as `num_items_in_batch` in transformers 4.46 and later.
    """
    everywhere = global_sum(num_tokens) if total is None else total
    if everywhere <= 0:
        raise ValueError(
            f"this step has {everywhere:g} target tokens on all ranks together; "
            "skip the batch, or keep some labels other than -100"
        )
    return loss_sum * (comm.world_size() / everywhere)
