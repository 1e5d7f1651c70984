"""The cases of exercise 07.1: `split_module(sequential)` returns the partitions and their devices.

A layer says its lane by `WithDevice`; a layer without one, and without parameters, follows the layer before it. The
first layer always says its own. A `WithDevice` may be around a layer without parameters, a layer that says nothing may
be of any class, and one object may stand twice in the chain.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Asked, Wrong, case
from pllab.pipeline import WithDevice

Split = Callable[[nn.Sequential], Any]
Expected = list[tuple[str, list[int]]]  # device and layer numbers of each stage

_SILENT = ""  # a layer that does not say its device


class _Doubled(nn.Module):
    """A layer of nobody's library."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


_SILENT_KINDS = (nn.ReLU, nn.Tanh, nn.Flatten, nn.Identity, _Doubled)


def _drawn() -> list[list[str]]:
    """Chains by chance, always the same: up to nine layers on up to three lanes."""
    draw = random.Random(71)
    chains = []
    for length in range(2, 10):
        lanes = [draw.choice(("cpu:0", "cpu:1", "cpu:2")) for _ in range(length)]
        chains.append([lanes[0], *(_SILENT if draw.random() < 0.3 else lane for lane in lanes[1:])])
    return chains


@case("neighbours on one device become one stage, in their old order")
def consecutive(split: Asked) -> None:
    for lanes in (
        ["cpu:0", "cpu:0", "cpu:1", "cpu:1"],
        ["cpu:0"],
        ["cpu:1", "cpu:0"],
        ["cpu:0", "cpu:1", "cpu:1", "cpu:2"],
    ):
        _judge(split, lanes)
    _judge(split, ["cpu:0", "cpu:1", "cpu:1", "cpu:0"], bare=(1, 2))


@case("a layer without a device of its own stays with the layer before it")
def silent(split: Asked) -> None:
    _judge(split, ["cpu:0", _SILENT, "cpu:1", _SILENT, _SILENT])
    _judge(split, ["cpu:0", _SILENT, _SILENT, _SILENT, _SILENT, _SILENT, "cpu:1"])
    _judge(split, ["cpu:0", _SILENT, "cpu:1", _SILENT, "cpu:1", _SILENT], twice=True)
    _judge(split, ["cpu:1", _SILENT, "cpu:0"])
    _judge(split, ["cpu:1", _SILENT])


@case("a device that comes back later is a new stage")
def again(split: Asked) -> None:
    for lanes in (["cpu:0", "cpu:1", "cpu:0"], ["cpu:1", "cpu:0", _SILENT, "cpu:1", "cpu:0"], *_drawn()):
        _judge(split, lanes)
        _judge(split, lanes, bare=range(1, len(lanes), 2))


def _right(lanes: Sequence[str]) -> Expected:
    """The stages by the rule, counted here by hand so that no solution is compared with itself."""
    stages: Expected = []
    for number, device in enumerate(lanes):
        if stages and device in (_SILENT, stages[-1][0]):
            stages[-1][1].append(number)
        else:
            stages.append((device, [number]))
    return stages


def _layers(lanes: Sequence[str], bare: Sequence[int], twice: bool) -> list[nn.Module]:
    """The chain; bare: which `WithDevice` have no parameters; twice: one object for all layers that say nothing."""
    same = nn.ReLU()

    def layer(number: int, lane: str) -> nn.Module:
        if lane == _SILENT:
            return same if twice else _SILENT_KINDS[number % len(_SILENT_KINDS)]()
        return WithDevice(nn.ReLU() if number in bare else nn.Linear(2, 2), lane)

    return [layer(number, lane) for number, lane in enumerate(lanes)]


def _judge(split: Asked, lanes: Sequence[str], bare: Sequence[int] = (), twice: bool = False) -> None:
    """Compare the stages with the right ones, and name the bug."""
    right = _right(lanes)
    stages, devices = split.inside(stages_of, list(lanes), list(bare), twice)
    asked = f"Layers 0 to {len(lanes) - 1} belong in the stages {_shown(right)}"
    if any(not numbers for numbers in stages):
        raise Wrong("empty_stage", f"{asked}, and one of yours is empty; a stage without a layer only costs a worker.")
    flat = [number for numbers in stages for number in numbers]
    got = list(zip(devices, stages, strict=True))
    said = f"{asked}; you returned {_shown(got)}."
    wrapped = [number for number in bare if lanes[number] != _SILENT]
    if wrapped and got != right and got == _right([_SILENT if n in wrapped else lane for n, lane in enumerate(lanes)]):
        raise Wrong(
            "bare_wrapper",
            f"{said} Layer {wrapped[0]} is a WithDevice around a layer without parameters: it has a .device, and that "
            "counts.",
        )
    quiet = [number for number, lane in enumerate(lanes) if lane == _SILENT]
    if lost := sorted(set(range(len(lanes))) - set(flat)):
        if twice:
            raise Wrong("lost_repeat", f"{said} Layer {lost[0]} is gone: one object stands in the chain several times.")
        why = " It has no device of its own, and it is still a layer." if set(lost) <= set(quiet) else ""
        raise Wrong("lost_layer", f"{said} Layer {lost[0]} is gone.{why}")
    if len(flat) > len(lanes):
        raise Wrong("doubled_layer", f"{said} A layer comes twice.")
    if flat != sorted(flat):
        _judge_order(right, stages, devices, said)
    _judge_cuts(right, got, said, quiet)


def stages_of(split: Split, lanes: list[str], bare: list[int], twice: bool) -> tuple[list[list[int]], list[str]]:
    """In the process of the function: the numbers of the layers in each stage, and the names of the devices."""
    layers = _layers(lanes, bare, twice)
    return _read(split(nn.Sequential(*layers)), layers)


def _judge_order(right: Expected, got: list[list[int]], devices: list[str], said: str) -> None:
    if len(set(devices)) == len(devices) and len(got) < len(right):
        raise Wrong(
            "merged_by_device",
            f"{said} Layers of one device that are not neighbours were put together; a device that comes back later "
            "is a new stage, or the layers run in another order.",
        )
    raise Wrong("order_changed", f"{said} The order of the layers has changed, and with it the model.")


def _judge_cuts(right: Expected, got: Expected, said: str, quiet: Sequence[int]) -> None:
    if got == right:
        return
    numbers = [stage for _, stage in got]
    if numbers == [stage for _, stage in right]:
        raise Wrong("wrong_device", f"{said} The stages are right, and their devices are not.")
    if len(got) == 1 and torch.device(got[0][0]).index is not None:
        raise Wrong(
            "type_only",
            f"{said} Two lanes are two devices of one type: compare the whole device, not its type.",
        )
    if len(got) == 1:
        raise Wrong(
            "ignores_with_device",
            f"{said} torch forgets the number of a CPU lane, so the parameters cannot say it; ask WithDevice for its "
            ".device.",
        )
    begins_quiet = [stage[0] for stage in numbers if stage[0] in quiet]
    if begins_quiet and len(got) > len(right):
        raise Wrong(
            "stray_stage",
            f"{said} Layer {begins_quiet[0]} has no device of its own: it stays with the layer before it and never "
            "begins a stage.",
        )
    if begins_quiet:
        raise Wrong(
            "wrong_neighbour",
            f"{said} Layer {begins_quiet[0]} has no device of its own: it stays with the layer before it, not with the "
            "next.",
        )
    if len(got) > len(right):
        raise Wrong("cut_too_often", f"{said} Neighbours on one device belong in one stage.")
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
    places: dict[int, list[int]] = defaultdict(list)
    for number, layer in enumerate(layers):
        places[id(_bare(layer))].append(number)
    held = [[id(_bare(layer)) for layer in partition] for partition in partitions]
    if any(layer not in places for partition in held for layer in partition):
        raise Wrong("copied", "A partition holds a layer that is not one of the layers given; put in the layers.")

    def next_place(layer: int) -> int:
        """An object that stands twice in the chain is met in this order; the last place stays."""
        return places[layer].pop(0) if len(places[layer]) > 1 else places[layer][0]

    return [[next_place(layer) for layer in partition] for partition in held], [_name_of(one) for one in devices]


def _bare(layer: nn.Module) -> nn.Module:
    """A solution may take the layer out of its WithDevice."""
    return layer.module if isinstance(layer, WithDevice) else layer


def _name_of(device: Any) -> str:
    if device is None:
        raise Wrong(
            "no_device",
            "One of your stages has None for its device. A layer without a device of its own, whatever its class, "
            "begins no stage: it stays with the layer before it.",
        )
    try:
        return str(torch.device(device))
    except (RuntimeError, TypeError, ValueError):
        raise Wrong("wrong_device", f"{device!r} is no device; return the torch.device of each stage.") from None


def _shown(stages: Expected) -> str:
    return ", ".join(f"{numbers} on {device}" for device, numbers in stages)
