"""When and how gradients are summed: the choice that `DataParallel` makes, and the sentence that gives the reason.

On a GPU the network moves bytes while the processor computes, so messages leave early. On a CPU the same cores
do both, so the fewest copies win: one sum in memory, or one message where memory cannot be shared.
"""

from typing import Literal, get_args

from pllab import comm

Strategy = Literal["flat", "overlapped", "shared"]

_MIB = 2**20


def checked_strategy(strategy: Strategy | None) -> Strategy | None:
    """The strategy if there is such a one, or None for the best one here.

    Raises:
        ValueError: there is no such strategy.
    """
    if strategy is not None and strategy not in get_args(Strategy):
        raise ValueError(f"strategy {strategy!r} is unknown; choose one of {', '.join(get_args(Strategy))}")
    return strategy


def first_choice(backend: str | None) -> Strategy:
    """Overlap where other hardware than the computing one moves the bytes; do not move them where that works."""
    return {"nccl": "overlapped", "gloo": "shared"}.get(backend or "", "flat")  # type: ignore[return-value]


def without_sharing(asked: Strategy | None, num_bytes: int) -> Strategy:
    """What to do when the ranks cannot share that much memory: send one message, or say so if sharing was asked.

    Raises:
        ValueError: "shared" was asked for.
    """
    if asked == "shared":
        raise ValueError(
            "strategy 'shared' needs two or more gloo ranks, all on one Linux host and with the model on the CPU, "
            f"and {num_bytes / _MIB:.3g} MiB per rank in /dev/shm; leave strategy out to use what works here"
        )
    return "flat"


def in_words(strategy: Strategy, was_asked: bool, backend: str | None, bucket_bytes: int) -> str:
    """The choice in a sentence."""
    what = {
        "flat": "one flat message after backward",
        "overlapped": f"messages of up to {bucket_bytes / _MIB:.3g} MiB while backward still runs",
        "shared": "one sum in memory after backward",
    }[strategy]
    if was_asked:
        return f"{strategy}: {what}, as asked"
    if strategy == "shared":
        return f"shared: {what}, because all {comm.world_size()} ranks are on this host"
    if strategy == "overlapped":
        return f"overlapped: {what}, because {backend} moves them beside the computation on the GPU"
    if backend is None:
        return f"flat: {what}, which stays here because this process has no group"
    without = ", and the ranks cannot share memory" if comm.world_size() > 1 else ""
    return f"flat: {what}, because {backend} sends with the same processor cores that compute backward{without}"
