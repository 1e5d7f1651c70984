"""Wrong solutions of lesson 16, each with the hint that must refuse it."""

import math
from functools import partial
from statistics import mean, median, median_low


def _or_none(ratios, value):
    return None if min(ratios) <= 1 <= max(ratios) else value


def _ratios(baseline_s, contender_s):
    return [before / now for before, now in zip(baseline_s, contender_s, strict=True)]


def mean_ratio(baseline_s, contender_s):
    ratios = _ratios(baseline_s, contender_s)
    return _or_none(ratios, mean(ratios))


def totals(baseline_s, contender_s):
    return _or_none(_ratios(baseline_s, contender_s), sum(baseline_s) / sum(contender_s))


def two_medians(baseline_s, contender_s):
    return _or_none(_ratios(baseline_s, contender_s), median(baseline_s) / median(contender_s))


def upside_down(baseline_s, contender_s):
    ratios = _ratios(contender_s, baseline_s)
    return _or_none(ratios, median(ratios))


def always_a_number(baseline_s, contender_s):
    return median(_ratios(baseline_s, contender_s))


def never_admits_a_loss(baseline_s, contender_s):
    ratios = _ratios(baseline_s, contender_s)
    return None if min(ratios) <= 1 else median(ratios)


def lower_middle(baseline_s, contender_s):
    ratios = _ratios(baseline_s, contender_s)
    return _or_none(ratios, median_low(ratios))


def draws_are_wins(baseline_s, contender_s):
    ratios = _ratios(baseline_s, contender_s)
    return None if min(ratios) < 1 < max(ratios) else median(ratios)


def close_is_a_draw(baseline_s, contender_s):
    ratios = _ratios(baseline_s, contender_s)
    return median(ratios) if min(ratios) > 1.01 or max(ratios) < 0.99 else None


def _close(mine, right, gap=lambda loss: 0.001):
    return len(mine) == len(right) and all(abs(a - b) <= gap(b) for a, b in zip(mine, right, strict=True))


def _fair(losses, close=_close):
    right = losses[next(iter(losses))]
    return [name for name, mine in losses.items() if close(mine, right)]


def _fastest(names, seconds, others=None, faster=lambda a, b: a < b):
    for name in names:
        rest = [other for other in others or names if other != name]
        if all(faster(a, b) for other in rest for a, b in zip(seconds[name], seconds[other], strict=True)):
            return name
    return None


def smallest_median(seconds, losses):
    return min(_fair(losses), key=lambda name: median(seconds[name]))


def draws_win(seconds, losses):
    return _fastest(_fair(losses), seconds, faster=lambda a, b: a <= b)


def nobody_ever(seconds, losses):
    return None


def any_losses(seconds, losses):
    return _fastest(list(seconds), seconds)


def looks_for_distance(seconds, losses):
    def close(mine, right):
        return len(mine) == len(right) and not any(abs(a - b) > 0.001 for a, b in zip(mine, right, strict=True))

    return _fastest(_fair(losses, close), seconds)


def distance_of_all_steps(seconds, losses):
    return _fastest(_fair(losses, lambda m, r: len(m) == len(r) and math.dist(m, r) <= 0.001), seconds)


def twice_the_tolerance(seconds, losses):
    return _fastest(_fair(losses, partial(_close, gap=lambda loss: 0.002)), seconds)


def share_of_the_loss(seconds, losses):
    return _fastest(_fair(losses, partial(_close, gap=lambda loss: 0.001 * loss)), seconds)


def raises_for_another_length(seconds, losses):
    def close(mine, right):
        return all(abs(a - b) <= 0.001 for a, b in zip(mine, right, strict=True))

    return _fastest(_fair(losses, close), seconds)


def close_to_anybody(seconds, losses):
    fair = list(losses)[:1]
    for name in list(losses)[1:]:
        if name not in fair and any(_close(losses[name], losses[other]) for other in fair):
            fair.append(name)
    return _fastest(fair, seconds)


def against_everybody(seconds, losses):
    return _fastest(_fair(losses), seconds, others=list(seconds))


WRONG = [
    ("16.1", "mean_of_ratios", mean_ratio),
    ("16.1", "wrong", totals),
    ("16.1", "ratio_of_medians", two_medians),
    ("16.1", "upside_down", upside_down),
    ("16.1", "wrong", lower_middle),
    ("16.1", "draw_counts", draws_are_wins),
    ("16.1", "small_lead", close_is_a_draw),
    ("16.1", "within_the_spread", always_a_number),
    ("16.1", "hides_a_loss", never_admits_a_loss),
    ("16.2", "not_every_round", smallest_median),
    ("16.2", "draw_counts", draws_win),
    ("16.2", "wrong", nobody_ever),
    ("16.2", "wrong", any_losses),
    ("16.2", "nan_counts", looks_for_distance),
    ("16.2", "cheat_in_the_way", against_everybody),
    ("16.2", "too_strict", distance_of_all_steps),
    ("16.2", "too_loose", twice_the_tolerance),
    ("16.2", "relative_gap", share_of_the_loss),
    ("16.2", "wrong", close_to_anybody),
    ("16.2", "raised", raises_for_another_length),
]
