"""The cases of exercises 11.1 and 11.2: the rows of interleaved 1F1B, and what it costs.

Any order passes that is legal, idles no more than (p - 1) / (v m) and holds no more than Megatron's does. The costs
are counted on schedules; a wrong number is compared with what people take for the right one.
"""

import math
from collections.abc import Callable
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_11_read import read_schedule
from pllab.schedule import Kind, Schedule, interleaved, needs, peak_in_flight, problems
from pllab.simulate import Costs, simulate

Rows = Callable[[int, int, int], Any]
Price = Callable[[int, int, int], Any]

# Ranks, micro-batches, stages per rank; m is a multiple of p. The last ones are 1F1B, and a single rank.
_SHAPES = [(2, 4, 2), (4, 8, 2), (3, 6, 3), (4, 4, 2), (2, 6, 4), (3, 6, 1), (1, 2, 2)]


def rows_of_actions(rows: Rows) -> None:
    """There is a row of actions for every rank."""
    for p, m, v in _SHAPES:
        num_rows = _asked(rows, p, m, v).num_ranks
        if num_rows != p:
            told = f"For p = {p}, m = {m} and v = {v} there are {num_rows} rows"
            raise Wrong("row_per_rank", f"{told}; return one row for each rank, so {p}.")


def places(rows: Rows) -> None:
    """Rank r has the stages r, p + r, 2p + r, ..."""
    for p, m, v in _SHAPES:
        schedule = _asked(rows, p, m, v)
        for rank in range(p):
            _judge_stages(schedule.stages_of_rank(rank), rank, p, v)


def complete(rows: Rows) -> None:
    """Every stage runs every micro-batch forward and back, once."""
    for p, m, v in _SHAPES:
        schedule = _asked(rows, p, m, v)
        asked = f"For p = {p}, m = {m} and v = {v}"
        if schedule.num_microbatches != m:
            told = f"your rows have micro-batches up to {schedule.num_microbatches - 1}"
            raise Wrong("incomplete", f"{asked} {told}; they go from 0 to {m - 1}.")
        for problem in problems(schedule):
            if "deadlock" not in problem.sentence:
                hint_id = "twice" if "times" in problem.sentence else "incomplete"
                raise Wrong(hint_id, f"{asked} {problem.sentence}.")


def chunks_in_reverse(rows: Rows) -> None:
    """The first backward of a rank is that of its last stage."""
    for p, m, v in _SHAPES:
        for rank, row in enumerate(_asked(rows, p, m, v).rows):
            first = next(action for action in row if action.kind in (Kind.B, Kind.I))
            if first.stage != rank + (v - 1) * p:
                raise Wrong(
                    "chunk_order",
                    f"For p = {p}, m = {m} and v = {v} the first backward of rank {rank} is {first}. Gradients come "
                    f"down from the last stage, so a rank begins with its highest one, {rank + (v - 1) * p}.",
                )


def no_circle(rows: Rows) -> None:
    """The order can run."""
    for p, m, v in _SHAPES:
        for problem in problems(_asked(rows, p, m, v)):
            raise Wrong("deadlock", f"For p = {p}, m = {m} and v = {v} {problem.sentence}.")


def short_bubble(rows: Rows) -> None:
    """The bubble overhead is (p - 1) / (v m), whether a backward takes as long as a forward or twice as long."""
    for p, m, v in _SHAPES:
        schedule = _asked(rows, p, m, v)
        for costs in (Costs(2.0, 1.0, 1.0), Costs()):
            overhead, allowed = simulate(schedule, costs).bubble_overhead, (p - 1) / (v * m)
            if overhead > allowed + 1e-9:
                _name_the_group(schedule, p, m, v)
                raise Wrong(
                    "long_bubble",
                    f"For p = {p}, m = {m} and v = {v} your rows are legal and idle {overhead:.3f} of their work "
                    f"(simulated), and {allowed:.3f} is enough. Count the forwards before the first backward: too few "
                    "and the rank waits for a gradient, too many and its backward comes late.",
                )


def little_memory(rows: Rows) -> None:
    """No rank holds more than Megatron's order does: (v + 1) p - 1 micro-batches of a stage, or all there are."""
    for p, m, v in _SHAPES:
        held, allowed = max(peak_in_flight(_asked(rows, p, m, v))), min(v * m, (v + 1) * p - 1)
        if held > allowed:
            raise Wrong(
                "holds_too_many",
                f"For p = {p}, m = {m} and v = {v} a rank holds {held:g} micro-batches of its stages at once, and "
                f"{allowed} are enough: after the warm-up one backward follows each forward.",
            )


def right_overhead(price: Price) -> None:
    """The first number is idle over busy time."""
    _judge_number(price, 0, lambda p, m, v: (p - 1) / (v * m), _NOT_THE_OVERHEAD, "wrong_overhead")


def right_messages(price: Price) -> None:
    """The second number is that of the messages between ranks in one step."""
    _judge_number(price, 1, count_messages, _NOT_THE_MESSAGES, "wrong_messages")


def count_messages(num_ranks: int, num_microbatches: int, stages_per_rank: int) -> int:
    """Count on the schedule: an action whose input was made on another rank has received a message."""
    schedule = interleaved(num_ranks, num_microbatches, stages_per_rank)
    home, last = schedule.rank_of_stage, schedule.num_stages
    pairs = ((action, need) for action in schedule.actions() for need in needs(action, last, ()))
    return sum(home[action.stage] != home[need.stage] for action, need in pairs)


def _asked(rows: Rows, p: int, m: int, v: int) -> Schedule:
    return read_schedule(rows(p, m, v))


def _judge_stages(there: tuple[int, ...], rank: int, p: int, v: int) -> None:
    right = tuple(range(rank, p * v, p))
    if there == right:
        return
    asked = f"With p = {p} and v = {v} rank {rank} has the stages {list(there)} in your rows"
    if there == tuple(range(rank * v, rank * v + v)):
        raise Wrong(
            "neighbours_together",
            f"{asked}: neighbours, so the pipeline is filled as slowly as before. Deal the stages out in turn: "
            f"{list(right)}.",
        )
    if v > 1 and there == (rank,):
        raise Wrong("one_stage_only", f"{asked}; it should have v = {v} of them, {list(right)}.")
    raise Wrong("wrong_stages", f"{asked}; they are dealt out in turn, so it should have {list(right)}.")


def _name_the_group(schedule: Schedule, p: int, m: int, v: int) -> None:
    """Raise the hint of a rank that changes its stage after too few micro-batches."""
    for rank, row in enumerate(schedule.rows):
        stages = [action.stage for action in row if action.kind is Kind.F]
        first = next((place for place, stage in enumerate(stages) if stage != stages[0]), p)
        if first < p:
            raise Wrong(
                "group_too_small",
                f"For p = {p}, m = {m} and v = {v} rank {rank} goes on to its next stage after {first} micro-batch"
                f"{'es' if first > 1 else ''}, and a micro-batch needs p = {p} ticks to come round. Take p "
                "micro-batches through one stage, then through the next.",
            )


_Suspect = tuple[str, Callable[[int, int, int], float], str]

_NOT_THE_OVERHEAD: list[_Suspect] = [
    (
        "not_divided",
        lambda p, m, _v: (p - 1) / m,
        "That is the overhead of 1F1B. With v stages on a rank a stage takes 1/v of the time, and so does each tick in "
        "which a rank waits.",
    ),
    (
        "work_forgotten",
        lambda p, _m, v: (p - 1) / v,
        "That is the idle time, in units of a rank's micro-batch. The overhead divides it by the work, m of them.",
    ),
    (
        "fraction_for_overhead",
        lambda p, m, v: (p - 1) / (v * m + p - 1),
        "That is the bubble fraction, idle over all device time. The overhead divides by busy time.",
    ),
    (
        "multiplied",
        lambda p, m, v: v * (p - 1) / m,
        "You multiplied by v; more stages on a rank make the bubble shorter.",
    ),
    (
        "stages_for_ranks",
        lambda p, m, v: (v * p - 1) / (v * m),
        "You counted a tick for every stage. The last rank waits until its first stage is reached: p - 1 ticks.",
    ),
    (
        "extra_rank",
        lambda p, m, v: p / (v * m),
        "You counted p ticks; the first rank starts at once, so p - 1 are idle.",
    ),
]

_NOT_THE_MESSAGES: list[_Suspect] = [
    (
        "as_before",
        lambda p, m, _v: 2 * m * (p - 1),
        "That is the number for one stage a rank. With v p stages there are v p - 1 boundaries.",
    ),
    (
        "way_round_forgotten",
        lambda p, m, v: 2 * m * v * (p - 1),
        "You forgot the way round: the last rank sends the result of one stage to rank 0, which has the next one.",
    ),
    (
        "forward_only",
        lambda p, m, v: m * (v * p - 1) if p > 1 else 0,
        "You counted the activations. A gradient comes back through every boundary.",
    ),
    (
        "extra_boundary",
        lambda p, m, v: 2 * m * v * p if p > 1 else 0,
        "You counted v p boundaries. The last stage sends its result to nobody: v p - 1.",
    ),
    ("per_micro_batch", lambda p, _m, v: 2 * (v * p - 1) if p > 1 else 0, "That is for one micro-batch; there are m."),
    (
        "one_rank",
        lambda p, m, v: 2 * m * (v * p - 1),
        "A single rank has all the stages: nothing is sent between ranks.",
    ),
]


def _judge_number(
    price: Price, place: int, right: Callable[[int, int, int], float], suspects: list[_Suspect], default: str
) -> None:
    got = {shape: _pair(price(*shape))[place] for shape in _SHAPES}
    off = [shape for shape in _SHAPES if not math.isclose(got[shape], right(*shape), rel_tol=1e-9)]
    if not off:
        return
    for hint_id, formula, sentence in suspects:
        if all(math.isclose(got[shape], formula(*shape), rel_tol=1e-9) for shape in _SHAPES):
            raise Wrong(hint_id, sentence)
    (p, m, v), name = off[0], ("overhead", "number of messages")[place]
    asked = f"For p = {p}, m = {m} and v = {v}"
    raise Wrong(default, f"{asked} your {name} is {got[off[0]]:g}; counted on the schedule it is {right(p, m, v):g}.")


def _pair(answer: Any) -> tuple[float, float]:
    if answer is None:
        raise Wrong("nothing", "Your function returned None; return the pair (overhead, messages).")
    try:
        overhead, messages = answer
        return float(overhead), float(messages)
    except (TypeError, ValueError):
        raise Wrong("no_pair", f"Your function returned {answer!r}; return the pair (overhead, messages).") from None
