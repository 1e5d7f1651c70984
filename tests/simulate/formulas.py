"""What theory says of schedules, in closed form: the simulator is tested against it.

Every formula names its source and says where it is exact. Sizes are as for the families: `p` stages or ranks, then `m`
micro-batches. F, I and W are the seconds of `Costs` on every stage, B is I + W.
"""

from pllab.schedule import Kind
from pllab.simulate import Costs
from pllab.timeline import Timeline


def gpipe_makespan(num_stages: int, num_microbatches: int, costs: Costs) -> float:
    """GPipe, exact for any costs, one stage per rank: the slowest stage repeats, every stage is passed once.

        sum of F + (m - 1) max F  +  sum of B + (m - 1) max B  +  2 (p - 1) messages

    With equal stages and free messages it is (m + p - 1)(F + B), of which (p - 1)(F + B) is bubble.

    Source: Huang et al., GPipe (2019), section 2.3; the flow shop with one fixed order of jobs (Johnson 1954).
    """
    stages = range(num_stages)
    phases = 0.0
    for kind in (Kind.F, Kind.B):
        seconds = [costs.duration(stage, kind) for stage in stages]
        phases += sum(seconds) + (num_microbatches - 1) * max(seconds)
    return phases + 2 * (num_stages - 1) * costs.p2p


def one_f_one_b_makespan(num_stages: int, num_microbatches: int, costs: Costs) -> float:
    """1F1B, exact for equal stages and a message of `t` seconds on every boundary.

        (m + p - 1)(F + B)  +  2 t (m + p - 2 - ceil((m - 1) / p))

    Without messages it is GPipe's. With them every micro-batch after the first adds a message up and one down, except
    one in `p`: stage 0 has `p` micro-batches in flight, and once a round it does not wait.

    Example: the Zero Bubble paper's 1.5B model, `one_f_one_b_makespan(8, 24, Costs(18.522, 18.086, 9.337, 0.601))`,
    is 1456.749 (ms), and (1456.749 - 24 * 45.945) / 1456.749 is the bubble rate of its table, 0.2431.

    Source: Narayanan et al., Megatron-LM (2021), section 2.2.1, without messages; the count of messages is that of
    the longest path, which a test walks for a grid of sizes and costs.
    """
    work = _equal(costs, Kind.F) + _equal(costs, Kind.B)
    rounds = -(-(num_microbatches - 1) // num_stages)
    steps = num_microbatches + num_stages - 2 - rounds
    return (num_microbatches + num_stages - 1) * work + 2 * costs.p2p * steps


def one_f_one_b_bubble(num_stages: int, costs: Costs) -> float:
    """Idle seconds of each device under 1F1B (and GPipe) with equal stages: (p - 1)(F + I + W).

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), table 2.
    """
    return (num_stages - 1) * (_equal(costs, Kind.F) + _equal(costs, Kind.B))


def zb_h1_bubble(num_stages: int, costs: Costs) -> float:
    """Idle seconds of each device under ZB-H1: (p - 1)(F + I - W), a third of 1F1B's where F = I = W.

    Exact for equal stages, free messages, m >= p, and a W no longer than F or I.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), table 2.
    """
    return (num_stages - 1) * (_equal(costs, Kind.F) + _equal(costs, Kind.I) - _equal(costs, Kind.W))


def zb_h2_bubble(num_stages: int, costs: Costs) -> float:
    """Idle seconds of each device under ZB-H2: (p - 1)(F + I - 2 W), nothing where F = I = W.

    Exact for equal stages, free messages, m >= 2 p - 1, and a W no longer than F or I; idle is counted as in
    `bubble_rate`, between a stage's first start and its last end.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), table 2.
    """
    return (num_stages - 1) * (_equal(costs, Kind.F) + _equal(costs, Kind.I) - 2 * _equal(costs, Kind.W))


def interleaved_overhead(num_ranks: int, num_microbatches: int, stages_per_rank: int = 2) -> float:
    """Idle for each second of work with v stages on a rank: (p - 1) / (v m), for m a multiple of p (any m if v is 1).

    Example: 4 ranks, 8 micro-batches and 2 stages a rank idle 3/16 of their work; 1F1B idles 3/8.

    An incomplete round may idle more: 4 ranks, 2 micro-batches and 2 stages a rank idle 5/4 of their work, and this
    formula would say 3/4.

    Source: Narayanan et al., Megatron-LM (2021), section 2.2.2.
    """
    return (num_ranks - 1) / (stages_per_rank * num_microbatches)


def bubble_rate(timeline: Timeline) -> float:
    """The bubble as the Zero Bubble paper counts it: (cost - m (F + I + W)) / cost.

    The cost is the longest time of a stage from its first start to its last end. Time before and after does not count
    as idle, because another step can fill it. m (F + I + W) is the work of a stage, here that of the busiest rank. In
    1F1B stage 0 starts first and ends last, so the cost is the makespan.

    Example: 1F1B at p = 8, m = 24 with the paper's 1.5B profile gives 0.2431; `timeline.bubble_fraction` counts the
    same idle time, because there all stages have the same work.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), section 5 and its table of bubble rates.
    """
    cost = timeline.period
    return (cost - max(timeline.busy_of_ranks)) / cost if cost else 0.0


def gpipe_peak(num_stages: int, num_microbatches: int) -> tuple[int, ...]:
    """Micro-batches each stage of GPipe holds at once: all m.

    Source: Huang et al., GPipe (2019), section 2.3.
    """
    return (num_microbatches,) * num_stages


def one_f_one_b_peak(num_stages: int, num_microbatches: int) -> tuple[int, ...]:
    """Micro-batches each stage of 1F1B holds at once: min(m, p - s).

    Source: Narayanan et al., Megatron-LM (2021), section 2.2.1.
    """
    return tuple(min(num_microbatches, num_stages - stage) for stage in range(num_stages))


def eager_one_f_one_b_peak(num_stages: int, num_microbatches: int) -> tuple[int, ...]:
    """Micro-batches each stage of eager 1F1B holds at once: min(m, 2 (p - s) - 1).

    Source: Zhuang et al., On Optimizing the Communication of Model Parallelism (2022).
    """
    return tuple(min(num_microbatches, 2 * (num_stages - stage) - 1) for stage in range(num_stages))


def zb_h2_peak(num_stages: int, num_microbatches: int) -> int:
    """The most micro-batches any stage of ZB-H2 holds at once: min(m, 2 p - 1).

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), table 2.
    """
    return min(num_microbatches, 2 * num_stages - 1)


def zbv_peak(num_ranks: int) -> int:
    """The most activations of half-size stages a rank of ZB-V holds: 2 p, which is 1F1B's memory.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024; arXiv 2401.10241), section 6.
    """
    return 2 * num_ranks


def v_half_peak(num_ranks: int) -> int:
    """The most activations of half-size stages a rank of V-half holds: 2 floor((p + 2) / 2), near half of 2 p.

    Source: Qi et al., Pipeline Parallelism with Controllable Memory (2024), V-Half.
    """
    return 2 * ((num_ranks + 2) // 2)


def v_min_peak(num_ranks: int) -> int:
    """The most activations of half-size stages a rank of V-min holds: 2 floor((p + 4) / 3), near a third of 2 p.

    Source: Qi et al., Pipeline Parallelism with Controllable Memory (2024), V-Min.
    """
    return 2 * ((num_ranks + 4) // 3)


def _equal(costs: Costs, kind: Kind) -> float:
    """The one duration of a kind."""
    (duration,) = {costs.duration(stage, kind) for stage in range(costs.num_stages or 1)}
    return duration
