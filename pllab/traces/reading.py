"""One door for all traces: the files of a pipeline's ranks, or one file of this package's runs."""

from collections.abc import Iterable
from pathlib import Path

from pllab.schedule import collector_paused
from pllab.traces.kineto import read_ranks
from pllab.traces.rank_files import join_ranks
from pllab.traces.recorded import Recorded
from pllab.traces.run_files import is_own, read_run
from pllab.traces.trace_files import read_file


@collector_paused()
def read_trace(paths: Iterable[Path | str] | Path | str, step: int | None = None) -> Recorded:
    """Read a recorded run: what every rank did in which order, and when.

    Example, after `torch.profiler.profile(...)` around some steps of a pipeline and `export_chrome_trace` on each rank:

        recorded = read_trace(["rank0.json", "rank1.json.gz"])
        costs = estimate([(recorded.schedule, recorded.timeline)])
        recorded.timeline.makespan / simulate(recorded.schedule, costs).makespan      # measured over predicted

    Durations are those of the files. Where a span of a CPU waits for its input, and the file says until when, the wait
    is a span of communication and the work is the rest of it.

    Args:
        paths: one file per rank, as torch.profiler writes it for a pipeline of torch.distributed.pipelining; one file
            for all lanes of a process; or one file of the bubble studio. Each may be compressed with gzip.
        step: which step, by the profiler's number, or from 0 if it did not count; in a file of the studio, which run,
            from 1. By default the last complete step with a backward, and the last measured run.

    Raises:
        ValueError: a file is no trace or has no pipeline, a rank is missing or there twice, the clocks of the ranks do
            not fit, or there is no such complete step.

    Source: torch.profiler's Kineto traces; Trace Event Format (Google).
    """
    names = [paths] if isinstance(paths, Path | str) else list(paths)
    if not names:
        raise ValueError("no trace is given; give one file per rank")
    ranks = []
    for name in names:
        file = read_file(name)
        if is_own(file):
            if len(names) > 1:
                raise ValueError(f"{file.name} has all ranks of a run in one file; give it alone, without the others")
            return read_run(file, step)
        ranks += read_ranks(file)
    return join_ranks(ranks, step)
