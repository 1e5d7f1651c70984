"""Solutions of lesson 01 by somebody who read the lesson alone."""

import statistics
import time
from typing import NamedTuple

import numpy as np

# ================= 01.1


def r1_try(tokens, seconds):
    pairs = list(zip(tokens, seconds, strict=True))
    try:
        return sum(t for t, _ in pairs) / sum(s for _, s in pairs)
    except ZeroDivisionError:
        raise ValueError("the seconds add up to nothing") from None


def r1_loop(tokens, seconds):
    if not len(tokens) == len(seconds):
        raise ValueError(f"{len(tokens)} and {len(seconds)}")
    n, s = 0, 0.0
    for i in range(len(tokens)):
        n += tokens[i]
        s += seconds[i]
    if s <= 0:
        raise ValueError("no time at all")
    return n / s


# ================= 01.2


def r2_one_sync_before(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1:
        raise ValueError("repeats")
    if warmup < 0:
        raise ValueError("warmup")
    if clock is None:
        clock = time.monotonic
    for _ in range(warmup):
        fn()
    synchronize()
    times = []
    for _ in range(repeats):
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times), min(times), max(times)


def r2_ns(fn, synchronize, warmup=1, repeats=5, clock=None):
    if not (repeats >= 1 and warmup >= 0):
        raise ValueError("bad counts")

    def now():
        return time.perf_counter_ns() / 1e9 if clock is None else clock()

    def one():
        synchronize()
        start = now()
        fn()
        synchronize()
        return now() - start

    for _ in range(warmup):
        one()
    rounds = sorted(one() for _ in range(repeats))
    half, odd = divmod(repeats, 2)
    median = rounds[half] if odd else (rounds[half - 1] + rounds[half]) / 2
    return (median, rounds[0], rounds[-1])


# ================= 01.3
NAMES = ("compute", "memory", "latency")


def r3_index(flops, num_bytes, machine, num_messages=0):
    times = [flops / machine.flops_per_s, num_bytes / machine.bytes_per_s, num_messages * machine.latency_s]
    slowest = max(times)
    return NAMES[times.index(slowest)], slowest


class Bound(NamedTuple):
    name: str
    seconds: float


def rx_np(tokens, seconds):
    if len(tokens) != len(seconds) or np.sum(seconds) == 0:
        raise ValueError
    return np.sum(tokens) / np.sum(seconds)


def rx_named(flops, num_bytes, machine, num_messages=0):
    rows = [
        Bound("compute", flops / machine.flops_per_s),
        Bound("memory", num_bytes / machine.bytes_per_s),
        Bound("latency", num_messages * machine.latency_s),
    ]
    return max(rows, key=lambda b: b.seconds)


RIGHT = {
    "01.1": [r1_try, r1_loop, rx_np],
    "01.2": [r2_one_sync_before, r2_ns],
    "01.3": [r3_index, rx_named],
}
