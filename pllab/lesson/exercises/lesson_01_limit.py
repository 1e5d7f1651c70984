"""The cases of exercise 01.3: `bound_of(flops, num_bytes, machine, num_messages)`, which limit bounds an operation."""

import math
import random
from functools import partial
from typing import Any

from pllab.bench.roofline import Ceilings, bound_of
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare

_close = partial(math.isclose, rel_tol=1e-9)

_LAPTOP = Ceilings(flops_per_s=80e9, bytes_per_s=20e9, latency_s=1e-4)
_ROUND = Ceilings(flops_per_s=100.0, bytes_per_s=10.0, latency_s=0.5)


def _pair(answer: Any, *_: Any) -> tuple[str, float]:
    if not isinstance(answer, tuple | list) or len(answer) != 2 or not isinstance(answer[0], str):
        raise Wrong("no_pair", f"bound_of should return a name and the seconds, but it returned {answer!r}.")
    return answer[0], float(answer[1])


def _sum_of_times(flops: float, num_bytes: float, machine: Ceilings, num_messages: int) -> tuple[str, float]:
    seconds = flops / machine.flops_per_s + num_bytes / machine.bytes_per_s + num_messages * machine.latency_s
    return bound_of(flops, num_bytes, machine, num_messages).limit, seconds


_judge_limit = partial(
    compare,
    truth=bound_of,
    mistakes=[Mistake("sum", "That is a sum of times, but they run at the same time.", like=_sum_of_times)],
    asked="bound_of({}, {}, {}, {})",
    read=_pair,
    same=lambda answer, right: answer[0] == right[0] and _close(answer[1], right[1]),
    show=lambda answer: f"({answer[0]!r}, {answer[1]:.12g})",
)


@case("a large product is bounded by compute, a layer norm by memory")
def product_and_norm(solution: Function) -> None:
    product = (2 * 2048 * 768 * 3072, 4 * (2048 * 768 + 768 * 3072 + 2048 * 3072), _LAPTOP, 0)
    norm = (8 * 2048 * 768, 2 * 4 * 2048 * 768, _LAPTOP, 0)
    _judge_limit(solution, [(30.0, 2.0, _ROUND, 0), (30.0, 4.0, _ROUND, 0), product, norm])  # 15 and 7.5 FLOP a byte


@case("work without FLOP, and work without bytes")
def one_kind_of_work(solution: Function) -> None:
    _judge_limit(solution, [(0, 4096, _LAPTOP, 0), (10, 0, _LAPTOP, 0)])


@case("messages: each costs a latency, with much other work, little, or none")
def messages(solution: Function) -> None:
    work = [(768, 9216, 1), (768, 9216, 2), (768, 9216, 148), (1e12, 0, 3), (0, 0, 1), (0, 4096, 3), (10, 0, 3)]
    questions = [(flops, num_bytes, _LAPTOP, number) for flops, num_bytes, number in work]
    _judge_limit(solution, questions, hint_id="messages")


@case("limits that take equally long: the earlier of compute, memory, latency")
def ties(solution: Function) -> None:
    work = [(1000, 100, 0), (1000, 100, 20), (0, 100, 20), (1000, 0, 20), (0, 0, 0)]
    _judge_limit(solution, [(flops, num_bytes, _ROUND, number) for flops, num_bytes, number in work], hint_id="tie")


@case("random machines and operations")
def by_chance(solution: Function) -> None:
    chance = random.Random(7)

    def drawn(low: float, high: float) -> float:
        return float(f"{10 ** chance.uniform(low, high):.5g}")

    machines = [Ceilings(drawn(9, 15), drawn(9, 13), drawn(-6, -3)) for _ in range(60)]
    questions = [(drawn(3, 12), drawn(3, 10), machine, chance.choice((0, 0, 1, 12))) for machine in machines]
    _judge_limit(solution, questions)
