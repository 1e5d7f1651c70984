"""The cases of exercise 06.1: `average_flat(model)` puts all gradients into one message per data type.

Gradients are written by hand, so that every number tells its rank, its parameter and its place. The ranks run once;
all cases judge what was seen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pllab.comm import record_messages
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_06_ranks import WORLD_SIZE, close, mean, seen_on_ranks

AverageFlat = Callable[[nn.Module], Any]

# Shapes repeat in size and differ in form, so that a mix-up raises nothing.
_SHAPES: tuple[tuple[str, tuple[int, ...], torch.dtype], ...] = (
    ("wide", (2, 3), torch.float32),
    ("frozen", (6,), torch.float32),
    ("tall", (3, 2), torch.float32),
    ("exact", (2, 2), torch.float64),
    ("unused", (6,), torch.float32),
    ("row", (6,), torch.float32),
    ("single", (), torch.float32),
    ("offset", (4,), torch.float64),
)
_WITHOUT = ("frozen", "unused")
_NUM_DTYPES = 2


@dataclass(frozen=True)
class Seen:
    """What one rank had after the call: gradients by name, and the shapes of its messages."""

    gradients: dict[str, torch.Tensor | None]
    messages: list[tuple[int, ...]]


def program(rank: int, _world_size: int, average_flat: AverageFlat, _folder: str) -> Seen:
    """One call on one rank."""
    model = nn.Module()
    for name, shape, dtype in _SHAPES:
        parameter = nn.Parameter(torch.zeros(shape, dtype=dtype), requires_grad=name != "frozen")
        parameter.grad = None if name in _WITHOUT else gradient_of(name, rank)
        model.register_parameter(name, parameter)
    with record_messages() as ledger:
        average_flat(model)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return Seen(gradients, [message.shape for message in ledger.messages])


def gradient_of(name: str, rank: int) -> torch.Tensor:
    """Numbers such as 312.0: rank 1 adds 7 to them, and float64 has digits that float32 cannot hold."""
    number = [name for name, *_ in _SHAPES].index(name)
    _, shape, dtype = _SHAPES[number]
    places = torch.arange(float(torch.Size(shape).numel()), dtype=dtype)
    digits = 1e-7 if dtype == torch.float64 else 0.0
    return (100 * (number + 1) + places * (1 + digits) + (7 + digits) * rank).reshape(shape)


@case("every gradient is the mean over the ranks, in its own parameter")
def in_place(average_flat: AverageFlat) -> None:
    seen = seen_on_ranks(program, average_flat)
    for name, _, _ in _SHAPES:
        if name not in _WITHOUT:
            parts = [gradient_of(name, rank) for rank in range(WORLD_SIZE)]
            for rank in range(WORLD_SIZE):
                _judge(name, rank, [one.gradients[name] for one in seen], parts)


@case("float64 gradients keep their digits")
def keeps_digits(average_flat: AverageFlat) -> None:
    for name in ("exact", "offset"):
        expected = mean([gradient_of(name, rank) for rank in range(WORLD_SIZE)])
        if not all(close(one.gradients[name], expected, 1e-12) for one in seen_on_ranks(program, average_flat)):
            raise Wrong(
                "dtype_lost",
                f"The float64 gradient of {name!r} came back with the digits of a smaller type: it travelled in a flat "
                "tensor of float32. Give each data type a flat tensor of its own.",
            )


@case("frozen and unused parameters keep grad None")
def leaves_none(average_flat: AverageFlat) -> None:
    for one in seen_on_ranks(program, average_flat):
        for name in _WITHOUT:
            if one.gradients[name] is not None:
                raise Wrong(
                    "none_filled",
                    f"{name!r} had no gradient and has one now. An optimizer treats None and zeros differently "
                    "(momentum and weight decay go on for zeros); leave None alone.",
                )


@case("the ledger has at most one message per data type")
def few_messages(average_flat: AverageFlat) -> None:
    messages = seen_on_ranks(program, average_flat)[0].messages
    if len(messages) > _NUM_DTYPES:
        raise Wrong(
            "message_each",
            f"The ledger counts {len(messages)} messages for {_NUM_DTYPES} data types, of shapes {messages}. Each "
            "pays the latency; lay the gradients side by side and send once.",
        )


def _judge(name: str, rank: int, got_by_rank: list[torch.Tensor | None], parts: list[torch.Tensor]) -> None:
    """Name the bug from the numbers."""
    got, expected = got_by_rank[rank], mean(parts)
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
    if all(close(one, parts[0]) for one in got_by_rank):
        raise Wrong("rank_0_kept", f"Both ranks have rank 0's gradient of {name!r}; the data of rank 1 is lost.")
    if close(got, parts[rank]):
        raise Wrong(
            "not_restored",
            f"The gradient of {name!r} is still this rank's own. The flat tensor is a copy: after the message, write "
            "its pieces back into the gradients.",
        )
    if _has_numbers_of_another(got, name):
        raise Wrong(
            "wrong_parameter",
            f"The gradient of {name!r} holds the numbers of another parameter. Cut the flat tensor in the order in "
            "which it was filled, and let only those gradients count that are in it.",
        )
    raise Wrong("value", f"The gradient of {name!r} is {got.tolist()}, and the mean is {expected.tolist()}.")


def _has_numbers_of_another(got: torch.Tensor, name: str) -> bool:
    """Whether some of the numbers belong to another parameter: each has a hundred of its own."""
    own = [name for name, *_ in _SHAPES].index(name) + 1
    hundreds = {int(value // 100) for value in got.flatten().tolist()}
    return bool(hundreds & (set(range(1, len(_SHAPES) + 1)) - {own}))
