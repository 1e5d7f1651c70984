"""Two ranks run PyTorch's pipelines under its profiler, and each writes its files."""

from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import Schedule1F1B, ScheduleInterleaved1F1B

from pllab.pipeline import to_torch
from pllab.schedule import zbv

NUM_MICROBATCHES = 8
loss = nn.functional.mse_loss


def module() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 32))


def write_traces(rank: int, size: int, folder: str) -> None:
    """Of ZB-V by `to_torch`, of a class of PyTorch's, and of one that names nothing in its trace."""
    ours = to_torch(zbv(size, NUM_MICROBATCHES), {number: module() for number in (rank, 2 * size - 1 - rank)}, loss)
    looped = [PipelineStage(module(), number, 2 * size, torch.device("cpu")) for number in (rank, rank + size)]
    alone = PipelineStage(module(), rank, size, torch.device("cpu"))
    for name, runtime, last in (
        ("zbv", ours, 0),
        ("ScheduleInterleaved1F1B", ScheduleInterleaved1F1B(looped, NUM_MICROBATCHES, loss_fn=loss), size - 1),
        ("Schedule1F1B", Schedule1F1B(alone, NUM_MICROBATCHES, loss_fn=loss), size - 1),
    ):
        x = torch.randn(128, 32)
        words = {"target": x, "losses": []} if rank == last else {}
        step = partial(runtime.step, *([x] if rank == 0 else []), **words)
        step()  # shapes are exchanged in the first step
        path = str(Path(folder, f"{name} rank{rank}.json"))
        wanted = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=wanted,
            on_trace_ready=lambda profiler, path=path: profiler.export_chrome_trace(path),
        ) as profiler:
            for _ in range(3):
                step()
                profiler.step()
