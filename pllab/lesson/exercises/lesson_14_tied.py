"""The cases of exercise 14.2: `finish(buffer, tied, ends, dp)`, two reductions of which one must come first.

Two stages on two ranks each; gradients are whole numbers, so sums are exact. Rank 0 and 1 have the first stage, rank 2
and 3 the last. What the ranks end with is compared with sums made here, and the messages are counted.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from pllab import comm
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import Attempt, Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import compare_tensors, identical
from pllab.lesson.mistakes import Mistake, retold

_SIZE, _DP = 8, 2
_BYTES = 8  # of a number in float64
_PLAN = ((4,),)

_APART = "the tied weight first in stage 0, last in stage 1"
_ACROSS = "the tied weight across the border of the two shares in stage 0, first in stage 1"
_ALIKE = "the tied weight at the same place in both stages"
_SHARES = torch.eye(_DP, dtype=torch.bool).repeat_interleave(_SIZE // _DP, 1).repeat(2, 1)  # of the four ranks
_TIED = {  # its place in the buffer of each stage
    _APART: (slice(0, 3), slice(5, 8)),
    _ACROSS: (slice(2, 6), slice(0, 4)),
    _ALIKE: (slice(1, 4), slice(1, 4)),
}


class Seen(NamedTuple):
    """What one call left on a rank: its share of the buffer, and the names of its two groups."""

    share: torch.Tensor
    ends: str
    dp: str


@case("each rank's share is the sum over dp, and the tied weight's over all four ranks")
def right_sums(finish: Function) -> None:
    _judge(finish, [_APART])


@case("the same if the tied weight lies in two shares, or at the same place in both stages")
def other_places(finish: Function) -> None:
    _judge(finish, [_ACROSS, _ALIKE])


@case("one reduce-scatter of the buffer travels over dp, and only the tied weight between the ends (counted)")
def few_bytes(finish: Function) -> None:
    for words, tied in _TIED.items():
        most = _BYTES * (tied[0].stop - tied[0].start)
        for rank, one in enumerate(_attempts(finish, words)):
            between = sum(message.num_bytes for message in one.messages if message.group == one.value.ends)
            if between > most:
                told = f"Rank {rank} sends {between} bytes to the other end, and the tied gradient has {most}"
                raise Wrong("too_much_sent", f"{told}. Nothing else is shared.")
            over_dp = [(message.name, message.num_bytes) for message in one.messages if message.group == one.value.dp]
            if over_dp != [("reduce_scatter", _BYTES * _SIZE)]:
                told = ", ".join(f"{name} of {num_bytes} bytes" for name, num_bytes in over_dp) or "nothing"
                why = f"one reduce_scatter of {_BYTES * _SIZE} bytes is enough; an all-reduce sends twice as much."
                raise Wrong("too_much_sent", f"Over dp rank {rank} sends {told}; {why}")


@until_one_fails
def finish_on_ranks(watch: Watch, rank: int, _: int, finish: Function) -> Calls:
    """On every rank: one call for each place."""
    mesh = comm.make_mesh(dp=_DP, pp=2)
    ends, dp = comm.group_of(mesh, "pp"), comm.group_of(mesh, "dp")
    comm.barrier()  # a rank that has all its groups may crash, or end, while another still connects to it
    half = _SIZE // _DP
    for words, tied in _TIED.items():
        buffer = _buffers()[rank].clone()
        one = watch.attempt(finish, buffer, tied[rank // _DP], ends, dp)
        share = buffer[half * (rank % _DP) :][:half].clone()
        yield words, one.holding(Seen(share, comm.group_name(ends), comm.group_name(dp)))


def _buffers() -> torch.Tensor:
    """The gradients of the four ranks, (4, _SIZE), each row of another size: 1, 10, 100, 1000 times a small one."""
    numbers = torch.randint(1, 9, (4, _SIZE), generator=torch.Generator().manual_seed(14)).double()
    return numbers * torch.tensor([[1.0], [10.0], [100.0], [1000.0]])


def _attempts(finish: Function, words: str) -> list[Attempt]:
    """What the four ranks saw of one call; what gloo checks of the part of a reduce-scatter is said in words."""
    part = (
        f"A rank's part of a reduce-scatter of the buffer over dp has {_SIZE // _DP} of its {_SIZE} numbers, in its "
        "dtype, float64, and yours differs. A rank's place in dp tells which half it is."
    )
    with retold("other_part", part, known_by="Check failed: output"):
        return seen_in_call(finish_on_ranks, finish, _PLAN, 4, words)


_Step = Callable[[tuple[slice, slice], torch.Tensor], torch.Tensor]


def _after(words: str, *steps: _Step) -> torch.Tensor:
    """The shares of the four ranks, a row for each, after some steps, one after the other."""
    buffers = _buffers()
    for step in steps:
        buffers = step(_TIED[words], buffers)
    return buffers[_SHARES].view(4, -1)


def _tie(tied: tuple[slice, slice], buffers: torch.Tensor) -> torch.Tensor:
    """Sum the tied part over the two ends, which are two ranks apart."""
    after = buffers.clone()
    for rank in range(4):
        after[rank, tied[rank // _DP]] += buffers[(rank + 2) % 4, tied[1 - rank // _DP]]
    return after


def _scatter(_: tuple[slice, slice], buffers: torch.Tensor) -> torch.Tensor:
    """Sum this rank's share over dp; the rest of the buffer stays as it was."""
    return buffers + _SHARES * buffers[[1, 0, 3, 2]]


def _whole(_: tuple[slice, slice], buffers: torch.Tensor) -> torch.Tensor:
    return buffers + buffers[[2, 3, 0, 1]]


_DP_FIRST = (
    "You reduce over dp first. After it a rank has the sum only in its own share, and its own gradients elsewhere. "
    "The other end owns another share, so a finished sum is added to numbers not summed yet."
)
_TWICE = (
    "The tied gradient is twice as large: it is summed twice, over the ends or over dp. The reduce-scatter of the "
    "buffer is its one sum over dp."
)
_TWO_GRADIENTS = "The two copies of the tied weight end with different gradients and take different steps."
_NOT_OVER_DP = "The tied weight is summed over the ends, but the share contains no sum over dp."
_OTHERS_TOO = "You sum the whole buffer over the ends; their other weights are not the same."
_MISTAKES = [
    Mistake("nothing_done", "Nothing has changed there: write the sums into the buffer itself.", like=_after),
    Mistake("ends_apart", _TWO_GRADIENTS, like=lambda words: _after(words, _scatter)),
    Mistake("only_the_ends", _NOT_OVER_DP, like=lambda words: _after(words, _tie)),
    Mistake("tied_twice", _TWICE, like=lambda words: _after(words, _tie, _tie, _scatter)),
    Mistake("whole_buffer", _OTHERS_TOO, like=lambda words: _after(words, _whole, _scatter)),
]


def _judge(finish: Function, places: Sequence[str]) -> None:
    """Compare the shares of all ranks with the right ones."""

    def is_dp_first(shares: torch.Tensor, words: str) -> bool:
        one = _attempts(finish, words)[0]  # who ties a part of the weight first may end with the same numbers
        return one.messages[0].group == one.value.dp and identical(shares, _after(words, _scatter, _tie))

    compare_tensors(
        lambda words: torch.stack([one.value.share for one in _attempts(finish, words)]),
        [(words,) for words in places],
        lambda words: _after(words, _tie, _scatter),
        [Mistake("wrong_order", _DP_FIRST, when=is_dp_first), *_MISTAKES],
        asked="the shares of the four ranks, one in each row, with {},",
        same=identical,  # whole numbers
    )
