"""Zero bubble by hand: 1F1B whose weight gradients wait until a rank has nothing better to do."""

from pllab.schedule.action import Action, Kind
from pllab.schedule.pause import collector_paused
from pllab.schedule.schedule import Schedule
from pllab.schedule.series import series
from pllab.schedule.sizes import check_sizes


@collector_paused()
def zb_h1(num_stages: int, num_microbatches: int) -> Schedule:
    """1F1B's order and its memory, with a third of its bubble when F, I and W take the same time.

    Only the input gradient I is waited for by others. Stage `s` puts its weight gradients off by `s` micro-batches, so
    that gradients go up sooner and the last W's fill the end. Three stages, four micro-batches:

        rank 0  F0 F1 F2 .  .  I0 W0 F3 I1 W1 I2 W2 I3 W3
        rank 1  .  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
        rank 2  .  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3

    Stage `s` holds `p - s / 2` micro-batches at most, 1F1B's `p` on the first. Idle per rank is `p - 1` against
    `3(p - 1)` for 1F1B, from `m = p` on.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), figure 3, section 2.1.
    """
    check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    rows = (_row(stage, num_microbatches, num_stages - stage - 1, stage) for stage in range(num_stages))
    return Schedule(tuple(rows), "ZB-H1")


@collector_paused()
def zb_h2(num_stages: int, num_microbatches: int) -> Schedule:
    """Twice ZB-H1's warm-up and delay: no rank waits at all once `m >= 2p - 1` and F, I and W take the same time.

    Three stages, five micro-batches; each rank starts late and ends late, and idles nowhere in between:

        rank 0  F0 F1 F2 F3 F4 I0 W0 I1 W1 I2 W2 I3 W3 I4 W4 .  .
        rank 1  .  F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4 .
        rank 2  .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 W1 W2 W3 W4

    The first rank holds `2p - 1` micro-batches. The ranks are free for their optimizer step one after the other, so
    the gain is whole only if the step does not wait for all of them.

    Raises:
        ValueError: a size below 1.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), figure 3, section 2.2.
    """
    check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    rows = (_row(stage, num_microbatches, 2 * (num_stages - stage - 1), 2 * stage) for stage in range(num_stages))
    return Schedule(tuple(rows), "ZB-H2")


def _row(stage: int, num_microbatches: int, warm_up: int, delay: int) -> tuple[Action, ...]:
    """`warm_up` forwards, then F, I and the W of `delay` micro-batches ago in turn, then the W's that are left."""
    forwards, inputs, weights = (series(stage, kind, range(num_microbatches)) for kind in (Kind.F, Kind.I, Kind.W))
    row = forwards[:warm_up]
    for m, item in enumerate(inputs):
        row += forwards[m + warm_up : m + warm_up + 1]
        row.append(item)
        if m >= delay:
            row.append(weights[m - delay])
    return (*row, *weights[max(0, num_microbatches - delay) :])
