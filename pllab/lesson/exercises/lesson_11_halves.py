"""The cases of exercise 11.1: `halves(inputs, weights, grad)` gives the input's gradient now and the weights' later.

What is computed when is seen by counting the matrix products that PyTorch is asked for, and by looking for the right
gradients among its results; the gradients are held against autograd's.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pllab.lesson.exercise import Asked, Wrong

Halves = Callable[[list[torch.Tensor], list[torch.Tensor], torch.Tensor], Any]
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot"})
# Widths of the layers from the input to the output; the number of rows is none of them.
_WIDTHS = [(5, 3), (4, 6, 3), (3, 5, 4, 2), (4, 4, 4), (2, 1, 6, 3, 5, 4), (3, 2)]
_ROWS = [7, 7, 9, 2, 8, 1]


def two_halves(halves: Asked) -> None:
    """A gradient, and a function that has not run yet."""
    for widths, rows in zip(_WIDTHS, _ROWS, strict=True):
        halves.inside(first_half, widths, rows, 0)


def right_input(halves: Asked) -> None:
    """The gradient of the input equals autograd's."""
    for widths, rows in zip(_WIDTHS, _ROWS, strict=True):
        _judge_input(halves.inside(first_half, widths, rows, 1).got, _Chain(widths, rows, 1))


def input_first(halves: Asked) -> None:
    """The first half makes one product for each layer, however it is written: none for a weight, and none twice."""
    for widths, rows in zip(_WIDTHS, _ROWS, strict=True):
        chain, first = _Chain(widths, rows, 2), halves.inside(first_half, widths, rows, 2)
        layers = len(chain.weights)
        if any(_close(one, right) for one in first.made for dw in chain.dw for right in (dw, dw.T)):
            raise Wrong(
                "weights_too_early",
                f"For {_layers(layers)} your first half computes gradients of weights. Others wait for the input's "
                "gradient: leave the weights to the function.",
            )
        if first.products > layers:
            told = f"the first half needs {layers} matrix product{'s' if layers > 1 else ''}, not {first.products}"
            raise Wrong(
                "input_twice",
                f"For {_layers(layers)} {told}: one for each layer, from the gradient that arrived there. What each "
                "layer was given is known, so nothing runs forward again.",
            )


def right_weights(halves: Asked) -> None:
    """The gradients of the weights equal autograd's, in the order of the layers."""
    for widths, rows in zip(_WIDTHS, _ROWS, strict=True):
        _judge_weights(halves.inside(second_half, widths, rows, 3).answer, _Chain(widths, rows, 3))


def nothing_twice(halves: Asked) -> None:
    """The second half makes one product for each layer."""
    for widths, rows in zip(_WIDTHS, _ROWS, strict=True):
        made, layers = halves.inside(second_half, widths, rows, 4).products, len(widths) - 1
        if made > layers:
            raise Wrong(
                "twice",
                f"For {_layers(layers)} the second half makes {made} products, and {layers} are enough. It computes "
                "again what the first half knew: keep the gradient that arrived at each layer.",
            )


def in_any_order(halves: Asked) -> None:
    """Four micro-batches, three with the same weights: all first halves, then the second halves in another order."""
    chains, answers = _several(), halves.inside(several_halves)
    for number, error, answer, _ in answers:
        if error:
            raise Wrong("mixed_up", f"{_SEVERAL} raised {error}: {_OWN}")
        _judge_own(answer, chains[number], chains)
    for number, _, _, later in answers:
        if not _is_right(later, chains[number]):
            raise Wrong(
                "changed_later",
                "Gradients that a second half returned are changed by the second half of another micro-batch with the "
                "same weights: return new tensors, and write into none that you gave away.",
            )


_SEVERAL = "With the first halves of several micro-batches before their second halves, a second half"
_OWN = "each call keeps its own gradients, in nothing global and not on the weights, which all micro-batches share."


def _several() -> list["_Chain"]:
    first = _Chain((4, 6, 3), 7, 5)
    return [first, _Chain((4, 6, 3), 7, 6, first.weights), _Chain((3, 3), 4, 7), _Chain((4, 6, 3), 5, 8, first.weights)]


def _judge_own(answer: Any, chain: "_Chain", chains: Sequence["_Chain"]) -> None:
    if _is_right(answer, chain):
        return
    sharing = [each for each in chains if each.weights[0] is chain.weights[0]]
    sums = [sum(dws[1:], dws[0]) for dws in zip(*(each.dw for each in sharing), strict=True)]
    pairs = [
        [one + other for one, other in zip(chain.dw, each.dw, strict=True)] for each in sharing if each is not chain
    ]
    if any(len(answer) == len(dw) and all(map(_close, answer, dw)) for dw in [sums, *pairs] if _has_length(answer)):
        raise Wrong(
            "adds_up",
            "A second half returns the sum of several micro-batches; each returns the gradients of its own, and the "
            "caller adds them up.",
        )
    raise Wrong("mixed_up", f"{_SEVERAL} returns what belongs to another micro-batch: {_OWN}")


class First(NamedTuple):
    """What a first half gave: the gradient, its matrix products, and the results that may be a weight's gradient."""

    got: torch.Tensor
    products: int
    made: list[torch.Tensor]


class Second(NamedTuple):
    """What a second half gave, and its matrix products."""

    answer: Any
    products: int


def first_half(halves: Halves, widths: Sequence[int], rows: int, seed: int) -> First:
    """In the process of the function: the first half."""
    first, _ = _run_first(halves, _Chain(widths, rows, seed))
    return first


def second_half(halves: Halves, widths: Sequence[int], rows: int, seed: int) -> Second:
    """In the process of the function: the second half."""
    chain = _Chain(widths, rows, seed)
    _, weight_half = _run_first(halves, chain)
    with _Watched(chain) as watched:
        answer = _taken(weight_half())
    return Second(answer, watched.products)


def several_halves(halves: Halves) -> list[tuple[int, str, Any, Any]]:
    """In the process of the function: all first halves, then the second halves in another order.

    Of each its number, what it raised, what it returned, and the same when all are over.
    """
    later = [_run_first(halves, chain)[1] for chain in _several()]
    seen: list[tuple[int, str, Any, Any]] = []
    for number in (2, 0, 3, 1):
        try:
            answer = _taken(later[number]())
        except Exception as error:
            return [*seen, (number, f"{type(error).__name__} ({error})", None, None)]
        seen.append((number, "", _copied(answer), answer))
    return seen


def _copied(answer: Any) -> Any:
    if torch.is_tensor(answer):
        return answer.clone()
    return [_copied(one) for one in answer] if isinstance(answer, list | tuple) else answer


def _taken(answer: Any) -> Any:
    """The answer, which may be a generator, to be read more than once."""
    return list(answer) if isinstance(answer, Iterable) and not torch.is_tensor(answer) else answer


def _has_length(answer: Any) -> bool:
    return isinstance(answer, list | tuple)


def _is_right(answer: Any, chain: "_Chain") -> bool:
    try:
        _judge_weights(answer, chain)
    except Wrong:
        return False
    return True


class _Chain:
    """A chain of linear layers without bias, what each was given, and the gradients that autograd finds."""

    def __init__(self, widths: Sequence[int], rows: int, seed: int, weights: list[torch.Tensor] | None = None) -> None:
        self.rows = rows
        draw = torch.Generator().manual_seed(seed)
        sizes = list(zip(widths, widths[1:], strict=False))
        drawn = [torch.randn(out, into, generator=draw, dtype=torch.float64) for into, out in sizes]
        self.weights = weights or drawn
        leaves = [weight.clone().requires_grad_() for weight in self.weights]
        x = torch.randn(rows, widths[0], generator=draw, dtype=torch.float64).requires_grad_()
        self.inputs, y = [], x
        for leaf in leaves:
            self.inputs.append(y.detach().clone())
            y = y @ leaf.T
        self.grad = torch.randn(y.shape, generator=draw, dtype=torch.float64)
        self.dx, *self.dw = torch.autograd.grad(y, [x, *leaves], self.grad)


class _Watched(TorchDispatchMode):
    """Count the matrix products, and keep every result of a weight's shape, however it was made."""

    def __init__(self, chain: _Chain) -> None:
        super().__init__()
        self._shapes = {shape for weight in chain.weights for shape in (weight.shape, weight.T.shape)}
        self.products = 0
        self.made: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.products += func.overloadpacket.__name__ in _PRODUCTS
        result = func(*args, **(kwargs or {}))
        if torch.is_tensor(result) and result.shape in self._shapes:
            self.made.append(result.detach().clone())
        return result


def _run_first(halves: Halves, chain: _Chain) -> tuple[First, Callable[[], Any]]:
    given = chain.grad.clone()
    with _Watched(chain) as watched:
        answer = halves(list(chain.inputs), list(chain.weights), given)
    if answer is None:
        raise Wrong("nothing", "Your function returned None; return the pair (gradient of the input, function).")
    if not isinstance(answer, tuple | list) or len(answer) != 2 or not isinstance(answer[0], torch.Tensor):
        raise Wrong("no_pair", "Return a pair: the gradient of the input, a tensor, and the function for the weights.")
    got, weight_half = answer
    if not callable(weight_half):
        raise Wrong(
            "weights_too_early",
            "The second of your pair is no function. The gradients of the weights are for later: return a function "
            "without arguments that computes them when it is called.",
        )
    if not torch.equal(given, chain.grad):
        raise Wrong("overwritten", "Your function changes the gradient it was given; the stage above may still use it.")
    return First(got, watched.products, watched.made), weight_half


def _judge_input(got: torch.Tensor, chain: _Chain) -> None:
    right, layers = chain.dx, len(chain.weights)
    if _close(got, right):
        return
    if layers > 1 and got.shape != right.shape and _close(got, chain.grad @ chain.weights[-1]):
        raise Wrong(
            "one_layer_only",
            f"For {_layers(layers)} you return the gradient between two layers. Go on to the first layer's input.",
        )
    if got.shape != right.shape:
        shapes = f"{tuple(got.shape)}, and the input is {tuple(right.shape)}"
        raise Wrong("wrong_shape", f"For {_layers(layers)} the gradient of the input is {shapes}.")
    raise Wrong(
        "wrong_input_gradient",
        f"For {_layers(layers)} the gradient of the input is not autograd's. A layer computes y = x @ weight.T, so "
        "the gradient comes back as dx = dy @ weight, through the last layer first.",
    )


def _judge_weights(answer: Any, chain: _Chain) -> None:
    layers = len(chain.weights)
    if answer is None:
        raise Wrong("no_weight_gradients", "Your second half returned None; return the list of the weights' gradients.")
    got = [answer] if isinstance(answer, torch.Tensor) and layers == 1 else list(answer)
    if len(got) != layers:
        told = f"returns {len(got)} gradient{'s' if len(got) != 1 else ''}"
        raise Wrong("too_few", f"For {_layers(layers)} your second half {told}; every weight has one.")
    right = chain.dw
    if all(map(_close, got, right)):
        return
    _judge_binding(got, chain)
    if all(map(_close, reversed(got), right)):
        raise Wrong(
            "reversed", "The gradients come from the last layer to the first; give them in order of the weights."
        )
    if all(_close(one.T, other) for one, other in zip(got, right, strict=True)):
        raise Wrong("transposed", "The gradients of the weights are transposed; a gradient has its weight's shape.")
    if any(torch.is_tensor(one) and _close(one * chain.rows, other) for one, other in zip(got, right, strict=True)):
        raise Wrong(
            "mean_of_rows", "You divide by the rows of the batch; the loss did that already, before its gradient."
        )
    raise Wrong(
        "wrong_weight_gradient",
        f"For {_layers(layers)} the gradients of the weights are not autograd's. For each layer dw = dy.T @ x, with "
        "the gradient that arrived at this layer and the input this layer got.",
    )


def _judge_binding(got: list[Any], chain: _Chain) -> None:
    """A second half that looks its names up when it is called finds what the loop left in them."""
    if _close(got[0], chain.dx.T @ chain.inputs[0]):
        raise Wrong(
            "late_binding",
            "Your second half looks the gradient up when it is called, and by then its name stands for the gradient of "
            "the input. Bind the value while the loop is at it, or keep what arrived in a list.",
        )
    if len(got) > 1 and all(_close(one, chain.dw[0]) for one in got):
        raise Wrong(
            "late_binding",
            "Every gradient that you return is the first layer's: your functions look their names up when they are "
            "called, and by then the loop is over. Bind the values while the loop is at it, or keep them in a list.",
        )


def _close(got: Any, right: torch.Tensor) -> bool:
    return torch.is_tensor(got) and got.shape == right.shape and torch.allclose(got.to(right.dtype), right, atol=1e-5)


def _layers(number: int) -> str:
    return "one layer" if number == 1 else f"a chain of {number} layers"
