"""Where a stage's work runs: directly on a CPU lane, on a separate stream on a GPU.

On a GPU the worker only launches kernels. Each lane has a compute stream, copies run on copy streams, and events
carry the order between them, so that a copy overlaps the compute of the next micro-batch.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch

from pllab.comm.devices import event_after, is_gpu

_CPU = torch.device("cpu")
_GOOD_S = 10.0  # how long a zero is used: the clocks of host and GPU drift apart, and CUDA tells differences in float32
Mark = float | torch.Event  # a point in time: host seconds, or an event on a stream


class Base(NamedTuple):
    """Zero on a GPU's clock: an event, and the host's time when it was reached."""

    event: torch.Event
    host_s: float


class HostStream:
    """A CPU lane: work is done when its call returns, so there is nothing to order."""

    compute: AbstractContextManager[object] = nullcontext()  # what to work under
    mark: Callable[[], Mark] = staticmethod(time.perf_counter)  # now, in seconds of the host's monotonic clock

    def __init__(self, device: torch.device = _CPU) -> None:
        self.device = device

    def fetch(self, tensors: Sequence[torch.Tensor | None], ready: torch.Event | None) -> list[torch.Tensor | None]:
        """Bring the tensors to this lane; between lanes that copies nothing."""
        if ready is not None:
            ready.synchronize()
        return [None if tensor is None else tensor.to(self.device.type) for tensor in tensors]

    def seconds(self, mark: Mark) -> float:
        """A mark is in seconds already."""
        assert isinstance(mark, float)
        return mark


class GpuStream(HostStream):
    """A stage's compute stream on a GPU, and a copy stream for what it receives."""

    def __init__(self, device: torch.device, compute: torch.Stream | None = None) -> None:
        super().__init__(device)
        self.compute: torch.Stream = torch.Stream(device) if compute is None else compute
        self.copy = torch.Stream(device)
        self._sources: dict[torch.device, torch.Stream] = {}
        self._base: Base | None = None

    def begin(self) -> None:
        """Run after all work that the caller has queued."""
        self.compute.wait_stream(torch.accelerator.current_stream(self.device))

    def start_clock(self, shared: Base | None = None) -> Base:
        """Zero is a moment when all queued work was done; every ten seconds a new one, which waits for that.

        The lanes of one GPU share it.
        """
        if shared is None and self._base is not None and time.perf_counter() - self._base.host_s < _GOOD_S:
            shared = self._base
        if shared is None:
            event = event_after(self.compute, is_timed=True)
            event.synchronize()  # each GPU may be behind the host, and by another time
            shared = Base(event, time.perf_counter())
        self._base = shared
        return shared

    def end(self) -> None:
        """Let the work that the caller queues from now on run after this stage."""
        torch.accelerator.current_stream(self.device).wait_stream(self.compute)

    def lend(self, tensors: Iterable[torch.Tensor | None]) -> None:
        """Let the caller use tensors of this GPU; their memory is not reused before its stream has read them."""
        for tensor in tensors:
            if tensor is not None and tensor.device == self.device:
                tensor.record_stream(torch.accelerator.current_stream(self.device))

    def fetch(self, tensors: Sequence[torch.Tensor | None], ready: torch.Event | None) -> list[torch.Tensor | None]:
        """Copy the tensors to this GPU on the copy streams of both sides; compute waits for the copy."""
        fetched = [None if tensor is None else self._copy(tensor, ready) for tensor in tensors]
        self.compute.wait_stream(self.copy)
        return fetched

    def ready(self) -> torch.Event:
        """An event after everything queued on the compute stream so far."""
        return event_after(self.compute)

    def mark(self) -> Mark:
        """An event with a time, on the compute stream."""
        return event_after(self.compute, is_timed=True)

    def seconds(self, mark: Mark) -> float:
        """The event's time in host seconds, once the stream has reached it."""
        assert not isinstance(mark, float) and self._base is not None
        mark.synchronize()
        return self._base.host_s + self._base.event.elapsed_time(mark) / 1e3

    def _copy(self, tensor: torch.Tensor, ready: torch.Event | None) -> torch.Tensor:
        if ready is not None:
            self.copy.wait_event(ready)
        if tensor.device == self.device:
            tensor.record_stream(self.compute)  # freed by its stage only after this stage has read it
            return tensor
        with self._source(tensor.device) as source, self.copy:
            copied = tensor.to(self.device, non_blocking=is_gpu(tensor.device))  # the caller may refill a batch
        if source is not None:
            tensor.record_stream(source)
        copied.record_stream(self.compute)
        return copied

    def _source(self, device: torch.device) -> AbstractContextManager[torch.Stream | None]:
        """Torch queues a copy between GPUs on the current stream of the source; give it a separate one there too."""
        if not is_gpu(device):
            return nullcontext()
        if device not in self._sources:  # torch has few streams and deals them out again: one for each source
            self._sources[device] = torch.Stream(device)
        return self._sources[device]
