"""The cases of exercise 14.2: `finish(buffer, tied, ends, dp)`, two reductions of which one must come first.

Two stages on two ranks each; gradients are whole numbers, so sums are exact. Rank 0 and 1 have the first stage, rank 2
and 3 the last. What the ranks end with is compared with sums made here, and the messages are counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pllab import comm
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.failures import refuse_failures, seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Watch

Finish = Callable[[torch.Tensor, slice, Any, Any], Any]

_SIZE, _DP = 8, 2
_PLAN = ((4,),)


@dataclass(frozen=True)
class _Layout:
    """Where the tied weight is in the buffer of each stage."""

    words: str
    tied: tuple[slice, slice]

    def buffers(self) -> list[torch.Tensor]:
        """The gradients of the four ranks, each number of another size: 1, 10, 100, 1000 times a small one."""
        numbers = torch.randint(1, 9, (4, _SIZE), generator=torch.Generator().manual_seed(14)).double()
        return list(numbers * torch.tensor([[1.0], [10.0], [100.0], [1000.0]]))


_LAYOUTS = (
    _Layout("first in stage 0, last in stage 1", (slice(0, 3), slice(5, 8))),
    _Layout("across the border of the two shares in stage 0, first in stage 1", (slice(2, 6), slice(0, 4))),
    _Layout("at the same place in both stages", (slice(1, 4), slice(1, 4))),
)


@dataclass(frozen=True)
class Seen:
    """One call on one rank: its buffer afterwards, and the names of its two groups."""

    attempt: Attempt
    after: torch.Tensor
    ends: str
    dp: str


def finish_on_ranks(watch: Watch, rank: int, _: int, finish: Finish) -> list[Seen]:
    """On every rank: one call for each layout; after a failed one no other, because messages may be under way."""
    mesh = comm.make_mesh(dp=_DP, pp=2)
    ends, dp = comm.group_of(mesh, "pp"), comm.group_of(mesh, "dp")
    seen = []
    for layout in _LAYOUTS:
        buffer = layout.buffers()[rank].clone()
        attempt = watch.attempt(finish, buffer, layout.tied[rank // _DP], ends, dp)
        seen.append(Seen(attempt, buffer, comm.group_name(ends), comm.group_name(dp)))
        if attempt.failed:
            break
    return seen


def _seen(finish: Finish, number: int) -> list[Seen]:
    """What the four ranks saw of one layout.

    Raises:
        Wrong: a call before it or this one failed.
    """
    ranks: list[list[Seen]] = seen_in_world(finish_on_ranks, finish, _PLAN, 4)
    for at, layout in enumerate(_LAYOUTS[: number + 1]):
        if there := [each[at].attempt for each in ranks if len(each) > at]:
            _refuse_parts(there)
            refuse_failures(there, f"With the tied weight {layout.words}")
    return [each[number] for each in ranks]


def _refuse_parts(attempts: Sequence[Attempt]) -> None:
    """Say in words what gloo checks of the part that a reduce-scatter writes into."""
    for error in (one.error for one in attempts if "Check failed: output" in one.error):
        if "dtype()" in error:
            raise Wrong("other_dtype", "The part has another dtype than the whole: the buffer is float64.")
        if "Shape" in error:
            raise Wrong(
                "other_size",
                f"The part of a reduce-scatter over {_DP} dp ranks has {_SIZE // _DP} of the buffer's {_SIZE} numbers; "
                "yours has another size. Which half it is tells the rank in dp, not in the world.",
            )


@case("each rank's share is the sum over dp, and the tied weight's over all four ranks")
def right_sums(finish: Finish) -> None:
    _judge(_seen(finish, 0), _LAYOUTS[0])


@case("also where the tied weight lies in two shares, or at the same place in both stages")
def other_places(finish: Finish) -> None:
    for number in (1, 2):
        _judge(_seen(finish, number), _LAYOUTS[number])


@case("over dp travels one reduce-scatter of the buffer, and between the ends the tied weight alone (counted)")
def few_bytes(finish: Finish) -> None:
    for number, layout in enumerate(_LAYOUTS):
        size = 8 * (layout.tied[0].stop - layout.tied[0].start)
        for rank, each in enumerate(_seen(finish, number)):
            messages = each.attempt.messages
            between = sum(message.num_bytes for message in messages if message.group == each.ends)
            over_dp = [message for message in messages if message.group == each.dp]
            if between > size:
                raise Wrong(
                    "too_much_between",
                    f"Rank {rank} sends {between} bytes to the other end of the pipeline, and the gradient of the tied "
                    f"weight has {size}. Nothing else is shared.",
                )
            if [(message.name, message.num_bytes) for message in over_dp] != [("reduce_scatter", 8 * _SIZE)]:
                told = ", ".join(f"{message.name} of {message.num_bytes} bytes" for message in over_dp) or "nothing"
                raise Wrong(
                    "more_over_dp",
                    f"Over dp rank {rank} sends {told}; one reduce_scatter of the buffer's {8 * _SIZE} bytes is "
                    "enough, and an all-reduce sends twice as much.",
                )


def _judge(seen: Sequence[Seen], layout: _Layout) -> None:
    """Compare the shares with the right ones, and if they differ with those of known mistakes."""
    right = _of(layout, [_tie, _scatter])
    shares = [_share(each.after, rank) for rank, each in enumerate(seen)]
    if all(torch.equal(mine, one) for mine, one in zip(shares, right, strict=True)):
        return
    where = f"With the tied weight {layout.words}"
    for hint_id, steps, sentence in _MISTAKES:
        if all(torch.equal(mine, one) for mine, one in zip(shares, _of(layout, steps), strict=True)):
            raise _told(hint_id, seen, f"{where}: {sentence}")
    if all(torch.allclose(mine * k, one) for k in (2, 4) for mine, one in zip(shares, right, strict=True)):
        raise Wrong("divided", f"{where}: your numbers are the sums, divided; return sums.")
    rank = next(rank for rank, pair in enumerate(zip(shares, right, strict=True)) if not torch.equal(*pair))
    for k in (2, 4):
        if torch.allclose(shares[rank] * k, right[rank]):
            raise Wrong("divided", f"{where}: rank {rank} has the sums divided by {k}. Here gradients are summed.")
    raise Wrong(
        "wrong_sums",
        f"{where}: the share of rank {rank} ends as {_listed(shares[rank])}, and the sums are {_listed(right[rank])}.",
    )


def _told(hint_id: str, seen: Sequence[Seen], told: str) -> Wrong:
    """Two mistakes end with the numbers of another; the messages tell them apart."""
    groups = [message.group for message in seen[0].attempt.messages]
    if hint_id == "only_the_ends" and seen[0].dp in groups:
        other = "the sum over dp went into another tensor than this rank's share of the buffer."
        return Wrong("share_lost", f"{told.partition(': ')[0]}: {other}")
    if hint_id == "wrong_order" and groups[0] == seen[0].ends:
        other = (
            "the ends add up first, but then the reduce-scatter gets buffers in which a place of the tied weight has "
            "the sum of the ends on one dp rank and not on the other. Put it into all places of `tied`."
        )
        return Wrong("part_of_tied", f"{told.partition(': ')[0]}: {other}")
    return Wrong(hint_id, told)


_Step = Callable[[_Layout, list[torch.Tensor]], list[torch.Tensor]]


def _of(layout: _Layout, steps: Sequence[_Step]) -> list[torch.Tensor]:
    """The shares of the four ranks after some steps, one after the other."""
    buffers = layout.buffers()
    for step in steps:
        buffers = step(layout, buffers)
    return [_share(buffer, rank) for rank, buffer in enumerate(buffers)]


def _share(buffer: torch.Tensor, rank: int) -> torch.Tensor:
    return buffer.chunk(_DP)[rank % _DP]


def _tie(layout: _Layout, buffers: list[torch.Tensor]) -> list[torch.Tensor]:
    """Sum the tied part over the two ends, which are two ranks apart."""
    parts = [buffer[layout.tied[rank // _DP]] for rank, buffer in enumerate(buffers)]
    after = [buffer.clone() for buffer in buffers]
    for rank, buffer in enumerate(after):
        buffer[layout.tied[rank // _DP]] = parts[rank] + parts[(rank + 2) % 4]
    return after


def _scatter(_: _Layout, buffers: list[torch.Tensor]) -> list[torch.Tensor]:
    """Sum this rank's share over dp; the rest of the buffer stays as it was."""
    after = [buffer.clone() for buffer in buffers]
    for rank, buffer in enumerate(after):
        _share(buffer, rank).copy_(_share(buffers[rank], rank) + _share(buffers[rank ^ 1], rank))
    return after


def _whole(_: _Layout, buffers: list[torch.Tensor]) -> list[torch.Tensor]:
    return [buffer + buffers[(rank + 2) % 4] for rank, buffer in enumerate(buffers)]


_MISTAKES: list[tuple[str, list[_Step], str]] = [
    (
        "wrong_order",
        [_scatter, _tie],
        "you reduce over dp first. After it a rank has the sum in its own share alone, and its own gradients elsewhere."
        " The other end owns another share, so a finished sum is added to what is not summed yet.",
    ),
    ("nothing_done", [], "the buffers are what they were. Write the sums into the buffer itself."),
    (
        "ends_apart",
        [_scatter],
        "the two copies of the tied weight end with different gradients and take different steps.",
    ),
    ("only_the_ends", [_tie], "the tied weight is summed over the ends of the pipeline, and nothing over dp."),
    (
        "tied_twice",
        [_tie, _tie, _scatter],
        "the tied gradient is twice as large: it is summed twice, over the ends or over dp. The reduce-scatter of the "
        "buffer is its one sum over dp.",
    ),
    ("tied_before_and_after", [_tie, _scatter, _tie], "the ends add the tied gradient once before and once after dp."),
    (
        "whole_buffer",
        [_whole, _scatter],
        "you sum the whole buffer over the ends; their other weights are not the same.",
    ),
    ("dp_twice", [_tie, _scatter, _scatter], "the share is summed over dp twice."),
]


def _listed(numbers: torch.Tensor) -> str:
    return "[" + ", ".join(f"{number:g}" for number in numbers.tolist()) + "]"
