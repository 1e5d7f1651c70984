"""The cases of exercise 12.2: `conjugate_pair()` gives f and g, each of which is the other's backward.

Each rank has other numbers, so a sum can be told from a rank's own value; views and expanded gradients come too, for
that is what layers and `.sum().backward()` hand over. In a model x often goes on beside f, as a residual does.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from pllab import comm
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import UP_TO_3, Attempt, Watch
from pllab.lesson.exercises.tensors import NO_GRADIENT, alike, compare_tensors, detached
from pllab.lesson.mistakes import Mistake

_PLAIN, _VIEW, _EXPANDED = "a plain tensor", "a transposed view", "a tensor whose gradient is an expanded number"
_FLOAT32, _TWICE = "a tensor of float32", "used twice"
_FORMS = (_PLAIN, _VIEW, _EXPANDED, _FLOAT32, _TWICE)
_CALLS = "f and g, forward and backward"
_VALUE, _GRADIENT = "the value of", "the gradient of x through"


class Seen(NamedTuple):
    """One call of f or g on a rank, with the names of its messages, and what has changed, such as "x"."""

    value: Any
    grad: torch.Tensor | None
    forward: list[str]
    backward: list[str]
    changed: list[str]


@case("f gives x as it is and adds up the gradients of all ranks, in worlds of 2 and 3")
def f_right(pair: Function) -> None:
    _compare(pair, "f", (2, 3))


@case("g adds up the x of all ranks and passes the gradient on, in worlds of 2 and 3")
def g_right(pair: Function) -> None:
    _compare(pair, "g", (2, 3))


@case("one all-reduce each: f's in the backward, g's in the forward")
def one_message_each(pair: Function) -> None:
    right: dict[str, tuple[list[str], list[str]]] = {"f": ([], ["all_reduce"]), "g": (["all_reduce"], [])}
    for name, form, size, rank in _questions("fg", _FORMS, (2, 3)):
        seen = _seen(pair, name, form, size, rank)
        if (seen.forward, seen.backward) != right[name]:
            mine, wanted = (
                f"{', '.join(forward) or 'nothing'} forward and {', '.join(backward) or 'nothing'} backward"
                for forward, backward in ((seen.forward, seen.backward), right[name])
            )
            where = f"In a world of {size}, for {name}(x) with x {form},"
            raise Wrong("messages", f"{where} rank {rank} sent {mine}; right is {wanted}.")


@case("x and the gradient that arrives stay as they were")
def leaves_them_alone(pair: Function) -> None:
    for name, form, size, rank in _questions("fg", _FORMS, (1, 2, 3)):
        if changed := _seen(pair, name, form, size, rank).changed:
            told = f"In a world of {size}, {name}(x) or its backward, with x {form}, has changed {changed[0]}"
            raise Wrong("in_place", f"{told}. all_reduce works in place, and others may hold this tensor: sum a copy.")


@case("x may be used elsewhere: x + f(x) sums only what comes through f")
def x_elsewhere(pair: Function) -> None:
    compare_tensors(
        lambda *question: _seen(pair, *question).grad,
        _questions("fg", [_TWICE], (2, 3)),
        lambda name, form, size, rank: _given(form, rank)[1] + _right(_GRADIENT, name, form, size, rank),
        asked="the gradient of x in x + {0}(x) in a world of {2} on rank {3}",
        hint_id="x_elsewhere",
    )


@case("a rank that is alone gets x and its gradient as they are")
def alone(pair: Function) -> None:
    _compare(pair, "f", (1,))
    _compare(pair, "g", (1,))


def call_on_ranks(watch: Watch, rank: int, _: int, pair: Function) -> dict[str, Attempt]:
    """On every rank: f and g in all forms, forward and backward; a sentence if they are no two functions."""

    def all_calls() -> Any:
        made = pair()
        try:
            f, g = made
        except (TypeError, ValueError):
            return f"{made!r:.60}; return two functions, f and g"
        if isinstance(f, type) or isinstance(g, type):
            return "classes; return the apply of each, which is a function of x"
        return {name: {form: _call(step, form, rank) for form in _FORMS} for name, step in (("f", f), ("g", g))}

    return {_CALLS: watch.attempt(all_calls)}


def _call(step: Any, form: str, rank: int) -> Seen:
    x, gradient = _given(form, rank)
    leaf = x.requires_grad_()
    with comm.record_messages() as ledger:
        value = step(leaf)
        num_forward = ledger.count()
        if isinstance(value, torch.Tensor) and value.requires_grad and (value.shape, value.dtype) == (x.shape, x.dtype):
            (leaf + value if form == _TWICE else value).backward(gradient)
    names = [message.name for message in ledger.messages]
    before = zip(("x", "the gradient that arrived"), (leaf.detach(), gradient), _given(form, rank), strict=True)
    changed = [what for what, after, given in before if not torch.equal(after, given)]
    return Seen(detached(value), detached(leaf.grad), names[:num_forward], names[num_forward:], changed)


def _given(form: str, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values of x and of the gradient that arrives at the output, other numbers on every rank."""
    draw = torch.Generator().manual_seed(100 * _FORMS.index(form) + rank)
    x, gradient = (torch.randn(3, 4, generator=draw, dtype=torch.float64) for _ in "xg")
    if form == _FLOAT32:
        return x.float(), gradient.float()
    if form == _VIEW:
        return x.t(), gradient.t()
    return x, gradient[0, 0].expand(3, 4) if form == _EXPANDED else gradient


def _questions(names: str, forms: Sequence[str], sizes: Sequence[int]) -> list[tuple[str, str, int, int]]:
    return [(name, form, size, rank) for name in names for form in forms for size in sizes for rank in range(size)]


def _seen(pair: Function, name: str, form: str, size: int, rank: int) -> Seen:
    value = seen_in_call(call_on_ranks, pair, UP_TO_3, size, _CALLS)[rank].value
    if isinstance(value, str):
        raise Wrong("no_pair", f"On rank {rank} conjugate_pair() returned {value}.")
    seen: Seen = value[name][form]
    return seen


def _right(what: str, name: str, form: str, size: int, rank: int) -> torch.Tensor:
    """The sum over the ranks, of which f makes the gradient and g the value; else what this rank was given."""
    given = [_given(form, each)[what == _GRADIENT] for each in range(size)]
    return torch.stack(given).sum(0) if (name == "f") == (what == _GRADIENT) else given[rank]


def _of_the_other(what: str, name: str, *where: Any) -> torch.Tensor:
    return _right(what, "g" if name == "f" else "f", *where)


_OWN = "That is this rank's own gradient. Each rank sees one term of it; f adds them up in backward."
_TOO = "g sums in backward too. After g every rank has the same whole gradient, and passes it on unchanged."
_SWAPPED = {
    ("f", _VALUE): Mistake("f_sums", "f changes nothing in forward, and sums in backward.", _of_the_other),
    ("f", _GRADIENT): Mistake("backward_missing", _OWN, _of_the_other),
    ("g", _VALUE): Mistake("g_sums_nothing", "That is this rank's own x; g adds up those of all ranks.", _of_the_other),
    ("g", _GRADIENT): Mistake("both_ways", _TOO, _of_the_other),
}
_MEAN = Mistake(
    "mean",
    "That is divided by the number of ranks; terms are added up, never divided.",
    like=lambda what, name, form, size, rank: _right(what, name, form, size, rank) / size,
)


def _compare(pair: Function, name: str, sizes: Sequence[int]) -> None:
    """Compare what this step gives, and then the gradient that x gets through it."""
    questions = _questions(name, [form for form in _FORMS if form != _TWICE], sizes)
    for what, place, more in ((_VALUE, 0, []), (_GRADIENT, 1, [NO_GRADIENT])):
        compare_tensors(
            lambda _, *question, place=place: _seen(pair, *question)[place],
            [(what, *question) for question in questions],
            _right,
            [*more, _SWAPPED[name, what], _MEAN],
            asked="{} {}(x), with x {}, in a world of {} on rank {},",
            same=lambda got, right: alike(got, right) and got.dtype == right.dtype,
        )
