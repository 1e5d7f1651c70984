"""Wrong solutions of lesson 16, each with the hint that must refuse it."""

from statistics import mean, median


def mean_of_the_rates(tokens, seconds):
    return mean(count / time for count, time in zip(tokens, seconds, strict=True))


def median_of_the_rates(tokens, seconds):
    return median(count / time for count, time in zip(tokens, seconds, strict=True))


def last_batch(tokens, seconds):
    return tokens[-1] / seconds[-1]


def seconds_per_token(tokens, seconds):
    return sum(seconds) / sum(tokens)


def tokens_per_millisecond(tokens, seconds):
    return sum(tokens) / sum(seconds) / 1000


def forgets_the_slowest(tokens, seconds):
    kept = sorted(zip(seconds, tokens, strict=True))[:-1] or [(seconds[0], tokens[0])]
    return sum(count for _, count in kept) / sum(time for time, _ in kept)


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


WRONG = [
    ("16.1", "mean_of_rates", mean_of_the_rates),
    ("16.1", "median_of_rates", median_of_the_rates),
    ("16.1", "one_batch_only", last_batch),
    ("16.1", "wrong_unit", seconds_per_token),
    ("16.1", "wrong_unit", tokens_per_millisecond),
    ("16.1", "wrong_rate", forgets_the_slowest),
    ("16.2", "mean_of_ratios", mean_ratio),
    ("16.2", "ratio_of_totals", totals),
    ("16.2", "ratio_of_medians", two_medians),
    ("16.2", "best_of", luckiest_rounds),
    ("16.2", "best_ratio", luckiest_ratio),
    ("16.2", "mean_of_rates", rates),
    ("16.2", "upside_down", upside_down),
    ("16.2", "within_the_spread", always_a_number),
    ("16.2", "hides_a_loss", never_admits_a_loss),
]
