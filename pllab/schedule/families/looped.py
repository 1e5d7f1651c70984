"""Several stages per rank, dealt out in loops: breadth-first, interleaved 1F1B and its zero bubble form."""

from collections.abc import Iterator, Sequence
from itertools import chain

from pllab.arguments import whole_number
from pllab.schedule.families.one_way import in_turn
from pllab.schedule.model import Action, Kind, Schedule, check_sizes, collector_paused, series


@collector_paused()
def breadth_first(rank_of_stage: Sequence[int], num_microbatches: int) -> Schedule:
    """All forwards, then all backwards, one stage after the other; a `Pipe` runs this.

    `breadth_first([0, 1, 0, 1], 3)`, two ranks with two stages each, a backward as long as a forward:

        rank 0  0F0 0F1 0F2 2F0 2F1 2F2  .   .  2B0 2B1 2B2 0B0 0B1 0B2
        rank 1   .  1F0 1F1 1F2 3F0 3F1 3F2 3B0 3B1 3B2 1B0 1B1 1B2  .

    With one stage per rank it is GPipe. Each stage runs once forward and once backward for the whole batch, which suits
    weights that are sharded and gathered. With `v` stages per rank the bubble overhead is `(p - 1) / (v m)` from
    `m = p` on, as for `interleaved`; a rank holds all `v m` activations.

    Raises:
        ValueError: there is no stage or no micro-batch, or a rank is out of range.

    Source: Lamy-Poirier, Breadth-First Pipeline Parallelism (2023); `ScheduleLoopedBFS` in
    torch.distributed.pipelining, which runs the backwards of a stage in the reverse order.
    """
    _, m = check_sizes(num_stages=len(rank_of_stage), num_microbatches=num_microbatches)
    # Of fewer stages than ranks, a rank would have none.
    ranks = [whole_number("the rank of a stage", rank, least=0, most=len(rank_of_stage) - 1) for rank in rank_of_stage]
    rows: list[list[Action]] = [[] for _ in range(1 + max(ranks))]
    stages = list(enumerate(ranks))
    for kind, order in ((Kind.F, stages), (Kind.B, stages[::-1])):
        for stage, rank in order:
            rows[rank] += series(stage, kind, range(m))
    is_gpipe = ranks == list(range(len(ranks)))
    return Schedule(tuple(map(tuple, rows)), "GPipe" if is_gpipe else "breadth-first")


@collector_paused()
def interleaved(num_ranks: int, num_microbatches: int, stages_per_rank: int = 2) -> Schedule:
    """1F1B with `v` stages a rank: rank `r` of `p` has the stages `r`, `p + r`, `2p + r`, ...

    Two ranks with two stages each and four micro-batches, a backward as long as a forward:

        rank 0  0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1  .  2B2  .  2B3 0B2 0B3
        rank 1   .  1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3  .

    A round of micro-batches passes the first stage of a rank, then its second, and so on. A round has at least `p`
    micro-batches (all of them if there are fewer than `p`), and rounds differ by one at most, so any number of
    micro-batches works. The bubble overhead is `(p - 1) / (v m)` from `m = p` on; 1F1B's is `(p - 1) / m`. Every
    micro-batch sends `v` times as many messages.

    Raises:
        ValueError: a size below 1.

    Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (2021),
    section 2.2; the rounds are those of `ScheduleInterleaved1F1B` in torch.distributed.pipelining where it has any.
    """
    p, m, v = check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, stages_per_rank=stages_per_rank)
    rounds = _rounds(p, m)
    rows = []
    for rank in range(p):
        passes = _passes(range(rank, p * v, p), rounds, (Kind.F, Kind.B))
        rows.append(in_turn(*passes, warm_up=2 * (p - rank - 1) + (v - 1) * len(rounds[0])))
    return Schedule(tuple(rows), f"interleaved, {v} stages a rank")


@collector_paused()
def interleaved_zero_bubble(num_ranks: int, num_microbatches: int, stages_per_rank: int = 2) -> Schedule:
    """Interleaved 1F1B with ZB-H1's split backward: rank `r` of `p` has the stages `r`, `p + r`, `2p + r`, ...

    Two ranks with two stages each and four micro-batches, F, I and W as long as each other:

        rank 0  0F0 0F1 2F0 2F1  .  2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1 2F3 2I2 2W2 2I3 2W3 0I2 0W2 0I3 0W3
        rank 1   .  1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2 1W1 3F3 3I3 3W2 1I2 3W3 1I3 1W2 1W3

    Rank `r` delays its weight gradients by `r` turns. When F, I and W of a stage take a unit each, a rank idles `p - 1`
    units from `m = p` on; interleaved 1F1B idles `3(p - 1)`. Rank `r` holds `p v - r / 2` activations of its stages
    where `p` divides `m`, which is 1F1B's memory on the first rank.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), ZB1P; `ScheduleInterleavedZeroBubble` in
    torch.distributed.pipelining, which takes any `m` that its rounds divide.
    """
    p, m, v = check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, stages_per_rank=stages_per_rank)
    rounds = _rounds(p, m)
    rows = []
    for rank in range(p):
        passes = _passes(range(rank, p * v, p), rounds, (Kind.F, Kind.I, Kind.W))
        rows.append(in_turn(*passes, warm_up=p - rank - 1 + (v - 1) * len(rounds[0]), delay=rank))
    return Schedule(tuple(rows), f"interleaved zero bubble, {v} stages a rank")


def _rounds(num_ranks: int, num_microbatches: int) -> list[range]:
    """Micro-batches in rounds of `p` or a little more, the larger ones first: 7 on 3 ranks is 4 and 3."""
    count = max(1, num_microbatches // num_ranks)
    size, larger = divmod(num_microbatches, count)
    starts = [number * size + min(number, larger) for number in range(count + 1)]
    return [range(start, end) for start, end in zip(starts, starts[1:], strict=False)]


def _passes(stages: range, rounds: list[range], kinds: tuple[Kind, ...]) -> Iterator[list[Action]]:
    """Per kind, round by round, the rank's stages one after the other: up the stages for F, and down for the others."""
    for kind in kinds:
        order = stages if kind is Kind.F else stages[::-1]
        yield list(chain.from_iterable(series(stage, kind, part) for part in rounds for stage in order))
