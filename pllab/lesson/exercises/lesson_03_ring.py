"""The cases of exercise 03.2: `ring_all_reduce(tensor)` by send and receive, in worlds of 3, 2 and 1 ranks.

Whole numbers first, whose sums are exact in any order; then floats, whose last bits show in which order they were
added, and 6 MB, which no socket holds.
"""

from collections.abc import Sequence
from itertools import chain, combinations
from typing import NamedTuple

import torch

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import refuse_alone, refuse_collectives, seen_in_call
from pllab.lesson.exercises.ranks import UP_TO_3, Attempt, Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import difference, refuse_differences
from pllab.lesson.mistakes import retold

_TURNED, _MIXED = "a transpose of 3 x 4 numbers", "2 x 3 x 4 numbers, transposed on rank 0 alone"
_SHAPES = {
    "12 numbers": (12,),
    "6 doubles": (6,),
    "7 numbers": (7,),
    "2 numbers": (2,),
    "1 number": (1,),
    "3 x 5 numbers": (3, 5),
    _TURNED: (4, 3),
    _MIXED: (2, 3, 4),
    "5,001 floats": (5001,),
    "1,500,001 floats": (1_500_001,),
}
_NAMES = list(_SHAPES)
_EVEN, _UNEVEN, _SHAPED, _TRANSPOSED, _FLOATS = _NAMES[:2], _NAMES[2:5], _NAMES[5:6], _NAMES[6:8], _NAMES[8:]


def _draw(name: str, rank: int) -> torch.Tensor:
    """The tensor of a rank, always the same."""
    some = torch.Generator().manual_seed(10 * len(name) + rank)
    if name in _FLOATS:
        return 1000 * torch.randn(_SHAPES[name], generator=some)
    drawn = torch.randint(2**40, 2**41, _SHAPES[name], generator=some)  # float32 could not hold these
    if name == "6 doubles":
        return drawn.double()
    if name == _MIXED and rank == 0:
        return drawn.transpose(0, 2).contiguous().transpose(0, 2)  # the same numbers, in memory in another order
    return drawn.t() if name == _TURNED else drawn


@case("every rank ends with the sum over all ranks, in the tensor itself, if n is a multiple of w")
def even(ring_all_reduce: Function) -> None:
    _judge_sums(ring_all_reduce, _EVEN)


@case("the same for 7, 2 and 1 numbers, even with fewer numbers than ranks")
def uneven(ring_all_reduce: Function) -> None:
    _judge_sums(ring_all_reduce, _UNEVEN)


@case("the same for a tensor of 3 x 5 and for transposes, even if only one rank has one")
def shapes(ring_all_reduce: Function) -> None:
    _judge_sums(ring_all_reduce, _SHAPED)
    # With the same numbers side by side in memory all was well.
    gaps = "A transpose has gaps in memory: work on a copy without, as reshape(-1) makes it, and copy the sum back."
    with retold("gaps", gaps):
        _judge_sums(ring_all_reduce, _TRANSPOSED)


@case("a rank sends to one neighbour only, at most 2 (w - 1) messages with 2 (w - 1) ceil(n / w) numbers")
def few_numbers(ring_all_reduce: Function) -> None:
    for size in (3, 2):
        for name in (*_EVEN, *_UNEVEN, *_SHAPED, *_TRANSPOSED):
            where = f"In a world of {size}, with {name}"
            for rank, one in enumerate(seen_in_call(reduce_all, ring_all_reduce, UP_TO_3, size, name)):
                _judge_messages(where, size, rank, one)


@case("floats: close to the sum, with the same bits on all ranks, and 1,500,001 of them without a deadlock")
def floats(ring_all_reduce: Function) -> None:
    _judge_sums(ring_all_reduce, _FLOATS)
    for size in (3, 2):
        for name in _FLOATS:
            tensors = [one.value.tensor for one in seen_in_call(reduce_all, ring_all_reduce, UP_TO_3, size, name)]
            where = f"In a world of {size}, with {name}, of which all ranks need the bits that rank 0 has"
            refuse_differences(where, [[difference(tensor, tensors[0])] * 3 for tensor in tensors])


@case("a rank that is alone sends nothing and keeps its numbers")
def alone(ring_all_reduce: Function) -> None:
    refuse_alone(reduce_all, ring_all_reduce, UP_TO_3)
    _judge_sums(ring_all_reduce, _NAMES, worlds=(1,))


class Summed(NamedTuple):
    """One call on one rank: what its tensor then holds, and its `difference`s from the sum.

    held: of the memory that the tensor had before, of the tensor, and of what the call returned.
    """

    tensor: torch.Tensor
    held: list[str]


@until_one_fails
def reduce_all(watch: Watch, rank: int, world_size: int, ring_all_reduce: Function) -> Calls:
    """On every rank, a call for every tensor; three times 6 MB need not travel to the judge: they are compared here."""
    for name in _NAMES:
        tensor = _draw(name, rank)
        memory = tensor.view_as(tensor)
        one = watch.attempt(ring_all_reduce, tensor)
        parts = torch.stack([_draw(name, other) for other in range(world_size)])
        rtol, atol = (1e-5, 1e-2) if name in _FLOATS else (0.0, 0.0)
        held = [difference(each, parts.sum(0), rtol, atol) for each in (memory, tensor, one.value)]
        if held[1] and name not in _FLOATS and tensor.shape == parts[0].shape:
            held[1] += _summands(tensor, parts)
        yield name, one.holding(Summed(tensor, held))


def _summands(got: torch.Tensor, parts: torch.Tensor) -> str:
    """Which ranks' numbers are in a sum, where it is wrong most, if these are not all of them and each counts once."""
    worst = (got - parts.sum(0)).abs().argmax()
    numbers, found = [part.flatten()[worst].item() for part in parts], got.flatten()[worst].item()
    for some in chain.from_iterable(combinations(range(len(numbers)), count) for count in range(1, len(numbers))):
        if sum(numbers[rank] for rank in some) == found:
            ranks = f"{'ranks' if len(some) > 1 else 'rank'} {' and '.join(map(str, some))}"
            return f" ({found} comes from {ranks} alone)"
    return ""


def _judge_sums(ring_all_reduce: Function, names: Sequence[str], worlds: Sequence[int] = (3, 2)) -> None:
    for size in worlds:
        for name in names:
            attempts = seen_in_call(reduce_all, ring_all_reduce, UP_TO_3, size, name)
            refuse_differences(f"In a world of {size}, with {name}", [one.value.held for one in attempts])


def _judge_messages(where: str, size: int, rank: int, one: Attempt) -> None:
    refuse_collectives(where, [one], "the sum")
    tensor, sent = one.value.tensor, one.named("send")
    rounds, chunk = 2 * (size - 1), -(-tensor.numel() // size)
    numbers = sum(message.num_bytes for message in sent) // tensor.element_size()
    if len(sent) > rounds or numbers > rounds * chunk:
        told = f"{where}, rank {rank} sent {numbers} numbers in {len(sent)} messages"
        why = f"right is at most {rounds * chunk} numbers in {rounds} messages, each a chunk of ceil(n / w) = {chunk}."
        raise Wrong("too_many_numbers", f"{told}; {why}")
    to, source = ({message.peer for message in one.named(name)} for name in ("send", "receive"))
    if not (to | source) <= {(rank + 1) % size, (rank - 1) % size} or len(to) > 1 or (size > 2 and to & source):
        told = f"{where}, rank {rank} sent to {sorted(to, key=str)} and received from {sorted(source, key=str)}"
        raise Wrong("not_a_ring", f"{told}; in a ring a rank sends to one neighbour only and receives from the other.")
