"""1F1B: after a warm-up, one forward and one backward in turn, so that few activations are held."""

from pllab.schedule.action import Action, Kind
from pllab.schedule.pause import collector_paused
from pllab.schedule.schedule import Schedule
from pllab.schedule.sizes import check_sizes


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
    return _alternating(num_stages, num_microbatches, 1, "1F1B")


@collector_paused()
def eager_one_f_one_b(num_stages: int, num_microbatches: int) -> Schedule:
    """1F1B with a warm-up twice as long, `2(p - s) - 2` forwards, so that messages travel while devices compute.

    Worth it where a message takes about as long as a forward; it holds `min(m, 2(p - s) - 1)` micro-batches.

    Raises:
        ValueError: a size below 1.

    Source: Zhuang et al., On Optimizing the Communication of Model Parallelism (2022), "eager-1F1B".
    """
    return _alternating(num_stages, num_microbatches, 2, "eager 1F1B")


def _alternating(num_stages: int, num_microbatches: int, ahead_per_stage: int, name: str) -> Schedule:
    check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    rows = (
        _row(stage, min(num_microbatches, ahead_per_stage * (num_stages - stage - 1)), num_microbatches)
        for stage in range(num_stages)
    )
    return Schedule(tuple(rows), name)


def _row(stage: int, warm_up: int, num_microbatches: int) -> tuple[Action, ...]:
    """`warm_up` forwards, then forward and backward in turn, then the backwards that are left."""
    forwards = [Action(stage, Kind.F, m) for m in range(num_microbatches)]
    backwards = [Action(stage, Kind.B, m) for m in range(num_microbatches)]
    steady = [action for pair in zip(forwards[warm_up:], backwards, strict=False) for action in pair]
    return (*forwards[:warm_up], *steady, *backwards[num_microbatches - warm_up :])
