"""The cases of exercise 13.1: `sharded_adam(flat, gradient, state, lr)` steps a part on each rank and gathers all.

Truth is Adam written down in float64. The state is weighed where the learner keeps it, after the first step.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_13_ranks import SIZES, Seen, close, judge_weight, part_size, seen_in, without_value
from pllab.lesson.exercises.ranks import Watch

ShardedAdam = Callable[..., Any]

_LR, _STEPS = 0.1, 4
_EVEN, _UNEVEN, _FEW, _MANY = "6 numbers", "10 numbers", "2 numbers", "100 numbers"
_NAMES = (_EVEN, _UNEVEN, _MANY, _FEW)  # the last one may leave a rank waiting
_MORE = 16  # numbers that the state may have besides, such as the count of steps
_DEPTH = 6


@case("after one step and after four, flat has the numbers of plain Adam on every rank, where w divides n")
def even(sharded_adam: ShardedAdam) -> None:
    _judge_numbers(sharded_adam, _EVEN)


@case("the same for 10 numbers on 3 ranks, and for 2, where a rank has none")
def uneven(sharded_adam: ShardedAdam) -> None:
    for name in (_UNEVEN, _FEW, _MANY):
        _judge_numbers(sharded_adam, name)


@case("a rank keeps the moments of its own part, and in state alone")
def small_state(sharded_adam: ShardedAdam) -> None:
    for size in SIZES:
        _judge_state([one.held for one in seen_in(step_all, sharded_adam, size, _MANY)])


@case("a step sends the new numbers once: no more than an all-gather of the parts")
def few_bytes(sharded_adam: ShardedAdam) -> None:
    for size in (3, 2):
        judge_weight(
            seen_in(step_all, sharded_adam, size, _MANY), part_size(_numel(_MANY), size), "a gather of all parts"
        )


def step_all(watch: Watch, rank: int, world_size: int, sharded_adam: ShardedAdam) -> dict[str, Seen]:
    """On every rank: four steps for each size; `result` has flat after each step, `held` the numbers in the state."""
    del rank, world_size
    seen: dict[str, Seen] = {}
    for name in _NAMES:
        flat, state, after = _start(name), dict[str, Any](), list[torch.Tensor]()
        held = 0
        for step in range(_STEPS):
            gradient = _gradient(name, step)
            one = watch.attempt(sharded_adam, flat, gradient, state, _LR)
            after.append(flat.clone())
            if step == 0:
                held = _numbers_in(state, {flat.untyped_storage().data_ptr()})
            seen[name] = Seen(without_value(one), after, held)
            if one.failed:
                return seen
    return seen


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


def _numel(name: str) -> int:
    return int(name.partition(" ")[0])


def _start(name: str) -> torch.Tensor:
    return torch.randn(_numel(name), generator=torch.Generator().manual_seed(_numel(name)))


def _gradient(name: str, step: int) -> torch.Tensor:
    """Of very different sizes, which Adam evens out and SGD does not."""
    some = torch.Generator().manual_seed(100 * _numel(name) + step)
    return torch.randn(_numel(name), generator=some) * 10.0 ** torch.randint(-2, 2, (_numel(name),), generator=some)


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


def _judge_state(held: list[int]) -> None:
    """Compare the numbers in the state of every rank with two for each number of a part."""
    size, numel = len(held), _numel(_MANY)
    own = part_size(numel, size)
    if sum(held) < 2 * numel:
        raise Wrong(
            "state_elsewhere",
            f"In a world of {size}, the ranks have {sum(held)} numbers in state after a step, and the two moments of "
            f"all {numel} numbers are {2 * numel}. Keep them in state: what lives elsewhere is shared by all models.",
        )
    if size > 1 and max(held) > 3 * own + _MORE:
        raise Wrong(
            "whole_state",
            f"In a world of {size}, a rank has {max(held)} numbers in state for a model of {numel}. Two moments for "
            f"each of its own {own} numbers are {2 * own}: the moments of the others are theirs to keep.",
        )


def _judge_numbers(sharded_adam: ShardedAdam, name: str) -> None:
    right = adam(name)
    for size in SIZES:
        for rank, one in enumerate(seen_in(step_all, sharded_adam, size, name)):
            for step, (mine, wanted) in enumerate(zip(one.result, right, strict=True)):
                if not close(mine, wanted):
                    _refuse(name, f"In a world of {size}, with {name}, on rank {rank}", step, one.result, right)


def _refuse(name: str, where: str, step: int, mine: list[torch.Tensor], right: list[torch.Tensor]) -> None:
    before = _start(name) if step == 0 else mine[step - 1]
    wrong = ~torch.isclose(mine[step].double(), right[step], rtol=1e-4, atol=1e-6)
    still = torch.equal(mine[step][wrong], before[wrong])
    if still and bool(wrong.all()):
        raise Wrong("not_in_place", f"{where}, no number of flat has changed: write the new numbers into flat itself.")
    if still:
        first = int(wrong.nonzero()[0])
        raise Wrong(
            "not_gathered",
            f"{where}, the numbers from {first} on are those from before step {step}: either no rank has stepped them "
            "(the last ones are lost if n is divided by w without rounding up), or they were not gathered.",
        )
    if step:
        raise Wrong(
            "state_forgotten",
            f"{where}, step 0 is right and step {step} is not: Adam needs the moments of the steps before, and the "
            "number of steps.",
        )
    raise Wrong("other_numbers", f"{where}, flat differs from plain Adam after the first step.")
