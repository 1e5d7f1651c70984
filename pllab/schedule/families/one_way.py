"""One stage a rank: GPipe, 1F1B and its eager form, and ZB-H1 and ZB-H2, which split the backward by hand."""

from collections.abc import Iterable, Sequence
from itertools import chain, repeat, zip_longest

from pllab.schedule.model import Action, Kind, Schedule, check_sizes, collector_paused, series

_WHOLE, _SPLIT = (Kind.F, Kind.B), (Kind.F, Kind.I, Kind.W)


@collector_paused()
def gpipe(num_stages: int, num_microbatches: int) -> Schedule:
    """Every stage runs all forwards, then all backwards: simple, and it holds all `m` micro-batches at once.

    Two stages and three micro-batches, time to the right:

        rank 0  F0 F1 F2 .  .  B0 B1 B2
        rank 1  .  F0 F1 F2 B0 B1 B2 .

    The backwards run in the order of the forwards, as in torch.distributed.pipelining; the makespan is the same in the
    reverse order.

    Raises:
        ValueError: a size below 1.

    Source: Huang et al., GPipe (2019), figure 2c; `ScheduleGPipe` in torch.distributed.pipelining.
    """
    p, m = check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    rows = ((*series(stage, Kind.F, range(m)), *series(stage, Kind.B, range(m))) for stage in range(p))
    return Schedule(tuple(rows), "GPipe")


@collector_paused()
def one_f_one_b(num_stages: int, num_microbatches: int) -> Schedule:
    """Stage `s` of `p` warms up with `p - s - 1` forwards, then alternates, then drains.

    Three stages and four micro-batches, a backward as long as a forward, time to the right:

        rank 0  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
        rank 1  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .
        rank 2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .

    Stage `s` holds at most `min(m, p - s)` micro-batches, where GPipe holds `m`; the bubble is GPipe's.

    Raises:
        ValueError: a size below 1.

    Source: Narayanan et al., PipeDream-Flush in Memory-Efficient Pipeline-Parallel DNN Training (2021); Megatron-LM.
    """
    p, m = check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    return Schedule(tuple(_row(stage, _WHOLE, m, p - stage - 1) for stage in range(p)), "1F1B")


@collector_paused()
def eager_one_f_one_b(num_stages: int, num_microbatches: int) -> Schedule:
    """1F1B with a warm-up twice as long, `2(p - s) - 2` forwards, so that messages travel while devices compute.

    It pays if a message takes about as long as a forward. Stage `s` holds `min(m, 2(p - s) - 1)` micro-batches.

    Raises:
        ValueError: a size below 1.

    Source: Zhuang et al., On Optimizing the Communication of Model Parallelism (2022), "eager-1F1B".
    """
    p, m = check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    return Schedule(tuple(_row(stage, _WHOLE, m, 2 * (p - stage - 1)) for stage in range(p)), "eager 1F1B")


@collector_paused()
def zb_h1(num_stages: int, num_microbatches: int) -> Schedule:
    """1F1B's order and its memory, with a third of its bubble when F, I and W take the same time.

    Other stages wait only for the input gradient I. Stage `s` delays its weight gradients by `s` micro-batches, so that
    gradients travel sooner and the last W's fill the end. Three stages, four micro-batches:

        rank 0  F0 F1 F2 .  .  I0 W0 F3 I1 W1 I2 W2 I3 W3
        rank 1  .  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
        rank 2  .  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3

    Stage `s` holds `p - s / 2` micro-batches at most, 1F1B's `p` on the first. Idle per rank is `p - 1` against
    `3(p - 1)` for 1F1B, from `m = p` on.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), figure 3, section 2.1.
    """
    p, m = check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    return Schedule(tuple(_row(stage, _SPLIT, m, p - stage - 1, stage) for stage in range(p)), "ZB-H1")


@collector_paused()
def zb_h2(num_stages: int, num_microbatches: int) -> Schedule:
    """Twice ZB-H1's warm-up and delay: no rank waits at all once `m >= 2p - 1` and F, I and W take the same time.

    Three stages, five micro-batches; a later rank starts and ends later, and none idles in between:

        rank 0  F0 F1 F2 F3 F4 I0 W0 I1 W1 I2 W2 I3 W3 I4 W4 .  .
        rank 1  .  F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4 .
        rank 2  .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 W1 W2 W3 W4

    The first rank holds `2p - 1` micro-batches. The ranks finish one after the other, so the full gain needs an
    optimizer step that does not wait for all of them.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), figure 3, section 2.2.
    """
    p, m = check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    return Schedule(tuple(_row(stage, _SPLIT, m, 2 * (p - stage - 1), 2 * stage) for stage in range(p)), "ZB-H2")


def _row(stage: int, kinds: Iterable[Kind], num_microbatches: int, warm_up: int, delay: int = 0) -> tuple[Action, ...]:
    return in_turn(*(series(stage, kind, range(num_microbatches)) for kind in kinds), warm_up=warm_up, delay=delay)


def in_turn(
    forwards: list[Action], backwards: list[Action], weights: Sequence[Action] = (), *, warm_up: int, delay: int = 0
) -> tuple[Action, ...]:
    """`warm_up` forwards, then in turn F, B or I, and the W of `delay` turns ago; then what is left."""
    behind = [*repeat(None, delay), *weights[: max(0, len(weights) - delay)]]
    turns = chain.from_iterable(zip_longest(forwards[warm_up:], backwards, behind))
    return (*forwards[:warm_up], *filter(None, turns), *weights[max(0, len(weights) - delay) :])
