"""Exercise 01.3: which limit of the machine bounds an operation, and how long does it take at least?"""

import math
import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

from pllab.bench.roofline import Ceilings, bound_of
from pllab.lesson.exercise import Exercise, Wrong, case

BoundOf = Callable[..., Any]
_LAPTOP = Ceilings(flops_per_s=80e9, bytes_per_s=20e9, latency_s=1e-4)
_ROUND = Ceilings(flops_per_s=100.0, bytes_per_s=10.0, latency_s=0.5)
_LIMITS = ("compute", "memory", "latency")


def _judge(solution: BoundOf, flops: float, num_bytes: float, machine: Ceilings, num_messages: int = 0) -> None:
    try:
        result = solution(flops, num_bytes, machine, num_messages)
    except ZeroDivisionError:
        text = f"With {flops:g} FLOP and {num_bytes:g} bytes you divide by zero; the machine's numbers never are zero."
        raise Wrong("divides_by_work", text) from None
    if not isinstance(result, tuple | list) or len(result) != 2 or not isinstance(result[0], str):
        raise Wrong("no_pair", f"bound_of should return a name and the seconds, and it returned {result!r}.")
    limit, seconds = str(result[0]), float(result[1])
    what = f"For {flops:g} FLOP, {num_bytes:g} bytes and {num_messages} messages on {tuple(machine)}"
    if limit not in _LIMITS:
        raise Wrong("unknown_limit", f"{what} you answer {limit!r}; the limits are {', '.join(_LIMITS)}.")
    least = (flops / machine.flops_per_s, num_bytes / machine.bytes_per_s, num_messages * machine.latency_s)
    right = bound_of(flops, num_bytes, machine, num_messages)
    if limit != right.limit:
        raise _wrong_limit(what, limit, right.limit, least)
    if not math.isclose(seconds, right.seconds, rel_tol=1e-9):
        raise _wrong_seconds(what, seconds, least)


def _wrong_limit(what: str, limit: str, right: str, least: tuple[float, float, float]) -> Wrong:
    times = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in zip(_LIMITS, least, strict=True))
    if sorted(least)[1] == max(least):
        return Wrong("tie", f"{what} the times are {times}: of equal ones the earlier in this order bounds, {right}.")
    if right == "latency":
        return Wrong("messages", f"{what} the times are {times}: each message costs a latency, so latency bounds it.")
    return Wrong("limit", f"{what} the times are {times}: {right} bounds it, the slowest, and you answer {limit}.")


def _wrong_seconds(what: str, seconds: float, least: tuple[float, float, float]) -> Wrong:
    if math.isclose(seconds, sum(least), rel_tol=1e-9):
        return Wrong("sum", f"{what} {seconds:.3g} s is the sum; computing and moving go on at the same time.")
    off = abs(seconds - max(least))
    told = f"at least {max(least):.12g} s are needed, and you say {seconds:.12g} s, which is off by {off:.3g} s"
    if any(math.isclose(seconds, sum(two), rel_tol=1e-9) for two in combinations(least, 2)):
        return Wrong("sum", f"{what} {told}: the sum of two of the times, and they go on at the same time.")
    if math.isclose(seconds, max(least), rel_tol=1e-3):
        return Wrong("rounded", f"{what} {told}: return the time as the division gives it, not rounded.")
    return Wrong("seconds", f"{what} {told}.")


@case("a large product is bounded by compute, a layer norm by memory")
def product_and_norm(solution: BoundOf) -> None:
    _judge(solution, 2 * 2048 * 768 * 3072, 4 * (2048 * 768 + 768 * 3072 + 2048 * 3072), _LAPTOP)
    _judge(solution, 8 * 2048 * 768, 2 * 4 * 2048 * 768, _LAPTOP)
    _judge(solution, 30.0, 2.0, _ROUND)  # 15 FLOP per byte, more than 10
    _judge(solution, 30.0, 4.0, _ROUND)


@case("messages: each one costs a latency")
def messages(solution: BoundOf) -> None:
    for number in (1, 2, 148):
        _judge(solution, 768, 3 * 4 * 768, _LAPTOP, number)
    _judge(solution, 1e12, 1e6, _LAPTOP, 3)


@case("work without FLOP, without bytes, or without either")
def nothing_to_do(solution: BoundOf) -> None:
    for flops, num_bytes, number in ((0, 4096, 0), (10, 0, 0), (0, 0, 1), (0, 4096, 3), (10, 0, 3), (0, 0, 0)):
        _judge(solution, flops, num_bytes, _LAPTOP, number)


@case("limits that take equally long: the earlier of compute, memory, latency")
def ties(solution: BoundOf) -> None:
    for flops, num_bytes, number in ((1000, 100, 0), (1000, 100, 20), (0, 100, 20), (1000, 0, 20)):
        _judge(solution, flops, num_bytes, _ROUND, number)


@case("machines and operations by chance")
def by_chance(solution: BoundOf) -> None:
    chance = random.Random(7)
    for _ in range(60):
        machine = Ceilings(10 ** chance.uniform(9, 15), 10 ** chance.uniform(9, 13), 10 ** chance.uniform(-6, -3))
        flops, num_bytes = 10 ** chance.uniform(3, 12), 10 ** chance.uniform(3, 10)
        _judge(solution, flops, num_bytes, machine, chance.choice((0, 0, 1, 12)))


BOUND_OF = Exercise(
    id="01.3",
    title="Which limit bounds it",
    minutes=8,
    difficulty=2,
    cases=(product_and_norm, messages, nothing_to_do, ties, by_chance),
    hints=(
        "Work one out on paper: a machine of 100 FLOP/s and 10 bytes/s has 30 FLOP and 4 bytes to do. How long does "
        "each take alone?",
        "Look at the units. FLOP and bytes cannot be compared with each other; what can be compared is the time each "
        "of them needs on this machine.",
        "Three times: work over its rate, bytes over their rate, messages times their latency. The operation takes at "
        "least as long as the longest of them, and that one has the name you return.",
    ),
    package=("pllab.bench.roofline.bound_of",),
)
