"""Solutions of lesson 01 by somebody who read the lesson alone."""

import statistics
import time
from typing import NamedTuple

import numpy as np
import torch


# ================= 01.1
def r1_plain(tokens, seconds):
    if len(tokens) != len(seconds):
        raise ValueError("lengths differ")
    total = sum(seconds)
    if total == 0:
        raise ValueError("no time")
    return sum(tokens) / total


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


def w1_mean_of_rates(tokens, seconds):
    if len(tokens) != len(seconds) or sum(seconds) == 0:
        raise ValueError
    return statistics.mean(t / s for t, s in zip(tokens, seconds, strict=False))


def w1_zip_cuts(tokens, seconds):
    n = s = 0
    for t, sec in zip(tokens, seconds, strict=False):
        n, s = n + t, s + sec
    if s == 0:
        raise ValueError
    return n / s


def w1_skip_empty_batches(tokens, seconds):
    if len(tokens) != len(seconds):
        raise ValueError
    pairs = [(t, s) for t, s in zip(tokens, seconds, strict=False) if t > 0]
    total = sum(s for _, s in pairs)
    if total == 0:
        raise ValueError
    return sum(t for t, _ in pairs) / total


def w1_refuse_any_zero_second(tokens, seconds):
    if len(tokens) != len(seconds) or not seconds or not all(seconds):
        raise ValueError
    return sum(tokens) / sum(seconds)


def w1_skip_zero_seconds(tokens, seconds):
    if len(tokens) != len(seconds) or sum(seconds) == 0:
        raise ValueError
    return sum(t for t, s in zip(tokens, seconds, strict=False) if s > 0) / sum(seconds)


def w1_zero_division(tokens, seconds):
    if len(tokens) != len(seconds):
        raise ValueError
    return sum(tokens) / sum(seconds)


def w1_zero_returns_zero(tokens, seconds):
    if len(tokens) != len(seconds):
        raise ValueError
    return sum(tokens) / sum(seconds) if sum(seconds) else 0.0


def w1_floor(tokens, seconds):
    if len(tokens) != len(seconds) or sum(seconds) == 0:
        raise ValueError
    return sum(tokens) // sum(seconds)


def w1_no_tokens_refused(tokens, seconds):
    if len(tokens) != len(seconds) or not sum(seconds) or not sum(tokens):
        raise ValueError
    return sum(tokens) / sum(seconds)


def w1_tensor(tokens, seconds):
    if len(tokens) != len(seconds) or sum(seconds) == 0:
        raise ValueError
    return torch.tensor(tokens).sum() / torch.tensor(seconds).sum()


def w1_assert(tokens, seconds):
    assert len(tokens) == len(seconds)
    if sum(seconds) == 0:
        raise ValueError
    return sum(tokens) / sum(seconds)


def w1_harmonic_of_rates(tokens, seconds):
    if len(tokens) != len(seconds) or sum(seconds) == 0:
        raise ValueError
    rates = [t / s for t, s in zip(tokens, seconds, strict=False) if s]
    return 0.0 if 0 in rates else statistics.harmonic_mean(rates)


def w1_weighted_by_tokens(tokens, seconds):
    if len(tokens) != len(seconds) or sum(seconds) == 0:
        raise ValueError
    if not sum(tokens):
        return 0.0
    return sum(t * t / s for t, s in zip(tokens, seconds, strict=False) if s) / sum(tokens)


def w1_int_seconds(tokens, seconds):
    if len(tokens) != len(seconds) or round(sum(seconds), 3) == 0:
        raise ValueError
    return sum(tokens) / round(sum(seconds), 3)


# ================= 01.2
def r2_hint(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1 or warmup < 0:
        raise ValueError("repeats from 1, warmup from 0")
    clock = time.perf_counter if clock is None else clock
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    times = times[warmup:]
    return statistics.median(times), min(times), max(times)


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


def _check(warmup, repeats):
    if repeats < 1 or warmup < 0:
        raise ValueError


def w2_no_sync_after(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        fn()
        times.append(clock() - start)
    times = times[warmup:]
    return statistics.median(times), min(times), max(times)


def w2_no_sync_before(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    times = times[warmup:]
    return statistics.median(times), min(times), max(times)


def w2_warmup_in_queue(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    synchronize()
    for _ in range(warmup):
        fn()
    times = []
    for _ in range(repeats):
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times), min(times), max(times)


def w2_sync_inside_clock(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        start = clock()
        synchronize()
        fn()
        synchronize()
        times.append(clock() - start)
    times = times[warmup:]
    return statistics.median(times), min(times), max(times)


def w2_upper_median(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    times = sorted(times[warmup:])
    return times[len(times) // 2], times[0], times[-1]


def w2_unsorted_median(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    times = times[warmup:]
    n = len(times)
    return (times[(n - 1) // 2] + times[n // 2]) / 2, min(times), max(times)


def w2_wall_clock(fn, synchronize, warmup=1, repeats=5, clock=None):
    return r2_hint(fn, synchronize, warmup, repeats, clock or time.time)


def w2_process_time(fn, synchronize, warmup=1, repeats=5, clock=None):
    return r2_hint(fn, synchronize, warmup, repeats, clock or time.process_time)


def w2_ns_unit(fn, synchronize, warmup=1, repeats=5, clock=None):
    return r2_hint(fn, synchronize, warmup, repeats, clock or time.perf_counter_ns)


def w2_validate_late(fn, synchronize, warmup=1, repeats=5, clock=None):
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    times = times[warmup:]
    if warmup < 0 or not times:
        raise ValueError
    return statistics.median(times), min(times), max(times)


def w2_negative_warmup_ok(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1:
        raise ValueError
    return r2_hint(fn, synchronize, max(warmup, 0), repeats, clock)


def w2_zero_warmup_refused(fn, synchronize, warmup=1, repeats=5, clock=None):
    if warmup < 1:
        raise ValueError
    return r2_hint(fn, synchronize, warmup, repeats, clock)


def w2_warmup_of_repeats(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    times = times[warmup:] or times
    return statistics.median(times), min(times), max(times)


def w2_one_warmup_always(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    if warmup:
        fn()
    return r2_hint(fn, synchronize, 0, repeats, clock)


def w2_mean_when_even(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    times = sorted(times[warmup:])
    middle = times[len(times) // 2] if len(times) % 2 else sum(times) / len(times)
    return middle, times[0], times[-1]


def w2_lowest_with_warmup(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times[warmup:]), min(times), max(times[warmup:])


def w2_sync_only_first_and_last(fn, synchronize, warmup=1, repeats=5, clock=None):
    _check(warmup, repeats)
    clock = clock or time.perf_counter
    for _ in range(warmup):
        fn()
    synchronize()
    marks = [clock()]
    for i in range(repeats):
        fn()
        if i == repeats - 1:
            synchronize()
        marks.append(clock())
    times = [b - a for a, b in zip(marks, marks[1:], strict=False)]
    return statistics.median(times), min(times), max(times)


# ================= 01.3
NAMES = ("compute", "memory", "latency")


def r3_max_key(flops, num_bytes, machine, num_messages=0):
    times = {
        "compute": flops / machine.flops_per_s,
        "memory": num_bytes / machine.bytes_per_s,
        "latency": num_messages * machine.latency_s,
    }
    name = max(times, key=times.get)
    return name, times[name]


def r3_ifs(flops, num_bytes, machine, num_messages=0):
    c = flops / machine.flops_per_s
    m = num_bytes / machine.bytes_per_s
    w = num_messages * machine.latency_s
    if c >= m and c >= w:
        return "compute", c
    if m >= w:
        return "memory", m
    return "latency", w


def r3_index(flops, num_bytes, machine, num_messages=0):
    times = [flops / machine.flops_per_s, num_bytes / machine.bytes_per_s, num_messages * machine.latency_s]
    slowest = max(times)
    return NAMES[times.index(slowest)], slowest


def _times(flops, num_bytes, machine, num_messages):
    return [flops / machine.flops_per_s, num_bytes / machine.bytes_per_s, num_messages * machine.latency_s]


def w3_max_of_pairs(flops, num_bytes, machine, num_messages=0):
    seconds, name = max(zip(_times(flops, num_bytes, machine, num_messages), NAMES, strict=False))
    return name, seconds


def w3_dict_by_seconds(flops, num_bytes, machine, num_messages=0):
    names = dict(zip(_times(flops, num_bytes, machine, num_messages), NAMES, strict=False))
    slowest = max(names)
    return names[slowest], slowest


def w3_ridge(flops, num_bytes, machine, num_messages=0):
    c, m, w = _times(flops, num_bytes, machine, num_messages)
    if w > max(c, m):
        return "latency", w
    if flops / num_bytes >= machine.flops_per_s / machine.bytes_per_s:
        return "compute", c
    return "memory", m


def w3_sum(flops, num_bytes, machine, num_messages=0):
    times = _times(flops, num_bytes, machine, num_messages)
    return NAMES[times.index(max(times))], sum(times)


def w3_latency_added(flops, num_bytes, machine, num_messages=0):
    c, m, w = _times(flops, num_bytes, machine, num_messages)
    if w > max(c, m):
        return "latency", w
    return ("compute", c + w) if c >= m else ("memory", m + w)


def w3_one_latency(flops, num_bytes, machine, num_messages=0):
    return r3_max_key(flops, num_bytes, machine, 1 if num_messages else 0)


def w3_late_tie(flops, num_bytes, machine, num_messages=0):
    c, m, w = _times(flops, num_bytes, machine, num_messages)
    if c >= m and c >= w:
        return "compute", c
    if m > w:
        return "memory", m
    return "latency", w


def w3_compute_strict(flops, num_bytes, machine, num_messages=0):
    c, m, w = _times(flops, num_bytes, machine, num_messages)
    if c > m and c > w:
        return "compute", c
    if m >= w:
        return "memory", m
    return "latency", w


def w3_pairwise(flops, num_bytes, machine, num_messages=0):
    c, m, w = _times(flops, num_bytes, machine, num_messages)
    if c >= m:
        return "compute", c
    if m >= w:
        return "memory", m
    return "latency", w


def w3_zero_flop_memory(flops, num_bytes, machine, num_messages=0):
    if flops == 0:
        return "memory", num_bytes / machine.bytes_per_s
    return r3_max_key(flops, num_bytes, machine, num_messages)


def w3_all_zero_latency(flops, num_bytes, machine, num_messages=0):
    if not flops and not num_bytes:
        return "latency", num_messages * machine.latency_s
    return r3_max_key(flops, num_bytes, machine, num_messages)


def w3_isclose(flops, num_bytes, machine, num_messages=0):
    times = [round(t, 9) for t in _times(flops, num_bytes, machine, num_messages)]
    return NAMES[times.index(max(times))], max(times)


def w3_min(flops, num_bytes, machine, num_messages=0):
    times = _times(flops, num_bytes, machine, num_messages)
    present = [t for t in times if t > 0] or [0.0]
    return NAMES[times.index(max(times))], min(present)


def w3_message_bytes(flops, num_bytes, machine, num_messages=0):
    c, m, w = _times(flops, num_bytes, machine, num_messages)
    if num_messages:
        return ("compute", c) if c >= m + w else ("latency", w) if w > m else ("memory", m)
    return ("compute", c) if c >= m else ("memory", m)


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


def wx_highest_with_warmup(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1 or warmup < 0:
        raise ValueError
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        a = clock()
        fn()
        synchronize()
        times.append(clock() - a)
    return statistics.median(times[warmup:]), min(times[warmup:]), max(times)


def wx_sort_then_cut(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1 or warmup < 0:
        raise ValueError
    clock = clock or time.perf_counter
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        a = clock()
        fn()
        synchronize()
        times.append(clock() - a)
    times = sorted(times, reverse=True)[warmup:]
    return statistics.median(times), min(times), max(times)


def wx_falsy_latency(flops, num_bytes, machine, num_messages=0):
    t = {"compute": flops / machine.flops_per_s, "memory": num_bytes / machine.bytes_per_s}
    if num_messages > 0:
        t = {"compute": t["compute"], "memory": t["memory"], "latency": num_messages * machine.latency_s}
    best = sorted(t, key=t.get)[-1]
    return best, t[best]


def bound_wrong_copy_shortcut(flops, num_bytes, machine, num_messages=0):
    if flops == 0 and num_bytes > 0:
        return "memory", num_bytes / machine.bytes_per_s  # a copy
    compute, memory = flops / machine.flops_per_s, num_bytes / machine.bytes_per_s
    name, least = ("compute", compute) if compute >= memory else ("memory", memory)
    if num_messages * machine.latency_s > least:
        return "latency", num_messages * machine.latency_s
    return name, least


RIGHT = [("01.1", f) for f in (r1_plain, r1_try, r1_loop)]
RIGHT += [("01.2", f) for f in (r2_hint, r2_one_sync_before, r2_ns)]
RIGHT += [("01.3", f) for f in (r3_max_key, r3_ifs, r3_index)]
RIGHT += [("01.1", rx_np), ("01.3", rx_named)]
WRONG = [
    ("01.1", w1_mean_of_rates, "mean of the rates"),
    ("01.1", w1_zip_cuts, "different lengths are cut silently"),
    ("01.1", w1_skip_empty_batches, "time of empty batches lost"),
    ("01.1", w1_refuse_any_zero_second, "one zero second is refused"),
    ("01.1", w1_skip_zero_seconds, "tokens of zero-second batch lost"),
    ("01.1", w1_zero_division, "ZeroDivisionError instead of ValueError"),
    ("01.1", w1_zero_returns_zero, "no time gives 0"),
    ("01.1", w1_floor, "floor division"),
    ("01.1", w1_no_tokens_refused, "no tokens at all refused"),
    ("01.1", w1_tensor, "float32 tensor, not a number"),
    ("01.1", w1_assert, "AssertionError instead of ValueError"),
    ("01.1", w1_harmonic_of_rates, "unweighted harmonic mean of rates"),
    ("01.1", w1_weighted_by_tokens, "rates weighted by tokens"),
    ("01.1", w1_int_seconds, "seconds rounded to milliseconds"),
    ("01.2", w2_no_sync_after, "stops before device is done"),
    ("01.2", w2_no_sync_before, "counts what queue held before"),
    ("01.2", w2_warmup_in_queue, "warm-up still in first round"),
    ("01.2", w2_sync_inside_clock, "clock started before first wait"),
    ("01.2", w2_upper_median, "upper of two middle ones"),
    ("01.2", w2_unsorted_median, "middle of unsorted list"),
    ("01.2", w2_wall_clock, "time.time can be set back"),
    ("01.2", w2_process_time, "process_time does not count waiting"),
    ("01.2", w2_ns_unit, "nanoseconds by default"),
    ("01.2", w2_validate_late, "ValueError only after the calls"),
    ("01.2", w2_negative_warmup_ok, "negative warmup taken as 0"),
    ("01.2", w2_zero_warmup_refused, "warmup of 0 refused"),
    ("01.2", w2_warmup_of_repeats, "warm-ups taken out of repeats"),
    ("01.2", w2_one_warmup_always, "one warm-up whatever the number"),
    ("01.2", w2_mean_when_even, "mean of all when even"),
    ("01.2", w2_lowest_with_warmup, "lowest among the warm-ups too"),
    ("01.2", w2_sync_only_first_and_last, "waits only after last round"),
    ("01.3", w3_max_of_pairs, "ties by name alphabetically"),
    ("01.3", w3_dict_by_seconds, "ties: later overwrites earlier"),
    ("01.3", w3_ridge, "divides by zero bytes"),
    ("01.3", w3_sum, "sum instead of slowest"),
    ("01.3", w3_latency_added, "latency added onto the work"),
    ("01.3", w3_one_latency, "many messages cost one latency"),
    ("01.3", w3_late_tie, "memory-latency tie goes to latency"),
    ("01.3", w3_compute_strict, "compute ties go to memory"),
    ("01.3", w3_pairwise, "compute not compared with latency"),
    ("01.3", w3_zero_flop_memory, "no FLOP: forgets the messages"),
    ("01.3", w3_all_zero_latency, "nothing to do is latency"),
    ("01.3", w3_isclose, "rounded to a nanosecond"),
    ("01.3", w3_min, "least of three returned"),
    ("01.3", w3_message_bytes, "compute against memory plus latency"),
    ("01.2", wx_highest_with_warmup, "highest with warmups"),
    ("01.2", wx_sort_then_cut, "drops slowest, not the first"),
    ("01.3", wx_falsy_latency, "sorted: ties to last"),
    ("01.3", bound_wrong_copy_shortcut, "takes a copy for memory, whatever its messages"),
]
