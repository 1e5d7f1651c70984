"""The cases of exercise 13.4: `gather_state(model, part)` makes a checkpoint of all parts, on rank 0 alone.

The model has shapes, names and ties; its own numbers are NaN. (The meta device would have none at all, and takes
seconds to import.)
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.lesson_13_parts import BYTES, SLACK_BYTES, part_of, part_size
from pllab.lesson.exercises.ranks import SIZES, UP_TO_3, Attempt, Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import compare_tensors, detached, identical
from pllab.lesson.mistakes import Mistake, compare, retold

_PLAIN, _TIED, _FEW = "a plain model", "a tied model of 43 numbers", "a model of 2 numbers"
_NAMES = (_PLAIN, _TIED, _FEW)
_AGAIN = ", called twice"
_TRAINED, _CALLED = "after rank 0 has trained on", "after a second call"
_GETS_NOTHING = ("send", "gather", "barrier")
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
        _PLAIN: lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 2, bias=False)),  # has buffers
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
def whole_on_0(gather_state: Function) -> None:
    _judge_state(gather_state, _PLAIN)


@case("the same with fewer numbers than ranks, and with frozen, tied and shapeless parameters, tied ones once")
def other_models(gather_state: Function) -> None:
    with retold("tied_twice", _TIE, known_by="invalid for input of size"):  # it has cut more than there is
        _judge_state(gather_state, _TIED)
    _judge_state(gather_state, _FEW)


@case("the other ranks return None, send their own part, and are sent nothing")
def only_0(gather_state: Function) -> None:
    for size in SIZES[1:]:
        for name in _NAMES:
            most = part_size(len(_flat(name)), size) * BYTES
            for rank, one in enumerate(_attempts(gather_state, size, name)[1:], start=1):
                where = f"In a world of {size}, with {name}, rank {rank}"
                if one.value is not None:
                    raise Wrong("not_only_0", f"{where} returned a state too; only rank 0 writes the file.")
                if more := sorted({message.name for message in one.messages} - set(_GETS_NOTHING)):
                    told = f"{where} took part in {more[0]}, which hands it what it does not need"
                    why = "a rank that keeps a part because the whole does not fit must not get the whole now."
                    raise Wrong("everybody_gets_it", f"{told}: {why}")
                if sum(message.num_bytes for message in one.messages) > most + SLACK_BYTES:
                    raise Wrong("sends_too_much", f"{where} sent more than the {most} bytes of its part.")


@case("the state is a copy that neither further training nor a second call changes")
def stays(gather_state: Function) -> None:
    for name in _NAMES:
        right = _right(name)
        compare_tensors(
            lambda key, when, size, name=name: _attempts(gather_state, size, name + _AGAIN)[0].value[when][key],
            [(key, when, size) for size in SIZES for when in (_TRAINED, _CALLED) for key in right],
            lambda key, *_, right=right: right[key],
            asked=f"{{}} of {name} {{}}, in a world of {{}},",
            same=identical,
            hint_id="shares_memory",
        )


@until_one_fails
def gather_all(watch: Watch, rank: int, world_size: int, gather_state: Function) -> Calls:
    """On every rank, two calls for every model.

    The first holds its state; the second holds the state of the first, after part and model have changed, and at the
    end.
    """
    for name in _NAMES:
        model, part = _build(name), part_of(_flat(name), rank, world_size)
        one = watch.attempt(gather_state, model, part)
        yield name, one.holding(_copied(one.value))
        part.fill_(-1.0)
        _erase(model)
        trained = _copied(one.value)
        two = watch.attempt(gather_state, model, part)
        yield name + _AGAIN, two.holding({_TRAINED: trained, _CALLED: _copied(one.value)})


def _copied(value: Any) -> Any:
    return {str(key): detached(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def _flat(name: str) -> torch.Tensor:
    """All parameters side by side, each once: numbers that differ."""
    numel = sum(parameter.numel() for parameter in _build(name).parameters())
    return torch.randn(numel, generator=torch.Generator().manual_seed(len(name)))


def _right(name: str) -> dict[str, torch.Tensor]:
    """The state of this model."""
    named = dict(_build(name).named_parameters())
    pieces = _flat(name).split([parameter.numel() for parameter in named.values()])
    return {key: piece.view(named[key].shape) for key, piece in zip(named, pieces, strict=True)}


def _attempts(gather_state: Function, size: int, name: str) -> list[Attempt]:
    return seen_in_call(gather_all, gather_state, UP_TO_3, size, name)


def _judge_state(gather_state: Function, name: str) -> None:
    """Compare the names in the state of rank 0, and then the tensors."""
    right, all_names = _right(name), [key for key, _ in _build(name).named_parameters(remove_duplicate=False)]
    compare(
        lambda size: _attempts(gather_state, size, name)[0].value,
        [(size,) for size in SIZES],
        lambda _: right,
        [Mistake("tied_twice", _TIE, when=lambda state, _: _has_names(state, all_names))],
        asked=f"{name} in a world of {{}}",
        same=_has_names,
        show=lambda state: (
            f"a dictionary of {', '.join(state)}" if isinstance(state, dict) else repr(state).partition("\n")[0]
        ),
    )
    compare_tensors(
        lambda key, size: _attempts(gather_state, size, name)[0].value[key],
        [(key, size) for size in SIZES for key in right],
        lambda key, _: right[key],
        asked=f"{{}} of {name} in a world of {{}}",
        same=identical,  # a gather moves numbers and does not compute
    )


def _has_names(state: Any, names: Iterable[str]) -> bool:
    return isinstance(state, dict) and sorted(state) == sorted(names)
