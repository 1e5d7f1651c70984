"""The cases of exercise 09.3: `forward(x, split_size, partitions, devices, compute)`.

A method as in the course, `forward(self, x)` with the rest on `self`, is taken too. `compute` is a double that runs one
clock cycle in place, and refuses a cycle that is not the next one of the clock.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Asked, Function, Wrong, case, inside_once
from pllab.lesson.exercises.lesson_09_bench import Gradients, call_as_written, judge_gradients
from pllab.lesson.exercises.tensors import difference, told
from pllab.pipeline import clock_cycles

# Rows of the batch, split_size, number of stages. The first one tells a size from a count: 4 pieces or 2.
_SHAPES = [(7, 2, 2), *((rows, size, stages) for rows in range(1, 8) for size in (1, 3, 8) for stages in (1, 2, 3))]
_ASKED = "For len(x) = {}, split_size = {} and {} partitions"


@case("micro-batches of split_size rows pass every stage, in the m + p - 1 cycles of the clock")
def cycles(forward: Asked) -> None:
    for shape in _SHAPES:
        inside_once(ran_forward, forward, *shape)


@case("the output and the gradients equal the plain model's, row by row, for batches of 1 to 7 rows")
def outputs(forward: Asked) -> None:
    for shape in _SHAPES:
        output, gradients = inside_once(ran_forward, forward, *shape)
        model, x = _model_and_batch(shape[0], shape[2])
        right, asked = model(x), _ASKED.format(*shape)
        if difference(output, right, rtol=1e-5, atol=1e-6):
            raise Wrong("wrong", f"{asked} the output is {told(output, right)}.")
        if not gradients or any(gradient is None for gradient in gradients.values()):
            shown = f"{asked} the output is right, but gradients do not reach all weights and the input"
            raise Wrong("no_gradient", f"{shown}: somewhere on the way a tensor was detached, or made under no_grad.")
        judge_gradients(asked, gradients, _gradients(right, model, x))


def _model_and_batch(num_rows: int, num_stages: int) -> tuple[nn.Sequential, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * num_rows + num_stages)
    widths = [3] * (num_stages - 1) + [1]  # the output is not as wide as the input
    model = nn.Sequential(*(nn.Sequential(nn.Linear(3, width), nn.Tanh()) for width in widths))
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=generator)
    return model, torch.randn(num_rows, 3, generator=generator, requires_grad=True)


def _gradients(output: torch.Tensor, model: nn.Module, x: torch.Tensor) -> Gradients:
    """Those of a sum with another weight for each number, so that a row in another's place shows."""
    leaves = {"x": x, **dict(model.named_parameters())}
    total = (output * torch.arange(float(output.numel())).view_as(output)).sum()
    return dict(zip(leaves, torch.autograd.grad(total, [*leaves.values()], allow_unused=True), strict=True))


class _Clock:
    """The double of `compute`: the stages, the cycles that are still to come, and the rows of each micro-batch."""

    def __init__(self, model: nn.Sequential, x: torch.Tensor, split_size: int) -> None:
        self._model, self._split_size = model, split_size
        self._rows = {tuple(row): number for number, row in enumerate(x.tolist())}
        self._right = [piece.tolist() for piece in torch.arange(len(x)).split(split_size)]
        self._num_done = 0
        self.cycles_left = list(clock_cycles(len(self._right), len(model)))

    def compute(self, batches: Any, schedule: Sequence[tuple[int, int]]) -> None:
        """Run the next cycle in place."""
        if not isinstance(batches, list):
            shown = f"compute puts its results back into batches, so it needs a list, not a {type(batches).__name__}"
            raise Wrong("not_a_list", f"{shown}; x.split gives a tuple.")
        if not self._num_done:
            pieces = [[self._rows.get(tuple(row), "?") for row in piece.tolist()] for piece in batches]
            if pieces != self._right:
                shown = f"With split_size {self._split_size}, the rows of a micro-batch, yours were the rows {pieces}"
                raise Wrong("wrong_rows", f"{shown}; right is {self._right}.")
        right = self.cycles_left.pop(0) if self.cycles_left else "no further one"
        pairs = [tuple(pair) for pair in schedule]
        if sorted(pairs) != sorted(right):
            shown = f"For m = {len(self._right)} and p = {len(self._model)} cycle {self._num_done} was {pairs}"
            raise Wrong("wrong_clock", f"{shown}; right is {right}.")
        self._num_done += 1
        for i, j in pairs:
            batches[i] = self._model[j](batches[i])


def ran_forward(forward: Function, num_rows: int, split_size: int, num_stages: int) -> tuple[Any, Gradients]:
    """In the process of the function: the output of one batch, and its gradients if it has a graph."""
    model, x = _model_and_batch(num_rows, num_stages)
    clock, output = _Clock(model, x, split_size), None
    devices = [torch.device("cpu", stage) for stage in range(num_stages)]
    try:
        output = call_as_written(
            forward, x, split_size=split_size, partitions=list(model), devices=devices, compute=clock.compute
        )
    except RuntimeError:
        # Pieces of two widths cannot be joined: one has not been through all stages, which is said below.
        if not clock.cycles_left:
            raise
    if clock.cycles_left:
        asked = _ASKED.format(num_rows, split_size, num_stages)
        raise Wrong("wrong_clock", f"{asked} your function ended before the cycles {clock.cycles_left}.")
    if isinstance(output, torch.Tensor) and output.requires_grad:
        return output, _gradients(output, model, x)
    return output, {}
