"""The cases of exercise 10.2: `run_row(row, stage, loss, inputs, targets)` runs one row and lets go in time.

A layer of the stage notes when it runs and when it goes back, and knows its node of the graph: while the node lives, so
does the graph. The package's saved-tensor hooks count the bytes.
"""

import gc
import math
import operator
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercise import Asked, Function, Wrong, case, inside_once
from pllab.lesson.exercises.tensors import close
from pllab.lesson.mistakes import Mistake, compare
from pllab.pipeline.saved_bytes import live_saved_bytes
from pllab.schedule import Action, Held, gpipe, one_f_one_b

Row = Sequence[Action]
Gradients = list[torch.Tensor | None]

_ROWS, _WIDTH, _HIDDEN = 3, 4, 256


def _written(actions: str) -> Row:
    return [Action.parse(f"1{action}") for action in actions.split()]


_ROW_OF: dict[str, Row] = {
    "the first of four stages under 1F1B": one_f_one_b(4, 6).rows[0],
    "the last of four stages under 1F1B": one_f_one_b(4, 7).rows[3],
    "a stage under GPipe": gpipe(4, 5).rows[2],
    "a row that goes back from the last micro-batch to the first": _written("F0 F1 F2 F3 B3 B2 B1 B0"),
    "a random row": _written("F0 B0 F6 F3 F4 F8 B4 F1 B8 F7 F2 B7 F5 B1 B2 B6 B5 B3"),
    "a row that begins again when all are back": _written("F0 F1 B1 B0 F2 B2 F3 B3"),
    "a single micro-batch": gpipe(1, 1).rows[0],
}


class _Witness:
    """What happened, in order, and which graphs are alive."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.nodes: dict[int, weakref.ref[Any]] = {}
        self.most_left = 0  # graphs alive after their backward, whenever a forward began

    def living(self) -> list[int]:
        """Micro-batches whose graph is alive."""
        return [i for i, node in self.nodes.items() if node() is not None]


class _Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, number: int, witness: _Witness) -> torch.Tensor:
        ctx.number, ctx.witness = number, witness
        witness.nodes[number] = weakref.ref(ctx)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        ctx.witness.events.append(f"B{ctx.number}")
        return gradient, None, None


class _Stage(nn.Module):
    """Two layers with a witness between them; the first column of the input is the number of the micro-batch."""

    def __init__(self) -> None:
        super().__init__()
        self.witness = _Witness()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.first, self.second = nn.Linear(_WIDTH, _HIDDEN), nn.Linear(_HIDDEN, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One number for each row of a micro-batch; the call is written down."""
        number, witness = int(x[0, 0].item()), self.witness
        is_one = len(x) == _ROWS and bool((x[:, 0] == number).all())
        witness.events.append(f"F{number}" if is_one else f"F({len(x)} rows)")
        witness.most_left = max(witness.most_left, sum(f"B{i}" in witness.events for i in witness.living()))
        hidden: torch.Tensor = _Marked.apply(torch.tanh(self.first(x)), number, witness)
        result: torch.Tensor = self.second(torch.tanh(hidden))
        return result

    def gradients(self) -> Gradients:
        """Those of all parameters."""
        return [weight.grad for weight in self.parameters()]


def _batch(num_microbatches: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(num_microbatches, _ROWS, _WIDTH, generator=generator)
    inputs[:, :, 0] = torch.arange(num_microbatches).unsqueeze(1)
    targets = torch.randn(num_microbatches, _ROWS, 1, generator=generator)
    return [part.clone() for part in inputs], [part.clone() for part in targets]


class Ran(NamedTuple):
    """What a run of a row returned and left, and what the witness in the stage saw."""

    result: Any
    gradients: Gradients
    events: list[str]
    most_left: int
    left: list[int]  # micro-batches whose graph is alive afterwards
    peak_bytes: int


def ran_row(run_row: Function, where: str) -> Ran:
    """In the process of the function: one row of a fresh stage."""
    row, stage = _ROW_OF[where], _Stage()
    with live_saved_bytes([stage]) as saved:
        result = run_row(list(row), stage, nn.functional.mse_loss, *_batch(len(row) // 2))
    if stage.witness.living():
        gc.collect()  # a circle of references is no fault of the function's
    seen = stage.witness
    return Ran(result, stage.gradients(), seen.events, seen.most_left, seen.living(), saved.peak[0])


def _of_the_batch(where: str, *, sums_losses: bool = False, sums_gradients: bool = False) -> tuple[float, Gradients]:
    """The loss and the gradients of the whole batch, the mean over its micro-batches or their sum."""
    stage, m = _Stage(), len(_ROW_OF[where]) // 2
    losses = [nn.functional.mse_loss(stage(x), target) for x, target in zip(*_batch(m), strict=True)]
    total = torch.stack(losses).mean()
    (total * m if sums_gradients else total).backward()
    return total.item() * (m if sums_losses else 1), stage.gradients()


def _result(ran: Ran, where: str) -> tuple[float, Gradients]:
    if isinstance(ran.result, bool) or not isinstance(ran.result, float | int):
        told = f"Your function returned {ran.result!r:.80}; return the loss of the batch as a Python number."
        raise Wrong("no_number", told)
    if others := {gradient.dtype for gradient in ran.gradients if gradient is not None} - {torch.float32}:
        raise Wrong("wrong_result", f"For {where} a gradient is of {others.pop()}; right is torch.float32.")
    return float(ran.result), ran.gradients


def _are_close(mine: tuple[float, Gradients], right: tuple[float, Gradients]) -> bool:
    return math.isclose(mine[0], right[0], rel_tol=1e-4) and all(
        close(one, wanted, rtol=1e-4, atol=1e-6) for one, wanted in zip(mine[1], right[1], strict=True)
    )


def _show(result: tuple[float, Gradients]) -> str:
    lengths = ["None" if one is None else f"{one.norm().item():.4f}" for one in result[1]]
    return f"a loss of {result[0]:.4f} and gradients of the lengths {', '.join(lengths)}"


def _compare(run_row: Asked, truth: Callable[[str], Any], *mistakes: Mistake, **how: Any) -> None:
    """Hold what was seen of every row against the truth."""
    compare(partial(inside_once, ran_row, run_row), [(where,) for where in _ROW_OF], truth, mistakes, asked="{}", **how)


@case("loss and gradients are those of the whole batch")
def same_result(run_row: Asked) -> None:
    mistakes = [
        Mistake(
            "sum_for_mean",
            "The loss of the batch is the mean over the micro-batches: divide each loss by their number, once.",
            like=partial(_of_the_batch, sums_losses=sums_losses, sums_gradients=sums_gradients),
        )
        for sums_losses, sums_gradients in ((True, True), (True, False), (False, True))
    ]
    _compare(run_row, _of_the_batch, *mistakes, read=_result, same=_are_close, show=_show, hint_id="wrong_result")


@case("forwards and backwards come in the order of the row")
def in_order(run_row: Asked) -> None:
    _compare(
        run_row,
        lambda where: [f"{kind}{i}" for _, kind, i in _ROW_OF[where]],
        Mistake(
            "forward_again",
            "A forward runs once; keep its loss for the backward.",
            when=lambda events, _: len({*events}) < len(events),
        ),
        read=lambda ran, _: ran.events,
        show=" ".join,
        hint_id="other_order",
    )


@case("the live bytes stay at what the row needs, for every row")
def few_bytes(run_row: Asked) -> None:
    stage = _Stage()
    with live_saved_bytes([stage]) as saved:
        stage(_batch(1)[0][0])
    _compare(
        run_row,
        lambda where: round(max(Held().after_each(_ROW_OF[where]))),
        read=lambda ran, _: round(ran.peak_bytes / saved.peak[0]),
        same=operator.le,
        show="saved tensors of up to {} micro-batches at once".format,
        hint_id="activations_kept",
    )


@case("at most two graphs outlive their backward when a forward begins, and none is left at the end")
def no_graph(run_row: Asked) -> None:
    # The names of the last forward and of the last backward may linger, so two are allowed.
    _compare(
        run_row,
        lambda _: (2, 0),
        Mistake(
            "loss_kept",
            "Anything that holds an output or a loss, even a sum, holds its graph: keep the plain number instead.",
        ),
        read=lambda ran, _: (ran.most_left, len(ran.left)),
        same=lambda mine, most: mine[0] <= most[0] and mine[1] <= most[1],
        show=lambda left: f"up to {left[0]} graphs alive after their backward, and {left[1]} at the end",
    )
