"""What no order can beat: floors for a split-backward schedule, to know when to stop and to state a bound."""

from pllab.schedule.zero_bubble_workload import Workload


def floor_of_longest(work: Workload) -> float:
    """Seconds that some rank needs from its own first start to its last end, whatever the order.

    The largest of three, over all stages:

        waits   work of the stage, plus the gap before its first I, plus the gap before its last I
        memory  every micro-batch is held while it is away, and only so many are held at once
        chain   first F up to the stage, all its F and I, last I down to stage 0 and the W there

    With equal costs and the memory of 1F1B, ZB-H1 reaches the first, so nothing is shorter there.
    """
    return max(max(_rank(work, s), _chain(work, s)) for s in range(work.num_stages))


def floor_of_makespan(work: Workload) -> float:
    """Seconds from the first start to the last end of all ranks: a rank starts when the first F has come up to it."""
    return max(max(_head(work, s) + _rank(work, s), _chain(work, s)) for s in range(work.num_stages))


def is_reached(key: tuple[float, ...], floor: tuple[float, ...]) -> bool:
    """Whether every number is as low as it can be, but for rounding."""
    return all(number <= least * (1 + 1e-12) for number, least in zip(key, floor, strict=True))


def _head(work: Workload, stage: int) -> float:
    return sum(work.forward[:stage]) + sum(work.up[:stage])


def _chain(work: Workload, stage: int) -> float:
    own = work.num_microbatches * (work.forward[stage] + work.backward[stage])
    down = sum(work.backward[:stage]) + sum(work.down[:stage])
    return _head(work, stage) + own + down + work.weight[0]


def _rank(work: Workload, stage: int) -> float:
    """Its work and the waits nothing can fill; the two waits are apart if the last F comes after the first I."""
    m = work.num_microbatches
    f, i, w = work.forward[stage], work.backward[stage], work.weight[stage]
    first = max(0.0, work.away(stage) - (work.most_in_flight - 1) * f)
    last = max(0.0, work.away(stage) - _most_left(work, stage))
    waits = first + last if m > work.most_in_flight else max(first, last)
    held_for = f + work.away(stage) + i + work.kept * w
    return max(m * (f + i + w) + waits, m * held_for / work.limit)


def _most_left(work: Workload, stage: int) -> float:
    """The most seconds of I and W a rank can have left when its last F starts, within its memory."""
    m = work.num_microbatches

    def left(in_flight: int) -> float:
        room = m - 1 - in_flight
        pending = next(n for n in range(room, -1, -1) if n == 0 or work.fits(in_flight + 1, n))
        return in_flight * (work.backward[stage] + work.weight[stage]) + pending * work.weight[stage]

    return max(left(in_flight) for in_flight in range(work.most_in_flight))
