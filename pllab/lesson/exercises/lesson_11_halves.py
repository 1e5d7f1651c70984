"""The cases of exercise 11.1: `halves(inputs, weights, grad)` gives the input's gradient now and the weights' later.

What is computed when is seen by counting the matrix products that PyTorch is asked for, and by looking for the right
gradients among its results; the gradients are held against autograd's.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pllab.lesson.exercise import Asked, Function, Wrong, case, inside_once
from pllab.lesson.exercises.tensors import close, identical
from pllab.lesson.mistakes import Mistake, compare

_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot"})
# Widths of the layers from the input to the output, and the number of rows, which is none of them.
_SHAPES = [((5, 3), 7), ((4, 6, 3), 7), ((3, 5, 4, 2), 9), ((4, 4, 4), 2), ((2, 1, 6, 3, 5, 4), 8), ((3, 2), 1)]


class _Chain:
    """A chain of linear layers without bias, what each is given, and the gradients that autograd finds.

    The gradients are computed when they are asked for, so there are none in the process of the function.
    """

    def __init__(
        self, widths: Sequence[int], rows: int, seed: int = 0, weights: list[torch.Tensor] | None = None
    ) -> None:
        draw = torch.Generator().manual_seed(seed)
        sizes = list(zip(widths, widths[1:], strict=False))
        drawn = [torch.randn(out, into, generator=draw, dtype=torch.float64) for into, out in sizes]
        self.weights = weights or drawn
        *self.inputs, y = self._outputs(torch.randn(rows, widths[0], generator=draw, dtype=torch.float64), self.weights)
        self.grad = torch.randn(y.shape, generator=draw, dtype=torch.float64)

    @staticmethod
    def _outputs(x: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The input, and what each layer makes of it."""
        return list(accumulate(weights, lambda y, weight: y @ weight.T, initial=x))

    def _all_gradients(self) -> tuple[torch.Tensor, ...]:
        leaves = [leaf.clone().requires_grad_() for leaf in (self.inputs[0], *self.weights)]
        return torch.autograd.grad(self._outputs(leaves[0], leaves[1:])[-1], leaves, self.grad)

    @property
    def dx(self) -> torch.Tensor:
        """The gradient of the input."""
        return self._all_gradients()[0]

    @property
    def dw(self) -> list[torch.Tensor]:
        """The gradients of the weights."""
        return list(self._all_gradients()[1:])


class _Watched(TorchDispatchMode):
    """Count the matrix products, and keep every result of a weight's shape, however it was made."""

    def __init__(self, chain: _Chain) -> None:
        super().__init__()
        self._shapes = {shape for weight in chain.weights for shape in (weight.shape, weight.T.shape)}
        self.products = 0
        self.made: list[torch.Tensor] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and torch would import its compiler to say so, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.products += func.overloadpacket.__name__ in _PRODUCTS
        result = func(*args, **(kwargs or {}))
        if torch.is_tensor(result) and result.shape in self._shapes:
            self.made.append(result.detach().clone())
        return result


class Seen(NamedTuple):
    """What a first half gave and made, what a second half gave, and the matrix products of both."""

    got: torch.Tensor
    made: list[torch.Tensor]
    products: int
    later: Any = None
    later_products: int = 0


def seen_halves(halves: Function, widths: Sequence[int], rows: int, with_second: bool = False) -> Seen:
    """In the process of the function: the first half, and the second one if it is asked for."""
    chain = _Chain(widths, rows)
    first, weight_half, refuse_changes = _run_first(halves, chain)
    if not with_second:
        return first
    with _Watched(chain) as watched:
        later = _gradients(weight_half())
    refuse_changes()
    return first._replace(later=later, later_products=watched.products)


def _run_first(halves: Function, chain: _Chain) -> tuple[Seen, Callable[[], Any], Callable[[], None]]:
    """What the first half did, the second half, and what refuses changes of what was given or returned."""
    inputs, weights, grad = given = list(chain.inputs), list(chain.weights), chain.grad
    before = deepcopy(given)
    with _Watched(chain) as watched:
        answer = halves(*given)
    is_pair = isinstance(answer, tuple | list) and len(answer) == 2
    if not (is_pair and torch.is_tensor(answer[0]) and callable(answer[1])):
        kinds = [type(one).__name__ for one in (answer if is_pair else [answer])]
        told = f"Your function returned {' and '.join(kinds)}; return the gradient of the input, a tensor"
        raise Wrong("no_pair", f"{told}, and a function that computes those of the weights when you call it.")
    returned = answer[0].clone()

    def refuse_changes() -> None:
        now, then = [*inputs, *weights, grad, answer[0]], [*before[0], *before[1], before[2], returned]
        if len(now) != len(then) or not all(map(identical, now, then)):
            text = "Your function changes a list or a tensor that it was given or has returned; others may use it."
            raise Wrong("overwritten", text)

    refuse_changes()
    return Seen(answer[0], watched.made, watched.products), answer[1], refuse_changes


def _gradients(answer: Any) -> list[Any]:
    """What a second half returned, which may be a generator; of a single layer the gradient may stand alone."""
    if torch.is_tensor(answer):
        return [answer]
    if not isinstance(answer, Iterable):
        raise Wrong("no_pair", f"Your second half returned {answer!r}; return the list of the weights' gradients.")
    return list(answer)


def _are_close(got: list[Any], right: list[torch.Tensor]) -> bool:
    return len(got) == len(right) and all(map(close, got, right))


def _show(gradients: list[Any]) -> str:
    told = [f"{tuple(one.shape)} of length {one.norm():.4g}" if torch.is_tensor(one) else one for one in gradients]
    return ", ".join(map(str, told)) or "nothing"


_compare = partial(compare, same=_are_close, show=_show)
_about = partial(_compare, asked="the widths {} and {} rows")


def _first(halves: Asked) -> Callable[..., Seen]:
    return partial(inside_once, seen_halves, halves)


def _both(halves: Asked) -> Callable[..., Seen]:
    return lambda *shape: inside_once(seen_halves, halves, *shape, True)


@case("it returns the gradient of the input and a function")
def two_halves(halves: Asked) -> None:
    for shape in _SHAPES:
        _first(halves)(*shape)


@case("the gradient of the input is autograd's, for one layer and for chains")
def right_input(halves: Asked) -> None:
    _about(
        _first(halves),
        _SHAPES,
        lambda *shape: [_Chain(*shape).dx],
        read=lambda seen, *_: [seen.got],
        hint_id="wrong_input_gradient",
    )


@case("the first half computes no gradient of a weight")
def input_first(halves: Asked) -> None:
    for shape in _SHAPES:
        made = _first(halves)(*shape).made
        if any(close(one, right) for one in made for dw in _Chain(*shape).dw for right in (dw, dw.T)):
            told = f"For the widths {shape[0]} and {shape[1]} rows your first half computes gradients of weights"
            why = "Others wait for the input's gradient: leave the weights to the function."
            raise Wrong("weights_too_early", f"{told}. {why}")


_WEIGHT_MISTAKES = (
    Mistake(
        "late_binding",
        "Your functions look their names up when they are called, after the loop. Bind the values, or keep a list.",
        like=lambda *shape: [_Chain(*shape).dw[0] for _ in _Chain(*shape).dw],
    ),
    Mistake(
        "reversed",
        "The gradients come from the last layer to the first; give them in the order of the weights.",
        like=lambda *shape: _Chain(*shape).dw[::-1],
    ),
    Mistake(
        "transposed",
        "The gradients are transposed; each has the shape of its weight.",
        like=lambda *shape: [dw.T for dw in _Chain(*shape).dw],
    ),
)


@case("the gradients of the weights are autograd's, in order")
def right_weights(halves: Asked) -> None:
    _about(
        _both(halves),
        _SHAPES,
        lambda *shape: _Chain(*shape).dw,
        _WEIGHT_MISTAKES,
        read=lambda seen, *_: seen.later,
        hint_id="wrong_weight_gradient",
    )


@case("nothing is computed twice (matrix products are counted)")
def nothing_twice(halves: Asked) -> None:
    _about(
        _both(halves),
        _SHAPES,
        lambda widths, _: (len(widths) - 1, len(widths) - 1),
        read=lambda seen, *_: (seen.products, seen.later_products),
        same=lambda made, enough: made[0] <= enough[0] and made[1] <= enough[1],
        show="{0[0]} matrix products in the first half and {0[1]} in the second".format,
        hint_id="twice",
    )


_ORDER = (2, 0, 3, 1)  # of the second halves


def _several() -> list[_Chain]:
    """Four micro-batches; all but that of number 2 have the same weights."""
    first = _Chain((4, 6, 3), 7, 5)
    return [first, _Chain((4, 6, 3), 7, 6, first.weights), _Chain((3, 3), 4, 7), _Chain((4, 6, 3), 5, 8, first.weights)]


def several_halves(halves: Function) -> dict[int, tuple[Any, Any]]:
    """In the process of the function: all first halves, then the second halves in another order.

    Of each micro-batch what its second half returned or raised, and the same when all are over.
    """
    second_halves = [_run_first(halves, chain)[1] for chain in _several()]
    seen: dict[int, tuple[Any, Any]] = {}
    for number in _ORDER:
        try:
            answer = _gradients(second_halves[number]())
        except (RuntimeError, LookupError, TypeError, ValueError) as error:
            answer = [f"{type(error).__name__}: {error}"]
        seen[number] = [one.clone() if torch.is_tensor(one) else one for one in answer], answer
    return seen


@case("the second halves of several micro-batches may come in any order")
def in_any_order(halves: Asked) -> None:
    chains, seen = _several(), halves.inside(several_halves)
    questions = [(number,) for number in _ORDER]

    def added_up(number: int) -> list[torch.Tensor]:
        so_far = [chains[i].dw for i in _ORDER[: _ORDER.index(number) + 1] if i != 2]
        return [torch.stack(dws).sum(0) for dws in zip(*so_far, strict=True)]

    _compare(
        lambda number: seen[number][0],
        questions,
        lambda number: chains[number].dw,
        [Mistake("adds_up", "That adds up the micro-batches so far; return the gradients of this one.", like=added_up)],
        asked="the second half of micro-batch {}, after the first halves of all,",
        hint_id="mixed_up",
    )
    _compare(
        lambda number: seen[number][1],
        questions,
        lambda number: chains[number].dw,
        asked="micro-batch {}, looked at again after all second halves,",
        hint_id="overwritten",
    )
