"""The cases of exercise 03.2: `ring_all_reduce(tensor)` by send and receive, in worlds of 3, 2 and 1 ranks.

Whole numbers first, whose sums are exact in any order; then floats, whose last bits show in which order they were
added, and 6 MB, which no socket holds.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.failures import refuse_alone, refuse_failures, seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Watch

RingAllReduce = Callable[[torch.Tensor], Any]

_PLAN = ((3,), (2, 1))
_TURNED, _MIXED = "4x3 turned", "2x3x4 turned on rank 0 alone"
_EVEN, _UNEVEN, _SHAPES, _FLOATS = (
    ("12", "6 doubles"),
    ("7", "2", "1"),
    ("3x5", _TURNED, _MIXED),
    ("5,001", "1,500,001"),
)


def _draw(name: str, rank: int) -> torch.Tensor:
    """The tensor of a rank, always the same; its name says its shape."""
    some = torch.Generator().manual_seed(10 * len(name) + rank)
    if name in _FLOATS:
        return 1000 * torch.randn(int(name.replace(",", "")), generator=some)
    if name == "6 doubles":
        return torch.randint(-99, 99, (6,), generator=some).double()
    shape = {"3x5": (3, 5), _TURNED: (4, 3), _MIXED: (2, 3, 4)}.get(name) or (int(name),)
    drawn = torch.randint(2**40, 2**41, shape, generator=some)  # float32 could not hold these
    if name == _MIXED and rank == 0:
        return drawn.transpose(0, 2).contiguous().transpose(0, 2)  # the same numbers, in memory in another order
    return drawn.t() if name == _TURNED else drawn


@case("every rank ends with the sum over all ranks, in the tensor itself, where n is a multiple of w")
def even(ring_all_reduce: RingAllReduce) -> None:
    _judge_sums(ring_all_reduce, _EVEN)


@case("the same for 7, 2 and 1 numbers, also where there are fewer of them than ranks")
def uneven(ring_all_reduce: RingAllReduce) -> None:
    _judge_sums(ring_all_reduce, _UNEVEN)


@case("the same for a tensor of 3 x 5, and for transposes, also where only one of the ranks has one")
def shapes(ring_all_reduce: RingAllReduce) -> None:
    _judge_sums(ring_all_reduce, _SHAPES)


@case("a rank sends to one neighbour alone, at most 2 (w - 1) messages with 2 (w - 1) ceil(n / w) numbers")
def few_numbers(ring_all_reduce: RingAllReduce) -> None:
    for size in (3, 2):
        for name in (*_EVEN, *_UNEVEN, *_SHAPES):
            _judge_messages(size, name, _attempts(ring_all_reduce, size, name))


@case("floats: close to the sum, with the same bits on all ranks, and 1,500,001 of them without a deadlock")
def floats(ring_all_reduce: RingAllReduce) -> None:
    _judge_sums(ring_all_reduce, _FLOATS)


@case("a rank that is alone sends nothing and keeps its numbers")
def alone(ring_all_reduce: RingAllReduce) -> None:
    refuse_alone(list(seen_in_world(reduce_all, ring_all_reduce, _PLAN, 1)[0].values()))
    for name in (*_EVEN, *_UNEVEN, *_SHAPES):
        _judge_sum(ring_all_reduce, 1, name)


def reduce_all(watch: Watch, rank: int, world_size: int, ring_all_reduce: RingAllReduce) -> dict[str, Attempt]:
    """On every rank, a call for every tensor; the value of an attempt is what became of the tensor.

    The first call that goes wrong on this rank is the last: its peers notice that the rank leaves the group.
    """
    del world_size
    seen = {}
    for name in (*_EVEN, *_UNEVEN, *_SHAPES, *_FLOATS):
        tensor = _draw(name, rank)
        memory = tensor.view_as(tensor)
        one = watch.attempt(ring_all_reduce, tensor)
        moved = not torch.equal(memory, tensor)
        value = (tensor, one.value if isinstance(one.value, torch.Tensor) else None, moved)
        seen[name] = one.holding(value)
        if one.failed:
            break
    return seen


def _attempts(ring_all_reduce: RingAllReduce, size: int, name: str) -> list[Attempt]:
    """The attempts of all ranks at one tensor.

    Raises:
        Wrong: a rank failed at this tensor, or at one before it.
    """
    seen = _seen(ring_all_reduce, size)
    for earlier in (*_EVEN, *_UNEVEN, *_SHAPES, *_FLOATS):
        where = f"In a world of {size}, with a tensor of {earlier} numbers"
        reached = [one[earlier] for one in seen if earlier in one]
        _refuse_short(size, earlier, reached)
        refuse_failures(reached, where)
        if earlier == name:
            break
    return [one[name] for one in seen]


def _seen(ring_all_reduce: RingAllReduce, size: int) -> list[dict[str, Attempt]]:
    try:
        return seen_in_world(reduce_all, ring_all_reduce, _PLAN, size)
    except Wrong as wrong:
        if wrong.hint_id != "sizes_differ":
            raise
        words = (
            " In a ring, the chunk that a rank sends is the one that its neighbour takes in that round: look at the "
        )
        raise Wrong(wrong.hint_id, f"{wrong.sentence}{words} compare their numbers.") from None


def _refuse_short(size: int, name: str, reached: Iterable[Attempt]) -> None:
    for rank, one in enumerate(reached):
        if name in _UNEVEN and one.kind == "IndexError":
            raise Wrong(
                "short",
                f"In a world of {size}, with a tensor of {name} numbers, rank {rank} raised {one.error}. There are "
                "always w chunks, and some may be empty; torch.chunk makes fewer, torch.tensor_split does not.",
            )
        if name in (_TURNED, _MIXED) and one.kind in ("RuntimeError", "ValueError") and not one.late:
            raise Wrong(
                "gaps",
                f"With the transpose of a tensor, rank {rank} raised {one.error}. Its numbers do not lie side by side: "
                "work on a copy that does, and copy the sum back into the tensor.",
            )


def _judge_sums(ring_all_reduce: RingAllReduce, names: Sequence[str]) -> None:
    for size in (3, 2):
        for name in names:
            _judge_sum(ring_all_reduce, size, name)


def _judge_sum(ring_all_reduce: RingAllReduce, size: int, name: str) -> None:
    attempts, right = _attempts(ring_all_reduce, size, name), _sum_of(name, size)
    where = f"In a world of {size}, with a tensor of {name} numbers"
    tensors = [one.value[0] for one in attempts]
    for rank, (tensor, returned, moved) in enumerate(one.value for one in attempts):
        if moved:
            raise Wrong(
                "other_memory",
                f"{where}, rank {rank}'s tensor has been given another memory, and whoever holds a view of the old one "
                "sees no sum; copy the sum into the tensor.",
            )
        if not _is_right(tensor, right):
            uneven = right.numel() % size > 0 and all(
                _is_right(one.value[0], _sum_of(even, size))
                for even in _EVEN
                for one in _attempts(ring_all_reduce, size, even)
            )
            raise _mistaken(where, rank, size, name, tensor, returned, right, uneven)
    if any(not torch.equal(tensor, tensors[0]) for tensor in tensors):
        raise Wrong(
            "other_bits",
            f"{where}, the ranks hold sums that differ in the last bits, because they added in different orders. "
            "Each chunk is added up once, on its way around, and then everybody takes that sum.",
        )


def _sum_of(name: str, size: int) -> torch.Tensor:
    parts = torch.stack([_draw(name, rank) for rank in range(size)])
    return parts.double().sum(0) if name in _FLOATS else parts.sum(0)


def _is_right(tensor: torch.Tensor, right: torch.Tensor) -> bool:
    if right.dtype == torch.double:
        return tensor.shape == right.shape and torch.allclose(tensor.double(), right, rtol=1e-5, atol=1e-2)
    return torch.equal(tensor, right)


def _mistaken(
    where: str,
    rank: int,
    size: int,
    name: str,
    tensor: torch.Tensor,
    returned: torch.Tensor | None,
    right: torch.Tensor,
    uneven: bool,
) -> Wrong:
    if returned is not None and returned.shape == right.shape and _is_right(returned, right):
        words = "its numbers do not lie side by side, so reshape(-1) is a copy; copy the sum back into the tensor"
        return Wrong(
            "gaps" if name in (_TURNED, _MIXED) else "not_in_place",
            f"{where}, rank {rank} returned the sum, and its tensor does not hold it: "
            f"{words if name in (_TURNED, _MIXED) else 'add into the tensor itself'}.",
        )
    if name in (_TURNED, _MIXED) and torch.equal(tensor, _draw(name, rank)):
        return Wrong(
            "gaps",
            f"With the transpose of a tensor, nothing reached rank {rank}'s tensor. Its numbers do not lie side by "
            "side, so reshape(-1) is a copy; copy the sum back into the tensor.",
        )
    if size > 1 and tensor.shape == right.shape and bool(((tensor * size - right).abs() < size).all()):
        return Wrong("mean", f"{where}, rank {rank} holds the mean; all_reduce sums.")
    if tensor.shape == right.shape and tensor.dtype != torch.float32 and _is_rounded(tensor, right):
        return Wrong(
            "other_type",
            f"{where}, rank {rank} holds the sum rounded to fewer digits than its {tensor.dtype} has; send and add in "
            "the dtype of the tensor.",
        )
    if name == _MIXED:
        return Wrong(
            "strides",
            f"With a tensor of 2x3x4 numbers that is a transpose on rank 0 only, rank {rank} holds other numbers than "
            "the sum. The numbers lie in memory in another order there: flatten by shape, as reshape(-1) does.",
        )
    return _wrong_numbers(where, rank, int((tensor.reshape(-1) == right.reshape(-1)).sum()), right.numel(), uneven)


def _wrong_numbers(where: str, rank: int, good: int, total: int, uneven: bool) -> Wrong:
    if uneven:
        return Wrong(
            "remainder",
            f"{where}, {good} of {total} are right on rank {rank}, and all are where w divides n. The chunks "
            "must cover every number, so here they cannot all have the same size.",
        )
    return Wrong(
        "wrong_sum",
        f"{where}, {good} of {total} numbers are the sum on rank {rank}. After w - 1 rounds of adding, one "
        "chunk on each rank is done; w - 1 rounds of copying bring it to the others. Follow chunk 0 around the ring.",
    )


def _is_rounded(tensor: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.allclose(tensor.double(), right.double(), rtol=1e-5, atol=0)


def _judge_messages(size: int, name: str, attempts: Sequence[Attempt]) -> None:
    where = f"In a world of {size}, with a tensor of {name} numbers"
    for rank, one in enumerate(attempts):
        others = [message.name for message in one.messages if message.name not in ("send", "receive")]
        if others:
            raise Wrong("collective", f"{where}, it called {others[0]}; make the sum of send and receive alone.")
        tensor = one.value[0]
        sent, rounds, chunk = one.named("send"), 2 * (size - 1), -(-tensor.numel() // size)
        most = rounds * chunk
        numbers = sum(message.num_bytes for message in sent) // tensor.element_size()
        if len(sent) > rounds:
            raise Wrong(
                "too_many_messages",
                f"{where}, rank {rank} sent {len(sent)} messages, and {rounds} are enough: one whole chunk in each of "
                f"the {size - 1} rounds of adding and the {size - 1} of copying.",
            )
        if numbers > most and all(message.num_bytes == (chunk + 1) * tensor.element_size() for message in sent):
            raise Wrong(
                "one_too_long",
                f"{where}, rank {rank} sent chunks of {chunk + 1} numbers, and {chunk} are enough: n / w rounded up. "
                "That is one more than the whole part only where w does not divide n.",
            )
        if numbers > most:
            raise Wrong(
                "too_many_numbers",
                f"{where}, rank {rank} sent {numbers} numbers, and a ring sends at most {most}: one chunk of a w-th "
                "of the tensor in each round, not the whole tensor.",
            )
        _judge_neighbours(where, size, rank, one)


def _judge_neighbours(where: str, size: int, rank: int, one: Attempt) -> None:
    to, source = ({message.peer for message in one.named(name)} for name in ("send", "receive"))
    if not (to | source) <= {(rank + 1) % size, (rank - 1) % size} or len(to) > 1 or (size > 2 and to & source):
        raise Wrong(
            "not_a_ring",
            f"{where}, rank {rank} sent to {sorted(to, key=str)} and received from {sorted(source, key=str)}; in a "
            "ring a rank sends to one neighbour only and receives from the other.",
        )
