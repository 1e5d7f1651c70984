"""The cases of exercise 07.1: `split_module(sequential)` returns the partitions and their devices.

A chain is asked for as a text, `"Linear on cpu:0, Tanh, ReLU on cpu:1"`: a layer on a lane is in a `WithDevice`, any
other has no device of its own. The stages of an answer are read as device and layer numbers.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Asked, Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare
from pllab.pipeline import WithDevice

Stages = list[tuple[str, list[int]]]  # device and layer numbers of each stage

_SAME = "the same ReLU"  # one object, however often it stands in the chain


class _Doubled(nn.Module):
    """A layer of nobody's library."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def _chain(lanes: str, bare: Sequence[int] = (), silent: Sequence[str] = ("ReLU", "Tanh", "Doubled")) -> tuple[str]:
    """A question: `_chain("0-1")` has a layer on cpu:0, one without a device and one on cpu:1.

    bare: the layers on a lane that have no parameters.
    silent: the layers without a device, in turn.
    """
    kinds = cycle(silent)
    layers = (
        next(kinds) if lane == "-" else f"{'ReLU' if number in bare else 'Linear'} on cpu:{lane}"
        for number, lane in enumerate(lanes)
    )
    return (", ".join(layers),)


def _drawn() -> Iterator[tuple[str]]:
    """Random chains: up to nine layers on up to three lanes; in the second of each pair some have no parameters."""
    draw = random.Random(71)
    for length in range(2, 10):
        lanes = [draw.choice("012") for _ in range(length)]
        chain = lanes[0] + "".join("-" if draw.random() < 0.3 else lane for lane in lanes[1:])
        yield _chain(chain, silent=("Flatten", "Identity", "Doubled"))
        yield _chain(chain, bare=range(1, length, 2))


def _lanes(chain: str) -> list[str]:
    """The device of each layer, empty where it has none of its own."""
    return [layer.partition(" on ")[2] for layer in chain.split(", ")]


def _stages(lanes: Sequence[str]) -> Stages:
    """The stages by the rule, counted here by hand so that no solution is compared with itself."""
    stages: Stages = []
    for number, device in enumerate(lanes):
        if stages and device in ("", stages[-1][0]):
            stages[-1][1].append(number)
        else:
            stages.append((device, [number]))
    return stages


def _right(chain: str) -> Stages:
    return _stages(_lanes(chain))


def _layers(stages: Stages) -> list[tuple[int, str]]:
    """The layers of all stages in order, each with its device."""
    return [(number, device) for device, numbers in stages for number in numbers]


def _merged(chain: str) -> Stages:
    """One stage for each device."""
    by_device: dict[str, list[int]] = defaultdict(list)
    for number, device in _layers(_right(chain)):
        by_device[device].append(number)
    return list(by_device.items())


def _with_the_next(chain: str) -> Stages:
    """A layer without a device joins the layer after it; behind the last device there is none."""
    lanes = _lanes(chain)
    return _stages([next(filter(None, lanes[number:]), "") for number in range(len(lanes))])


_MISTAKES = (
    Mistake(
        "bare_wrapper",
        "A WithDevice has a .device, even around a layer without parameters.",
        like=lambda chain: _right(re.sub("ReLU on cpu:.", "ReLU", chain)),
    ),
    Mistake(
        "type_only",
        "Lanes are devices of one type, and parameters on a lane know the type only: compare the whole .device.",
        when=lambda stages, chain: (
            stages in [_stages([lane] * len(_lanes(chain))) for lane in ("cpu", _lanes(chain)[0])]
        ),
    ),
    Mistake("merged_by_device", "A device that comes back later starts a new stage.", like=_merged),
    Mistake("wrong_neighbour", "A layer without a device stays with the layer before it.", like=_with_the_next),
    Mistake(
        "cut_too_often",
        "Neighbours on one device belong in one stage.",
        when=lambda stages, chain: _layers(stages) == _layers(_right(chain)) and all(numbers for _, numbers in stages),
    ),
    Mistake(
        "lost_layer",
        "A layer is gone. A layer without a device counts too, and so does each place of a layer that comes twice.",
        when=lambda stages, chain: len({number for number, _ in _layers(stages)}) < len(_lanes(chain)),
    ),
)


def _compare(split: Asked, *chains: tuple[str]) -> None:
    compare(
        lambda chain: split.inside(stages_of, chain),
        chains,
        _right,
        _MISTAKES,
        asked="the layers {}",
        show=lambda stages: ", ".join(f"{numbers} on {device}" for device, numbers in stages) or "no stages",
    )


@case("neighbours on one device become one stage, in their old order")
def consecutive(split: Asked) -> None:
    _compare(split, _chain("0011"), _chain("0"), _chain("10"), _chain("0112"), _chain("0110", bare=(1, 2)))


@case("a layer without a device stays with the layer before it")
def silent(split: Asked) -> None:
    every_kind = ("Tanh", "Flatten", "Identity", "Doubled", "ReLU")
    _compare(split, _chain("0-1--"), _chain("0-----1", silent=every_kind), _chain("1-0"), _chain("1-"))
    _compare(split, _chain("0-1-1-", silent=[_SAME]))


@case("a device that comes back later is a new stage")
def again(split: Asked) -> None:
    _compare(split, _chain("010"), _chain("010", bare=(1,)), _chain("10-10"), _chain("10-10", bare=(1, 3)), *_drawn())


def stages_of(split: Function, chain: str) -> Stages:
    """In the process of the function: the device of each stage, and the numbers of its layers."""
    same, bare, layers = nn.ReLU(), [], []
    for kind, _, lane in (layer.partition(" on ") for layer in chain.split(", ")):
        made = {_SAME: same, "Linear": nn.Linear(2, 2), "Doubled": _Doubled()}
        bare.append(made[kind] if kind in made else getattr(nn, kind)())
        layers.append(WithDevice(bare[-1], lane) if lane else bare[-1])
    return _read(split(nn.Sequential(*layers)), bare)


def _read(answer: Any, layers: Sequence[nn.Module]) -> Stages:
    """The answer as device names and layer numbers, whatever sequences it is made of."""
    if not isinstance(answer, tuple | list) or len(answer) != 2 or isinstance(answer[1], nn.Module):
        raise Wrong("no_pair", f"Return a pair (partitions, devices); your function gave a {type(answer).__name__}.")
    partitions, devices = map(list, answer)
    if len(partitions) != len(devices):
        told = f"There are {len(partitions)} partitions and {len(devices)} devices"
        raise Wrong("no_pair", f"{told}; return one device for each partition.")
    if others := [type(one).__name__ for one in partitions if not isinstance(one, nn.Sequential)]:
        raise Wrong("no_pair", f"A partition is an nn.Sequential, which can be called; yours is a {others[0]}.")
    places: dict[int, list[int]] = defaultdict(list)
    for number, layer in enumerate(layers):
        places[id(layer)].append(number)

    def number_of(layer: nn.Module) -> int:
        """An object that stands twice in the chain is met in this order; the last place stays."""
        known = places.get(id(layer.module if isinstance(layer, WithDevice) else layer))
        if not known:
            raise Wrong("no_pair", "A partition holds a layer that is not one of the layers given; put these in.")
        return known.pop(0) if len(known) > 1 else known[0]

    return [(str(one), list(map(number_of, part))) for one, part in zip(devices, partitions, strict=True)]
