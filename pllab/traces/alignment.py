"""The files of all ranks: whether they belong together, and whether their clocks do.

Kineto writes microseconds since a moment of its own, `baseTimeNanoseconds`, which differs from file to file. Clocks of
two hosts may differ as well. That shows when a result is used before the work on it began.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pllab.schedule import Action, needs
from pllab.traces.kineto import RankTrace, Work

_SHOWN = 4  # names in a sentence before "..."


class Placed(NamedTuple):
    """An action with its rank, its times in microseconds on the clock of all, and when at the earliest it worked."""

    rank: int
    action: Action
    start: float
    end: float
    earliest: float
    source: Work


def check_ranks(traces: Sequence[RankTrace]) -> None:
    """Refuse files that are not those of one pipeline's ranks, one each.

    A pipeline is the whole world or, beside other axes, one of its process groups.

    Raises:
        ValueError: a rank is there twice or not at all, or the files are of different runs.
    """
    for before, trace in pairwise(sorted(traces, key=lambda trace: trace.rank)):
        if before.rank == trace.rank:
            raise ValueError(f"{before.name} and {trace.name} are both of rank {trace.rank}; give one file per rank")
    sizes = {trace.world_size: trace for trace in traces}
    if len(sizes) > 1:
        (few, small), (many, large) = sorted(sizes.items())[:2]
        raise ValueError(f"{small.name} is of {few} ranks and {large.name} of {many}; give the files of one run")
    given, (size,) = frozenset(trace.rank for trace in traces), sizes
    if outside := sorted(rank for rank in given if rank >= size):
        raise ValueError(f"rank {outside[0]} is none of {size}, which its file says; export the trace again")
    if len(given) < size and not all(given in trace.groups for trace in traces):
        missing = [rank for rank in range(min(size, 2 * len(given) + _SHOWN)) if rank not in given]
        what = f"{len(given)} of {size} ranks {'is' if len(given) == 1 else 'are'} given, and "
        what += _listed(missing, size - len(given))
        raise ValueError(f"{what}; give a file of every rank of the pipeline")


def _listed(ranks: Sequence[int], count: int) -> str:
    names = ", ".join(map(str, ranks[:_SHOWN]))
    return f"rank {names} is missing" if count == 1 else f"ranks {names}{', ...' * (count > _SHOWN)} are missing"


def check_stages(rows: Sequence[Sequence[Action]], traces: Sequence[RankTrace]) -> None:
    """Refuse ranks that share a stage, as ranks of two pipelines do, and stages that no rank has.

    Raises:
        ValueError: a stage has two ranks, or none.
    """
    homes: dict[int, str] = {}
    for row, trace in zip(rows, traces, strict=True):
        for stage in {action.stage for action in row}:
            if stage in homes:
                problem = f"stage {stage} is in {homes[stage]} and in {trace.name}"
                raise ValueError(f"{problem}; give the files of one pipeline, without its data-parallel copies")
            homes[stage] = trace.name
    if max(homes, default=-1) >= len(homes):
        missing = next(stage for stage in range(len(homes)) if stage not in homes)
        raise ValueError(f"stage {missing} is in no file; give the files of all ranks of the pipeline")


def offsets_us(traces: Sequence[RankTrace]) -> list[float]:
    """Microseconds to add to the times of each file, so that all are on the clock of the first.

    Raises:
        ValueError: a file does not say when its clock began.
    """
    for trace in traces:
        if trace.base_ns is None and len(traces) > 1:
            problem = f"{trace.name} does not say when its clock began (no baseTimeNanoseconds)"
            raise ValueError(f"{problem}, so its times fit no other file; export it again with torch.profiler")
    bases = [trace.base_ns or 0 for trace in traces]
    return [(base - bases[0]) / 1e3 for base in bases]


def check_clocks(placed: Sequence[Placed], num_stages: int, names: Sequence[str]) -> None:
    """Refuse clocks on which a result is used before the work on it began.

    Example: 1F0 on rank 1 worked at 5 ms, and 0F0, whose result it takes, began on rank 0 at 8 ms: the clock of rank 1
    is at least 3 ms behind.

    Raises:
        ValueError: by how much the clocks differ at least, and whose.
    """
    of_action = {each.action: each for each in placed}
    worst = max(_too_early(placed, num_stages, of_action), key=lambda each: each[0], default=None)
    if worst is None:
        return
    lag, sent, taken = worst
    problem = f"{taken.action} on rank {taken.rank} worked before {sent.action} on rank {sent.rank} began"
    clocks = f"the clock of {names[taken.rank]} is at least {lag / 1e3:.3g} ms behind that of {names[sent.rank]}"
    raise ValueError(f"{problem}: {clocks}; synchronise the clocks of the hosts and record again")


def _too_early(
    placed: Sequence[Placed], num_stages: int, of_action: Mapping[Action, Placed]
) -> Iterator[tuple[float, Placed, Placed]]:
    """The messages that were taken before they can have been sent, and by how many microseconds."""
    for taken in placed:
        for need in needs(taken.action, num_stages, of_action):
            sent = of_action.get(need)
            if sent is not None and sent.rank != taken.rank and sent.start > taken.earliest:
                yield sent.start - taken.earliest, sent, taken
