"""The cases of exercise 13.1: `sharded_adam(flat, gradient, state, lr)` steps a part on each rank and gathers all.

Truth is Adam written down in float64. The state is weighed where the learner keeps it, after each step.
"""

from collections.abc import Iterator
from typing import Any

import torch

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.lesson_13_parts import judge_weight, part_size
from pllab.lesson.exercises.ranks import RANKS, SIZES, UP_TO_3, Attempt, Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import compare_tensors
from pllab.lesson.mistakes import Mistake

_LR, _STEPS = 0.1, 4
_EVEN, _UNEVEN, _FEW, _MANY = "6 numbers", "10 numbers", "2 numbers", "100 numbers"
_NAMES = (_EVEN, _UNEVEN, _MANY, _FEW)  # the last one may leave a rank waiting
_MORE = 16  # numbers that the state may have besides, such as the count of steps
_DEPTH = 6


@case("after one step and after four, flat has the numbers of plain Adam on every rank, where w divides n")
def even(sharded_adam: Function) -> None:
    _judge_numbers(sharded_adam, _EVEN)


@case("the same for 10 numbers on 3 ranks, and for 2, where a rank has none")
def uneven(sharded_adam: Function) -> None:
    for name in (_UNEVEN, _FEW, _MANY):
        _judge_numbers(sharded_adam, name)


@case("a rank keeps only the moments of its own part, and only in state")
def small_state(sharded_adam: Function) -> None:
    numel = int(_MANY.split()[0])
    for size in SIZES:
        held, own = [one.value[1] for one in _attempts(sharded_adam, size, _MANY)], part_size(numel, size)
        if sum(held) < 2 * numel:
            told = f"In a world of {size}, the ranks have {sum(held)} numbers in state, and all moments are {2 * numel}"
            raise Wrong("state_elsewhere", f"{told}. Keep them in state: what lives elsewhere is shared by all models.")
        if size > 1 and max(held) > 3 * own + _MORE:
            told = f"In a world of {size}, a rank has {max(held)} numbers in state for a model of {numel}"
            why = f"Two moments for each of its own {own} numbers are {2 * own}: the other ranks keep the others."
            raise Wrong("whole_state", f"{told}. {why}")


@case("a step sends the new numbers once: no more than an all-gather of the parts")
def few_bytes(sharded_adam: Function) -> None:
    for size in SIZES[1:]:
        attempts = _attempts(sharded_adam, size, _MANY)
        judge_weight(attempts, part_size(len(_start(_MANY)), size), "a gather of all parts")


@until_one_fails
def step_all(watch: Watch, _: int, __: int, sharded_adam: Function) -> Calls:
    """On every rank, four steps for each size: flat after each step, and the most numbers that the state has."""
    for name in _NAMES:
        flat, state, after, held = _start(name), dict[str, Any](), list[torch.Tensor](), list[int]()
        memory = flat.view_as(flat)  # as the weights of a model are
        for step in range(_STEPS):
            one = watch.attempt(sharded_adam, flat, _gradient(name, step), state, _LR)
            after.append(memory.clone())
            held.append(_numbers_in(state, {flat.untyped_storage().data_ptr()}))
            yield name, one.holding((after, max(held)))


def adam(name: str) -> list[torch.Tensor]:
    """Plain Adam in float64: the numbers after each step.

    Source: Kingma and Ba 2015, algorithm 1.
    """
    flat, first, second = _start(name).double(), torch.zeros(()), torch.zeros(())
    after = []
    for step in range(_STEPS):
        gradient = _gradient(name, step).double()
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        means = first / (1 - 0.9 ** (step + 1)), second / (1 - 0.999 ** (step + 1))
        flat = flat - _LR * means[0] / (means[1].sqrt() + 1e-8)
        after.append(flat)
    return after


def _start(name: str) -> torch.Tensor:
    numel = int(name.split()[0])
    return torch.randn(numel, generator=torch.Generator().manual_seed(numel))


def _gradient(name: str, step: int) -> torch.Tensor:
    """Of very different sizes, which Adam evens out and SGD does not; of more than three numbers one is always zero."""
    numel = int(name.split()[0])
    some = torch.Generator().manual_seed(100 * numel + step)
    gradient = torch.randn(numel, generator=some) * 10.0 ** torch.randint(-2, 2, (numel,), generator=some)
    gradient[3:4] = 0.0
    return gradient


def _numbers_in(state: Any, seen: set[int]) -> int:
    """The numbers of all tensors that are kept in `state`, each storage once; not of what a pointer in `seen` names."""
    total = 0
    for tensor in _tensors_in(state, _DEPTH):
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes() // tensor.element_size()
    return total


def _tensors_in(value: Any, depth: int) -> Iterator[torch.Tensor]:
    """In dictionaries, lists and the attributes of objects, such as an optimizer."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth:
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        more = vars(value).values() if hasattr(value, "__dict__") and not callable(value) else ()
        for each in (*inside, *more):
            yield from _tensors_in(each, depth - 1)


def _attempts(sharded_adam: Function, size: int, name: str) -> list[Attempt]:
    return seen_in_call(step_all, sharded_adam, UP_TO_3, size, name)


_FORGOTTEN = "Only the first step is right: Adam needs the moments of earlier steps, and the number of steps."
_STILL = (
    "Where flat is wrong it still has its first numbers: either no rank updates them (the last ones are lost if n is "
    "divided by w without rounding up), or they are not gathered."
)


def _judge_numbers(sharded_adam: Function, name: str) -> None:
    start, right = _start(name), [numbers.float() for numbers in adam(name)]

    def still(flat: torch.Tensor, step: int, *_: int) -> bool:
        wrong = ~torch.isclose(flat.float(), right[step - 1], 1e-4, 1e-6)
        return torch.equal(flat.float()[wrong], start[wrong])

    compare_tensors(
        lambda step, size, rank: _attempts(sharded_adam, size, name)[rank].value[0][step - 1],
        [(step, *place) for step in range(1, _STEPS + 1) for place in RANKS],
        lambda step, *_: right[step - 1],
        [
            Mistake(
                "not_in_place",
                "Write the new numbers into the memory of flat, as flat[:] = ... does; flat.data = ... replaces it.",
                like=lambda *_: start,
            ),
            Mistake("not_gathered", _STILL, when=still),
            Mistake("state_forgotten", _FORGOTTEN, when=lambda _, step, *__: step > 1),
        ],
        asked=f"{name} after step {{}} in a world of {{}} on rank {{}}",
    )
