"""Wrong solutions of lesson 01, each with the hint that must refuse it."""

import statistics
import time


def weighted_mean_of_rates(tokens, seconds):
    pairs = list(zip(tokens, seconds, strict=True))
    time_in_all = sum(took for _, took in pairs)
    if time_in_all == 0:
        raise ValueError("no time")
    return sum(count / took * (took / time_in_all) for count, took in pairs)


def mean_of_rates(tokens, seconds):
    return statistics.mean([count / took for count, took in zip(tokens, seconds, strict=True)])


def median_of_rates(tokens, seconds):
    return statistics.median([count / took for count, took in zip(tokens, seconds, strict=True)])


def cuts_the_longer_list(tokens, seconds):
    pairs = list(zip(tokens, seconds, strict=False))
    if not sum(took for _, took in pairs):
        raise ValueError("no time")
    return sum(count for count, _ in pairs) / sum(took for _, took in pairs)


def says_it_in_words(tokens, seconds):
    return f"{sum(tokens) / sum(seconds)} tokens/s"


def skips_batches_without_time(tokens, seconds):
    if len(tokens) != len(seconds) or sum(seconds) == 0:
        raise ValueError
    return sum(count for count, took in zip(tokens, seconds, strict=True) if took > 0) / sum(seconds)


def _rounds(fn, synchronize, warmup, repeats, clock):
    """The times of all rounds, right, the warm-up included."""
    if repeats < 1 or warmup < 0:
        raise ValueError("nothing to measure")
    clock, times = clock or time.perf_counter, []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    return times


def _summary(times):
    return statistics.median(times), min(times), max(times)


def counts_the_warmup(fn, synchronize, warmup=1, repeats=5, clock=None):
    return _summary(_rounds(fn, synchronize, warmup, repeats, clock))


def never_warms_up(fn, synchronize, warmup=1, repeats=5, clock=None):
    return _summary(_rounds(fn, synchronize, 0, repeats, clock))


def reports_the_mean(fn, synchronize, warmup=1, repeats=5, clock=None):
    times = _rounds(fn, synchronize, warmup, repeats, clock)[warmup:]
    return statistics.mean(times), min(times), max(times)


def median_alone(fn, synchronize, warmup=1, repeats=5, clock=None):
    return statistics.median(_rounds(fn, synchronize, warmup, repeats, clock)[warmup:])


def never_waits(fn, synchronize, warmup=1, repeats=5, clock=None):
    return _summary(_rounds(fn, lambda: None, warmup, repeats, clock)[warmup:])


def starts_with_a_full_queue(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1 or warmup < 0:
        raise ValueError("nothing to measure")
    clock, times = clock or time.perf_counter, []
    for _ in range(warmup):
        fn()
    for _ in range(repeats):
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    return _summary(times)


def clock_of_the_wall(fn, synchronize, warmup=1, repeats=5, clock=None):
    return _summary(_rounds(fn, synchronize, warmup, repeats, clock or time.time)[warmup:])


def measures_nothing(fn, synchronize, warmup=1, repeats=5, clock=None):
    return _summary(_rounds(fn, synchronize, max(warmup, 0), max(repeats, 1), clock)[max(warmup, 0) :])


def refuses_no_warmup(fn, synchronize, warmup=1, repeats=5, clock=None):
    if warmup < 1:
        raise ValueError
    return _summary(_rounds(fn, synchronize, warmup, repeats, clock)[warmup:])


def _bound(flops, num_bytes, machine, num_messages=0):
    least = (flops / machine.flops_per_s, num_bytes / machine.bytes_per_s, num_messages * machine.latency_s)
    longest = max(least)
    return ("compute", "memory", "latency")[least.index(longest)], longest


def compares_flops_with_bytes(flops, num_bytes, machine, num_messages=0):
    name, seconds = _bound(flops, num_bytes, machine, num_messages)
    if name == "latency":
        return name, seconds
    return ("compute", seconds) if flops >= num_bytes else ("memory", seconds)


def forgets_messages(flops, num_bytes, machine, num_messages=0):
    return _bound(flops, num_bytes, machine, 0)


def adds_the_times(flops, num_bytes, machine, num_messages=0):
    name, _ = _bound(flops, num_bytes, machine, num_messages)
    total = flops / machine.flops_per_s + num_bytes / machine.bytes_per_s + num_messages * machine.latency_s
    return name, total


def adds_the_latency(flops, num_bytes, machine, num_messages=0):
    name, seconds = _bound(flops, num_bytes, machine)
    latency_s = num_messages * machine.latency_s
    return ("latency", latency_s) if latency_s > seconds else (name, seconds + latency_s)


def divides_by_intensity(flops, num_bytes, machine, num_messages=0):
    name, seconds = _bound(flops, num_bytes, machine, num_messages)
    if num_messages:
        return name, seconds
    ridge = machine.flops_per_s / machine.bytes_per_s
    return ("compute" if flops / num_bytes >= ridge else "memory"), seconds


def the_later_of_equals(flops, num_bytes, machine, num_messages=0):
    least = {
        "latency": num_messages * machine.latency_s,
        "memory": num_bytes / machine.bytes_per_s,
        "compute": flops / machine.flops_per_s,
    }
    name = max(least, key=least.get)
    return name, least[name]


def the_name_alone(flops, num_bytes, machine, num_messages=0):
    return _bound(flops, num_bytes, machine, num_messages)[0]


WRONG = [
    ("01.1", "raised", weighted_mean_of_rates),
    ("01.1", "mean_of_rates", mean_of_rates),
    ("01.1", "wrong", median_of_rates),
    ("01.1", "no_value_error", cuts_the_longer_list),
    ("01.1", "no_number", says_it_in_words),
    ("01.1", "wrong", skips_batches_without_time),
    ("01.2", "warmup_counted", counts_the_warmup),
    ("01.2", "calls", never_warms_up),
    ("01.2", "wrong", reports_the_mean),
    ("01.2", "no_triple", median_alone),
    ("01.2", "no_sync", never_waits),
    ("01.2", "leftovers", starts_with_a_full_queue),
    ("01.2", "wrong_clock", clock_of_the_wall),
    ("01.2", "no_value_error", measures_nothing),
    ("01.2", "raised", refuses_no_warmup),
    ("01.3", "wrong", compares_flops_with_bytes),
    ("01.3", "messages", forgets_messages),
    ("01.3", "sum", adds_the_times),
    ("01.3", "raised", divides_by_intensity),
    ("01.3", "tie", the_later_of_equals),
    ("01.3", "no_pair", the_name_alone),
    ("01.3", "sum", adds_the_latency),
]
