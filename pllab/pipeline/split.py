"""Cut a model into stages, by balance or where an `nn.Sequential` changes device.

A module is where its parameters are. `WithDevice` tells it for a module without parameters, and for a module on a CPU
lane, because torch forgets the index of a CPU device.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from operator import itemgetter

import torch
from torch import nn

from pllab import accelerator
from pllab.arguments import is_number, whole_number
from pllab.comm.devices import is_gpu, num_gpus


class WithDevice(nn.Module):
    """Carry the device of a module whose parameters do not say it.

    Example: `nn.Sequential(WithDevice(nn.Linear(4, 4), "cpu:0"), WithDevice(nn.ReLU(), "cpu:1"))` has two
    stages on two CPU lanes.

    Raises:
        ValueError: the device does not exist.
    """

    def __init__(self, module: nn.Module, device: torch.device | str) -> None:
        super().__init__()
        self.device = checked_device(device)
        self.module = module.to(self.device)

    def forward(self, *inputs: torch.Tensor) -> object:
        """Run the module as it is."""
        return self.module(*inputs)


def split_module(sequential: nn.Sequential) -> tuple[list[nn.Sequential], list[torch.device]]:
    """Cut at every change of device and return the partitions with their devices.

    Example: layers on `cuda:0, cuda:0, cuda:1` -> two partitions of two and one layers, on `cuda:0` and
    `cuda:1`. A device that comes back later starts a new partition; the order of the layers never changes.
    A module without parameters and without `WithDevice` stays with the module before it.

    Raises:
        ValueError: one module has parameters on two devices.

    Lesson 07.
    """
    own = [_device_of(index, module) for index, module in enumerate(sequential)]
    first = next((device for device in own if device is not None), torch.device("cpu"))
    _, *places = accumulate(own, lambda before, device: device or before, initial=first)
    partitions, devices = [], []
    for device, group in groupby(zip(places, sequential, strict=True), key=itemgetter(0)):
        partitions.append(nn.Sequential(*(module for _, module in group)))
        devices.append(device)
    return partitions, devices


def checked_device(device: torch.device | str) -> torch.device:
    """Return the device, or say why this machine does not have it.

    Raises:
        RuntimeError: torch knows no such device.
        ValueError: it is neither a CPU lane nor a GPU, or the GPU is not there.
    """
    parsed = torch.device(device)
    if is_gpu(parsed) and (parsed.index or 0) >= num_gpus():
        raise ValueError(
            f"device {str(parsed)!r} is not on this machine, which has {num_gpus()} GPUs; "
            "use CPU lanes ('cpu:0', 'cpu:1') instead"
        )
    if parsed.type != "cpu" and not is_gpu(parsed):
        raise ValueError(f"device {str(parsed)!r} is neither a CPU lane nor a CUDA GPU; use 'cpu:0' or 'cuda:0'")
    return accelerator.gpu(parsed.index or 0) if is_gpu(parsed) else parsed


def _device_of(index: int, module: nn.Module) -> torch.device | None:
    if isinstance(module, WithDevice):
        return module.device
    devices = {tensor.device for tensor in [*module.parameters(), *module.buffers()]}
    if len(devices) > 1:
        names = " and ".join(sorted(map(str, devices)))
        raise ValueError(f"layer {index} ({type(module).__name__}) lives on {names}; move it to one device")
    return devices.pop() if devices else None


def as_sequential(module: nn.Module) -> nn.Sequential:
    """A stage as a chain of layers: itself, or a chain of one."""
    return module if isinstance(module, nn.Sequential) else nn.Sequential(module)


def place_of(stages: Iterable[nn.Module]) -> torch.device:
    """The device of the first parameter; the CPU for stages without parameters."""
    devices = (parameter.device for stage in stages for parameter in stage.parameters())
    return next(devices, torch.device("cpu"))


def balance(costs: Sequence[float], num_stages: int) -> list[int]:
    """Return how many consecutive layers each stage gets, so that the most expensive stage costs least.

    Example: `balance([1, 1, 1, 1, 4], 2)` -> `[4, 1]`: four cheap layers cost as much as the expensive one.

    Raises:
        ValueError: there are more stages than layers, no stages, or a cost that is not a number of at least 0.

    Source: the linear partition problem, solved by dynamic programming. Lesson 07.
    """
    num_stages = whole_number("num_stages", num_stages)
    if num_stages > len(costs):
        raise ValueError(f"{num_stages} stages are more than the {len(costs)} layers; use at most {len(costs)} devices")
    for layer, cost in enumerate(costs):
        if not is_number(cost) or not 0 <= cost < math.inf:
            raise ValueError(f"layer {layer} costs {cost}; give a number of at least 0")
    total = [0.0, *accumulate(costs)]
    # best[n] = (largest stage cost, sizes of the stages) for the first n layers and the stages so far
    best = {n: (total[n], [n]) for n in range(1, len(costs) + 1)}
    for stage in range(2, num_stages + 1):
        best = {
            n: min((max(best[cut][0], total[n] - total[cut]), [*best[cut][1], n - cut]) for cut in range(stage - 1, n))
            for n in range(stage, len(costs) + 1)
        }
    return best[len(costs)][1]
