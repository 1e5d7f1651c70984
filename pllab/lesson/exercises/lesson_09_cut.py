"""The cases of exercise 09.4: `cut_step(x, targets, first, second, loss_of)`, two stages with the graph cut between.

That the graph is cut is seen where it must end: the double of `loss_of` walks the graph of the output it is given, and
counts the leaves. No worker is needed, so none is there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercise import Asked, Wrong, case

CutStep = Callable[..., Any]

# Rows and width of the tensor at the cut.
_SHAPES = [(5, 3), (1, 4), (8, 2)]


@case("backward of the second stage ends at the cut: its graph does not reach the first stage")
def cut(cut_step: Asked) -> None:
    for shape in _SHAPES:
        ran: Ran = cut_step.inside(ran_cut, *shape)
        if not ran.num_leaves:
            raise Wrong("no_loss", "loss_of was never called with an output that has a graph; the loss needs one.")
        if ran.reached:
            raise Wrong(
                "not_cut",
                f"The graph of the loss reaches back to weight {ran.reached[0]!r} of the first stage, so one backward "
                "runs both stages on one thread. The second stage must get a copy of the output without its history.",
            )


@case("the gradients of both stages equal the plain model's")
def gradients(cut_step: Asked) -> None:
    for change in ("none", "dropout", "double"):
        ran: Ran = cut_step.inside(ran_cut, 5, 3, change)
        right = _plain(5, 3, change)
        for stage, shares, plain in (("first", ran.first, right.first), ("second", ran.second, right.second)):
            wanted = [grad for grad in plain if grad is not None]
            got = [grad for grad in shares if grad is not None]
            if len(got) < len(shares):
                raise Wrong(
                    "no_gradient",
                    f"The {stage} stage has weights without a gradient: its backward did not run. Backward ends at the "
                    "cut; the first stage needs a backward of its own, which starts from the gradient found there.",
                )
            for mine, its in zip(got, wanted, strict=True):
                if not torch.allclose(mine, its, rtol=1e-4, atol=1e-6):
                    raise Wrong("wrong_gradient", _why(stage, got, wanted))


@case("it returns the loss as a number")
def number(cut_step: Asked) -> None:
    ran: Ran = cut_step.inside(ran_cut, 5, 3)
    judge_loss(ran.loss, _plain(5, 3).loss)


def judge_loss(got: Any, right: float) -> None:
    """Refuse what is not the loss as a Python number."""
    if got is None:
        raise Wrong("nothing", "Your function returned None; return the loss.")
    if isinstance(got, torch.Tensor):
        raise Wrong(
            "no_number",
            "Your function returned a tensor; return its item, which keeps no graph alive.",
        )
    if isinstance(got, bool) or not isinstance(got, float | int):
        raise Wrong("no_number", f"Your function should return the loss as a number, and it returned {got!r}.")
    if not abs(got - right) <= 1e-4 * max(1.0, abs(right)):
        raise Wrong("wrong_loss", f"Your function returned {got:.4g}, and the loss of the batch is {right:.4g}.")


class Ran(NamedTuple):
    """What a step left: the gradients of both stages, the loss, and how far the graph of the loss reached."""

    first: list[torch.Tensor | None]
    second: list[torch.Tensor | None]
    loss: Any
    num_leaves: int = 0
    reached: tuple[str, ...] = ()  # the weights of the first stage among the leaves


def ran_cut(cut_step: CutStep, num_rows: int, width: int, change: str = "none") -> Ran:
    """In the process of the function: one step."""
    first, second, x, targets = _made(num_rows, width, change)
    leaves: set[int] = set()

    def loss_of(output: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        leaves.update(_leaves(output))
        return nn.functional.mse_loss(output, wanted)

    loss = cut_step(x, targets, first, second, loss_of)
    reached = tuple(name for name, weight in first.named_parameters() if id(weight) in leaves)
    return Ran(_gradients(first), _gradients(second), loss, len(leaves), reached)


def _plain(num_rows: int, width: int, change: str = "none") -> Ran:
    """The same step in one graph."""
    first, second, x, targets = _made(num_rows, width, change)
    loss = nn.functional.mse_loss(second(first(x)), targets)
    loss.backward()
    return Ran(_gradients(first), _gradients(second), loss.item())


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


def _gradients(stage: nn.Module) -> list[torch.Tensor | None]:
    return [None if weight.grad is None else weight.grad.clone() for weight in stage.parameters()]


def _leaves(output: torch.Tensor) -> set[int]:
    """The leaves that a backward from `output` would reach."""
    found, waiting, seen = set(), [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        waiting += [behind for behind, _ in node.next_functions]
    return found


def _why(stage: str, got: list[torch.Tensor], right: list[torch.Tensor]) -> str:
    ratio = got[0].norm() / right[0].norm()
    times = f", {ratio:.3g} times as large" if torch.allclose(got[0], ratio * right[0], rtol=1e-3, atol=1e-6) else ""
    return (
        f"The gradients of the {stage} stage are not the plain model's{times}. Its backward starts from the gradient "
        "of the loss with respect to its own output, once."
    )
