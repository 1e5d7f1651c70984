"""The cases of exercise 09.4: `cut_step(x, targets, first, second, loss_of)`, two stages with the graph cut between.

That the graph is cut is seen where it must end: the double of `loss_of` walks the graph of the output it is given, and
looks for weights of the first stage. No worker is needed, so none is there.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercise import Asked, Function, Wrong, case
from pllab.lesson.exercises.lesson_09_bench import Gradients, judge_gradients, judge_loss


class Ran(NamedTuple):
    """What a step left: the gradients of both stages, the loss, and how far the graph of the loss reached."""

    gradients: Gradients
    loss: Any
    has_graph: bool = True  # the output that `loss_of` was given
    reached: tuple[str, ...] = ()  # the weights of the first stage that are in that graph


@case("backward of the second stage ends at the cut: its graph does not reach the first stage")
def cut(cut_step: Asked) -> None:
    for num_rows, width in [(5, 3), (1, 4), (8, 2)]:
        try:
            ran: Ran = cut_step.inside(ran_cut, num_rows, width)
        except RuntimeError as error:
            if "implicitly created" in str(error):
                told = f"Your function raised {getattr(error, 'shown', error)}: a backward had no gradient to start"
                why = "Autograd leaves one only in a tensor that begins a graph and asks for it."
                raise Wrong("no_gradient", f"{told}. {why}") from error
            raise
        if not ran.has_graph:
            raise Wrong("wrong", "loss_of was never called with an output that has a graph; the loss needs one.")
        if ran.reached:
            told = f"The graph of the loss reaches back to weight {ran.reached[0]!r} of the first stage"
            why = "right is that it ends at the second stage. Give that one a copy of the output without its history."
            raise Wrong("not_cut", f"{told}; {why}")


@case("the gradients of both stages equal the plain model's, and it returns the loss as a number")
def gradients(cut_step: Asked) -> None:
    for change in ("none", "dropout", "double"):
        ran: Ran = cut_step.inside(ran_cut, 5, 3, change)
        first, second, x, targets = _made(5, 3, change)
        loss = nn.functional.mse_loss(second(first(x)), targets)
        loss.backward()
        without = [name for name, gradient in ran.gradients.items() if gradient is None]
        if any(name.startswith("first") for name in without):
            told = f"{without[0]} has no gradient: backward of that stage did not run. That of the loss ends at the cut"
            why = "the first stage needs a backward of its own, which starts from the gradient found there."
            raise Wrong("no_gradient", f"{told}; {why}")
        if without:
            told = f"{without[0]} has no gradient: call backward of the loss"
            raise Wrong("no_gradient", f"{told}, which leaves gradients in the weights of the second stage.")
        asked = {"none": "For 5 rows", "dropout": "With dropout", "double": "With float64 numbers"}[change]
        judge_gradients(asked, ran.gradients, _gradients(first, second))
        judge_loss(asked, ran.loss, loss.item())


def ran_cut(cut_step: Function, num_rows: int, width: int, change: str = "none") -> Ran:
    """In the process of the function: one step."""
    first, second, x, targets = _made(num_rows, width, change)
    leaves: set[int] = set()

    def loss_of(output: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        if output.grad_fn is not None:
            leaves.update(id(node.variable) for node in _graph(output.grad_fn) if hasattr(node, "variable"))
        return nn.functional.mse_loss(output, wanted)

    loss = cut_step(x, targets, first, second, loss_of)
    reached = tuple(name for name, weight in first.named_parameters() if id(weight) in leaves)
    return Ran(_gradients(first, second), loss, bool(leaves), reached)


def _graph(node: Any) -> Iterator[Any]:
    """A function of autograd, and all that a backward reaches from it."""
    yield node
    for behind, _ in node.next_functions:
        if behind is not None:
            yield from _graph(behind)


def _made(num_rows: int, width: int, change: str) -> tuple[nn.Sequential, nn.Sequential, torch.Tensor, torch.Tensor]:
    """Two stages and a batch; the generator stands where the step begins."""
    generator = torch.Generator().manual_seed(100 * num_rows + width)
    first = nn.Sequential(nn.Linear(3, width), nn.Tanh())
    second = nn.Sequential(nn.Linear(width, 3), nn.Sigmoid())
    for weight in (*first.parameters(), *second.parameters()):
        nn.init.normal_(weight, generator=generator)
    if change == "dropout":
        first.append(nn.Dropout(0.3))  # who runs the stage twice gets two masks
    if change == "double":
        first.double()
        second.double()
    x, targets = torch.randn(2, num_rows, 3, generator=generator).to(next(first.parameters()).dtype).unbind()
    torch.manual_seed(num_rows)
    return first, second, x, targets


def _gradients(first: nn.Module, second: nn.Module) -> Gradients:
    stages = nn.ModuleDict({"first": first, "second": second})
    return {name: weight.grad for name, weight in stages.named_parameters()}
