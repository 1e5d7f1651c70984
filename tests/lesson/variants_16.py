"""Right solutions of lesson 16 that look different."""

import math
import operator
import statistics
from functools import partial

import torch


def median_ratio(baseline_s, contender_s):
    ratios = [before / now for before, now in zip(baseline_s, contender_s, strict=True)]
    return None if min(ratios) <= 1 <= max(ratios) else statistics.median(ratios)


def counts_the_wins(baseline_s, contender_s):
    wins = sum(now < before for before, now in zip(baseline_s, contender_s, strict=True))
    losses = sum(now > before for before, now in zip(baseline_s, contender_s, strict=True))
    if len(baseline_s) not in (wins, losses):
        return None
    ratios = sorted(before / now for before, now in zip(baseline_s, contender_s, strict=True))
    middle = len(ratios) // 2
    return ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2


def in_torch(baseline_s, contender_s):
    ratios = torch.tensor(baseline_s, dtype=torch.float64) / torch.tensor(contender_s, dtype=torch.float64)
    if ratios.min() <= 1 <= ratios.max():
        return None
    return ratios.quantile(0.5).item()


def asks_each_pair(seconds, losses):
    def is_fair(mine, right):
        return len(mine) == len(right) and all(map(partial(math.isclose, rel_tol=0, abs_tol=0.001), mine, right))

    fair = [name for name, mine in losses.items() if is_fair(mine, next(iter(losses.values())))]
    for name in fair:
        rivals = [seconds[other] for other in fair if other != name]
        if all(all(map(operator.lt, seconds[name], rival)) for rival in rivals):
            return name
    return None


def counts_the_rounds(seconds, losses):
    """Who won each round, and is it always the same?"""
    first = next(iter(seconds))
    fair = [name for name in seconds if len(losses[name]) == len(losses[first])]
    fair = [name for name in fair if not any(map(math.isnan, losses[name]))]
    fair = [name for name in fair if max(map(abs, map(operator.sub, losses[name], losses[first]))) <= 0.001]
    winners = set()
    for round_number in range(len(seconds[first])):
        times = {name: seconds[name][round_number] for name in fair}
        best = min(times.values())
        winners.add(tuple(name for name in fair if times[name] == best))
    (who,) = winners if len(winners) == 1 else [()]
    return who[0] if len(who) == 1 else None


def as_a_tensor(seconds, losses):
    names = list(seconds)
    right = torch.tensor(losses[names[0]], dtype=torch.float64)
    fair = [
        n
        for n in names
        if len(losses[n]) == len(right) and torch.allclose(torch.tensor(losses[n], dtype=right.dtype), right, 0, 1e-3)
    ]
    table = torch.tensor([seconds[name] for name in fair])
    for row, name in enumerate(fair):
        others = torch.cat([table[:row], table[row + 1 :]])
        if (table[row] < others).all():
            return name


# By somebody who read the lesson alone.


# 16.1
def sp_plain(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(baseline_s, contender_s)]
    if all(r > 1 for r in ratios) or all(r < 1 for r in ratios):
        return statistics.median(ratios)
    return None


def sp_torch(baseline_s, contender_s):
    b = torch.tensor(baseline_s, dtype=torch.float64)
    c = torch.tensor(contender_s, dtype=torch.float64)
    if bool((b > c).all()) or bool((b < c).all()):
        return torch.quantile(b / c, 0.5).item()


def sp_signs(baseline_s, contender_s):
    signs = {(b > c) - (b < c) for b, c in zip(baseline_s, contender_s)}
    if len(signs) > 1 or 0 in signs:
        return None
    return statistics.median(map(lambda b, c: b / c, baseline_s, contender_s))


# 16.2
def _beats(a, b):
    return all(x < y for x, y in zip(a, b))


def w_plain(seconds, losses):
    names = list(seconds)
    base = losses[names[0]]
    counts = [
        n for n in names if len(losses[n]) == len(base) and all(abs(a - b) <= 0.001 for a, b in zip(losses[n], base))
    ]
    for n in counts:
        if all(_beats(seconds[n], seconds[o]) for o in counts if o != n):
            return n
    return None


def w_rounds(seconds, losses):
    baseline = next(iter(losses))
    good = []
    for name, own in losses.items():
        if len(own) != len(losses[baseline]):
            continue
        for mine, theirs in zip(own, losses[baseline]):
            if not math.isclose(mine, theirs, rel_tol=0, abs_tol=0.001):
                break
        else:
            good.append(name)
    winners = set()
    for times in zip(*(seconds[name] for name in good)):
        best = min(times)
        if times.count(best) != 1:
            return None
        winners.add(good[times.index(best)])
    return winners.pop() if len(winners) == 1 else None


def w_torch(seconds, losses):
    first, *others = seconds
    reference = torch.tensor(losses[first], dtype=torch.float64)
    fair = {}
    for name in seconds:
        own = torch.tensor(losses[name], dtype=torch.float64)
        if own.shape == reference.shape and bool(((own - reference).abs() <= 0.001).all()):
            fair[name] = torch.tensor(seconds[name], dtype=torch.float64)
    for name, time in fair.items():
        if all(bool((time < other).all()) for key, other in fair.items() if key != name):
            return name


RIGHT = {
    "16.1": [median_ratio, counts_the_wins, in_torch, sp_plain, sp_torch, sp_signs],
    "16.2": [asks_each_pair, counts_the_rounds, as_a_tensor, w_plain, w_rounds, w_torch],
}
