"""The cases of exercise 12.2: `conjugate_pair()` gives f and g, each of which is the other's backward.

Each rank has other numbers, so a sum can be told from a rank's own value; views and expanded gradients come too, for
that is what layers and `.sum().backward()` hand over. In a model x often goes on beside f, as a residual does.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from pllab import comm
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.failures import refuse_failures, seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Watch

Pair = Callable[[], Any]

_PLAN = ((3,), (2, 1))
_FORMS = (
    "plain",
    "a transposed view",
    "with the gradient of .sum(), one number seen many times",
    "in float32",
    "used twice, as in x + f(x) or x + g(x)",
)
_FLOAT32, _TWICE = 3, 4
_CLASSES = "classes, which are not functions of x: return the apply of each"


class Seen(NamedTuple):
    """One call of f or g on a rank, with what stayed as it was."""

    value: Any
    grad: torch.Tensor | None
    num_forward: int
    num_backward: int
    others: list[str]  # messages that are no all-reduce
    intact: bool
    grad_intact: bool
    right: tuple[torch.Tensor, torch.Tensor]  # this rank's own x and gradient


@case("f gives x as it is and adds up the gradients of all ranks, in worlds of 3 and 2")
def f_right(pair: Pair) -> None:
    for size in (3, 2):
        _judge_all(pair, size, "f")


@case("g adds up the x of all ranks and passes the gradient on, in worlds of 3 and 2")
def g_right(pair: Pair) -> None:
    for size in (3, 2):
        _judge_all(pair, size, "g")


@case("one all-reduce each: f's in the backward, g's in the forward")
def one_message_each(pair: Pair) -> None:
    for size in (3, 2):
        for name, wanted in (("f", (0, 1)), ("g", (1, 0))):
            for rank, seen in enumerate(one[name] for one in _seen(pair, size)):
                for number, call in enumerate(seen):
                    _judge_messages(call, wanted, f"In a world of {size}, rank {rank}, {name} of x, {_FORMS[number]}")


@case("x and the gradient that arrives stay as they were")
def leaves_them_alone(pair: Pair) -> None:
    for size in (3, 2, 1):
        for one in _seen(pair, size):
            for name, calls in one.items():
                if not all(call.intact for call in calls):
                    raise Wrong(
                        "x_changed",
                        f"After {name} the tensor x is another one. all_reduce works in place, and others may hold x: "
                        "sum up a copy.",
                    )
                if not all(call.grad_intact for call in calls):
                    raise Wrong(
                        "gradient_changed",
                        f"The backward of {name} wrote into the gradient that arrived, which autograd may still hand "
                        "to others: sum up a copy.",
                    )


@case("x may be used elsewhere: x + f(x) sums what comes through f alone")
def x_elsewhere(pair: Pair) -> None:
    for size in (3, 2):
        for name in "fg":
            _judge_form(pair, size, name, _TWICE)


@case("a rank that is alone gets x and its gradient as they are")
def alone(pair: Pair) -> None:
    _judge_all(pair, 1, "f")
    _judge_all(pair, 1, "g")


def call_on_ranks(watch: Watch, rank: int, _: int, pair: Pair) -> Attempt:
    """On every rank: f and g in all forms, forward and backward."""

    def all_calls() -> Any:
        made = pair()
        try:
            f, g = made
        except (TypeError, ValueError):
            return repr(made)[:60]
        if isinstance(f, type) or isinstance(g, type):
            return _CLASSES
        return {name: [_call(step, rank, form) for form in range(len(_FORMS))] for name, step in (("f", f), ("g", g))}

    return watch.attempt(all_calls)


def _call(step: Any, rank: int, form: int) -> Seen:
    x, gradient = _given(rank, form)
    before, gradient_before = x.detach().clone(), gradient.clone()
    leaf = x.requires_grad_()
    with comm.record_messages() as ledger:
        value = step(leaf)
        num_forward = ledger.count()
        shown = value.detach().clone() if isinstance(value, torch.Tensor) else repr(value)[:60]
        if _is_like(value, gradient) and value.requires_grad:
            (leaf + value if form == _TWICE else value).backward(gradient)
    intact, grad_intact = torch.equal(leaf.detach(), before), torch.equal(gradient, gradient_before)
    grad = None if leaf.grad is None else leaf.grad.clone()
    num_backward = ledger.count() - num_forward
    others = [message.name for message in ledger.messages if message.name != "all_reduce"]
    return Seen(shown, grad, num_forward, num_backward, others, intact, grad_intact, (before, gradient_before))


def _given(rank: int, form: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values of x and of the gradient that arrives at the output, other numbers on every rank."""
    draw = torch.Generator().manual_seed(100 * form + rank)
    x, gradient = (torch.randn(3, 4, generator=draw, dtype=torch.float64) for _ in "xg")
    if form == _FLOAT32:
        return x.float(), gradient.float()
    if form == 1:
        return x.t(), gradient.t()
    return x, gradient[0, 0].expand(3, 4) if form == 2 else gradient


def _seen(pair: Pair, size: int) -> list[dict[str, list[Seen]]]:
    attempts: Sequence[Attempt] = seen_in_world(call_on_ranks, pair, _PLAN, size)
    for one in attempts:
        if "leaf Variable that requires grad" in one.error or "modified by an inplace" in one.error:
            raise Wrong("x_changed", "You summed into x itself, which others hold: sum up a copy.")
    refuse_failures(attempts, f"In a world of {size}")
    for rank, one in enumerate(attempts):
        if one.value == _CLASSES:
            raise Wrong("classes", f"On rank {rank} conjugate_pair() returned {_CLASSES}.")
        if isinstance(one.value, str):
            raise Wrong("no_pair", f"On rank {rank} conjugate_pair() returned {one.value}; return two functions, f, g.")
    return [one.value for one in attempts]


def _is_like(got: Any, right: torch.Tensor) -> bool:
    return isinstance(got, torch.Tensor) and (got.shape, got.dtype) == (right.shape, right.dtype)


def _close(got: Any, right: torch.Tensor) -> bool:
    return _is_like(got, right) and torch.allclose(got, right, atol=1e-6 if right.dtype == torch.float32 else 1e-8)


def _judge_all(pair: Pair, size: int, name: str) -> None:
    for form in range(_TWICE):
        _judge_form(pair, size, name, form)


def _judge_form(pair: Pair, size: int, name: str, form: int) -> None:
    calls = [one[name][form] for one in _seen(pair, size)]
    xs, gradients = zip(*(call.right for call in calls), strict=True)
    for rank, call in enumerate(calls):
        where = f"In a world of {size}, on rank {rank}, with x {_FORMS[form]},"
        _judge_value(call.value, xs, rank, name, where)
        if form == _TWICE:
            _judge_beside(call.grad, gradients, rank, name, where)
        else:
            _judge_grad(call.grad, gradients, rank, name, where)


def _judge_value(got: Any, xs: Sequence[torch.Tensor], rank: int, name: str, where: str) -> None:
    if not isinstance(got, torch.Tensor):
        raise Wrong("no_tensor", f"{where} {name}(x) gave {got}; all_reduce returns None, return the tensor.")
    if got.dtype != xs[rank].dtype:
        raise Wrong("dtype", f"{where} {name}(x) has dtype {got.dtype}, and x has {xs[rank].dtype}: the dtype stays.")
    total = torch.stack(list(xs)).sum(0)
    right = xs[rank] if name == "f" else total
    if _close(got, right):
        return
    if len(xs) == 1:
        raise Wrong("alone", f"{where} {name}(x) is not x.")
    if name == "f" and _close(got, total):
        raise Wrong("f_sums", f"{where} f(x) is the sum over the ranks: f changes nothing on the way forward.")
    if name == "g" and _close(got, xs[rank]):
        raise Wrong("g_sums_nothing", f"{where} g(x) is this rank's own x: g adds up the terms of all ranks.")
    if name == "g" and _close(got * len(xs), total):
        raise Wrong("mean", f"{where} g(x) is the mean over the ranks; terms are added up, never divided.")
    raise Wrong("other_value", f"{where} {name}(x) has other numbers.")


def _judge_grad(got: torch.Tensor | None, gradients: Sequence[torch.Tensor], rank: int, name: str, where: str) -> None:
    total = torch.stack(list(gradients)).sum(0)
    right = total if name == "f" else gradients[rank]
    if _close(got, right):
        return
    if got is None:
        raise Wrong("no_gradient", f"{where} x got no gradient through {name}: its backward gives none, or no graph.")
    if len(gradients) == 1:
        raise Wrong("alone", f"{where} the gradient through {name} is not the one that arrived.")
    if name == "f" and _close(got, gradients[rank]):
        raise Wrong(
            "backward_missing",
            f"{where} f passes on this rank's own gradient. Each rank sees one term of it; f adds them up on the way "
            "back.",
        )
    if name == "g" and _close(got, total):
        raise Wrong(
            "both_ways",
            f"{where} g sums on the way back too. Behind g every rank has the same whole gradient, and the term's "
            "gradient is just that.",
        )
    if _close(got * len(gradients), right):
        raise Wrong("mean", f"{where} the gradient through {name} is divided by the number of ranks.")
    raise Wrong("other_gradient", f"{where} the gradient through {name} has other numbers.")


def _judge_beside(
    got: torch.Tensor | None, gradients: Sequence[torch.Tensor], rank: int, name: str, where: str
) -> None:
    """The gradient of x + step(x): what comes to x directly, and what comes through the step."""
    through = torch.stack(list(gradients)).sum(0) if name == "f" else gradients[rank]
    if not _close(got, gradients[rank] + through):
        raise Wrong(
            "x_elsewhere",
            f"{where} the gradient of x in x + {name}(x) is wrong, though that of {name}(x) alone is right. What comes "
            "to x by another way is not to be summed: give back another tensor than x, and put no hook on x itself.",
        )


def _judge_messages(call: Seen, wanted: tuple[int, int], where: str) -> None:
    if call.others:
        raise Wrong("other_message", f"{where}: {call.others[0]} was called; one all-reduce does it, with fewer bytes.")
    if (call.num_forward, call.num_backward) != wanted:
        raise Wrong(
            "messages",
            f"{where}: {call.num_forward} messages forward and {call.num_backward} backward; {wanted[0]} and "
            f"{wanted[1]} are enough.",
        )
