"""Which GPUs a process touches, by counted calls: none of these tests needs one."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from pllab import accelerator
from pllab.comm import collectives, devices
from pllab.pipeline.streams import GpuStream

OWN = torch.device(accelerator.KIND, 1)


def test_a_process_waits_for_its_own_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """To wait for another makes a context there, of hundreds of megabytes."""
    synchronised: list[torch.device] = []
    monkeypatch.setattr(devices, "num_gpus", lambda: 4)
    monkeypatch.setattr(accelerator, "peak_bytes", lambda device: 8 * (device == OWN))
    monkeypatch.setattr(accelerator, "synchronize", synchronised.append)
    devices.synchronize()
    assert synchronised == [OWN]


@pytest.mark.parametrize(("kind", "starts", "count"), [("mps", True, 0), ("cuda", False, 0), ("cuda", True, 1)])
def test_gpus_are_counted_where_they_are_of_this_kind_and_torch_can_start_them(monkeypatch, kind, starts, count):
    """The driver counts GPUs that it is too old for."""
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: torch.device(kind))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: starts)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    assert devices.num_gpus() == count


def test_a_record_names_the_gpu_that_computes(monkeypatch):
    monkeypatch.setattr(devices, "num_gpus", lambda: 2)
    monkeypatch.setattr(devices, "current_gpu", lambda: OWN)
    monkeypatch.setattr(accelerator, "name_of", lambda index: f"GPU {index}")
    assert devices.describe_machine()["device"] == "GPU 1"


def test_where_a_large_product_has_no_room_a_smaller_one_measures_the_device(monkeypatch):
    """Beside the trained model: its result would be lost."""
    ones = torch.ones

    def allocate(size, *args, **options):
        if size > 256:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return ones(size, *args, **options)

    monkeypatch.setattr(torch, "ones", allocate)
    flop, multiply = devices.large_product(torch.device("cpu"), torch.float32)
    assert flop == 2 * 256**3 and multiply().shape == (256, 256)


def test_random_state_is_forked_for_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    forked = []
    monkeypatch.setattr(torch.random, "fork_rng", lambda *args, **options: forked.append((args, options)))
    devices.fork_rng(OWN)
    devices.fork_rng(torch.device("cpu"))
    assert forked == [(([1],), {"device_type": accelerator.KIND}), (([],), {})]


@pytest.mark.usefixtures("alone")
def test_a_ranks_device_is_the_same_on_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current GPU is not: on a new thread it is the first."""
    monkeypatch.setattr(collectives, "backend_name", devices.gpu_backend)
    monkeypatch.setattr(collectives, "current_gpu", lambda: accelerator.gpu(0))
    torch.distributed.group.WORLD.bound_device_id = OWN
    with ThreadPoolExecutor() as pool:
        assert pool.submit(collectives.own_device).result(10.0) == OWN


class Stream(nullcontext):  # type: ignore[type-arg]
    """Counts itself; everything is ordered."""

    made: list[torch.device]

    def __init__(self, device: torch.device) -> None:
        super().__init__(self)
        self.made.append(device)

    def wait_stream(self, other: object) -> None: ...
    def wait_event(self, event: object) -> None: ...


def test_a_lane_makes_one_stream_for_each_gpu_it_copies_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch has 32 and deals them out again, so that a copy would now and then wait on a lane's computing."""
    monkeypatch.setattr(torch, "Stream", Stream)
    monkeypatch.setattr(Stream, "made", [], raising=False)
    lane = GpuStream(OWN)
    for index in (0, 2, 0, 2, 0):
        tensor = SimpleNamespace(device=accelerator.gpu(index), record_stream=lambda stream: None)
        tensor.to = lambda device, non_blocking, tensor=tensor: tensor
        lane._copy(tensor, None)  # type: ignore[arg-type]
    compute_and_copy = [OWN, OWN]
    assert Stream.made == [*compute_and_copy, accelerator.gpu(0), accelerator.gpu(2)]
