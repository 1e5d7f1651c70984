"""The cases of exercise 10.2: `run_row(row, stage, loss, inputs, targets)` runs one row and lets go in time.

A layer of the stage says when it runs and when it goes back, and leaves a token in its node of the graph: while the
token lives, so does the graph. The bytes are counted by the package's saved-tensor hooks.
"""

import gc
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.lesson.exercise import Asked, Wrong
from pllab.lesson.exercises.lesson_10_marked import ROWS, WIDTH, Stage, Witness
from pllab.pipeline.saved_bytes import live_saved_bytes
from pllab.schedule import Action, Held, Kind, gpipe, one_f_one_b

RunRow = Callable[..., Any]
Row = Sequence[Action]


def _by_chance(num_microbatches: int, seed: int) -> Row:
    """A row in no order that has a name: each backward some time after its forward."""
    draw, row, waiting = random.Random(seed), [], list(range(num_microbatches))
    draw.shuffle(waiting)
    held: list[int] = []
    while waiting or held:
        if waiting and (not held or draw.random() < 0.5):
            held.append(waiting.pop())
            row.append(Action(1, Kind.F, held[-1]))
        else:
            row.append(Action(1, Kind.B, held.pop(draw.randrange(len(held)))))
    return row


_F, _B = Kind.F, Kind.B
_ROW_OF: dict[str, Row] = {
    "the first of four stages under 1F1B": one_f_one_b(4, 6).rows[0],
    "the last of four stages under 1F1B": one_f_one_b(4, 7).rows[3],
    "a stage under GPipe": gpipe(4, 5).rows[2],
    "a row that goes back from the last micro-batch to the first": (
        *gpipe(1, 4).rows[0][:4],
        *reversed(gpipe(1, 4).rows[0][4:]),
    ),
    "a row drawn by chance": _by_chance(9, seed=10),
    "a row that begins again when all are back": tuple(
        Action(1, kind, i) for kind, i in ((_F, 0), (_F, 1), (_B, 1), (_B, 0), (_F, 2), (_B, 2), (_F, 3), (_B, 3))
    ),
    "a single micro-batch": gpipe(1, 1).rows[0],
}


class Ran(NamedTuple):
    """What a run of a row returned and left, and what the witness in the stage saw."""

    result: Any
    gradients: list[torch.Tensor | None]
    events: list[str]
    most_left: int
    left: list[int]  # micro-batches whose graph is alive afterwards
    peak_bytes: int


def same_result(run_row: Asked) -> None:
    """Against one forward and one backward of the whole batch."""
    for where, row in _ROW_OF.items():
        ran: Ran = run_row.inside(ran_row, where)
        _judge_loss(ran.result, row, where)
        _judge_gradients(ran, row, where)


def in_order(run_row: Asked) -> None:
    """The events of the stage are the actions of the row."""
    for where, row in _ROW_OF.items():
        events, wanted = run_row.inside(ran_row, where).events, [f"{action.kind}{action.microbatch}" for action in row]
        if events == wanted:
            continue
        forwards = [event for event in events if event[0] == "F"]
        told = f"For {where} the row is {' '.join(wanted)}, and your function ran {' '.join(events)}."
        if len(forwards) > len(row) // 2:
            raise Wrong("forward_again", f"{told} A forward runs once; keep its loss for the backward.")
        oldest = iter(forwards)
        if events == [event if event[0] == "F" else f"B{next(oldest)[1:]}" for event in wanted]:
            raise Wrong(
                "first_in_first_out",
                f"{told} It goes back with the micro-batch that has waited longest; the action names another.",
            )
        if sorted(events) == sorted(wanted) and events[: len(forwards)] == forwards:
            raise Wrong(
                "late_backward",
                f"{told} The backwards come when all forwards are through, so all activations are alive at once; run "
                "each where the row has it.",
            )
        raise Wrong("other_order", f"{told} Go through the row from left to right and run each action once.")


def few_bytes(run_row: Asked) -> None:
    """The most bytes alive, in units of one micro-batch, are the most micro-batches the row holds."""
    unit = _bytes_of_one()
    for where, row in _ROW_OF.items():
        ran, bound = run_row.inside(ran_row, where), round(max(Held().after_each(row)))
        held = round(ran.peak_bytes / unit)
        if held > bound:
            raise Wrong(
                "activations_kept",
                f"For {where} {held} micro-batches of saved tensors were alive at once ({ran.peak_bytes:,} bytes), and "
                f"the row needs {bound}. Without retain_graph=True a backward lets them go.",
            )


def no_graph(run_row: Asked) -> None:
    """The node of the witness is gone after its backward; the names of the last forward and backward may linger."""
    for where in _ROW_OF:
        ran: Ran = run_row.inside(ran_row, where)
        if ran.most_left > 2:
            raise Wrong(
                "loss_kept",
                f"For {where} the graphs of {ran.most_left} micro-batches were alive after their backward. You "
                "keep an output or a loss, or a sum of losses, and each of these tensors holds its graph: keep the "
                "number, loss.item(), and take the tensor out of your dictionary as its backward runs.",
            )
        if ran.left:
            raise Wrong(
                "left_behind",
                f"For {where} the graph of micro-batch {ran.left[0]} is still alive when your function has returned: "
                "what holds it stands outside the function.",
            )


def _batch(num_microbatches: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(num_microbatches, ROWS, WIDTH, generator=generator)
    inputs[:, :, 0] = torch.arange(num_microbatches).unsqueeze(1)
    targets = torch.randn(num_microbatches, ROWS, 1, generator=generator)
    return [part.clone() for part in inputs], [part.clone() for part in targets]


def _fresh_stage() -> tuple[Stage, Witness]:
    witness = Witness()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Stage(witness), witness


def ran_row(run_row: RunRow, where: str) -> Ran:
    """In the process of the function: one row of a fresh stage."""
    row = _ROW_OF[where]
    stage, witness = _fresh_stage()
    inputs, targets = _batch(len(row) // 2)
    with live_saved_bytes([stage]) as saved:
        result = run_row(list(row), stage, nn.functional.mse_loss, inputs, targets)
    if witness.living():
        gc.collect()  # a circle of references is no fault of the function's
    gradients = [weight.grad for weight in stage.parameters()]
    return Ran(result, gradients, witness.events, witness.most_left, witness.living(), saved.peak[0])


def _bytes_of_one() -> int:
    stage, _ = _fresh_stage()
    with live_saved_bytes([stage]) as saved:
        stage(_batch(1)[0][0])
    return saved.peak[0]


def _oracle(num_microbatches: int) -> tuple[float, list[torch.Tensor]]:
    stage, _ = _fresh_stage()
    batch = _batch(num_microbatches)
    losses = [nn.functional.mse_loss(stage(x), target) for x, target in zip(*batch, strict=True)]
    total = torch.stack(losses).mean()
    total.backward()
    return total.item(), [weight.grad for weight in stage.parameters() if weight.grad is not None]


def _judge_loss(result: Any, row: Row, where: str) -> None:
    m = len(row) // 2
    right, _ = _oracle(m)
    if result is None:
        raise Wrong("nothing", "run_row returned None; return the loss of the batch, the mean over its micro-batches.")
    if isinstance(result, torch.Tensor) and result.requires_grad:
        raise Wrong(
            "loss_with_graph",
            "You return a loss tensor with its graph behind it, and whoever keeps it keeps the graph: return the "
            "number, its item.",
        )
    if isinstance(result, torch.Tensor):
        raise Wrong("no_number", "run_row returned a tensor; return the loss of the batch as a number, its item.")
    if isinstance(result, bool) or not isinstance(result, float | int):
        raise Wrong(
            "no_number", f"run_row should return one number, the loss of the batch, and it returned {result!r}."
        )
    value = float(result)
    if abs(value - right) <= 1e-4 * abs(right):
        return
    if abs(value - m * right) <= 1e-4 * abs(m * right):
        raise Wrong(
            "sum_for_mean", f"For {where} you return the sum of the losses; the loss of the batch is their mean."
        )
    if abs(value - right / m) <= 1e-4 * abs(right / m):
        raise Wrong(*_divided_twice(where, "loss is", m))
    raise Wrong("wrong_loss", f"For {where} you return a loss of {value:.4f}, and the batch has {right:.4f}.")


def _judge_gradients(ran: Ran, row: Row, where: str) -> None:
    m = len(row) // 2
    _, right = _oracle(m)
    mine = ran.gradients
    if any(grad is None for grad in mine):
        raise Wrong("no_gradients", f"For {where} the stage has no gradients: each B of the row runs a backward.")
    pairs = [(grad, wanted) for grad, wanted in zip(mine, right, strict=True) if grad is not None]
    if all(torch.allclose(grad, wanted, rtol=1e-4, atol=1e-6) for grad, wanted in pairs):
        return
    if all(torch.allclose(grad, m * wanted, rtol=1e-4, atol=1e-5) for grad, wanted in pairs):
        raise Wrong(
            "sum_for_mean",
            f"For {where} the gradients are {m} times too large: the loss of the batch is the mean over {m} "
            "micro-batches, so each loss is divided by their number.",
        )
    if all(torch.allclose(grad, wanted / m, rtol=1e-4, atol=1e-7) for grad, wanted in pairs):
        raise Wrong(*_divided_twice(where, "gradients are", m))
    last = next(action.microbatch for action in reversed(row) if action.kind is Kind.B)
    if any(_is_share(grad, alone, m) for grad, alone in zip(mine, _gradients_of(last, m), strict=True)):
        raise Wrong(
            "only_the_last",
            f"For {where} .grad holds the last micro-batch only. A backward adds to .grad: put nothing in its place, "
            "and call no zero_grad in between.",
        )
    raise Wrong("wrong_gradients", f"For {where} the gradients are not those of the whole batch.")


def _divided_twice(where: str, what: str, m: int) -> tuple[str, str]:
    return (
        "divided_twice",
        f"For {where} the {what} {m} times too small: divide by the number of micro-batches once, not twice.",
    )


def _is_share(grad: torch.Tensor | None, alone: torch.Tensor | None, m: int) -> bool:
    """Whether a gradient is that of one micro-batch, divided by their number or not."""
    if grad is None or alone is None:
        return False
    return torch.allclose(grad, alone, rtol=1e-4) or torch.allclose(grad * m, alone, rtol=1e-4)


def _gradients_of(number: int, num_microbatches: int) -> list[torch.Tensor | None]:
    """The gradients of one micro-batch alone."""
    stage, _ = _fresh_stage()
    inputs, targets = _batch(num_microbatches)
    nn.functional.mse_loss(stage(inputs[number]), targets[number]).backward()
    return [weight.grad for weight in stage.parameters()]
