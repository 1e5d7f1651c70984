"""Interleaved 1F1B: several stages a rank, so that every fill and drain of the pipeline is shorter."""

from collections.abc import Iterator
from itertools import chain

from pllab.schedule.action import Action, Kind
from pllab.schedule.pause import collector_paused
from pllab.schedule.schedule import Schedule
from pllab.schedule.series import series
from pllab.schedule.sizes import check_sizes


@collector_paused()
def interleaved(num_ranks: int, num_microbatches: int, stages_per_rank: int = 2) -> Schedule:
    """1F1B with `v` stages a rank: rank `r` of `p` has the stages `r`, `p + r`, `2p + r`, ...

    Two ranks with two stages each and four micro-batches, a backward as long as a forward:

        rank 0  0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1  .  2B2  .  2B3 0B2 0B3
        rank 1   .  1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3  .

    A round of micro-batches passes the first stage of a rank, then its second, and so on. A round has at least `p`
    micro-batches (all of them when there are fewer than `p`), and rounds differ by one at most, so no number of
    micro-batches is odd. The bubble overhead is `(p - 1) / (v m)` from `m = p` on, where 1F1B has `(p - 1) / m`; every
    micro-batch sends `v` times as many messages.

    Raises:
        ValueError: a size below 1.

    Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (2021),
    section 2.2; the rounds are those of `ScheduleInterleaved1F1B` in torch.distributed.pipelining where it has any.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, stages_per_rank=stages_per_rank)
    rounds = _rounds(num_ranks, num_microbatches)
    name = f"interleaved, {stages_per_rank} stages a rank"
    return Schedule(tuple(_row(rank, num_ranks, stages_per_rank, rounds) for rank in range(num_ranks)), name)


def _rounds(num_ranks: int, num_microbatches: int) -> list[range]:
    """Micro-batches in rounds of `p` or a little more, the larger ones first: 7 on 3 ranks is 4 and 3."""
    count = max(1, num_microbatches // num_ranks)
    size, larger = divmod(num_microbatches, count)
    starts = [number * size + min(number, larger) for number in range(count + 1)]
    return [range(start, end) for start, end in zip(starts, starts[1:], strict=False)]


def _row(rank: int, num_ranks: int, stages_per_rank: int, rounds: list[range]) -> tuple[Action, ...]:
    """Forwards until the first backward can have come back, then one and one, then the backwards that are left."""
    stages = range(rank, num_ranks * stages_per_rank, num_ranks)
    forwards = list(_passes(Kind.F, stages, rounds))
    backwards = list(_passes(Kind.B, stages[::-1], rounds))
    warm_up = min(len(forwards), 2 * (num_ranks - rank - 1) + (stages_per_rank - 1) * len(rounds[0]))
    steady = chain.from_iterable(zip(forwards[warm_up:], backwards, strict=False))
    return (*forwards[:warm_up], *steady, *backwards[len(forwards) - warm_up :])


def _passes(kind: Kind, stages: range, rounds: list[range]) -> Iterator[Action]:
    return chain.from_iterable(series(stage, kind, microbatches) for microbatches in rounds for stage in stages)
