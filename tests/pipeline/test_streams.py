"""What runs on GPUs by the rules of their streams, in a model: none of these tests needs a GPU."""

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pllab import accelerator
from pllab.pipeline import streams
from pllab.pipeline.engine import queued
from pllab.pipeline.lanes import Lanes

HOST = SimpleNamespace(now=0.0, perf_counter=lambda: HOST.now)  # it queues in no time


class Event:
    """Reached when all is done that was on its stream before it."""

    def __init__(self, device: torch.device, enable_timing: bool) -> None:
        self.device = device

    def record(self, stream: "Stream") -> None:
        self.at = max(stream.free_at, HOST.now)

    def synchronize(self) -> None:
        HOST.now = max(HOST.now, self.at)

    def elapsed_time(self, end: "Event") -> float:
        assert self.device == end.device, "torch refuses events of two GPUs"
        return (end.at - self.at) * 1e3


class Stream(nullcontext):  # type: ignore[type-arg]
    """Does what is queued in order; here it is known when it is done with all."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(self)
        self.device, self.free_at = device, 0.0

    def wait_stream(self, other: "Stream") -> None:
        self.free_at = max(self.free_at, other.free_at)

    def wait_event(self, event: Event) -> None:
        self.free_at = max(self.free_at, event.at)


def callers_streams(monkeypatch: pytest.MonkeyPatch, busy_s: Sequence[float]) -> list[Stream]:
    """The caller's current stream on each GPU of the model, which has so much work queued."""
    callers = {accelerator.gpu(index): Stream(accelerator.gpu(index)) for index in range(len(busy_s))}
    for caller, seconds in zip(callers.values(), busy_s, strict=True):
        caller.free_at = seconds
    monkeypatch.setattr(HOST, "now", 0.0)
    monkeypatch.setattr(streams, "time", HOST)
    monkeypatch.setattr(torch, "Stream", Stream)
    monkeypatch.setattr(accelerator, "Event", Event)
    monkeypatch.setattr(torch.accelerator, "current_stream", callers.__getitem__)
    return [*callers.values()]


@pytest.mark.parametrize("indices", [[0], [0, 1], [1, 0], [0, 0, 1]])
def test_times_are_true_behind_what_the_caller_has_queued(monkeypatch: pytest.MonkeyPatch, indices: list[int]) -> None:
    """As an optimizer of the step before, which ends later on one GPU than on the other."""
    callers = callers_streams(monkeypatch, [5e-3, 9e-3])
    gpus: Any = Lanes([caller.device for caller in map(callers.__getitem__, indices)])._gpus
    told, begins, waited = [], [], []
    for later_s in (0.0, 1.0, 20.0):
        start = HOST.now = HOST.now + later_s
        for caller in callers:
            caller.free_at += later_s + 5e-3
        with Lanes._gpus_ordered(SimpleNamespace(_gpus=gpus)):  # type: ignore[arg-type]
            told += [(gpu, gpu.mark()) for gpu in gpus]
            begins += [max(HOST.now, callers[index].free_at) for index in indices]
        waited.append(HOST.now > start)
    assert [gpu.seconds(mark) for gpu, mark in told] == pytest.approx(begins)
    assert waited == [True, False, True]  # every ten seconds, so that steps follow each other without a gap


def test_what_is_on_two_gpus_may_be_read_when_both_have_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    callers = callers_streams(monkeypatch, [5e-3, 9e-3])
    batch: Any = [SimpleNamespace(device=caller.device) for caller in callers]
    assert [queued(part).at for part in (batch[:1], batch[1:], batch)] == [5e-3, 9e-3, 9e-3]  # type: ignore[union-attr]
    assert queued([torch.zeros(1), None]) is None


def test_the_caller_may_refill_its_batch_at_once_also_in_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pinned memory such a copy would begin at some later time; between GPUs, streams keep the order."""
    callers_streams(monkeypatch, [0.0, 0.0])
    lane, asked = streams.GpuStream(accelerator.gpu(0)), []
    for device in (torch.device("cpu"), accelerator.gpu(1)):
        tensor: Any = SimpleNamespace(device=device, record_stream=lambda stream: None)
        tensor.to = lambda device, non_blocking, tensor=tensor: asked.append(non_blocking) or tensor
        lane.fetch([tensor], None)
    assert asked == [False, True]
