"""Wrong solutions of lesson 01, each with the hint that must refuse it."""

import statistics
import time
from time import process_time

from tests.lesson import strangers_01 as strangers


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


def harmonic_mean_of_rates(tokens, seconds):
    return len(tokens) / sum(took / count for count, took in zip(tokens, seconds, strict=True))


def seconds_per_token(tokens, seconds):
    return sum(seconds) / sum(tokens)


def divided_twice(tokens, seconds):
    return sum(tokens) / sum(seconds) / len(tokens)


def whole_tokens(tokens, seconds):
    return sum(tokens) // sum(seconds)


def drops_the_first(tokens, seconds):
    return sum(tokens[1:]) / sum(seconds[1:])


def mean_over_mean_of_other(tokens, seconds):
    return sum(tokens) / max(seconds)


def cuts_the_longer_list(tokens, seconds):
    pairs = list(zip(tokens, seconds, strict=False))
    if not sum(took for _, took in pairs):
        raise ValueError("no time")
    return sum(count for count, _ in pairs) / sum(took for _, took in pairs)


def divides_by_no_time(tokens, seconds):
    if len(tokens) != len(seconds):
        raise ValueError("these do not fit")
    return sum(tokens) / sum(seconds)


def says_it_in_words(tokens, seconds):
    return f"{sum(tokens) / sum(seconds)} tokens/s"


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


def drops_the_last(fn, synchronize, warmup=1, repeats=5, clock=None):
    times = _rounds(fn, synchronize, warmup, repeats, clock)
    return _summary(times[:repeats])


def reports_the_mean(fn, synchronize, warmup=1, repeats=5, clock=None):
    times = _rounds(fn, synchronize, warmup, repeats, clock)[warmup:]
    return statistics.mean(times), min(times), max(times)


def upper_median(fn, synchronize, warmup=1, repeats=5, clock=None):
    times = sorted(_rounds(fn, synchronize, warmup, repeats, clock)[warmup:])
    return times[len(times) // 2], times[0], times[-1]


def lowest_first(fn, synchronize, warmup=1, repeats=5, clock=None):
    times = _rounds(fn, synchronize, warmup, repeats, clock)[warmup:]
    return min(times), statistics.median(times), max(times)


def quartiles_for_ends(fn, synchronize, warmup=1, repeats=5, clock=None):
    times = _rounds(fn, synchronize, warmup, repeats, clock)[warmup:]
    low, middle, high = statistics.quantiles(times * 2, n=4)
    return middle, low, high


def median_alone(fn, synchronize, warmup=1, repeats=5, clock=None):
    return statistics.median(_rounds(fn, synchronize, warmup, repeats, clock)[warmup:])


def never_waits(fn, synchronize, warmup=1, repeats=5, clock=None):
    return _summary(_rounds(fn, lambda: None, warmup, repeats, clock)[warmup:])


def waits_after_the_clock(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1 or warmup < 0:
        raise ValueError("nothing to measure")
    clock, times = clock or time.perf_counter, []
    for _ in range(warmup + repeats):
        start = clock()
        fn()
        times.append(clock() - start)
        synchronize()
    return _summary(times[warmup:])


def waits_at_the_end_only(fn, synchronize, warmup=1, repeats=5, clock=None):
    if repeats < 1 or warmup < 0:
        raise ValueError("nothing to measure")
    clock, times = clock or time.perf_counter, []
    for number in range(warmup + repeats):
        start = clock()
        fn()
        if number == warmup + repeats - 1:
            synchronize()
        times.append(clock() - start)
    return _summary(times[warmup:])


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


def clock_of_the_cpu(fn, synchronize, warmup=1, repeats=5, clock=process_time):
    return _summary(_rounds(fn, synchronize, warmup, repeats, clock)[warmup:])


def clock_in_nanoseconds(fn, synchronize, warmup=1, repeats=5, clock=time.perf_counter_ns):
    return _summary(_rounds(fn, synchronize, warmup, repeats, clock)[warmup:])


def measures_nothing(fn, synchronize, warmup=1, repeats=5, clock=None):
    return _summary(_rounds(fn, synchronize, max(warmup, 0), max(repeats, 1), clock)[max(warmup, 0) :])


def refuses_too_late(fn, synchronize, warmup=1, repeats=5, clock=None):
    times = _rounds(fn, synchronize, max(warmup, 0), max(repeats, 1), clock)[max(warmup, 0) :]
    if repeats < 1 or warmup < 0:
        raise ValueError("nothing to measure")
    return _summary(times)


def _bound(flops, num_bytes, machine, num_messages=0, *, names=("compute", "memory", "latency"), pick=max):
    least = (flops / machine.flops_per_s, num_bytes / machine.bytes_per_s, num_messages * machine.latency_s)
    longest = pick(least)
    return names[least.index(longest)], longest


def compares_flops_with_bytes(flops, num_bytes, machine, num_messages=0):
    name, seconds = _bound(flops, num_bytes, machine, num_messages)
    if name == "latency":
        return name, seconds
    return ("compute", seconds) if flops >= num_bytes else ("memory", seconds)


def the_quickest_limit(flops, num_bytes, machine, num_messages=0):
    return _bound(flops, num_bytes, machine, num_messages, pick=min)


def the_ridge_upside_down(flops, num_bytes, machine, num_messages=0):
    name, seconds = _bound(flops, num_bytes, machine, num_messages)
    turned = {"compute": "memory", "memory": "compute", "latency": "latency"}
    return turned[name], seconds


def forgets_messages(flops, num_bytes, machine, num_messages=0):
    return _bound(flops, num_bytes, machine, 0)


def one_latency_for_all(flops, num_bytes, machine, num_messages=0):
    return _bound(flops, num_bytes, machine, min(num_messages, 1))


def adds_the_times(flops, num_bytes, machine, num_messages=0):
    name, _ = _bound(flops, num_bytes, machine, num_messages)
    total = flops / machine.flops_per_s + num_bytes / machine.bytes_per_s + num_messages * machine.latency_s
    return name, total


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


def another_word(flops, num_bytes, machine, num_messages=0):
    return _bound(flops, num_bytes, machine, num_messages, names=("flops", "bandwidth", "latency"))


def gives_work_for_time(flops, num_bytes, machine, num_messages=0):
    name, _ = _bound(flops, num_bytes, machine, num_messages)
    return name, {"compute": flops, "memory": num_bytes, "latency": num_messages}[name]


WRONG = [
    ("01.1", "divides_each", weighted_mean_of_rates),
    ("01.1", "mean_of_rates", mean_of_rates),
    ("01.1", "median_of_rates", median_of_rates),
    ("01.1", "harmonic", harmonic_mean_of_rates),
    ("01.1", "inverse", seconds_per_token),
    ("01.1", "per_batch", divided_twice),
    ("01.1", "whole_numbers", whole_tokens),
    ("01.1", "first_dropped", drops_the_first),
    ("01.1", "not_total", mean_over_mean_of_other),
    ("01.1", "accepts_nonsense", cuts_the_longer_list),
    ("01.1", "divides_by_zero", divides_by_no_time),
    ("01.1", "no_number", says_it_in_words),
    ("01.2", "warmup_counted", counts_the_warmup),
    ("01.2", "calls", never_warms_up),
    ("01.2", "warmup_counted", drops_the_last),
    ("01.2", "mean", reports_the_mean),
    ("01.2", "even_median", upper_median),
    ("01.2", "order", lowest_first),
    ("01.2", "not_spread", quartiles_for_ends),
    ("01.2", "no_triple", median_alone),
    ("01.2", "no_sync", never_waits),
    ("01.2", "no_sync", waits_after_the_clock),
    ("01.2", "late_sync", waits_at_the_end_only),
    ("01.2", "leftovers", starts_with_a_full_queue),
    ("01.2", "wall_clock", clock_of_the_wall),
    ("01.2", "cpu_clock", clock_of_the_cpu),
    ("01.2", "unit", clock_in_nanoseconds),
    ("01.2", "accepts_nothing", measures_nothing),
    ("01.2", "late_refusal", refuses_too_late),
    ("01.3", "limit", compares_flops_with_bytes),
    ("01.3", "limit", the_quickest_limit),
    ("01.3", "limit", the_ridge_upside_down),
    ("01.3", "messages", forgets_messages),
    ("01.3", "seconds", one_latency_for_all),
    ("01.3", "sum", adds_the_times),
    ("01.3", "divides_by_work", divides_by_intensity),
    ("01.3", "tie", the_later_of_equals),
    ("01.3", "no_pair", the_name_alone),
    ("01.3", "unknown_limit", another_word),
    ("01.3", "seconds", gives_work_for_time),
    ("01.1", "refuses_sense", strangers.w1_refuse_any_zero_second),
    ("01.1", "edges", strangers.w1_skip_zero_seconds),
    ("01.2", "refuses_sense", strangers.w2_zero_warmup_refused),
    ("01.2", "warmup_counted", strangers.wx_sort_then_cut),
    ("01.3", "sum", strangers.w3_latency_added),
    ("01.3", "rounded", strangers.w3_isclose),
]
