"""The cases of exercise 09.3: `forward(x, split_size, partitions, devices, compute)`.

A method as in the course, `forward(self, x)` with the rest on `self`, is taken too. `compute` is a double
that runs one clock cycle in place and notes what it was asked; it refuses a cycle that breaks a rule.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercise import Asked, Wrong, case
from pllab.lesson.exercises.lesson_09_bench import is_method

Forward = Callable[..., Any]

# Rows of the batch, split_size, number of stages. The first one tells a size from a count: 4 pieces or 2.
_SHAPES = [(7, 2, 2), *((rows, size, stages) for rows in range(1, 8) for size in (1, 3, 8) for stages in (1, 2, 3))]


@case("split_size is the number of rows of a micro-batch, the last may be smaller")
def rows(forward: Asked) -> None:
    for num_rows, split_size, num_stages in _SHAPES:
        ran: Ran = forward.inside(ran_forward, num_rows, split_size, num_stages)
        got = ran.rows
        right = [len(piece) for piece in torch.arange(num_rows).split(split_size)]
        if got == right:
            continue
        if not got:
            raise Wrong("missing_tick", "compute was not called once; each clock cycle is one call of compute.")
        by_count = [len(piece) for piece in torch.arange(num_rows).chunk(split_size)]
        asked = f"A batch of {num_rows} rows with split_size {split_size}"
        if sum(got) == num_rows and not torch.equal(ran.entered, _model_and_batch(num_rows, num_stages)[1]):
            raise Wrong(
                "not_consecutive",
                f"{asked} came in pieces of {got} rows that do not follow each other; micro-batch 0 has the first "
                f"{right[0]} rows, micro-batch 1 the next ones.",
            )
        if got == by_count:
            raise Wrong(
                "size_as_count",
                f"{asked} came in pieces of {got} rows instead of {right}: split_size is the number of rows of a "
                "micro-batch, not the number of micro-batches.",
            )
        raise Wrong("wrong_rows", f"{asked} came in pieces of {got} rows instead of {right}.")


@case("every micro-batch passes every stage in m + p - 1 clock cycles")
def ticks(forward: Asked) -> None:
    for num_rows, split_size, num_stages in _SHAPES:
        ran: Ran = forward.inside(ran_forward, num_rows, split_size, num_stages)
        behind = [i for i, stages in enumerate(ran.done) if stages < num_stages]
        if behind:
            raise Wrong(
                "missing_tick",
                f"Micro-batch {behind[-1]} left the pipe after {ran.done[behind[-1]]} of {num_stages} stages: the last "
                "clock cycles are missing.",
            )
        right = len(ran.done) + num_stages - 1
        if ran.ticks != right:
            raise Wrong(
                "unpipelined",
                f"{len(ran.done)} micro-batches on {num_stages} stages took {ran.ticks} cycles; m + p - 1 is {right}. "
                "Pairs of one cycle belong in one call of compute.",
            )


@case("the output equals the plain model's, row by row, for batches of 1 to 7 rows")
def outputs(forward: Asked) -> None:
    for num_rows, split_size, num_stages in _SHAPES:
        ran: Ran = forward.inside(ran_forward, num_rows, split_size, num_stages)
        model, x = _model_and_batch(num_rows, num_stages)
        plain = model(x)
        asked = f"for a batch of {num_rows} rows with split_size {split_size}"
        _judge_output(ran.output, plain, asked)


@case("the gradients equal the plain model's")
def gradients(forward: Asked) -> None:
    ran: Ran = forward.inside(ran_forward, 7, 3, 3)
    model, x = _model_and_batch(7, 3)
    plain = model(x)
    _judge_output(ran.output, plain, "for a batch of 7 rows with split_size 3")
    if not ran.output.requires_grad:
        raise Wrong(
            "no_gradient", "The output has no gradient: somewhere on the way it was detached, or under no_grad."
        )
    right = torch.autograd.grad((plain * _weight_of(plain)).sum(), [x, *model.parameters()])
    for mine, theirs in zip(ran.gradients, right, strict=True):
        if mine is None:
            raise Wrong("no_gradient", "A weight or the input got no gradient: somewhere on the way it was detached.")
        if not torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5):
            raise Wrong("wrong_gradient", "The output is right and the gradients are not: something was scaled or cut.")


class Ran(NamedTuple):
    """One run of the function: what came out, its gradients, and what the double of `compute` saw."""

    output: Any
    rows: list[int]
    entered: torch.Tensor
    done: list[int]
    ticks: int
    gradients: list[torch.Tensor | None] = []


def _model_and_batch(num_rows: int, num_stages: int) -> tuple[nn.Sequential, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * num_rows + num_stages)
    widths = [3] * (num_stages - 1) + [1]  # the output is not as wide as the input
    model = nn.Sequential(*(nn.Sequential(nn.Linear(3, width), nn.Tanh()) for width in widths))
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=generator)
    return model, torch.randn(num_rows, 3, generator=generator, requires_grad=True)


def _weight_of(output: torch.Tensor) -> torch.Tensor:
    """Another weight for each number, so that a row in another's place shows in the gradients."""
    return torch.arange(float(output.numel())).view_as(output)


class _Double:
    """The double of `compute`, and what it saw."""

    def __init__(self, model: nn.Sequential) -> None:
        self.model = model
        self.rows: list[int] = []
        self.entered = torch.empty(0)
        self.done: list[int] = []
        self.ticks = 0

    def compute(self, batches: Any, schedule: Sequence[tuple[int, int]]) -> None:
        """Run one clock cycle in place, and refuse one that cannot run."""
        if not isinstance(batches, list):
            raise Wrong(
                "not_a_list",
                f"compute puts its results back into batches, so it needs a list, not a {type(batches).__name__}; "
                "x.split gives a tuple.",
            )
        if not self.done:
            self.rows = [len(batch) for batch in batches]
            self.entered = torch.cat(batches).detach()
            self.done = [0] * len(batches)
        self.ticks += 1
        pairs = list(schedule)
        if len({j for _, j in pairs}) < len(pairs):
            raise Wrong("two_on_one_stage", f"The cycle {pairs} gives one stage two micro-batches at once.")
        for i, j in pairs:
            if not (0 <= i < len(batches) and 0 <= j < len(self.model)):
                raise Wrong(
                    "wrong_clock",
                    f"The pair ({i}, {j}) names micro-batch {i} of {len(batches)} and stage {j} of {len(self.model)}; "
                    "clock_cycles wants the number of micro-batches first, then the number of stages.",
                )
            if self.done[i] != j:
                raise Wrong(
                    "wrong_clock", f"Stage {j} was given micro-batch {i}, which has passed {self.done[i]} stages."
                )
        for i, j in pairs:
            batches[i] = self.model[j](batches[i])
            self.done[i] += 1


def ran_forward(forward: Forward, num_rows: int, split_size: int, num_stages: int) -> Ran:
    """In the process of the function: one batch."""
    model, x = _model_and_batch(num_rows, num_stages)
    double, output = _Double(model), None
    partitions = list(model)
    devices = [torch.device("cpu", stage) for stage in range(num_stages)]
    try:
        if is_method(forward):
            owner = SimpleNamespace(
                split_size=split_size, partitions=partitions, devices=devices, compute=double.compute
            )
            output = forward(owner, x)
        else:
            output = forward(x, split_size, partitions, devices, double.compute)
    except RuntimeError:
        # Pieces of two widths cannot be joined: one has not been through all stages, which a case says better.
        if all(stages == num_stages for stages in double.done):
            raise
    gradients: list[torch.Tensor | None] = []
    if isinstance(output, torch.Tensor) and output.requires_grad:
        total = (output * _weight_of(output)).sum()
        gradients = [*torch.autograd.grad(total, [x, *model.parameters()], allow_unused=True)]
    return Ran(output, double.rows, double.entered, double.done, double.ticks, gradients)


def _judge_output(got: Any, plain: torch.Tensor, asked: str) -> None:
    if not isinstance(got, torch.Tensor):
        raise Wrong("no_tensor", f"forward should return one tensor, and it returned a {type(got).__name__} {asked}.")
    if got.shape[:1] == plain.shape[:1] and got.shape != plain.shape:
        raise Wrong(
            "wrong_shape",
            f"The output has shape {tuple(got.shape)}, the plain model's has {tuple(plain.shape)} {asked}: its rows "
            "are as wide as the last stage makes them, not as those of x.",
        )
    if got.shape != plain.shape:
        raise Wrong(
            "lost_rows", f"The output has shape {tuple(got.shape)}, the plain model's has {tuple(plain.shape)} {asked}."
        )
    if torch.allclose(got, plain, rtol=1e-5, atol=1e-6):
        return
    if torch.allclose(got.sort(dim=0).values, plain.sort(dim=0).values, rtol=1e-5, atol=1e-6):
        raise Wrong("out_of_order", f"The rows are right and in another order than they went in {asked}.")
    raise Wrong("wrong_output", f"The output differs from the plain model's {asked}.")
