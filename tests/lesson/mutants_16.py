"""Wrong solutions of lesson 16, each with the hint that must refuse it."""

import math
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


def luckiest_rounds(baseline_s, contender_s):
    return _or_none(_ratios(baseline_s, contender_s), min(baseline_s) / min(contender_s))


def luckiest_ratio(baseline_s, contender_s):
    ratios = _ratios(baseline_s, contender_s)
    return _or_none(ratios, max(ratios))


def rates(baseline_s, contender_s):
    ratio = mean(1 / time for time in contender_s) / mean(1 / time for time in baseline_s)
    return _or_none(_ratios(baseline_s, contender_s), ratio)


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


def drops_the_extremes(baseline_s, contender_s):
    ratios = sorted(_ratios(baseline_s, contender_s))
    return _or_none(ratios, mean(ratios[1:-1] if len(ratios) > 5 else [median(ratios)]))


def draws_are_wins(baseline_s, contender_s):
    ratios = _ratios(baseline_s, contender_s)
    return None if min(ratios) < 1 < max(ratios) else median(ratios)


def close_is_a_draw(baseline_s, contender_s):
    ratios = _ratios(baseline_s, contender_s)
    return median(ratios) if min(ratios) > 1.01 or max(ratios) < 0.99 else None


def _close(mine, right):
    return len(mine) == len(right) and all(abs(a - b) <= 0.001 for a, b in zip(mine, right, strict=True))


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


def smallest_total(seconds, losses):
    return min(_fair(losses), key=lambda name: sum(seconds[name]))


def draws_win(seconds, losses):
    return _fastest(_fair(losses), seconds, faster=lambda a, b: a <= b)


def nobody_ever(seconds, losses):
    return None


def beats_the_baseline(seconds, losses):
    first = next(iter(seconds))
    for name in _fair(losses)[1:]:
        if all(a < b for a, b in zip(seconds[name], seconds[first], strict=True)):
            return name
    return first


def baseline_left_out(seconds, losses):
    return _fastest(_fair(losses)[1:], seconds) if len(seconds) > 1 else next(iter(seconds))


def alone_is_nobody(seconds, losses):
    return _fastest(_fair(losses), seconds) if len(seconds) > 1 else None


def any_losses(seconds, losses):
    return _fastest(list(seconds), seconds)


def last_loss(seconds, losses):
    return _fastest(_fair(losses, lambda mine, right: not abs(mine[-1] - right[-1]) > 0.001), seconds)


def without_abs(seconds, losses):
    close = lambda m, r: len(m) == len(r) and all(a - b <= 0.001 for a, b in zip(m, r, strict=True))  # noqa: E731
    return _fastest(_fair(losses, close), seconds)


def means_agree(seconds, losses):
    return _fastest(_fair(losses, lambda m, r: len(m) == len(r) and abs(mean(m) - mean(r)) <= 0.001), seconds)


def cut_to_the_shorter(seconds, losses):
    return _fastest(_fair(losses, lambda m, r: all(abs(a - b) <= 0.001 for a, b in zip(m, r, strict=False))), seconds)


def at_least_as_long(seconds, losses):
    close = lambda m, r: len(m) >= len(r) and all(abs(a - b) <= 0.001 for a, b in zip(m, r, strict=False))  # noqa: E731
    return _fastest(_fair(losses, close), seconds)


def looks_for_distance(seconds, losses):
    close = lambda m, r: len(m) == len(r) and not any(abs(a - b) > 0.001 for a, b in zip(m, r, strict=False))  # noqa: E731
    return _fastest(_fair(losses, close), seconds)


def largest_gap(seconds, losses):
    close = lambda m, r: len(m) == len(r) and not math.dist(m, r) > 0.001  # noqa: E731
    return _fastest(_fair(losses, close), seconds)


def distance_of_all_steps(seconds, losses):
    return _fastest(_fair(losses, lambda m, r: len(m) == len(r) and math.dist(m, r) <= 0.001), seconds)


def twice_the_tolerance(seconds, losses):
    close = lambda m, r: len(m) == len(r) and all(abs(a - b) <= 0.002 for a, b in zip(m, r, strict=True))  # noqa: E731
    return _fastest(_fair(losses, close), seconds)


def share_of_the_loss(seconds, losses):
    close = lambda m, r: len(m) == len(r) and all(abs(a - b) <= 0.001 * b for a, b in zip(m, r, strict=True))  # noqa: E731
    return _fastest(_fair(losses, close), seconds)


def mean_of_the_gaps(seconds, losses):
    close = lambda m, r: len(m) == len(r) and mean(abs(a - b) for a, b in zip(m, r, strict=True)) <= 0.001  # noqa: E731
    return _fastest(_fair(losses, close), seconds)


def close_to_anybody(seconds, losses):
    fair = list(losses)[:1]
    for name in list(losses)[1:]:
        if name not in fair and any(_close(losses[name], losses[other]) for other in fair):
            fair.append(name)
    return _fastest(fair, seconds)


def against_everybody(seconds, losses):
    return _fastest(_fair(losses), seconds, others=list(seconds))


def only_the_first_round(seconds, losses):
    return _fastest(_fair(losses), {name: times[:1] for name, times in seconds.items()})


WRONG = [
    ("16.1", "mean_of_ratios", mean_ratio),
    ("16.1", "ratio_of_totals", totals),
    ("16.1", "ratio_of_medians", two_medians),
    ("16.1", "best_of", luckiest_rounds),
    ("16.1", "best_ratio", luckiest_ratio),
    ("16.1", "mean_of_rates", rates),
    ("16.1", "upside_down", upside_down),
    ("16.1", "one_ratio_only", lower_middle),
    ("16.1", "wrong_median", drops_the_extremes),
    ("16.1", "draw_counts", draws_are_wins),
    ("16.1", "small_lead", close_is_a_draw),
    ("16.1", "within_the_spread", always_a_number),
    ("16.1", "hides_a_loss", never_admits_a_loss),
    ("16.2", "not_every_round", smallest_median),
    ("16.2", "not_every_round", smallest_total),
    ("16.2", "not_every_round", only_the_first_round),
    ("16.2", "draw_counts", draws_win),
    ("16.2", "no_name", nobody_ever),
    ("16.2", "first_that_wins", beats_the_baseline),
    ("16.2", "baseline_cannot_win", baseline_left_out),
    ("16.2", "alone", alone_is_nobody),
    ("16.2", "ignores_losses", any_losses),
    ("16.2", "last_loss_only", last_loss),
    ("16.2", "signed_gap", without_abs),
    ("16.2", "opposite_gaps", means_agree),
    ("16.2", "short_run", cut_to_the_shorter),
    ("16.2", "long_run", at_least_as_long),
    ("16.2", "nan_counts", looks_for_distance),
    ("16.2", "nan_counts", largest_gap),
    ("16.2", "cheat_in_the_way", against_everybody),
    ("16.2", "too_strict", distance_of_all_steps),
    ("16.2", "too_loose", twice_the_tolerance),
    ("16.2", "relative_gap", share_of_the_loss),
    ("16.2", "mean_of_the_gaps", mean_of_the_gaps),
    ("16.2", "another_than_the_baseline", close_to_anybody),
]
