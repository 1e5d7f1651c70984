"""Two stages a rank, placed in a V: ZB-V, V-half, V-min and DualPipeV.

Rank `r` of `p` has the stages `r` and `2p - 1 - r`. A micro-batch comes down the ranks (f) and goes up again (F), and
so does its gradient (I, i). On the last rank a micro-batch turns around, and rank 0 has the loss. DualPipeV says where
each action goes. The others give the order of a rank's F's and I's; weight gradients fill the times when the rank would
wait (`_filled`).
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import chain, count

from pllab.schedule.dependencies import needs
from pllab.schedule.model import Action, Kind, Schedule, check_sizes, collector_paused

_INTERVAL = 6  # F, I and W of two stages, one unit each
_NEVER = 1 << 60


@collector_paused()
def zbv(num_ranks: int, num_microbatches: int) -> Schedule:
    """Zero bubble in 1F1B's memory, when F, I and W are equal, on the stages `r` and `2p - 1 - r` of each rank.

    Two ranks, three micro-batches:

        rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 0I1 3W2 0I2 0W1 0W2  .
        rank 1   .  1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2

    Between its first and its last action no rank idles from `m = 2p - 1` on. Every rank holds `2p` activations of its
    half-size stages at most, which is 1F1B's memory on rank 0.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024; arXiv 2401.10241), section 6.
    """
    p, m = check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    return _filled([_zbv_order(rank, p, m) for rank in range(p)], memory_limit=2 * p, name="ZB-V")


@collector_paused()
def v_half(num_ranks: int, num_microbatches: int) -> Schedule:
    """ZB-V's placement with about half of 1F1B's memory and, when F, I and W are equal, about half of its bubble.

    Rank `r` of `p` has the stages `r` and `2p - 1 - r`. Two ranks, three micro-batches:

        rank 0  0F0 0F1  .  3F0 3I0 0F2 3W0 0I0 3F1 3I1 0W0 3W1 0I1 3F2 3I2 0W1 3W2 0I2 0W2  .
        rank 1   .  1F0 2F0 1F1  .  2I0 1I0 2F1 1F2 2W0 2I1 1I1 2F2 1W0 2W1 2I2 1I2 1W1 2W2 1W2

    A rank holds `p + 1` activations of its half-size stages for odd `p` and `p + 2` for even `p`; 1F1B holds `2p`. With
    F, I and W equal and `m > p` a rank idles `3p - 4` units for odd `p` and `3p - 6` for even `p` (2 for two ranks);
    1F1B idles `6(p - 1)`. If F, I and W differ much, ranks also idle in the steady phase, and with many micro-batches
    that costs more than it saves: with the Zero Bubble paper's profile of its 1.5B model (p = 8, m = 32) the bubble
    fraction is 0.215, and 1F1B's is 0.198.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Pipeline Parallelism with Controllable Memory (2024), V-Half.
    """
    p, m = check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    pauses = (0, 0, 1) if p % 2 else (4, 0, 0)
    return _filled(_repeated(p, m, (2, 1, 2, 1), pauses), memory_limit=2 * ((p + 2) // 2), name="V-half")


@collector_paused()
def v_min(num_ranks: int, num_microbatches: int) -> Schedule:
    """ZB-V's placement with about a third of 1F1B's memory, the least that a V needs, and two thirds of its bubble.

    Rank `r` of `p` has the stages `r` and `2p - 1 - r`. Two ranks, three micro-batches:

        rank 0  0F0  .   .  3F0 3I0 0F1 3W0 0I0 0W0 3F1 3I1 0F2 3W1 0I1 0W1 3F2 3I2 3W2  .  0I2 0W2
        rank 1   .  1F0 2F0  .   .  2I0 1I0 1F1 2F1 2W0 1W0 2I1 1I1 1F2 2F2 2W1 1W1 2I2 1I2 2W2 1W2

    A rank holds at most `2 floor((p + 4) / 3)` activations of its half-size stages; 1F1B holds `2p`. With F, I and W
    equal it idles `4p - 5` units, for any number of micro-batches; 1F1B idles `6(p - 1)`. If F, I and W differ much,
    ranks also idle in the steady phase, and V-half does better.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Pipeline Parallelism with Controllable Memory (2024), V-Min.
    """
    p, m = check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    pauses = (0, 0, 0) if p % 3 else (2, 0, 2)
    return _filled(_repeated(p, m, (1, 1, 1, 1), pauses), memory_limit=2 * ((p + 4) // 3), name="V-min")


@collector_paused()
def dual_pipe_v(num_ranks: int, num_microbatches: int) -> Schedule:
    """On ZB-V's stages, from its middle on each rank runs a forward and a whole backward as a pair that overlaps.

    Two ranks, four micro-batches, no pair overlapping:

        rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1 3B1 3F2 0B0 0B0 3B2 3B2 3F3  .  0B1 0B1 3B3 3B3 0I2 0W2 0I3 0W3
        rank 1   .  1F0 2F0 1F1 2F1 1F2 2B0 2B0 2F2 1B0 1B0 1F3 2B1 2B1 2F3 1B1 1B1 2B2 2B2 1B2 1B2 2I3 1I3 2W3 1W3

    A pair is of two different micro-batches, so the messages of one travel, to other pipeline ranks or to experts,
    while the other computes: `Schedule.overlaps` has the pairs, and `Costs(overlap=1.0)` says that the shorter of the
    two is hidden. With less to hide it is ZB-V with more memory: a rank holds `2p + 1` activations of its half-size
    stages. For fewer micro-batches than stages the order is that of as many as stages, without the missing ones.

    Raises:
        ValueError: a size below 1.

    Source: DeepSeek-AI, DualPipe (github.com/deepseek-ai/DualPipe, 2025), cut in half to a V; the rows are those of
    `ScheduleDualPipeV` in torch.distributed.pipelining.
    """
    p, m = check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    spelled = [_spelled(_dual_pipe_v_letters(rank, p, max(m, 2 * p)), rank, p) for rank in range(p)]
    overlaps = frozenset(chain.from_iterable(overlaps for _, overlaps in spelled))
    schedule = Schedule(tuple(tuple(row) for row, _ in spelled), "DualPipeV", overlaps)
    return schedule if m >= 2 * p else schedule.only("FBIW", m)


def _zbv_order(rank: int, num_ranks: int, num_microbatches: int) -> list[Action]:
    """F and I of one rank; for fewer than `2p - 1` micro-batches the order of `2p - 1`, without the missing ones."""
    inside = num_ranks - rank
    num_steady = max(num_microbatches, 2 * num_ranks - 1) - (2 * num_ranks - 1 - rank)
    warm_up = "f" * (2 * inside - 1) + "Ff" * rank + "FI" * inside  # then the first gradient is on its way down
    drain = "iFI" * (inside - 1) + "iI" * rank + "i" * inside
    row, _ = _spelled(warm_up + "fiFI" * num_steady + drain, rank, num_ranks)
    return [action for action in row if action.microbatch < num_microbatches]


def _dual_pipe_v_letters(rank: int, num_ranks: int, num_microbatches: int) -> str:
    """One row of DualPipeV. The last rank's first F and B are no pair, which starts the way back sooner."""
    above, here = num_ranks - rank - 1, rank + 1
    warm_up = "ff" * above + "fF" * here + "IwF" * above
    steady = "f+BF+b" * (num_microbatches - 2 * num_ranks + here) + "BF+b" * above
    drain = ("Bb" * here)[:here] + ("Ii" * here)[here:] + "wi" * above + "w" * here
    return warm_up + (steady if above else steady.replace("+", "", 1)) + drain


def _spelled(letters: str, rank: int, num_ranks: int) -> tuple[list[Action], set[Action]]:
    """A rank's actions from letters, and those of its forwards that overlap: in `f+B` F runs together with B.

    Small letters are the stage on the way down, capitals the one on the way up. The n-th forward of a stage is
    micro-batch n, and so is its n-th backward, whole (b) or split (i); w is the oldest weight gradient of the rank.
    """
    numbers: defaultdict[tuple[int, bool], Iterator[int]] = defaultdict(count)
    row: list[Action] = []
    owed: deque[Action] = deque()
    overlaps = set()
    for letter in letters:
        if letter == "+":
            overlaps.add(row[-1])
        elif letter == "w":
            row.append(owed.popleft())
        else:
            stage, kind = rank if letter.islower() else 2 * num_ranks - 1 - rank, Kind(letter.upper())
            number = next(numbers[stage, kind is Kind.F])
            row.append(Action(stage, kind, number))
            if kind is Kind.I:
                owed.append(Action(stage, Kind.W, number))
    return row, overlaps


def _repeated(
    num_ranks: int, num_microbatches: int, slopes: tuple[int, int, int, int], pauses: tuple[int, int, int]
) -> list[list[Action]]:
    """F and I of each rank in the order of their starts, where one block of actions follows another every six units.

    A block has the actions of one micro-batch on all ranks; two of the six units are left for W. `slopes` are the units
    from rank to rank of f, F, I and i; `pauses` lie between them, so that no two meet on a rank: F follows f on the
    last rank, I follows F on rank 0. An activation is held from its forward to its backward, so a steep block holds few
    and a flat one many.
    """
    (f_slope, up_slope, down_slope, i_slope), (turn, loss, back) = slopes, pauses
    last = num_ranks - 1
    up_starts = f_slope * last + 1 + turn
    down_starts = up_starts + up_slope * last + 1 + loss
    end_starts = down_starts + down_slope * last + 1 + back
    rows = []
    for rank in range(num_ranks):
        above, other = last - rank, num_ranks + last - rank
        work = [
            (f_slope * rank, rank, Kind.F),
            (up_starts + up_slope * above, other, Kind.F),
            (down_starts + down_slope * rank, other, Kind.I),
            (end_starts + i_slope * above, rank, Kind.I),
        ]
        assert len({start % _INTERVAL for start, *_ in work}) == len(work), "two blocks meet on a rank"
        repeats = range(num_microbatches)
        timed = ((start + _INTERVAL * m, Action(stage, kind, m)) for m in repeats for start, stage, kind in work)
        rows.append([action for _, action in sorted(timed)])
    return rows


def _filled(order: Sequence[Sequence[Action]], memory_limit: int, name: str) -> Schedule:
    """Put the W's into rows of F and I, where ranks would wait if F, I and W took one unit each.

    In each unit a rank runs the next action of its order. If that has to wait, or is a forward and the memory is full
    (F counts 1, I and W free a half each), the rank runs its oldest weight gradient, if it has one.

    Source: Qi et al., Pipeline Parallelism with Controllable Memory (2024), squeezing.
    """
    present = frozenset(chain.from_iterable(order))
    num_stages = 1 + max(action.stage for action in present)
    ends: dict[Action, int] = {}
    todo = [deque(row) for row in order]
    owed: list[deque[Action]] = [deque() for _ in order]  # the W's still to run
    free = [2 * memory_limit for _ in order]  # in halves of a micro-batch
    rows: list[list[Action]] = [[] for _ in order]

    def can_run(action: Action, rank: int, unit: int) -> bool:
        inputs = (ends.get(need, _NEVER) for need in needs(action, num_stages, present))
        return (action.kind is Kind.I or free[rank] >= 2) and max(inputs, default=0) <= unit

    for unit in count():
        moved = False
        for rank, row in enumerate(rows):
            if todo[rank] and can_run(todo[rank][0], rank, unit):
                action = todo[rank].popleft()
                ends[action] = unit + 1
                if action.kind is Kind.I:
                    owed[rank].append(Action(action.stage, Kind.W, action.microbatch))
            elif owed[rank]:
                action = owed[rank].popleft()
            else:
                continue
            row.append(action)
            free[rank] += -2 if action.kind is Kind.F else 1
            moved = True
        if not moved:
            break
    assert not any(todo), "the order of F and I cannot run within the memory limit"
    return Schedule(tuple(map(tuple, rows)), name)
