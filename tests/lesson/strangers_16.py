"""Solutions of lesson 16 by somebody who read the lesson alone."""

# ruff: noqa: B006, B023, B905, C901, E501

import math
import statistics

import torch


# ---------------------------------------------------------------- 16.1
def sp_plain(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(baseline_s, contender_s)]
    if all(r > 1 for r in ratios) or all(r < 1 for r in ratios):
        return statistics.median(ratios)
    return None


def sp_count(baseline_s, contender_s):
    won = lost = 0
    ratios = []
    for k in range(len(baseline_s)):
        won += contender_s[k] < baseline_s[k]
        lost += contender_s[k] > baseline_s[k]
        ratios.append(baseline_s[k] / contender_s[k])
    if len(ratios) not in (won, lost):
        return None
    ratios.sort()
    half = len(ratios) // 2
    return ratios[half] if len(ratios) % 2 else (ratios[half - 1] + ratios[half]) / 2


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


def sp_of_medians(baseline_s, contender_s):
    won = [b > c for b, c in zip(baseline_s, contender_s)]
    lost = [b < c for b, c in zip(baseline_s, contender_s)]
    if all(won) or all(lost):
        return statistics.median(baseline_s) / statistics.median(contender_s)
    return None


def sp_upside_down(baseline_s, contender_s):
    ratios = [c / b for b, c in zip(baseline_s, contender_s)]
    if all(r > 1 for r in ratios) or all(r < 1 for r in ratios):
        return statistics.median(ratios)
    return None


def sp_inverse_median(baseline_s, contender_s):
    ratios = [c / b for b, c in zip(baseline_s, contender_s)]
    if all(r > 1 for r in ratios) or all(r < 1 for r in ratios):
        return 1 / statistics.median(ratios)
    return None


def sp_draw_counts(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(baseline_s, contender_s)]
    if all(r >= 1 for r in ratios) or all(r <= 1 for r in ratios):
        return statistics.median(ratios)
    return None


def sp_draw_counts_losing(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(baseline_s, contender_s)]
    if min(ratios) > 1 or not max(ratios) > 1:
        return statistics.median(ratios)
    return None


def sp_draws_skipped(baseline_s, contender_s):
    pairs = [(b, c) for b, c in zip(baseline_s, contender_s) if b != c]
    ratios = [b / c for b, c in pairs]
    if ratios and (all(r > 1 for r in ratios) or all(r < 1 for r in ratios)):
        return statistics.median(ratios)
    return None


def sp_upper_middle(baseline_s, contender_s):
    ratios = sorted(b / c for b, c in zip(baseline_s, contender_s))
    if ratios[0] > 1 or ratios[-1] < 1:
        return ratios[len(ratios) // 2]
    return None


def sp_torch_median(baseline_s, contender_s):
    ratios = torch.tensor(baseline_s, dtype=torch.float64) / torch.tensor(contender_s, dtype=torch.float64)
    if (ratios > 1).all() or (ratios < 1).all():
        return ratios.median().item()
    return None


def sp_mean(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(baseline_s, contender_s)]
    if all(r > 1 for r in ratios) or all(r < 1 for r in ratios):
        return statistics.mean(ratios)
    return None


def sp_geometric(baseline_s, contender_s):
    ratios = [math.log(b / c) for b, c in zip(baseline_s, contender_s)]
    if all(r > 0 for r in ratios) or all(r < 0 for r in ratios):
        return math.exp(statistics.median(ratios))
    return None


def sp_only_wins(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(baseline_s, contender_s)]
    return statistics.median(ratios) if all(r > 1 for r in ratios) else None


def sp_sorted_rounds(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(sorted(baseline_s), sorted(contender_s))]
    if all(r > 1 for r in ratios) or all(r < 1 for r in ratios):
        return statistics.median(ratios)
    return None


def sp_close_is_draw(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(baseline_s, contender_s)]
    if all(r > 1.01 for r in ratios) or all(r < 0.99 for r in ratios):
        return statistics.median(ratios)
    return None


def sp_rounded(baseline_s, contender_s):
    ratios = [round(b / c, 2) for b, c in zip(baseline_s, contender_s)]
    if all(r > 1 for r in ratios) or all(r < 1 for r in ratios):
        return statistics.median(ratios)
    return None


def sp_two_rounds(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(baseline_s, contender_s)]
    if len(ratios) < 2:
        return None
    if all(r > 1 for r in ratios) or all(r < 1 for r in ratios):
        return statistics.median(ratios)
    return None


def sp_median_decides(baseline_s, contender_s):
    middle = statistics.median([b / c for b, c in zip(baseline_s, contender_s)])
    return None if middle == 1 else middle


def sp_warm_up_dropped(baseline_s, contender_s):
    ratios = [b / c for b, c in zip(baseline_s, contender_s)][1:] or [baseline_s[0] / contender_s[0]]
    if all(r > 1 for r in ratios) or all(r < 1 for r in ratios):
        return statistics.median(ratios)
    return None


# ---------------------------------------------------------------- 16.2
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


def _win(names, seconds):
    for n in names:
        if all(_beats(seconds[n], seconds[o]) for o in names if o != n):
            return n
    return None


def w_distance(seconds, losses):
    base = losses[next(iter(seconds))]
    out = {
        n for n in seconds if len(losses[n]) != len(base) or any(abs(a - b) > 0.001 for a, b in zip(losses[n], base))
    }
    return _win([n for n in seconds if n not in out], seconds)


def w_max_gap(seconds, losses):
    # max() with a nan depends on where the nan stands
    base = losses[next(iter(seconds))]
    names = [
        n
        for n in seconds
        if len(losses[n]) == len(base) and max([abs(a - b) for a, b in zip(losses[n], base)], default=0.0) <= 0.001
    ]
    return _win(names, seconds)


def w_short_counts(seconds, losses):
    base = losses[next(iter(seconds))]
    return _win([n for n in seconds if all(abs(a - b) <= 0.001 for a, b in zip(losses[n], base))], seconds)


def w_at_least_as_many(seconds, losses):
    base = losses[next(iter(seconds))]
    return _win(
        [
            n
            for n in seconds
            if len(losses[n]) >= len(base) and all(abs(a - b) <= 0.001 for a, b in zip(losses[n], base))
        ],
        seconds,
    )


def w_strict_zip(seconds, losses):
    base = losses[next(iter(seconds))]
    return _win([n for n in seconds if all(abs(a - b) <= 0.001 for a, b in zip(losses[n], base, strict=True))], seconds)


def w_in_the_way(seconds, losses):
    base = losses[next(iter(seconds))]
    names = [
        n for n in seconds if len(losses[n]) == len(base) and all(abs(a - b) <= 0.001 for a, b in zip(losses[n], base))
    ]
    best = _win(list(seconds), seconds)
    return best if best in names else None


def w_signed(seconds, losses):
    base = losses[next(iter(seconds))]
    return _win(
        [n for n in seconds if len(losses[n]) == len(base) and all(a - b <= 0.001 for a, b in zip(losses[n], base))],
        seconds,
    )


def _fair(seconds, losses):
    base = losses[next(iter(seconds))]
    return [
        n for n in seconds if len(losses[n]) == len(base) and all(abs(a - b) <= 0.001 for a, b in zip(losses[n], base))
    ]


def w_draw_wins(seconds, losses):
    names = _fair(seconds, losses)
    for n in names:
        if all(all(x <= y for x, y in zip(seconds[n], seconds[o])) for o in names if o != n):
            return n
    return None


def w_min_first(seconds, losses):
    names = _fair(seconds, losses)
    rounds = len(seconds[names[0]]) if names else 0
    best = {min(names, key=lambda n: seconds[n][k]) for k in range(rounds)}
    return best.pop() if len(best) == 1 else None


def w_beats_baseline(seconds, losses):
    names = _fair(seconds, losses)
    if not names:
        return None
    base, *others = names
    ahead = [n for n in others if _beats(seconds[n], seconds[base])]
    if ahead:
        return min(ahead, key=lambda n: statistics.median(seconds[n]))
    return base if all(_beats(seconds[base], seconds[o]) for o in others) else None


def w_all_against_all(seconds, losses):
    # slowest round of the winner before the fastest of the others: the board's rule
    names = _fair(seconds, losses)
    for n in names:
        if all(max(seconds[n]) < min(seconds[o]) for o in names if o != n):
            return n
    return None


def w_last_loss(seconds, losses):
    base = losses[next(iter(seconds))]
    return _win([n for n in seconds if len(losses[n]) == len(base) and abs(losses[n][-1] - base[-1]) <= 0.001], seconds)


def w_mean_gap(seconds, losses):
    base = losses[next(iter(seconds))]
    return _win(
        [
            n
            for n in seconds
            if len(losses[n]) == len(base) and statistics.mean(abs(a - b) for a, b in zip(losses[n], base)) <= 0.001
        ],
        seconds,
    )


def w_relative(seconds, losses):
    base = losses[next(iter(seconds))]
    return _win(
        [
            n
            for n in seconds
            if len(losses[n]) == len(base) and all(math.isclose(a, b, rel_tol=0.001) for a, b in zip(losses[n], base))
        ],
        seconds,
    )


def w_baseline_never(seconds, losses):
    base, *others = _fair(seconds, losses)
    for n in others:
        if all(_beats(seconds[n], seconds[o]) for o in [base, *others] if o != n):
            return n
    return None


def w_alone_is_none(seconds, losses):
    names = _fair(seconds, losses)
    return _win(names, seconds) if len(names) > 1 else None


def w_previous_counts(seconds, losses):
    # compares each with the one before it, not with the baseline
    names = list(seconds)
    fair = names[:1]
    for n in names[1:]:
        a, b = losses[n], losses[fair[-1]]
        if len(a) == len(b) and all(abs(x - y) <= 0.001 for x, y in zip(a, b)):
            fair.append(n)
    return _win(fair, seconds)


def w_most_rounds(seconds, losses):
    names = _fair(seconds, losses)
    wins = dict.fromkeys(names, 0)
    for k in range(len(seconds[names[0]]) if names else 0):
        wins[min(names, key=lambda n: seconds[n][k])] += 1
    best = max(wins, key=wins.get, default=None)
    return best


def _fair_by(seconds, losses, near):
    base = losses[next(iter(seconds))]
    return [n for n in seconds if len(losses[n]) == len(base) and all(near(a, b) for a, b in zip(losses[n], base))]


def w_tolerance_twice(seconds, losses):
    return _win(_fair_by(seconds, losses, lambda a, b: abs(a - b) <= 0.002), seconds)


def w_tolerance_ten(seconds, losses):
    return _win(_fair_by(seconds, losses, lambda a, b: abs(a - b) <= 0.01), seconds)


def w_tolerance_half(seconds, losses):
    return _win(_fair_by(seconds, losses, lambda a, b: abs(a - b) <= 0.0005), seconds)


def w_equal_losses(seconds, losses):
    return _win(_fair_by(seconds, losses, lambda a, b: a == b), seconds)


def w_three_places(seconds, losses):
    return _win(_fair_by(seconds, losses, lambda a, b: round(a, 3) == round(b, 3)), seconds)


def w_signed_other(seconds, losses):
    return _win(_fair_by(seconds, losses, lambda a, b: b - a <= 0.001), seconds)


def w_sum_of_losses(seconds, losses):
    base = losses[next(iter(seconds))]
    return _win(
        [n for n in seconds if len(losses[n]) == len(base) and abs(sum(losses[n]) - sum(base)) <= 0.001], seconds
    )


def speedup_milliseconds(baseline_s, contender_s):
    rounds = [(b, c) for b, c in zip(baseline_s, contender_s)]
    if any(round(b, 3) == round(c, 3) for b, c in rounds):
        return None
    ratios = [b / c for b, c in rounds]
    if min(ratios) > 1 or max(ratios) < 1:
        return statistics.median(ratios)
    return None


def winner_isclose(seconds, losses):
    baseline = losses[next(iter(losses))]
    counting = [
        name
        for name, own in losses.items()
        if len(own) == len(baseline) and all(math.isclose(a, b, abs_tol=0.001) for a, b in zip(own, baseline))
    ]
    for name in counting:
        others = [other for other in counting if other != name]
        if all(a < b for other in others for a, b in zip(seconds[name], seconds[other])):
            return name
    return None


RIGHT = [
    ("16.1", sp_plain),
    ("16.1", sp_count),
    ("16.1", sp_torch),
    ("16.1", sp_signs),
    ("16.2", w_plain),
    ("16.2", w_rounds),
    ("16.2", w_torch),
]
WRONG = [
    ("16.1", sp_of_medians, "median over median"),
    ("16.1", sp_upside_down, "contender over baseline"),
    ("16.1", sp_inverse_median, "inverse of median of inverses"),
    ("16.1", sp_draw_counts, "a draw counts as won"),
    ("16.1", sp_draw_counts_losing, "draw among lost rounds passes"),
    ("16.1", sp_draws_skipped, "draws are left out"),
    ("16.1", sp_upper_middle, "upper middle for even rounds"),
    ("16.1", sp_torch_median, "lower middle for even rounds"),
    ("16.1", sp_mean, "mean, not median"),
    ("16.1", sp_geometric, "geometric middle for even rounds"),
    ("16.1", sp_only_wins, "None for a sure loser"),
    ("16.1", sp_sorted_rounds, "rounds sorted before pairing"),
    ("16.1", sp_close_is_draw, "one percent is a draw"),
    ("16.1", sp_rounded, "ratios rounded to two places"),
    ("16.1", sp_two_rounds, "None for a single round"),
    ("16.1", sp_median_decides, "median decides who won"),
    ("16.1", sp_warm_up_dropped, "first round dropped as warm-up"),
    ("16.2", w_distance, "nan counts"),
    ("16.2", w_max_gap, "nan hides in max"),
    ("16.2", w_short_counts, "fewer losses count"),
    ("16.2", w_at_least_as_many, "more losses count"),
    ("16.2", w_strict_zip, "raises for other length"),
    ("16.2", w_in_the_way, "uncounted stands in the way"),
    ("16.2", w_signed, "lower losses count"),
    ("16.2", w_draw_wins, "draw is a win"),
    ("16.2", w_min_first, "draw goes to first name"),
    ("16.2", w_beats_baseline, "compared with baseline alone"),
    ("16.2", w_all_against_all, "slowest against fastest round"),
    ("16.2", w_last_loss, "last loss only"),
    ("16.2", w_mean_gap, "mean gap of the losses"),
    ("16.2", w_relative, "relative tolerance"),
    ("16.2", w_baseline_never, "baseline never wins"),
    ("16.2", w_alone_is_none, "None if baseline alone counts"),
    ("16.2", w_previous_counts, "losses against the one before"),
    ("16.2", w_most_rounds, "most rounds win"),
    ("16.2", w_tolerance_twice, "tolerance of 0.002"),
    ("16.2", w_tolerance_ten, "tolerance of 0.01"),
    ("16.2", w_tolerance_half, "tolerance of 0.0005"),
    ("16.2", w_equal_losses, "losses must be equal"),
    ("16.2", w_three_places, "losses rounded, then compared"),
    ("16.2", w_signed_other, "higher losses count"),
    ("16.2", w_sum_of_losses, "sums of losses compared"),
    ("16.1", speedup_milliseconds, "times equal to a millisecond count as draw"),
    ("16.2", winner_isclose, "isclose keeps its relative tolerance for large losses"),
]
