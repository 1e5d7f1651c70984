"""The cases of exercise 07.3: `tie_gradients(first, last)` on the two copies of a tied embedding.

The oracle is a plain model with one embedding that looks up and scores. SGD shows a wrong factor; Adam would hide it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from pllab.lesson.exercise import Asked, Function, Wrong, case
from pllab.lesson.exercises.tensors import sgd_step
from pllab.lesson.mistakes import Mistake, compare

Question = tuple[float | None, float | None, str]  # the gradients of both copies, and their type

_VOCABULARY, _WIDTH, _STEPS, _RATE = 6, 4, 3, 0.5
_BOTH: Question = (1.0, 10.0, "float32")
_NOT_BOTH: list[Question] = [(1.0, None, "float32"), (None, 1.0, "float32"), (None, None, "float32")]
# What float32 cannot hold, and a zero that must not be a float32.
_OTHER_TYPES: list[Question] = [(1.0 + 2.0**-40, 10.0, "float64"), (None, 1.0 + 2.0**-40, "float64")]
_OTHER_TYPES += [(1.5, None, "bfloat16"), (None, 1.5, "bfloat16")]


class Copy(NamedTuple):
    """One copy after a call: the weight, its gradient, and that again when 1 was added to the first copy's."""

    weight: torch.Tensor
    grad: torch.Tensor | None
    grad_after: torch.Tensor | None


def tied(tie: Function, first_grad: float | None, last_grad: float | None, dtype: str) -> list[Copy]:
    """In the process of the function: both copies after a call with these gradients."""
    copies = [nn.Parameter(_start().to(getattr(torch, dtype))) for _ in range(2)]
    for copy, grad in zip(copies, (first_grad, last_grad), strict=True):
        copy.grad = None if grad is None else torch.full_like(copy, grad)
    tie(*copies)
    before = [None if copy.grad is None else copy.grad.detach().clone() for copy in copies]
    if copies[0].grad is not None:
        copies[0].grad.data.add_(1.0)
    return [Copy(copy.detach(), grad, copy.grad) for copy, grad in zip(copies, before, strict=True)]


def _values(copies: Sequence[Copy], *_: Any) -> list[Any]:
    """Which numbers are in each copy's gradient: one, as in those that the function was given."""
    if not all(torch.equal(copy.weight, _start().to(copy.weight.dtype)) for copy in copies):
        raise Wrong("touched_weights", "The weights themselves have changed; add their gradients and nothing else.")
    if any(copy.grad is not None and copy.grad.dtype != copy.weight.dtype for copy in copies):
        raise Wrong("lost_digits", "A gradient has another type than its weight.")
    values = [None if copy.grad is None else copy.grad.unique().tolist() for copy in copies]
    return [value[0] if value and len(value) == 1 else value for value in values]


def _compare(tie: Asked, questions: Sequence[Question], *mistakes: Mistake, hint_id: str = "wrong") -> None:
    compare(
        partial(tie.inside, tied),
        questions,
        lambda first, last, _: [(first or 0.0) + (last or 0.0)] * 2,
        mistakes,
        asked="gradients {} and {} in {}",
        read=_values,
        same=lambda values, right: values == right or (values == [None, None] and right == [0.0, 0.0]),
        show=lambda values: " and ".join(map(repr, values)),
        hint_id=hint_id,
    )


@case("both copies get the gradient of the plain model's one weight")
def one_call(tie: Asked) -> None:
    _compare(
        tie,
        [_BOTH],
        Mistake("averaged", "These are two halves of one gradient: add, do not average.", like=lambda *_: [5.5, 5.5]),
        Mistake(
            "one_copy_only",
            "Only one copy takes the whole step, and the copies drift apart.",
            when=lambda values, *_: values in ([11.0, 10.0], [1.0, 11.0]),
        ),
        Mistake(
            "counted_twice",
            "A gradient was counted twice; keep the sum apart before you change one of the two.",
            when=lambda values, *_: values in ([11.0, 21.0], [12.0, 11.0], [22.0, 22.0]),
        ),
    )


@case("after three steps of SGD both copies equal the weight of the plain model")
def three_steps(tie: Asked) -> None:
    """Two stages with a copy each, against one model with one matrix."""
    plain = nn.Parameter(_start())
    for step, copies in enumerate(tie.inside(trained)):
        _train(plain, plain, step)
        far = [float((copy - plain.detach()).abs().max()) for copy in copies]
        if not max(far) < 1e-4:
            told = f"After step {step + 1} the two copies are {far[0]:.2g} and {far[1]:.2g} away from the plain model's"
            raise Wrong("not_the_plain_model", f"{told} weight; right is 0.")


@case("a copy without a gradient counts as zero")
def missing(tie: Asked) -> None:
    _compare(tie, _NOT_BOTH, hint_id="ignores_missing")


@case("each copy has a separate gradient tensor")
def two_tensors(tie: Asked) -> None:
    """One tensor for both would be added to twice by the next backward."""
    for question in (_BOTH, *_NOT_BOTH):
        last = tie.inside(tied, *question)[1]
        if last.grad is not None and not torch.equal(last.grad, last.grad_after):
            told = "For gradients {} and {} in {} you gave both copies gradients in one memory".format(*question)
            raise Wrong("one_tensor", f"{told}: what is added to one is added to the other. Give each its own.")


@case("gradients in float64 and bfloat16 keep their type and their precision")
def other_types(tie: Asked) -> None:
    _compare(tie, _OTHER_TYPES, hint_id="lost_digits")


def trained(tie: Function) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """In the process of the function: both copies after each step of training."""
    first, last = nn.Parameter(_start()), nn.Parameter(_start())
    seen = []
    for step in range(_STEPS):
        _train(first, last, step, partial(tie, first, last))
        seen.append((first.detach().clone(), last.detach().clone()))
    return seen


def _start() -> torch.Tensor:
    return torch.randn(_VOCABULARY, _WIDTH, generator=torch.Generator().manual_seed(7))


def _train(
    look_up: nn.Parameter, score: nn.Parameter, step: int, before_step: Callable[[], Any] = lambda: None
) -> None:
    """One step of SGD by hand, so the function under test only sees gradients."""
    ids, targets = torch.randint(_VOCABULARY, (2, 16), generator=torch.Generator().manual_seed(step))
    look_up.grad = score.grad = None
    functional.cross_entropy(torch.tanh(functional.embedding(ids, look_up)) @ score.T, targets).backward()
    before_step()
    sgd_step({look_up, score}, _RATE)  # one weight in the plain model
