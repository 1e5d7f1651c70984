"""`train --profile FOLDER`: torch's own trace of two steps, a file a rank, with the actions of a pipeline named."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch._C._profiler import _ExperimentalConfig
from torch.profiler import profile, schedule, supported_activities

from pllab import comm
from pllab.arguments import require
from pllab.train.results import open_workdir

NUM_STEPS = 3
"""The first warms up, the other two are recorded."""


@contextmanager
def profiled(folder: str | None, num_steps: int) -> Iterator[Callable[[], None]]:
    """Record the second and third step of the block; yields what to call after each of its `num_steps` steps.

    Example: `with profiled("traces", 8) as end_step: ...` writes traces/rank0.json. Without a folder nothing happens.
    Lanes are threads of one process, so all threads are recorded.

    Raises:
        ValueError: there are too few steps, or the folder cannot be written.
    """
    if folder is None:
        yield lambda: None
        return
    require(
        num_steps >= NUM_STEPS,
        f"profile records the second and third step, and an epoch has {num_steps}; give a smaller batch_size or more "
        "samples_per_epoch",
    )
    file = open_workdir(folder, "profile") / f"rank{comm.rank()}.json"
    with profile(
        activities=supported_activities(),
        schedule=schedule(wait=0, warmup=1, active=NUM_STEPS - 1, repeat=1),
        on_trace_ready=lambda recorded: recorded.export_chrome_trace(str(file)),
        experimental_config=_ExperimentalConfig(profile_all_threads=True),
    ) as running:
        yield running.step
