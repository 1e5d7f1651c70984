"""A backward in two halves: first the gradients of the inputs, later those of the weights, nothing twice.

The graph of a stage is a trunk, the nodes on a way from the outputs to the inputs, with branches to the parameters:

    output -- linear -- gelu -- linear -- norm -- input          the trunk: I walks it
                |                 |         |
              weight            weight    weight                 the branches: W walks them

I lets autograd walk the trunk alone and catches the gradient that arrives at each node with a branch. W starts
from those. A node with a branch is visited twice, and each time it computes only the gradients that are asked for.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

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
        del y                                    # what only I needed is freed
        backward_weight(rest)                    # now the weights have theirs

    Without an input that requires grad, as in a first stage that takes token ids, everything is left for W. The
    gradient of a parameter used in several places of the trunk comes with I, which passes them all. So does that of one
    behind an output that is not on the trunk, or taken by a `torch.autograd.Function`, whose backward knows no halves.
    A hook on a tensor inside, `tensor.register_hook`, runs with I and again with W, so it should only look.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024); torch.distributed.pipelining splits the same way.
    """
    leaves = [tensor for tensor in inputs if tensor.requires_grad]
    roots = [get_gradient_edge(output).node for output in outputs]
    trunk = _trunk(roots, leaves)
    if not trunk:
        return [Rest(outputs, grads, None)] if outputs else []
    branches, at_once = _branches(trunk, roots)
    caught: dict[Node, Sequence[torch.Tensor | None]] = {}
    hooks = [node.register_prehook(partial(caught.__setitem__, node)) for node in branches]
    try:
        torch.autograd.backward(outputs, grads, retain_graph=True, inputs=[*leaves, *at_once])
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
    arrived = [(GradientEdge(node, index), grad) for index, grad in enumerate(grads) if grad is not None]
    return Rest([edge for edge, _ in arrived], [grad for _, grad in arrived], parameters)


def _trunk(roots: Sequence[Node], leaves: Sequence[torch.Tensor]) -> set[Node]:
    """The nodes on a way from the roots to the leaves."""
    above: defaultdict[Node, list[Node]] = defaultdict(list)
    seen = set(roots)
    todo = list(seen)
    while todo:
        node = todo.pop()
        for below, _ in node.next_functions:
            if below is not None:
                above[below].append(node)
                if below not in seen:
                    seen.add(below)
                    todo.append(below)
    ends = [get_gradient_edge(leaf).node for leaf in leaves]
    return _closure([end for end in ends if end in seen], above)


def _closure(starts: Iterable[Node], neighbours: Mapping[Node, Sequence[Node]]) -> set[Node]:
    found = set(starts)
    todo = list(found)
    while todo:
        for node in neighbours.get(todo.pop(), ()):
            if node not in found:
                found.add(node)
                todo.append(node)
    return found


def _branches(trunk: set[Node], roots: Sequence[Node]) -> tuple[dict[Node, list[torch.Tensor]], list[torch.Tensor]]:
    """The nodes of the trunk with the parameters that hang on them alone, and the parameters that I has to do.

    A parameter that hangs on several nodes comes with I, and with it its neighbours, with which it may share work.
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
    return {node: [*map(_tensor, leaves)] for node, leaves in alone.items()}, [*map(_tensor, together)]


def _below(node: Node) -> list[Node]:
    return [below for below, _ in node.next_functions if below is not None]


def _leaves_beside(starts: Iterable[Node], trunk: set[Node]) -> set[Node]:
    """The ends of the graph from some nodes on that are reached without a node of the trunk."""
    found = set(starts) - trunk
    todo = list(found)
    while todo:
        new = set(_below(todo.pop())) - trunk - found
        found |= new
        todo += new
    return {node for node in found if hasattr(node, "variable")}


def _tensor(leaf: Node) -> torch.Tensor:
    tensor: torch.Tensor = leaf.variable  # type: ignore[attr-defined]
    return tensor


def _free(nodes: Iterable[Node]) -> None:
    """Let go of what these nodes saved: W keeps the graph alive, but it will not come through them again."""
    for node in nodes:
        for name in _saved_names(type(node)):
            saved = getattr(node, name)
            for one in saved if isinstance(saved, tuple | list) else (saved,):
                _replace(one)


@cache
def _saved_names(kind: type[Node]) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


def _replace(saved: Any) -> None:
    """Put nothing in the place of a saved tensor; one that has hooks already (or holds nothing) stays as it is."""
    try:
        saved.register_hooks(_nothing, _gone)
    except (RuntimeError, AttributeError):
        return


def _nothing(_: torch.Tensor) -> None:
    return None


def _gone(_: None) -> torch.Tensor:
    raise AssertionError("a backward of the weights walked into the trunk")
