"""The cases of exercise 11.2: what interleaving costs, in idle time and in messages.

The costs are counted on schedules; a wrong number is compared with what people take for the right one.
"""

import math
from collections.abc import Callable
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_11_interleaved import SHAPES
from pllab.schedule import interleaved, needs

Price = Callable[[int, int, int], Any]


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
    (
        "rounded",
        lambda p, m, v: (p - 1) // (v * m),
        "You divide with //, which rounds down to a whole number; an overhead needs /.",
    ),
    (
        "percent",
        lambda p, m, v: 100 * (p - 1) / (v * m),
        "That is in percent; return idle over busy time itself, such as 0.125.",
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
    (
        "both_ends",
        lambda p, m, v: 4 * m * (v * p - 1) if p > 1 else 0,
        "You counted every message twice, where it is sent and where it is received.",
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
    got = {shape: _pair(price(*shape))[place] for shape in SHAPES}
    off = [shape for shape in SHAPES if not math.isclose(got[shape], right(*shape), rel_tol=1e-9)]
    if not off:
        return
    if place == 0 and all(got[shape] == count_messages(*shape) for shape in SHAPES):
        raise Wrong("swapped", "Your first number is that of the messages; the overhead comes first.")
    for hint_id, formula, sentence in suspects:
        if all(math.isclose(got[shape], formula(*shape), rel_tol=1e-9) for shape in SHAPES):
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
