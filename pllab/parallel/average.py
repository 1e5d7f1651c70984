"""Data parallelism in one loop, the version to read first.

One all-reduce per parameter: right, short, and slow when there are many small parameters. `DataParallel` does
the same sums in few messages.
"""

from torch import nn

from pllab import comm


def average_gradients(model: nn.Module) -> None:
    """Replace every gradient by its mean over the ranks; call it between `backward()` and `step()`.

    Example, one weight on two ranks:

        rank 0   grad [1., 4.]        [2., 3.]
        rank 1   grad [3., 2.]   ->   [2., 3.]

    The mean of the gradients of two half batches is the gradient of the whole batch when the loss is a mean
    and the halves have equally many targets; `token_weighted` mends the loss where they do not.

    A frozen parameter has no gradient, so it sends nothing, and a tied one is sent once. A parameter without
    a gradient is skipped, and **every rank must skip the same ones**: ranks pair messages by order and know
    no names, so if one rank skips a parameter that another sends, all later sums mix up parameters and the
    last one waits until its deadline. `check_same_gradients` finds such a parameter; `DataParallel` copes.

    Source: Li et al., PyTorch Distributed, VLDB 2020, section 2.2; gloo has no mean, so sum and then divide.
    """
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        comm.all_reduce(parameter.grad)
        parameter.grad /= comm.world_size()


def check_same_gradients(model: nn.Module) -> None:
    """Refuse gradients that exist on some ranks only: the reason why `average_gradients` hangs.

    Example: "head.bias has a gradient on rank 0 and none on rank 1; ...".

    Raises:
        ValueError: a parameter has a gradient on some ranks only; raised on every rank.
    """
    ours = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    theirs = comm.all_gather_object(ours)
    for name, _ in model.named_parameters():
        without = [rank for rank, names in enumerate(theirs) if name not in names]
        if 0 < len(without) < len(theirs):
            having = [rank for rank in range(len(theirs)) if rank not in without]
            raise ValueError(
                f"{name} has a gradient on {_listed(having)} and none on {_listed(without)}; "
                "use DataParallel, or let every rank's loss depend on it"
            )


def _listed(ranks: list[int]) -> str:
    """Ranks as words: `[0]` -> "rank 0", `[0, 2]` -> "ranks 0, 2"."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
