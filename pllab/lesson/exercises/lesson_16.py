"""The exercises of lesson 16: a ratio that can be defended, and a winner that has to win."""

import random
from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import Any

from pllab.lesson.exercise import Exercise, Wrong, case
from pllab.lesson.exercises import lesson_16_winner as fair
from pllab.lesson.exercises.lesson_16_winner import exactly, listed

Rate = Callable[[list[float], list[float]], Any]

# Seconds per round, alternating; the machine slows down from round to round, and once it was disturbed.
_BASELINE = [1.1, 1.2, 1.5, 2.0, 2.6]
_CONTENDER = [0.5, 0.8, 0.5, 1.6, 1.3]
_NOISY = ([1.0, 1.3, 0.9, 1.1, 1.0], [0.95, 1.35, 0.85, 1.15, 0.9])
_NARROW = ([1.004, 1.003], [1.0, 1.0])
_SHORT = ([0.0004, 0.0003], [0.0002, 0.0002])
_TINY = ([1.0000000001, 1.0000000003], [1.0, 1.0])
_DRAWN = ([1.5, 1.2, 1.1, 1.8], [1.0, 1.2, 1.0, 1.0])


@case("twice as fast in every round is 2")
def steady(speedup: Rate) -> None:
    got = speedup([2.0] * 5, [1.0] * 5)
    if _is_close(got, 0.5):
        raise Wrong(
            "upside_down", "2 s before and 1 s now is a speed-up of 2, not 0.5: the baseline's time comes first."
        )
    if not _is_close(got, 2.0):
        raise Wrong("wrong_ratio", f"2 s before and 1 s now is a speed-up of 2, and your function says {got!r}.")


@case("on a machine that slows down: the median of the per-round ratios")
def drifting(speedup: Rate) -> None:
    """The machine slows down; only rounds that lie next to each other can be compared."""
    got = speedup(list(_BASELINE), list(_CONTENDER))
    ratios = _ratios(_BASELINE, _CONTENDER)
    if _is_close(got, median(ratios)):
        return
    known = {
        "mean_of_ratios": (mean(ratios), "the mean of the ratios, and one disturbed round pulls it up"),
        "ratio_of_totals": (sum(_BASELINE) / sum(_CONTENDER), "total over total, and the slow rounds decide alone"),
        "ratio_of_medians": (median(_BASELINE) / median(_CONTENDER), "two medians from different rounds"),
        "best_of": (min(_BASELINE) / min(_CONTENDER), "each side's luckiest round"),
        "best_ratio": (max(ratios), "the luckiest round"),
        "mean_of_rates": (
            mean(1 / time for time in _CONTENDER) / mean(1 / time for time in _BASELINE),
            "a mean of rates, and the fastest rounds count most",
        ),
    }
    for hint_id, (value, what) in known.items():
        if _is_close(got, value):
            raise Wrong(hint_id, f"{got:.3g} is {what}; the median of the per-round ratios is {median(ratios):.3g}.")
    raise Wrong(
        "wrong_ratio", f"The per-round ratios are {listed(ratios)}; their median is {median(ratios):.3g}, not {got!r}."
    )


@case("any number of rounds, even or odd")
def rounds_by_chance(speedup: Rate) -> None:
    """Drawn under a fixed seed; the contender wins all rounds or loses all of them."""
    chance = random.Random(16)
    for count in (1, 2, 4, 3, 8, 9):
        baseline = [chance.uniform(1.0, 4.0) for _ in range(count)]
        wins = chance.random() < 0.5
        contender = [time * (chance.uniform(0.3, 0.9) if wins else chance.uniform(1.1, 3.0)) for time in baseline]
        ratios = _ratios(baseline, contender)
        got = speedup(list(baseline), list(contender))
        if _is_close(got, median(ratios)):
            continue
        if got is None and not wins:
            raise Wrong("hides_a_loss", "The contender lost every round: that is a result as well, below 1.")
        rounds = f"{count} round{'s' if count > 1 else ''} with the ratio{'s' if count > 1 else ''}"
        told = f"Of {rounds} {exactly(ratios)} the median is {median(ratios):.7g}, not {got!r}."
        if any(_is_close(got, ratio) for ratio in ratios):
            raise Wrong("one_ratio_only", f"{told} Of an even number of values it lies between the two in the middle.")
        raise Wrong("wrong_median", told)


@case("each side wins some rounds: None")
def within_the_spread(speedup: Rate) -> None:
    ratios = _ratios(*_NOISY)
    for baseline, contender in (_NOISY, _NOISY[::-1]):
        got = speedup(list(baseline), list(contender))
        if got is not None:
            raise Wrong(
                "within_the_spread",
                f"The per-round ratios are {listed(ratios)}: each side won some rounds, so return None, not {got!r}.",
            )


@case("a draw was won by nobody: None; a small lead is no draw")
def drawn_round(speedup: Rate) -> None:
    for baseline, contender in (_DRAWN, _DRAWN[::-1], ([2.0], [2.0])):
        got = speedup(list(baseline), list(contender))
        if got is not None:
            raise Wrong(
                "draw_counts",
                f"Baseline {listed(baseline)} s and contender {listed(contender)} s: one round is a draw, so neither "
                f"side won all of them; return None, not {got!r}.",
            )
    for baseline, contender in (_NARROW, _NARROW[::-1], _SHORT, _SHORT[::-1], _TINY, _TINY[::-1]):
        got, right = speedup(list(baseline), list(contender)), median(_ratios(baseline, contender))
        if not _is_close(got, right):
            raise Wrong(
                "small_lead",
                f"Baseline {exactly(baseline)} s and contender {exactly(contender)} s: one side was faster in both "
                f"rounds, by little, and only equal times are a draw; return {right:.7g}, not {got!r}.",
            )


@case("a contender that always loses gets its number below 1")
def slower_is_a_result(speedup: Rate) -> None:
    got = speedup([1.0, 1.1, 1.0], [2.0, 2.2, 2.5])
    if got is None:
        raise Wrong("hides_a_loss", "The contender lost every round: that is a result as well, a speed-up of 0.5.")
    if not _is_close(got, 0.5):
        raise Wrong("wrong_ratio", f"The per-round ratios are 0.5, 0.5, 0.4; their median is 0.5, not {got!r}.")


def _ratios(baseline: Sequence[float], contender: Sequence[float]) -> list[float]:
    return [before / now for before, now in zip(baseline, contender, strict=True)]


def _is_close(got: Any, right: float) -> bool:
    return isinstance(got, int | float) and abs(got - right) <= 1e-6 * abs(right)


EXERCISES = (
    Exercise(
        id="16.1",
        title="A speed-up you can defend",
        minutes=8,
        difficulty=2,
        cases=(steady, drifting, rounds_by_chance, within_the_spread, drawn_round, slower_is_a_result),
        hints=(
            "Give your function a machine that gets slower: the baseline takes 1 s and then 4 s, the contender half of "
            "it in both rounds. Whatever the machine did, the answer is 2.",
            "Only the two times of one round were measured under the same conditions. Compare those with each other "
            "first, and look at all rounds afterwards.",
            "One ratio per round, baseline over contender. If all of them lie above 1, or all of them below, the "
            "answer is their median, which a single odd round cannot move. In every other case there is none.",
        ),
        package=("pllab.bench.measure.speedup",),
    ),
    Exercise(
        id="16.2",
        title="Name the winner, or nobody",
        minutes=12,
        difficulty=2,
        cases=(fair.clear_winner, fair.nobody_wins, fair.unfair_entrants, fair.as_close_as_asked, fair.races_by_chance),
        hints=(
            "An entrant that forgets the optimizer is the fastest of all. Does your function name it?",
            "There are two questions, one after the other: who counts, which the losses answer, and who of those won, "
            "which the seconds answer. An entrant that does not count must not appear in the second question at all.",
            "Collect the names whose losses are as many as the baseline's and close to them at every step; ask for "
            "closeness and not for distance, because nan is neither. Then return the one name among them whose time is "
            "below that of each other one in each round, and nothing if there is no such name.",
        ),
        package=("pllab.bench.measure.check_same_losses", "pllab.bench.racing.RaceResult"),
        lends=False,
    ),
)
