"""Right solutions of lesson 01 that look different."""

import statistics
import time
import timeit
from operator import itemgetter
from typing import NamedTuple

import numpy as np


def totals(tokens, seconds):
    if len(tokens) != len(seconds) or sum(seconds) <= 0:
        raise ValueError(f"{len(tokens)} batches with {len(seconds)} times")
    return sum(tokens) / sum(seconds)


def one_pair_after_the_other(tokens, seconds):
    counted, took = 0, 0.0
    for count, each in zip(tokens, seconds, strict=True):
        counted, took = counted + count, took + each
    if not took:
        raise ValueError("no time")
    return counted / took


def with_numpy(tokens, seconds):
    tokens, seconds = np.asarray(tokens), np.asarray(seconds, dtype=float)
    if tokens.shape != seconds.shape or not seconds.sum():
        raise ValueError("lists of one length, and some time")
    return tokens.sum() / seconds.sum()


def round_by_round(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1 or warmup < 0:
        raise ValueError(f"repeats={repeats}, warmup={warmup}")
    clock, times = clock or time.perf_counter, []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    counted = times[warmup:]
    return statistics.median(counted), min(counted), max(counted)


def warms_up_first(fn, synchronize, warmup=1, repeats=5, clock=None):
    clock = clock or time.monotonic
    if repeats < 1 or warmup < 0:
        raise ValueError(f"repeats={repeats}, warmup={warmup}")

    def once():
        start = clock()
        fn()
        synchronize()
        return clock() - start

    for _ in range(warmup):
        fn()
    synchronize()
    times = sorted(once() for _ in range(repeats))
    return [statistics.median(times), times[0], times[-1]]


def one_reading_between_rounds(fn, synchronize, warmup=1, repeats=5, clock=None):
    if not (repeats >= 1 and warmup >= 0):
        raise ValueError("nothing to measure")
    clock = clock or (lambda: time.perf_counter_ns() / 1e9)
    synchronize()
    moments = [clock()]
    for _ in range(warmup + repeats):
        fn()
        synchronize()
        moments.append(clock())
    times = np.diff(moments)[warmup:]
    return np.median(times), times.min(), times.max()


def with_timeit(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1 or warmup < 0:
        raise ValueError("nothing to measure")

    def call():
        fn()
        synchronize()

    timer = timeit.Timer(call, setup=synchronize, timer=clock or timeit.default_timer)
    times = timer.repeat(warmup + repeats, 1)[warmup:]
    return statistics.median(times), min(times), max(times)


def longest_time(flops, num_bytes, machine, num_messages=0):
    least = {
        "compute": flops / machine.flops_per_s,
        "memory": num_bytes / machine.bytes_per_s,
        "latency": num_messages * machine.latency_s,
    }
    limit = max(least, key=least.get)
    return limit, least[limit]


def with_branches(flops, num_bytes, machine, num_messages=0):
    compute = flops / machine.flops_per_s
    memory = num_bytes / machine.bytes_per_s
    latency = num_messages * machine.latency_s
    if compute >= memory and compute >= latency:
        return "compute", compute
    if memory >= latency:
        return "memory", memory
    return "latency", latency


def sorted_pairs(flops, num_bytes, machine, num_messages=0):
    flops_per_s, bytes_per_s, latency_s = machine
    pairs = [
        ("compute", flops / flops_per_s),
        ("memory", num_bytes / bytes_per_s),
        ("latency", num_messages * latency_s),
    ]
    return sorted(pairs, key=itemgetter(1), reverse=True)[0]  # stable, also when reversed


def with_argmax(flops, num_bytes, machine, num_messages=0):
    times = np.array([flops / machine.flops_per_s, num_bytes / machine.bytes_per_s, num_messages * machine.latency_s])
    return ("compute", "memory", "latency")[times.argmax()], times.max()


# By somebody who read the lesson alone.

# 01.1


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


# 01.2


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


# 01.3
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
    "01.1": [totals, one_pair_after_the_other, with_numpy, r1_try, r1_loop, rx_np],
    "01.2": [round_by_round, warms_up_first, one_reading_between_rounds, with_timeit, r2_one_sync_before, r2_ns],
    "01.3": [longest_time, with_branches, sorted_pairs, with_argmax, r3_index, rx_named],
}
