"""The cases of exercise 06.1: `average_flat(model)` puts all gradients into one message per data type.

Gradients are written by hand, so that every number tells its rank, its parameter and its place. The ranks run once,
with several models: one made to mix things up, one drawn by chance, and one without any gradient. All cases judge what
was seen.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.comm import record_messages
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_06_ranks import WORLD_SIZE, close, judge_alone, mean, seen_on_ranks, write_down

AverageFlat = Callable[[nn.Module], Any]


class _Parameter(NamedTuple):
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    number: int = 1

    @property
    def has_gradient(self) -> bool:
        return not self.name.startswith(("frozen", "unused"))


_Layout = tuple[_Parameter, ...]


def _numbered(*parameters: _Parameter) -> _Layout:
    return tuple(one._replace(number=number) for number, one in enumerate(parameters, 1))


def _drawn() -> _Layout:
    """By chance, always the same: the data types alternate, a gradient may be empty, one parameter is unused."""
    draw = random.Random(6)
    shapes = [tuple(draw.randint(1, 4) for _ in range(draw.randint(0, 3))) for _ in range(7)]
    dtypes = [draw.choice((torch.float32, torch.float64)) for _ in shapes]
    drawn = [
        _Parameter(f"drawn_{number}", shape, dtype)
        for number, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    return _numbered(*drawn[:3], _Parameter("unused_in_between", (3,)), _Parameter("nothing_in_it", (0, 3)), *drawn[3:])


# Shapes repeat in size and differ in form, so that a mix-up raises nothing; the first parameter has no gradient.
_MIXED = _numbered(
    _Parameter("unused", (6,)),
    _Parameter("wide", (2, 3)),
    _Parameter("frozen", (6,)),
    _Parameter("tall", (3, 2)),
    _Parameter("exact", (2, 2), torch.float64),
    _Parameter("row", (6,)),
    _Parameter("single", ()),
    _Parameter("offset", (4,), torch.float64),
    _Parameter("zero_on_rank_1", (6,)),
    _Parameter("transposed", (3, 2)),
)
# A sum of two numbers below 128 keeps its digits in bfloat16.
_SHORT = _numbered(
    _Parameter("short", (2,), torch.bfloat16),
    _Parameter("alone", (5,), torch.float64),
    _Parameter("shorter", (3,), torch.float16),
)
_LAYOUTS = (_MIXED, _drawn(), _SHORT)
_NOTHING = _numbered(_Parameter("frozen", (2, 2)), _Parameter("unused", (3,)))


@dataclass(frozen=True)
class Seen:
    """What one rank had after the call: gradients by name, the shapes of its messages, and an exception's words."""

    gradients: dict[str, torch.Tensor | None]
    messages: list[tuple[int, ...]]
    error: str = ""


def program(rank: int, _world_size: int, average_flat: AverageFlat, folder: str) -> list[Seen]:
    """One call on one rank for each model; the last has no gradient at all."""
    seen = [_call(average_flat, layout, rank, folder) for layout in _LAYOUTS]
    try:
        return [*seen, _call(average_flat, _NOTHING, rank, folder)]
    except Exception as error:
        return [*seen, Seen({}, [], f"{type(error).__name__}: {error}")]


def alone(rank: int, _world_size: int, average_flat: AverageFlat, folder: str) -> dict[str, torch.Tensor | None]:
    """The gradients after a call in a world of one rank."""
    return _call(average_flat, _MIXED, rank, folder).gradients


def _call(average_flat: AverageFlat, layout: _Layout, rank: int, folder: str) -> Seen:
    model = nn.Module()
    for one in layout:
        gradient = gradient_of(one, rank)
        if one.name == "transposed":
            gradient = gradient.T.contiguous().T
        parameter = nn.Parameter(torch.zeros_like(gradient), requires_grad=not one.name.startswith("frozen"))
        parameter.grad = gradient if one.has_gradient else None
        model.register_parameter(one.name, parameter)
    with record_messages(write_down(folder, rank)) as ledger:
        average_flat(model)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return Seen(gradients, [message.shape for message in ledger.messages])


def gradient_of(one: _Parameter, rank: int) -> torch.Tensor:
    """Numbers such as 312.0: rank 1 adds 7 to them, and float64 has digits that float32 cannot hold."""
    places = torch.arange(float(torch.Size(one.shape).numel()), dtype=one.dtype)
    digits = 1e-7 if one.dtype == torch.float64 else 0.0
    gradient = (100 * one.number + places * (1 + digits) + (7 + digits) * rank).reshape(one.shape)
    return torch.zeros_like(gradient) if one.name == f"zero_on_rank_{rank}" else gradient


def _layouts(average_flat: AverageFlat) -> Iterator[tuple[_Layout, list[Seen]]]:
    """Each model that has gradients, with what every rank saw of it."""
    by_rank = seen_on_ranks(program, average_flat)
    for number, layout in enumerate(_LAYOUTS):
        yield layout, [seen[number] for seen in by_rank]


@case("every gradient is the mean over the ranks, in its own parameter")
def in_place(average_flat: AverageFlat) -> None:
    for layout, seen in _layouts(average_flat):
        for one in layout:
            if one.has_gradient:
                parts = [gradient_of(one, rank) for rank in range(WORLD_SIZE)]
                for rank in range(WORLD_SIZE):
                    _judge_left_out(one, layout, seen[rank].gradients, rank)
                    _judge(one, rank, [each.gradients[one.name] for each in seen], parts)
    (gradients,) = seen_on_ranks(alone, average_flat, 1)
    for one in _MIXED:
        if one.has_gradient:
            judge_alone(gradients[one.name], gradient_of(one, 0))


@case("float64 gradients keep their digits")
def keeps_digits(average_flat: AverageFlat) -> None:
    for layout, seen in _layouts(average_flat):
        for one in layout:
            if one.dtype != torch.float64:
                continue
            expected = mean([gradient_of(one, rank) for rank in range(WORLD_SIZE)])
            got = [each.gradients[one.name] for each in seen]
            if all(close(each, expected, 1e-5) for each in got) and not all(
                close(each, expected, 1e-12) for each in got
            ):
                raise Wrong(
                    "dtype_lost",
                    f"The float64 gradient of {one.name!r} came back with the digits of a smaller type: it travelled "
                    "in a flat tensor of float32. Give each data type a flat tensor of its own.",
                )


@case("frozen and unused parameters keep grad None")
def leaves_none(average_flat: AverageFlat) -> None:
    for layout, seen in _layouts(average_flat):
        for each in seen:
            filled = [one.name for one in layout if not one.has_gradient and each.gradients[one.name] is not None]
            if filled:
                raise Wrong(
                    "none_filled",
                    f"{filled[0]!r} had no gradient and has one now. An optimizer treats None and zeros differently "
                    "(momentum and weight decay go on for zeros); leave None alone.",
                )


@case("the ledger has at most one message per data type")
def few_messages(average_flat: AverageFlat) -> None:
    for layout, seen in _layouts(average_flat):
        num_dtypes, messages = len({one.dtype for one in layout if one.has_gradient}), seen[0].messages
        if len(messages) > num_dtypes:
            raise Wrong(
                "message_each",
                f"The ledger counts {len(messages)} messages where the gradients have {num_dtypes} data type(s), of "
                f"shapes {messages}. Each pays the latency; lay the gradients of a type side by side and send once.",
            )


@case("a model without any gradient sends nothing")
def nothing(average_flat: AverageFlat) -> None:
    for seen in seen_on_ranks(program, average_flat):
        if seen[-1].error:
            raise Wrong(
                "nothing_to_send",
                f"With frozen and unused parameters alone your function raised {seen[-1].error}; there is nothing to "
                "lay side by side, and nothing to send.",
            )
        if seen[-1].messages:
            raise Wrong("nothing_to_send", "A model without any gradient sent a message; it has nothing to average.")


def _judge_left_out(one: _Parameter, layout: _Layout, got: dict[str, torch.Tensor | None], rank: int) -> None:
    """Whether this gradient alone is the rank's own, while others became the mean."""
    right = [
        other.name
        for other in layout
        if other.has_gradient
        and torch.Size(other.shape).numel()
        and close(got[other.name], mean([gradient_of(other, each) for each in range(WORLD_SIZE)]))
    ]
    if right and one.name not in right and close(got[one.name], gradient_of(one, rank)) and 0 not in one.shape:
        raise Wrong(
            "left_out",
            f"The gradient of {one.name!r}, of shape {one.shape} and {one.dtype}, is still this rank's own, and that "
            f"of {right[0]!r} is the mean: this one is not in the message, or is never written back.",
        )


def _judge(one: _Parameter, rank: int, got_by_rank: list[torch.Tensor | None], parts: list[torch.Tensor]) -> None:
    """Name the bug from the numbers."""
    got, expected, name = got_by_rank[rank], mean(parts), one.name
    if got is None:
        raise Wrong("gone", f"The gradient of {name!r} is None after the call; write the mean into it.")
    if got.shape != expected.shape:
        raise Wrong("shape", f"The gradient of {name!r} has shape {tuple(got.shape)}; give it back its own shape.")
    if close(got, expected, 1e-5):
        return
    if close(got, expected * WORLD_SIZE):
        raise Wrong(
            "sum", f"The gradient of {name!r} is the sum over the ranks. all_reduce sums; divide by world_size()."
        )
    if all(close(each, parts[0]) for each in got_by_rank):
        raise Wrong("rank_0_kept", f"Both ranks have rank 0's gradient of {name!r}; the data of rank 1 is lost.")
    if close(got, parts[rank]):
        raise Wrong(
            "not_restored",
            f"The gradient of {name!r} is still this rank's own. The flat tensor is a copy: after the message, write "
            "its pieces back into the gradients.",
        )
    others = set(range(1, 20)) - {one.number}
    if others & {int(value // 100) for value in got.flatten().tolist()}:  # each has a hundred of its own
        raise Wrong(
            "wrong_parameter",
            f"The gradient of {name!r} holds the numbers of another parameter. Cut the flat tensor in the order in "
            "which it was filled, and let only those gradients count that are in it.",
        )
    raise Wrong("value", f"The gradient of {name!r} is {got.tolist()}, and the mean is {expected.tolist()}.")
