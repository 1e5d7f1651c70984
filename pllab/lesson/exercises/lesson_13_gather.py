"""The cases of exercise 13.4: `gather_state(model, part)` makes a checkpoint of all parts, on rank 0 alone.

The model has shapes, names and ties; its own numbers are NaN. (The meta device would have none at all, and takes
seconds to import.)
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_13_ranks import SIZES, Seen, part_of, part_size, seen_in, without_value
from pllab.lesson.exercises.ranks import Watch

GatherState = Callable[..., Any]

_PLAIN, _TIED, _FEW = "a plain model", "a tied model of 43 numbers", "a model of 2 numbers"
_NAMES = (_PLAIN, _TIED, _FEW)
_AGAIN = ", called twice"
_GETS_NOTHING = ("send", "gather", "barrier")
_SLACK_BYTES = 16
_TIE = "A tied weight has two names and lies in the flat tensor once: keep it under its first name."


class Tied(nn.Module):
    """A head that uses the embedding's weight, a frozen parameter, and one with no dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 3)
        self.gain = nn.Parameter(torch.zeros(()))
        self.hidden = nn.Linear(3, 4)
        self.frozen = nn.Parameter(torch.zeros(5), requires_grad=False)
        self.head = nn.Linear(3, 7, bias=False)
        self.head.weight = self.embed.weight


def _build(name: str) -> nn.Module:
    kinds: dict[str, Callable[[], nn.Module]] = {
        _PLAIN: lambda: nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2, bias=False)),
        _TIED: Tied,
        _FEW: lambda: nn.Linear(2, 1, bias=False),
    }
    model = kinds[name]()
    _erase(model)
    return model


def _erase(model: nn.Module) -> None:
    for parameter in model.parameters():
        nn.init.constant_(parameter, math.nan)


@case("rank 0 has every parameter under its name, in its shape, with its numbers")
def whole_on_0(gather_state: GatherState) -> None:
    _judge_all(gather_state, _PLAIN)


@case("the same with fewer numbers than ranks, and with frozen, tied and shapeless parameters, tied ones once")
def other_models(gather_state: GatherState) -> None:
    _judge_all(gather_state, _TIED)
    _judge_all(gather_state, _FEW)


@case("the other ranks return None, send their own part, and are sent nothing")
def only_0(gather_state: GatherState) -> None:
    for size in (3, 2):
        for name in _NAMES:
            for rank, one in enumerate(_seen(gather_state, size, name)[1:], start=1):
                _judge_other(one, f"In a world of {size}, with {name}, rank {rank}", part_size(_numel(name), size))


@case("the state is a copy that further training does not change, and a plain model loads it")
def loads(gather_state: GatherState) -> None:
    for size in SIZES:
        for name in _NAMES:
            first, trained, later = seen_in(gather_all, gather_state, size, name + _AGAIN)[0].result
            if not isinstance(first, Mapping) or not all(isinstance(each, torch.Tensor) for each in first.values()):
                raise Wrong("no_state", f"In a world of {size}, with {name}, rank 0 returned no state to load.")
            _judge_copy(first, trained, f"In a world of {size}, with {name}, the state changed when rank 0 trained on")
            _judge_copy(
                first, later, f"In a world of {size}, with {name}, a second call changed the state of the first"
            )
            plain = _build(name)
            plain.load_state_dict(first, strict=False)
            flat = torch.cat([parameter.detach().flatten() for parameter in plain.parameters()])
            if not torch.equal(flat, _flat(name)):
                raise Wrong("does_not_load", f"A plain model that loads the state of {name} has other numbers.")


def gather_all(watch: Watch, rank: int, world_size: int, gather_state: GatherState) -> dict[str, Seen]:
    """On every rank, two calls for every model.

    `result` of the second is the state of the first: at once, after part and model have changed, and after both calls.
    """
    seen: dict[str, Seen] = {}
    for name in _NAMES:
        model, part = _build(name), part_of(_flat(name), rank, world_size)
        one = watch.attempt(gather_state, model, part)
        first = _copied(one.value)
        seen[name] = Seen(without_value(one), first)
        if one.failed:
            break
        part.fill_(-1.0)
        _erase(model)
        trained = _copied(one.value)
        two = watch.attempt(gather_state, model, part)
        seen[name + _AGAIN] = Seen(without_value(two), (first, trained, _copied(one.value)))
        if two.failed:
            break
    return seen


def _copied(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return None if value is None else type(value).__name__
    return {
        str(key): each.detach().clone() if isinstance(each, torch.Tensor) else str(each) for key, each in value.items()
    }


def _numel(name: str) -> int:
    return sum(parameter.numel() for parameter in _build(name).parameters())


def _flat(name: str) -> torch.Tensor:
    """All parameters side by side, each once: numbers that differ."""
    return torch.randn(_numel(name), generator=torch.Generator().manual_seed(len(name)))


def _seen(gather_state: GatherState, size: int, name: str) -> list[Seen]:
    """What all ranks saw of the first call; who runs out of numbers in the tied model alone has counted a tie twice."""
    try:
        return seen_in(gather_all, gather_state, size, name)
    except Wrong as wrong:
        if name != _TIED or "invalid for input of size" not in wrong.sentence:
            raise
        raise Wrong("tied_twice", f"{wrong.sentence} {_TIE}") from None


def _judge_all(gather_state: GatherState, name: str) -> None:
    shapes = {key: parameter.shape for key, parameter in _build(name).named_parameters()}
    for size in SIZES:
        state = _seen(gather_state, size, name)[0].result
        _judge_state(state, shapes, name, f"In a world of {size}, with {name},", size)


def _judge_state(state: Any, shapes: Mapping[str, torch.Size], name: str, where: str, size: int) -> None:
    if not isinstance(state, Mapping):
        raise Wrong("no_state", f"{where} rank 0 returned {state}; return a dictionary from names to tensors.")
    if missing := [key for key in shapes if key not in state]:
        raise Wrong("missing", f"{where} {missing[0]} is missing in the state; it has {', '.join(state) or 'nothing'}.")
    if more := [key for key in state if key not in shapes]:
        raise Wrong(
            "tied_twice" if more[0] in dict(_build(name).named_parameters(remove_duplicate=False)) else "no_such_name",
            f"{where} the state also has {more[0]}. {_TIE}",
        )
    right = dict(zip(shapes, _flat(name).split([shape.numel() for shape in shapes.values()]), strict=True))
    for key, shape in shapes.items():
        mine = state[key]
        if not isinstance(mine, torch.Tensor) or mine.shape != shape:
            told = f"has shape {tuple(mine.shape)}" if isinstance(mine, torch.Tensor) else "is no tensor with values"
            raise Wrong("other_shape", f"{where} {key} {told}; give it the shape {tuple(shape)}.")
        if not torch.equal(mine.flatten(), right[key]):
            own = part_size(_numel(name), size)
            raise Wrong(
                "other_numbers",
                f"{where} {key} has other numbers. Of the flat tensor rank r has the {own} numbers from {own} r on; "
                "the parameters lie in it in the order of model.parameters().",
            )


def _judge_copy(first: Mapping[str, torch.Tensor], later: Mapping[str, torch.Tensor], what: str) -> None:
    if any(key not in later or not torch.equal(first[key], later[key]) for key in first):
        raise Wrong(
            "shares_memory",
            f"{what}: it shares memory with the part, the model or what another call writes. A checkpoint is a copy.",
        )


def _judge_other(one: Seen, where: str, part: int) -> None:
    state = one.result
    names = {message.name for message in one.attempt.messages}
    if state is not None:
        raise Wrong("not_only_0", f"{where} returned a state too; only rank 0 writes the file.")
    if more := sorted(names - set(_GETS_NOTHING)):
        raise Wrong(
            "everybody_gets_it",
            f"{where} took part in {more[0]}, which hands it what it does not need: a rank that keeps a part because "
            "the whole does not fit must not get the whole now.",
        )
    if sum(message.num_bytes for message in one.attempt.messages) > 4 * part + _SLACK_BYTES:
        raise Wrong("sends_too_much", f"{where} sent more than the {4 * part} bytes of its part.")
