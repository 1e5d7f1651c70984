"""The files of all ranks: whether they, and their clocks, belong together.

Kineto writes microseconds since its own start, `baseTimeNanoseconds`, which differs from file to file. Clocks of
two hosts may differ as well. That shows when a result is used before the work on it began.
"""

from collections.abc import Sequence
from itertools import pairwise

from pllab.schedule import Action, needs
from pllab.traces.kineto import RankTrace, TracedWork

_SHOWN = 4  # names in a sentence before "..."


def check_ranks(traces: Sequence[RankTrace]) -> None:
    """Refuse files, sorted by rank, that are not those of one pipeline's ranks, one each.

    A pipeline is the whole world or, beside other axes, one of its process groups.

    Raises:
        ValueError: a rank is there twice or not at all, or the files are of different runs.
    """
    for before, trace in pairwise(traces):
        if before.rank == trace.rank:
            raise ValueError(f"{before.name} and {trace.name} are both of rank {trace.rank}; give one file per rank")
        if before.world_size != trace.world_size:
            sizes = f"{before.name} is of {before.world_size} ranks and {trace.name} of {trace.world_size}"
            raise ValueError(f"{sizes}; give the files of one run")
    given, size = frozenset(trace.rank for trace in traces), traces[0].world_size
    if max(given) >= size:
        raise ValueError(f"rank {max(given)} is none of {size}, which its file says; export the trace again")
    if len(given) < size and not all(given in trace.groups for trace in traces):
        missing = [str(rank) for rank in range(min(size, len(given) + _SHOWN)) if rank not in given][:_SHOWN]
        more = ", ..." if size - len(given) > len(missing) else ""
        what = f"of {size} ranks {len(given)} are given, without {', '.join(missing)}{more}"
        raise ValueError(f"{what}; give a file of every rank of the pipeline")


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


def check_clocks(rows: Sequence[Sequence[TracedWork]], num_stages: int, names: Sequence[str]) -> None:
    """Refuse clocks on which a result is used before the work on it began.

    Example: 1F0 on rank 1 worked at 5 ms, and 0F0, whose result it takes, began on rank 0 at 8 ms: the clock of rank 1
    is at least 3 ms behind.

    Args:
        rows: the actions of each rank, on the clock of all.
        num_stages: of the pipeline.
        names: of the ranks' files.

    Raises:
        ValueError: the clocks differ; the message says whose, and by how much at least.
    """
    of_action = {one.action: (rank, one) for rank, row in enumerate(rows) for one in row}
    worst, problem = 0.0, ""
    for rank, taken in of_action.values():
        # Without a receive that ended in it, a span of a CPU may be a wait to its very end.
        earliest = taken.start if taken.kernels or taken.start > taken.begin else taken.end
        for need in needs(taken.action, num_stages, of_action):
            sender, sent = of_action[need]
            if sender != rank and sent.start - earliest > worst:
                worst = sent.start - earliest
                early = f"{taken.action} on rank {rank} worked before {sent.action} on rank {sender} began"
                lag = f"at least {worst / 1e3:.3g} ms behind that of {names[sender]}"
                problem = f"{early}: the clock of {names[rank]} is {lag}"
    if problem:
        raise ValueError(f"{problem}; synchronise the clocks of the hosts and record again")
