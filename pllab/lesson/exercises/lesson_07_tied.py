"""The cases of exercise 07.3: `tie_gradients(first, last)` on the two copies of a tied embedding.

The oracle is a plain model with one embedding that looks up and scores. SGD shows a wrong factor; Adam would hide it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from pllab.lesson.exercise import Asked, Wrong, case

Tie = Callable[[nn.Parameter, nn.Parameter], Any]

_VOCABULARY, _WIDTH, _STEPS, _RATE = 6, 4, 3, 0.5


@case("both copies get the sum of the two gradients")
def one_call(tie: Asked) -> None:
    """Gradients that tell by their values what became of them: 1 and 10."""
    first, last = tie.inside(tied, (1.0, 10.0))
    if not (torch.equal(first.weight, _start()) and torch.equal(last.weight, _start())):
        raise Wrong("touched_weights", "The weights themselves have changed; only the gradients are to be added.")
    _judge(_value_of(first, "first"), _value_of(last, "last"))


@case("after three steps of SGD both copies equal the weight of the plain model")
def three_steps(tie: Asked) -> None:
    """Two stages with a copy each, against one model with one matrix."""
    plain = _Model(nn.Parameter(_start()))
    steps = tie.inside(trained)
    for step, (first, last) in enumerate(steps):
        _train(plain, _batch(step), lambda: None)
        apart = float((first - last).abs().max())
        if apart > 1e-5:
            raise Wrong("drifted", f"After step {step + 1} the two copies differ by up to {apart:.2g}.")
    for copy in steps[-1]:
        if not torch.allclose(copy, plain.look_up, rtol=1e-4, atol=1e-5):
            raise Wrong("not_the_plain_model", "After 3 steps the copies are equal, and not the plain model's weight.")


@case("each copy has a gradient tensor of its own")
def two_tensors(tie: Asked) -> None:
    """One tensor for both would be added to twice by the next backward."""
    for grads in ((1.0, 10.0), (1.0, None), (None, 1.0), (None, None)):
        first, last = _asked(tie, grads)
        if first.grad is None or last.grad is None or last.grad_after is None:
            continue  # another case asks for what is missing
        if not torch.equal(last.grad, last.grad_after):
            raise Wrong(
                "one_tensor",
                f"The gradients were {grads[0]} and {grads[1]}. After your call both copies' gradients share one "
                "memory, and what is added to one is added to the other: the next backward adds twice. Give each copy "
                "a gradient of its own, also where one of them had none.",
            )


@case("a copy without a gradient counts as zero")
def missing(tie: Asked) -> None:
    """A copy whose stage had nothing to learn in this batch."""
    for grads in ((1.0, None), (None, 1.0), (None, None)):
        first, last = _asked(tie, grads)
        values = [0.0 if copy.grad is None else float(copy.grad.mean()) for copy in (first, last)]
        right = sum(grad or 0.0 for grad in grads)
        if values != [right, right]:
            raise Wrong(
                "ignores_missing",
                f"With gradients {grads[0]} and {grads[1]} the copies should both have {right:g} and have "
                f"{values[0]:g} and {values[1]:g}; otherwise they take different steps.",
            )


@case("gradients in float64 and bfloat16 keep their type and their digits")
def other_types(tie: Asked) -> None:
    """What float32 cannot hold, and a zero that must not be a float32."""
    for dtype, *grads in (
        (torch.float64, 1.0 + 2.0**-40, 10.0),
        (torch.float64, None, 1.0 + 2.0**-40),
        (torch.bfloat16, 1.5, None),
        (torch.bfloat16, None, 1.5),
    ):
        asked = f"With copies in {str(dtype).removeprefix('torch.')} and gradients {grads[0]} and {grads[1]}"
        try:
            copies = tie.inside(tied, tuple(grads), str(dtype).removeprefix("torch."))
        except (Wrong, NotImplementedError):
            raise
        except Exception as error:
            raise Wrong(
                "other_type",
                f"{asked} your function raised {type(error).__name__}. A gradient has the type of its weight, and so "
                "has a zero that stands for a missing one.",
            ) from None
        right = torch.full_like(_start(), sum(grad or 0.0 for grad in grads), dtype=dtype)
        for copy in copies:
            if copy.grad is not None and (
                copy.grad.dtype != dtype or not torch.allclose(copy.grad, right, rtol=1e-14, atol=0)
            ):
                raise Wrong(
                    "lost_digits",
                    f"{asked} a copy has {copy.grad.flatten()[0].item()!r} in the end, and the sum is "
                    f"{right.flatten()[0].item()!r}. Add in the type of the gradients; another one on the way rounds.",
                )


class Copy(NamedTuple):
    """One copy after a call: the weight, its gradient, and that again when 1 was added to the first copy's."""

    weight: torch.Tensor
    grad: torch.Tensor | None
    grad_after: torch.Tensor | None


def tied(tie: Tie, grads: tuple[float | None, float | None], dtype: str = "float32") -> tuple[Copy, Copy]:
    """In the process of the function: both copies after a call with these gradients."""
    first, last = _copies(*grads, dtype=getattr(torch, dtype))
    tie(first, last)
    before = [None if copy.grad is None else copy.grad.detach().clone() for copy in (first, last)]
    if first.grad is not None:
        first.grad.data.add_(1.0)
    return Copy(first.detach(), before[0], first.grad), Copy(last.detach(), before[1], last.grad)


def trained(tie: Tie) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """In the process of the function: both copies after each step of training."""
    pair = _Model(*_copies(None, None))
    seen = []
    for step in range(_STEPS):
        _train(pair, _batch(step), lambda: tie(pair.look_up, pair.score))
        seen.append((pair.look_up.detach().clone(), pair.score.detach().clone()))
    return seen


class _Model(nn.Module):
    """A matrix that looks up and one that scores: the same in the plain model, a copy in each of two stages."""

    def __init__(self, *copies: nn.Parameter) -> None:
        super().__init__()
        self.look_up, self.score = copies[0], copies[-1]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.tanh(functional.embedding(ids, self.look_up)) @ self.score.T


def _start() -> torch.Tensor:
    return torch.randn(_VOCABULARY, _WIDTH, generator=torch.Generator().manual_seed(7))


def _batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    numbers = torch.randint(_VOCABULARY, (2, 16), generator=torch.Generator().manual_seed(step))
    return numbers[0], numbers[1]


def _train(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor], before_step: Callable[[], Any]) -> None:
    """One step of SGD by hand, so the function under test only sees gradients, and no optimizer is imported."""
    ids, targets = batch
    model.zero_grad()
    functional.cross_entropy(model(ids), targets).backward()
    before_step()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=_RATE)


def _copies(*grads: float | None, dtype: torch.dtype = torch.float32) -> tuple[nn.Parameter, nn.Parameter]:
    first, last = nn.Parameter(_start().to(dtype)), nn.Parameter(_start().to(dtype))
    for copy, grad in zip((first, last), grads, strict=True):
        copy.grad = None if grad is None else torch.full_like(copy, grad)
    return first, last


def _asked(tie: Asked, grads: tuple[float | None, float | None]) -> tuple[Copy, Copy]:
    """Say what it is when only a missing gradient makes the function fail."""
    try:
        first, last = tie.inside(tied, grads)
    except (Wrong, NotImplementedError):
        raise
    except Exception as error:
        if None not in grads:
            raise
        raise Wrong(
            "crash_without_gradient",
            f"A copy's grad is None and your function raised {type(error).__name__}; None counts as zero.",
        ) from None
    return first, last


def _value_of(copy: Copy, name: str) -> float:
    if copy.grad is None:
        raise Wrong("lost_gradient", f"After your call the {name} copy has no gradient at all; it needs the sum.")
    return float(copy.grad.mean())


def _judge(first: float, last: float) -> None:
    """What two numbers say about the function: the gradients were 1 and 10."""
    if (first, last) == (11.0, 11.0):
        return
    said = f"The gradients were 1 and 10 and both should be 11 now; they are {first:g} and {last:g}."
    if (first, last) == (1.0, 10.0):
        raise Wrong("unchanged", f"{said} Nothing was added; store the sum in first.grad and in last.grad.")
    if first == last == 5.5:
        raise Wrong("averaged", f"{said} These are two halves of one gradient, not two opinions: add, do not average.")
    if 11.0 in (first, last) and {first, last} & {1.0, 10.0}:
        raise Wrong("one_copy_only", f"{said} Only one copy takes the whole step, and the copies drift apart.")
    if first == last and first in (1.0, 10.0):
        raise Wrong("one_gradient", f"{said} One of the two gradients was thrown away.")
    if max(first, last) > 11.0:
        raise Wrong(
            "counted_twice",
            f"{said} A gradient was counted twice: keep the sum apart before you change the first of them.",
        )
    raise Wrong("wrong_gradient", said)
