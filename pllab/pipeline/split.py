"""Cut a model into stages, by balance or where an `nn.Sequential` changes device; cut a batch into micro-batches.

A module is where its parameters are. `WithDevice` tells it for a module without parameters, and for a module on a CPU
lane, because torch forgets the index of a CPU device.

A batch is cut along its rows. Its loss is a mean over them, or over what `mean_over` counts in the targets. The weight
of a micro-batch is its share of the batch, so that the weighted losses add up to the loss of the batch. Backward begins
with these weights as gradients.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

import torch
from torch import nn

from pllab import accelerator
from pllab.arguments import is_number, whole_number
from pllab.comm.devices import is_gpu, num_gpus

Tensors = tuple[torch.Tensor, ...]
Batch = torch.Tensor | Tensors
Loss = Callable[[Any, Any], torch.Tensor]
Count = Callable[[Any], float]


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
        ValueError: there is nothing to split, or one module has parameters on two devices.

    Lesson 07.
    """
    if not isinstance(sequential, nn.Sequential):
        raise ValueError(
            f"split_module cuts an nn.Sequential, not a {type(sequential).__name__}; wrap the layers in one"
        )
    if len(sequential) == 0:
        raise ValueError("the nn.Sequential is empty; a pipeline needs at least one layer")
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
        ValueError: the name is unknown, or the GPU is not there.
    """
    try:
        parsed = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"{device!r} is not a device; use 'cpu:0', 'cpu:1', ... for lanes or 'cuda:0', ...") from error
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


def check_stages(stages: object) -> None:
    """Refuse stages that are not a list of modules.

    Raises:
        ValueError: they are something else.
    """
    if not isinstance(stages, Sequence | nn.ModuleList | nn.Sequential):
        raise ValueError(f"the stages are a {type(stages).__name__}; give a list of modules, one for each stage")
    check_modules(dict(enumerate(stages)))


def check_modules(stages: Mapping[int, nn.Module]) -> None:
    """Refuse stages that are not modules.

    Raises:
        ValueError: one is something else.
    """
    for number, stage in stages.items():
        if not isinstance(stage, nn.Module):
            raise ValueError(f"stage {number} is of type {type(stage).__name__}; give an nn.Module")


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


def scatter(batch: Tensors, split_size: int) -> list[Tensors]:
    """Cut every tensor of the batch into slices of at most `split_size` rows.

    Example: 7 rows with `split_size=3` -> micro-batches of 3, 3 and 1 rows.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    size = min(split_size, num_rows(batch))  # torch counts in 64 bits
    return list(zip(*(tensor.split(size) for tensor in batch), strict=True))


def scatter_evenly(batch: Tensors, num_microbatches: int) -> list[Tensors]:
    """Cut every tensor of the batch into `num_microbatches` slices whose sizes differ by at most one row.

    Example: 7 rows and 3 micro-batches -> 3, 2 and 2 rows. A batch with fewer rows gets one micro-batch per row.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    count = min(num_microbatches, num_rows(batch))
    return list(zip(*(tensor.tensor_split(count) for tensor in batch), strict=True))


def gather(micro_batches: Sequence[Tensors]) -> Tensors:
    """Join micro-batches along their rows, in order: the inverse of `scatter`."""
    return tuple(torch.cat(column) for column in zip(*micro_batches, strict=True))


def num_rows(batch: Tensors) -> int:
    """The number of rows of a batch, the same in all its tensors.

    Raises:
        ValueError: the batch is empty or its tensors differ in their number of rows.
    """
    rows = {tensor.shape[0] if tensor.dim() else None for tensor in batch}
    if len(rows) != 1 or rows & {None, 0}:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in batch)
        raise ValueError(f"the tensors of a batch must have the same number of rows, at least one, not shapes {shapes}")
    return len(batch[0])


def as_tuple(value: object, where: str) -> Tensors:
    """A tensor or a tuple of tensors as a tuple.

    Raises:
        ValueError: the value is something else, for example the output object of a transformers block.
    """
    values = value if isinstance(value, tuple) else (value,)
    wrong = [type(part).__name__ for part in values if not isinstance(part, torch.Tensor)]
    if wrong or not values:
        kind = wrong[0] if wrong else "nothing"
        contents = f"a tuple with {kind} in it" if isinstance(value, tuple) else kind
        raise ValueError(f"{where} has {contents}; a pipeline passes a tensor or a tuple of tensors")
    return values


def single(values: Tensors) -> Batch:
    """The argument of a layer: one tensor as it is, several as a tuple, as `nn.Sequential` passes them on."""
    return values[0] if len(values) == 1 else values


class Score:
    """The loss at the end of a pipeline, for one batch.

    Example: micro-batches of 3 and 1 rows with mean losses 1.0 and 5.0 have the weights 0.75 and 0.25 and the total
    loss 2.0.

    Raises:
        ValueError: the batch has nothing to take a mean over.
    """

    def __init__(self, loss: Loss, targets: Sequence[Tensors], mean_over: Count | None, device: torch.device) -> None:
        self._loss = loss
        counts = [_count(mean_over, part) for part in targets]
        if not sum(counts) > 0 or min(counts) < 0:
            raise ValueError(
                f"mean_over counts {counts} in the micro-batches; a mean needs at least one, and none below 0"
            )
        self.weights = [count / sum(counts) for count in counts]
        # Counted where the caller has them, then moved: to count on a GPU would wait for it.
        self._targets = [tuple(tensor.to(device) for tensor in part) for part in targets]

    def of(self, microbatch: int, outputs: Tensors) -> torch.Tensor:
        """The loss of one micro-batch, a scalar.

        Raises:
            ValueError: the loss is not a tensor of one real number, or does not depend on the outputs.
        """
        if not self.weights[microbatch]:  # a mean over nothing is not a number, and neither is its gradient
            return torch.stack([output.sum() for output in outputs]).sum() * 0
        loss = self._loss(single(outputs), single(self._targets[microbatch]))
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.is_complex():
            found = f"{loss.dtype} {list(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(loss)
            raise ValueError(f"the loss is {found}; return a tensor of one real number, the mean over the rows")
        if any(output.requires_grad for output in outputs) and not loss.requires_grad:
            raise ValueError(
                f"the loss, {loss.item():g}, leads back to no output; compute it with torch from the output"
            )
        return loss.reshape(())

    def total(self, losses: Sequence[torch.Tensor]) -> float:
        """The loss of the batch from those of its micro-batches; waits for a GPU."""
        return float(sum(loss.double() * weight for loss, weight in zip(losses, self.weights, strict=True)))


def check_loss(loss: object, mean_over: object) -> None:
    """Refuse a loss or a count that cannot be called.

    Raises:
        ValueError: one of them is not a function.
    """
    for name, value in (("loss", loss), ("mean_over", len if mean_over is None else mean_over)):
        if not callable(value):
            raise ValueError(f"{name} is {value!r}; give a function, as torch.nn.functional.cross_entropy for a loss")


def _count(mean_over: Count | None, part: Tensors) -> float:
    count = mean_over(single(part)) if mean_over else len(part[0])
    try:
        return float(count)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"mean_over gives {count!r} for a micro-batch; return how many the mean is over") from error
