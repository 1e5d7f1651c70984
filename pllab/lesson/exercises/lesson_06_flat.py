"""The cases of exercise 06.1: `average_flat(model)` puts all gradients into one message per data type.

Gradients are written by hand, so that every number tells its rank, its parameter and its place. The ranks run once,
with several models: one made to mix things up, one drawn at random, and one without any gradient. All cases judge what
was seen.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import close, compare_tensors
from pllab.lesson.mistakes import Mistake, retold

_SIZE = 2
_PLAN = ((_SIZE, 1),)


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
    """Drawn at random, always the same: the data types alternate, a gradient may be empty, one parameter is unused."""
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
_NOTHING = _numbered(_Parameter("frozen", (2, 2)), _Parameter("unused", (3,)))
_LAYOUTS = {"many shapes": _MIXED, "drawn at random": _drawn(), "short types": _SHORT, "no gradient": _NOTHING}


@until_one_fails
def average_on_ranks(watch: Watch, rank: int, world_size: int, average_flat: Function) -> Calls:
    """On every rank: a call for each model, or for the first one in a world of one; the value is the gradients."""
    for name, layout in list(_LAYOUTS.items())[: None if world_size > 1 else 1]:
        model = nn.Module()
        for one in layout:
            gradient = _gradient(one, rank)
            parameter = nn.Parameter(torch.zeros_like(gradient), requires_grad=not one.name.startswith("frozen"))
            parameter.grad = gradient if one.has_gradient else None
            model.register_parameter(one.name, parameter)
        attempt = watch.attempt(average_flat, model)
        yield name, attempt.holding({each: parameter.grad for each, parameter in model.named_parameters()})


def _gradient(one: _Parameter, rank: int) -> torch.Tensor:
    """Numbers such as 312: rank 1 adds 7 to them; float64 and float32 have digits that the next smaller type loses."""
    places = torch.arange(float(torch.Size(one.shape).numel()), dtype=one.dtype)
    digits = {torch.float64: 1e-7, torch.float32: 2.0**-4}.get(one.dtype, 0.0)
    gradient = (100 * one.number + places * (1 + digits) + (7 + digits) * rank).reshape(one.shape)
    if one.name == "transposed":
        gradient = gradient.T.contiguous().T
    return torch.zeros_like(gradient) if one.name == f"zero_on_rank_{rank}" else gradient


def _compare(
    average_flat: Function,
    parameters: Callable[[_Parameter], bool],
    mistakes: Sequence[Mistake],
    *,
    size: int = _SIZE,
    tolerance: float = 1e-5,
) -> None:
    """Compare the gradients of these parameters, in all models that have a gradient, with the mean."""
    for name, layout in list(_LAYOUTS.items())[: 3 if size > 1 else 1]:
        seen = seen_in_call(average_on_ranks, average_flat, _PLAN, size, name)
        compare_tensors(
            lambda one, rank, seen=seen: seen[rank].value[one.name],
            [(one, rank) for one in layout if parameters(one) for rank in range(size)],
            partial(_mean, size=size),
            mistakes,
            asked=f"{{0.name}}, {{0.dtype}}, on rank {{1}} of {size},",
            same=partial(close, rtol=tolerance, atol=tolerance),
        )


def _mean(one: _Parameter, _: int, size: int, factor: int = 1) -> torch.Tensor | None:
    """The mean over the ranks, where there is a gradient, or a multiple of it."""
    return torch.stack([_gradient(one, rank) for rank in range(size)]).mean(0) * factor if one.has_gradient else None


_DTYPE_LOST = Mistake(
    "dtype_lost",
    "That is nearly right: it travelled in a smaller type. Give each data type a separate flat tensor.",
    when=lambda got, one, rank: close(got, _mean(one, rank, _SIZE), rtol=1e-2),
)


@case("every gradient is the mean over the ranks, in its own parameter")
def in_place(average_flat: Function) -> None:
    mistakes = [
        Mistake(
            "sum", "That is the sum over the ranks; divide by world_size().", like=partial(_mean, size=2, factor=2)
        ),
        Mistake(
            "left_out",
            "That is this rank's own gradient: it was not in the message, or never written back.",
            like=_gradient,
        ),
        _DTYPE_LOST,
    ]
    _compare(average_flat, lambda one: one.has_gradient, mistakes)
    half = Mistake(
        "literal_world_size",
        "That is half of the sum, which is right only on two ranks. Ask world_size().",
        like=lambda one, rank: _gradient(one, rank) / 2,
    )
    _compare(average_flat, lambda one: one.has_gradient, [half], size=1)


@case("float64 gradients keep their precision")
def keeps_digits(average_flat: Function) -> None:
    _compare(average_flat, lambda one: one.has_gradient and one.dtype == torch.float64, [_DTYPE_LOST], tolerance=1e-12)


@case("frozen and unused parameters keep grad None")
def leaves_none(average_flat: Function) -> None:
    why = "Leave None alone: where a gradient is zeros, an optimizer goes on with momentum and weight decay."
    _compare(average_flat, lambda one: not one.has_gradient, [Mistake("none_filled", why)])


@case("the ledger has at most one message per data type")
def few_messages(average_flat: Function) -> None:
    for name, layout in _LAYOUTS.items():
        num_dtypes = len({one.dtype for one in layout if one.has_gradient})
        sent = seen_in_call(average_on_ranks, average_flat, _PLAN, _SIZE, name)[0].messages if num_dtypes else ()
        if len(sent) > num_dtypes:
            told = f"The gradients have {num_dtypes} data type(s), and your function sent {len(sent)} messages"
            why = "Lay the gradients of a type side by side and send once."
            raise Wrong("message_each", f"{told}. {why}")


@case("a model without any gradient sends nothing")
def nothing(average_flat: Function) -> None:
    with retold("nothing_to_send", "There is nothing to lay side by side.", of="raised"):
        seen = seen_in_call(average_on_ranks, average_flat, _PLAN, _SIZE, "no gradient")
    if sent := seen[0].messages:
        raise Wrong("nothing_to_send", f"A model without any gradient sent {len(sent)} message(s); right is none.")
