"""The small trainings of the clinic's wards, on real ranks, with the fault in them. A ward's rank runs this file.

Every step sums the gradients, collects the losses and counts the rows, all three started together; then comes a
barrier. A thread loads the batches. Both trainings end with a broadcast.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pllab import comm
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, STRAGGLER, SWALLOWED, SWAPPED, UNEVEN
from pllab.lesson.faults import NUM_STEPS, Fault

_SLOW_S = 0.4  # what the straggler takes longer for each step
_TIMEOUT_S = 60.0  # the owner ends the ranks long before


def train(fault: Fault, rank: int) -> None:
    """Data parallel: every rank has its own batches, and all apply the same gradient."""
    model = nn.Linear(47, 16)  # 768 numbers
    for step, batch in enumerate(_batches(fault, rank)):
        if fault.ward == STRAGGLER and rank == fault.rank and step >= fault.step:
            time.sleep(_SLOW_S)
        loss = model(batch).square().mean()
        gradient = torch.cat([part.flatten() for part in torch.autograd.grad(loss, [*model.parameters()])])
        mine = [gradient, loss.detach().reshape(1), torch.tensor([float(len(batch)), 1.0])]
        pending = [start() for start in _calls(mine, fault, rank, step)]
        for one in pending:
            one.wait()
        _descend(model, mine[0] / fault.world_size)
        _say(f"step {step}: loss {loss.item():.3f}")
        if not (fault.hits(SKIPPED, rank, step) and fault.place == 3):
            comm.barrier()
    comm.broadcast(nn.utils.parameters_to_vector(model.parameters()).detach())
    _say("trained")


def _descend(model: nn.Module, gradient: torch.Tensor) -> None:
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    nn.utils.vector_to_parameters(weights - 0.1 * gradient[: len(weights)], model.parameters())


def _calls(mine: list[torch.Tensor], fault: Fault, rank: int, step: int) -> list[partial[comm.Pending]]:
    """The collectives of a step, each started by a call, with the fault in them if it is here."""
    at = fault.place
    if fault.hits(SHAPE, rank, step):
        mine[at] = torch.cat([mine[at], mine[at][:1]])
    gradients, losses, rows = mine
    calls = [
        partial(comm.all_reduce_async, gradients),
        partial(comm.all_gather_async, torch.empty(comm.world_size() * len(losses)), losses),
        partial(comm.all_reduce_async, rows),
    ]
    if fault.hits(SKIPPED, rank, step):
        del calls[at : at + 1]  # the fourth place is the barrier
    if fault.hits(SWAPPED, rank, step):
        calls[at], calls[at + 1] = calls[at + 1], calls[at]
    return calls


def _batches(fault: Fault, rank: int) -> Iterator[torch.Tensor]:
    """The batches of this rank, loaded by a thread."""
    ready: queue.Queue[torch.Tensor | None] = queue.Queue(maxsize=1)
    threading.Thread(target=_load, args=(ready, fault, rank), daemon=True).start()
    while (batch := ready.get()) is not None:
        yield batch


def _load(ready: "queue.Queue[torch.Tensor | None]", fault: Fault, rank: int) -> None:
    draw = torch.Generator().manual_seed(rank)
    try:
        for step in range(NUM_STEPS):
            if fault.hits(UNEVEN, rank, step):
                break
            rows = torch.randn(4, 47, generator=draw)
            if fault.hits(NAN, rank, step):
                rows[0, 0] = torch.nan
            if fault.hits(SWALLOWED, rank, step):
                raise ValueError("row 3 of the file has no label")
            ready.put(rows)
        ready.put(None)
    except ValueError:
        pass  # "a bad batch is no reason to stop": nobody hears of it, and nobody puts another batch


def train_in_pairs(fault: Fault, rank: int) -> None:
    """Pairs of ranks exchange activations in every step: the even rank sends first, the odd one receives first."""
    sent, received = torch.randn(8, 16), torch.empty(8, 16)

    send, receive = partial(comm.send, sent, rank ^ 1), partial(comm.receive, received, rank ^ 1)
    for step in range(NUM_STEPS):
        sends_first = rank % 2 == 0 or fault.hits(SENDS, rank, step)
        for exchange in (send, receive) if sends_first else (receive, send):
            exchange()
        comm.all_reduce(torch.zeros(768))
        _say(f"step {step}: exchanged with rank {rank ^ 1}")
        comm.barrier()
    comm.broadcast(torch.zeros(768))
    _say("trained")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_rank() -> None:
    """The entry point of a ward's rank, with folder, number and fault on its command line."""
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    fault = Fault(**json.loads(sys.argv[3]))
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")  # torch's own recorder; older versions have it off
    torch.set_num_threads(1)
    torch.manual_seed(0)
    comm.setup(rank, fault.world_size, "gloo", init_file=folder / "meeting", timeout_s=_TIMEOUT_S)
    program: Any = train_in_pairs if fault.ward == SENDS else train
    try:
        with comm.record_flight(folder / f"flight-{rank}.json", __file__, folder / f"gloo_trace_{rank}.json"):
            program(fault, rank)
    except comm.PeerError as error:
        _say(str(error).partition(";")[0])
        sys.exit(1)
    comm.teardown()
