"""The cases of exercise 07.1: `split_module(sequential)` returns the partitions and their devices.

Layers on CPU lanes say their device by `WithDevice`; plain layers say it by their parameters, on "cpu" and "meta"
(torch's device without memory, which every machine has).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Wrong, case
from pllab.pipeline import WithDevice

Split = Callable[[nn.Sequential], Any]
Expected = list[tuple[str, list[int]]]  # device and layer numbers of each stage

_LANES = [["cpu:0", "cpu:0", "cpu:1", "cpu:1"], ["cpu:0"], ["cpu:1", "cpu:0"], ["cpu:0", "cpu:1", "cpu:1", "cpu:2"]]


@case("neighbours on one device become one stage, in their old order")
def consecutive(split: Split) -> None:
    """Lanes in one block each, and plain layers that speak through their parameters."""
    for lanes in _LANES:
        _judge(split, [WithDevice(_linear(), lane) for lane in lanes], _runs_of(lanes))
    _judge(split, [_linear(device) for device in ("cpu", "cpu", "meta")], _runs_of(["cpu", "cpu", "meta"]))


@case("a layer without parameters stays with the layer before it")
def without_parameters(split: Split) -> None:
    """A ReLU has no device of its own: after a layer, between two stages, and at the end."""
    _judge(
        split,
        [WithDevice(_linear(), "cpu:0"), nn.ReLU(), WithDevice(_linear(), "cpu:1"), nn.ReLU(), nn.Dropout(0.0)],
        [("cpu:0", [0, 1]), ("cpu:1", [2, 3, 4])],
        silent=(1, 3, 4),
    )
    _judge(split, [_linear("meta"), nn.ReLU()], [("meta", [0, 1])], silent=(1,))


@case("without parameters and first, it joins the stage after it")
def silent_first(split: Split) -> None:
    """The first layer has no layer before it."""
    layers = [nn.Flatten(), WithDevice(_linear(), "cpu:1"), WithDevice(_linear(), "cpu:0")]
    try:
        _judge(split, layers, [("cpu:1", [0, 1]), ("cpu:0", [2])], silent=(0,))
    except (Wrong, NotImplementedError):
        raise
    except Exception as error:
        raise Wrong(
            "crash_on_silent_first",
            f"The first layer has no parameters and none before it, and your function raised {error!r}; such a layer "
            "belongs to the stage after it.",
        ) from None


@case("WithDevice speaks for the layer inside it")
def spoken_for(split: Split) -> None:
    layers = [WithDevice(_linear(), "cpu:0"), WithDevice(nn.ReLU(), "cpu:1"), WithDevice(_linear(), "cpu:1")]
    _judge(split, layers, [("cpu:0", [0]), ("cpu:1", [1, 2])])


@case("a device that comes back later is a new stage")
def again(split: Split) -> None:
    for lanes in (["cpu:0", "cpu:1", "cpu:0"], ["cpu:1", "cpu:0", "cpu:0", "cpu:1", "cpu:0"]):
        _judge(split, [WithDevice(_linear(), lane) for lane in lanes], _runs_of(lanes))


@case("a layer with parameters on two devices is a ValueError")
def torn(split: Split) -> None:
    layer = nn.Sequential(_linear("cpu"), _linear("meta"))
    try:
        split(nn.Sequential(_linear("cpu"), layer))
    except ValueError:
        return
    except NotImplementedError:
        raise
    except Exception as error:
        raise Wrong(
            "wrong_error",
            f"A layer with parameters on two devices made your function raise {type(error).__name__}; raise a "
            "ValueError that says which layer it is.",
        ) from None
    raise Wrong(
        "accepts_two_devices",
        "One layer has parameters on cpu and on meta, and your function took it without a word; no stage can run it, "
        "so look at all parameters of a layer, not at the first one only, and raise a ValueError.",
    )


def _linear(device: str = "cpu") -> nn.Linear:
    return nn.Linear(2, 2, device=device)


def _runs_of(devices: Sequence[str]) -> Expected:
    """The stages by the rule, counted here by hand so that no solution is compared with itself."""
    stages: Expected = []
    for number, device in enumerate(devices):
        if stages and stages[-1][0] == device:
            stages[-1][1].append(number)
        else:
            stages.append((device, [number]))
    return stages


def _judge(split: Split, layers: Sequence[nn.Module], right: Expected, silent: Sequence[int] = ()) -> None:
    """Compare the stages with the right ones, and name the bug; `silent` layers have no device of their own."""
    stages, devices = _read(split(nn.Sequential(*layers)), layers)
    asked = f"Layers 0 to {len(layers) - 1} belong in the stages {_shown(right)}"
    if any(not numbers for numbers in stages):
        raise Wrong("empty_stage", f"{asked}, and one of yours is empty; a stage without a layer only costs a worker.")
    flat = [number for numbers in stages for number in numbers]
    got = list(zip(devices, stages, strict=True))
    said = f"{asked}; you returned {_shown(got)}."
    if lost := sorted(set(range(len(layers))) - set(flat)):
        why = " It has no parameters, and it is still a layer." if set(lost) <= set(silent) else ""
        raise Wrong("lost_layer", f"{said} Layer {lost[0]} is gone.{why}")
    if len(flat) > len(layers):
        raise Wrong("doubled_layer", f"{said} A layer comes twice.")
    _judge_order(flat, [numbers for _, numbers in right], stages, devices, said)
    if silent and len(stages) > len(right):
        raise Wrong(
            "stray_stage",
            f"{said} A layer without parameters has no device of its own: it stays with the layer before it.",
        )
    _judge_cuts(right, got, said, silent)


def _judge_order(flat: list[int], right: list[list[int]], got: list[list[int]], devices: list[str], said: str) -> None:
    if flat == sorted(flat):
        return
    if len(set(devices)) == len(devices) and len(got) < len(right):
        raise Wrong(
            "merged_by_device",
            f"{said} Layers of one device that are not neighbours were put together; a device that comes back later "
            "is a new stage, or the layers run in another order.",
        )
    raise Wrong("order_changed", f"{said} The order of the layers has changed, and with it the model.")


def _judge_cuts(right: Expected, got: Expected, said: str, silent: Sequence[int]) -> None:
    numbers = [stage for _, stage in got]
    if numbers == [stage for _, stage in right]:
        if got != right:
            raise Wrong("wrong_device", f"{said} The stages are right, and their devices are not.")
        return
    if len(got) == 1 and any(device.startswith("cpu:") for device, _ in right):
        raise Wrong(
            "ignores_with_device",
            f"{said} torch forgets the number of a CPU lane, so the parameters cannot say it; ask WithDevice for its "
            ".device first.",
        )
    if len(got) > len(right):
        raise Wrong("cut_too_often", f"{said} Neighbours on one device belong in one stage.")
    if silent:
        raise Wrong(
            "wrong_neighbour", f"{said} A layer without parameters stays with the layer before it, not the next."
        )
    raise Wrong("wrong_cut", f"{said} Cut where the device changes, and nowhere else.")


def _read(answer: Any, layers: Sequence[nn.Module]) -> tuple[list[list[int]], list[str]]:
    """Turn the answer into layer numbers and device names, whatever sequences it is made of."""
    if not isinstance(answer, tuple | list) or len(answer) != 2 or isinstance(answer[1], nn.Module):
        raise Wrong("no_pair", f"split_module returns a pair (partitions, devices), not a {type(answer).__name__}.")
    partitions, devices = list(answer[0]), list(answer[1])
    if len(partitions) != len(devices):
        raise Wrong(
            "devices_per_stage",
            f"There are {len(partitions)} partitions and {len(devices)} devices; return one device per partition.",
        )
    if not all(isinstance(partition, nn.Sequential) for partition in partitions):
        kinds = sorted({type(partition).__name__ for partition in partitions})
        raise Wrong("not_modules", f"A partition is an nn.Sequential, which can be called; yours is a {kinds[0]}.")
    known = {id(_bare(layer)): number for number, layer in enumerate(layers)}
    found = [[known.get(id(_bare(layer)), -1) for layer in partition] for partition in partitions]
    if any(number < 0 for numbers in found for number in numbers):
        raise Wrong("copied", "A partition holds a layer that is not one of the layers given; put in the layers.")
    return found, [_name_of(device) for device in devices]


def _bare(layer: nn.Module) -> nn.Module:
    """A solution may take the layer out of its WithDevice."""
    return layer.module if isinstance(layer, WithDevice) else layer


def _name_of(device: Any) -> str:
    try:
        return str(torch.device(device))
    except (RuntimeError, TypeError, ValueError):
        raise Wrong("wrong_device", f"{device!r} is no device; return the torch.device of each stage.") from None


def _shown(stages: Expected) -> str:
    return ", ".join(f"{numbers} on {device}" for device, numbers in stages)
