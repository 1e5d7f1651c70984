"""A backward in two halves: first the gradients of the inputs, later those of the weights, with no work done twice.

The graph of a stage is a trunk, the nodes on a path from the outputs to the inputs, with branches to the parameters:

    output -- linear -- gelu -- linear -- norm -- input          the trunk: I walks it
                |                 |         |
              weight            weight    weight                 the branches: W walks them

I lets autograd walk the trunk alone and catches the gradient that arrives at each node with a branch. W starts
from those. A node with a branch is visited twice; each time it computes only the gradients that autograd asks for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from operator import attrgetter
from typing import NamedTuple

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge


class Rest(NamedTuple):
    """A piece of backward that is left for W: where it starts, with which gradients, for which parameters."""

    starts: Sequence[torch.Tensor] | Sequence[GradientEdge]
    grads: Sequence[torch.Tensor | None]
    parameters: Sequence[torch.Tensor] | None  # None: all that are reached


def backward_input(
    outputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None], inputs: Sequence[torch.Tensor]
) -> list[Rest]:
    """Add to `.grad` of the inputs that require it, and return what `backward_weight` has to do.

    Example, for `y = layer(x)` with x a leaf that requires grad:

        rest = backward_input([y], [dy], [x])    # x.grad is there, the weights have none
        del y                                    # frees what only I needed
        backward_weight(rest)                    # now the weights have theirs

    If no input requires grad, as in a first stage that takes token ids, W does everything. I also does some parameters:
    those used in several places of the trunk, those behind an output off the trunk, and those of a
    `torch.autograd.Function`, whose backward cannot be halved. A hook on a tensor inside, `tensor.register_hook`, runs
    with I and again with W, so it must not have side effects.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024); torch.distributed.pipelining splits the same way.
    """
    leaves = [tensor for tensor in inputs if tensor.requires_grad]
    roots = [get_gradient_edge(output).node for output in outputs]
    trunk = _trunk(roots, leaves)
    if not trunk:
        return [Rest(outputs, grads, None)] if outputs else []
    branches, with_input = _branches(trunk, roots)
    caught: dict[Node, Sequence[torch.Tensor | None]] = {}
    hooks = [node.register_prehook(partial(caught.__setitem__, node)) for node in branches]
    try:
        torch.autograd.backward(outputs, grads, retain_graph=True, inputs=[*leaves, *with_input])
    finally:
        for hook in hooks:
            hook.remove()
    _free(trunk - branches.keys())
    return [_rest(node, caught[node], parameters) for node, parameters in branches.items() if node in caught]


def backward_weight(rest: list[Rest]) -> None:
    """Add to `.grad` of the parameters; each piece is freed as soon as it is done."""
    while rest:
        starts, grads, parameters = rest.pop(0)
        torch.autograd.backward(starts, grads, inputs=parameters)


def _rest(node: Node, grads: Sequence[torch.Tensor | None], parameters: Sequence[torch.Tensor]) -> Rest:
    edges = [(GradientEdge(node, index), grad) for index, grad in enumerate(grads) if grad is not None]
    return Rest([edge for edge, _ in edges], [grad for _, grad in edges], parameters)


def _trunk(roots: Sequence[Node], leaves: Sequence[torch.Tensor]) -> set[Node]:
    """The nodes on a path from the roots to the leaves."""
    above: dict[Node, list[Node]] = {}

    def down(node: Node) -> list[Node]:
        below = _below(node)
        for each in below:
            above.setdefault(each, []).append(node)
        return below

    reached = _reached(roots, down)
    ends = [get_gradient_edge(leaf).node for leaf in leaves]
    return _reached([end for end in ends if end in reached], lambda node: above.get(node, ()))


def _reached(starts: Iterable[Node], neighbours: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The nodes that can be reached from the starts, which are among them."""
    reached = set(starts)
    todo = list(reached)
    while todo:
        for node in neighbours(todo.pop()):
            if node not in reached:
                reached.add(node)
                todo.append(node)
    return reached


def _branches(trunk: set[Node], roots: Sequence[Node]) -> tuple[dict[Node, list[torch.Tensor]], list[torch.Tensor]]:
    """The parameters for W, by the one trunk node each hangs on, and the parameters that I has to do.

    A parameter on several nodes goes to I, and so do the other parameters of those nodes: they may share work.
    """
    hanging = {node: leaves for node in trunk if (leaves := _leaves_beside(_below(node), trunk))}
    uses = Counter(leaf for leaves in hanging.values() for leaf in leaves)
    apart = _leaves_beside(roots, trunk)
    alone = {
        node: leaves
        for node, leaves in hanging.items()
        if not isinstance(node, BackwardCFunction) and not leaves & apart and all(uses[leaf] == 1 for leaf in leaves)
    }
    together = apart.union(*(leaves for node, leaves in hanging.items() if node not in alone))
    tensor = attrgetter("variable")
    return {node: [*map(tensor, leaves)] for node, leaves in alone.items()}, [*map(tensor, together)]


def _below(node: Node) -> list[Node]:
    return [below for below, _ in node.next_functions if below is not None]


def _leaves_beside(starts: Iterable[Node], trunk: set[Node]) -> set[Node]:
    """The graph's leaves below some nodes, on paths that avoid the trunk."""
    beside = _reached(set(starts) - trunk, lambda node: [below for below in _below(node) if below not in trunk])
    return {node for node in beside if hasattr(node, "variable")}


def _free(nodes: Iterable[Node]) -> None:
    """Put nothing in the place of the tensors that these nodes saved.

    W keeps the graph alive but does not pass through them again.
    """
    for node in nodes:
        for name in _saved_names(type(node)):
            saved = getattr(node, name)
            for one in saved if isinstance(saved, tuple | list) else (saved,):
                with suppress(RuntimeError, AttributeError):  # one that has hooks already, or holds nothing
                    one.register_hooks(lambda _: None, _gone)


@cache
def _saved_names(kind: type[Node]) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


def _gone(_: None) -> torch.Tensor:
    raise AssertionError("a backward of the weights walked into the trunk")
