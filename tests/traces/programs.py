"""Two ranks run PyTorch's pipelines under its profiler, and each writes its files."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import schedules as theirs

from pllab.pipeline import to_torch
from pllab.schedule import one_f_one_b

NUM_MICROBATCHES = 4  # of a stage; of two stages of a rank twice as many
STAGES_PER_RANK = {
    "Schedule1F1B": 1,
    "to_torch": 1,
    "ScheduleInterleaved1F1B": 2,
    "ScheduleLoopedBFS": 2,
    "ScheduleInterleavedZeroBubble": 2,
    "ScheduleZBVZeroBubble": 2,
}
loss = nn.functional.mse_loss


def write_traces(rank: int, size: int, folder: str, families: list[str]) -> dict[str, list[str]]:
    """Per family, what this rank was told to run: the order that PyTorch itself has, where it has one."""
    orders = {}
    for family in families:
        step, runtime = _step_of(family, rank, size)
        step()  # shapes are exchanged in the first step
        path = str(Path(folder, f"{family} rank{rank}.json"))
        wanted = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=wanted,
            on_trace_ready=lambda profiler, path=path: profiler.export_chrome_trace(path),
        ) as profiler:
            for _ in range(3):
                step()
                profiler.step()
        orders[family] = [str(action) for action in (runtime.pipeline_order or {}).get(rank, []) if action]
    return orders


def _step_of(family: str, rank: int, size: int) -> tuple[Callable[[], Any], Any]:
    num_stages = size * STAGES_PER_RANK[family]
    numbers = (
        [rank, num_stages - 1 - rank] if family == "ScheduleZBVZeroBubble" else list(range(rank, num_stages, size))
    )
    modules = {number: nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 32)) for number in numbers}
    stages = [PipelineStage(each, number, num_stages, torch.device("cpu")) for number, each in modules.items()]
    count = NUM_MICROBATCHES * STAGES_PER_RANK[family]
    if family == "to_torch":
        runtime = to_torch(one_f_one_b(size, count), modules, loss)
    elif family == "Schedule1F1B":
        runtime = theirs.Schedule1F1B(stages[0], count, loss_fn=loss)
    else:
        runtime = getattr(theirs, family)(stages, count, loss_fn=loss)
    x = torch.randn(128, 32)
    words = {"target": x, "losses": []} if num_stages - 1 in numbers else {}
    return partial(runtime.step, *([x] if 0 in numbers else []), **words), runtime
