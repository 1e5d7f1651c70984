"""Right solutions of lesson 16 that look different."""

import statistics

import torch


def total_over_total(tokens, seconds):
    return sum(tokens) / sum(seconds)


def counts_in_a_loop(tokens, seconds):
    count = time = 0.0
    for more, longer in zip(tokens, seconds, strict=True):
        count, time = count + more, time + longer
    return count / time


def weighs_the_rates_by_time(tokens, seconds):
    rates = [count / time for count, time in zip(tokens, seconds, strict=True)]
    return sum(rate * time for rate, time in zip(rates, seconds, strict=True)) / sum(seconds)


def harmonic(tokens, seconds):
    rates = [count / time for count, time in zip(tokens, seconds, strict=True)]
    return statistics.harmonic_mean(rates, weights=tokens)


def median_ratio(baseline_s, contender_s):
    ratios = [before / now for before, now in zip(baseline_s, contender_s, strict=True)]
    return None if min(ratios) <= 1 <= max(ratios) else statistics.median(ratios)


def counts_the_wins(baseline_s, contender_s):
    wins = sum(now < before for before, now in zip(baseline_s, contender_s, strict=True))
    if 0 < wins < len(baseline_s):
        return None
    ratios = sorted(before / now for before, now in zip(baseline_s, contender_s, strict=True))
    middle = len(ratios) // 2
    return ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2


def in_torch(baseline_s, contender_s):
    ratios = torch.tensor(baseline_s, dtype=torch.float64) / torch.tensor(contender_s, dtype=torch.float64)
    if ratios.min() < 1 < ratios.max():
        return None
    return ratios.quantile(0.5).item()


RIGHT = [
    ("16.1", total_over_total),
    ("16.1", counts_in_a_loop),
    ("16.1", weighs_the_rates_by_time),
    ("16.1", harmonic),
    ("16.2", median_ratio),
    ("16.2", counts_the_wins),
    ("16.2", in_torch),
]
