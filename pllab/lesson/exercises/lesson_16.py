"""The exercises of lesson 16: a ratio that can be defended, and a winner that has to win."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean, median
from typing import Any

from pllab.lesson.exercise import Exercise, Wrong, case

Rate = Callable[[list[float], list[float]], Any]
Table = dict[str, list[float]]
Winner = Callable[[Table, Table], Any]

# Seconds per round, alternating; the machine slows down from round to round, and once it was disturbed.
_BASELINE = [1.1, 1.2, 1.5, 2.0, 2.6]
_CONTENDER = [0.5, 0.8, 0.5, 1.6, 1.3]
_NOISY = ([1.0, 1.3, 0.9, 1.1, 1.0], [0.95, 1.35, 0.85, 1.15, 0.9])
_NARROW = ([1.004, 1.003], [1.0, 1.0])
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
        "wrong_ratio", f"The per-round ratios are {_listed(ratios)}; their median is {median(ratios):.3g}, not {got!r}."
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
        told = f"Of {rounds} {_exactly(ratios)} the median is {median(ratios):.7g}, not {got!r}."
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
                f"The per-round ratios are {_listed(ratios)}: each side won some rounds, so return None, not {got!r}.",
            )


@case("a draw was won by nobody: None; a small lead is no draw")
def drawn_round(speedup: Rate) -> None:
    for baseline, contender in (_DRAWN, _DRAWN[::-1], ([2.0], [2.0])):
        got = speedup(list(baseline), list(contender))
        if got is not None:
            raise Wrong(
                "draw_counts",
                f"Baseline {_listed(baseline)} s and contender {_listed(contender)} s: one round is a draw, so neither "
                f"side won all of them; return None, not {got!r}.",
            )
    for baseline, contender in (_NARROW, _NARROW[::-1]):
        got, right = speedup(list(baseline), list(contender)), median(_ratios(baseline, contender))
        if not _is_close(got, right):
            raise Wrong(
                "small_lead",
                f"Baseline {_exactly(baseline)} s and contender {_exactly(contender)} s: one side was faster in both "
                f"rounds, by little, and only equal times are a draw; return {right:.7g}, not {got!r}.",
            )


@case("a contender that always loses gets its number below 1")
def slower_is_a_result(speedup: Rate) -> None:
    got = speedup([1.0, 1.1, 1.0], [2.0, 2.2, 2.5])
    if got is None:
        raise Wrong("hides_a_loss", "The contender lost every round: that is a result as well, a speed-up of 0.5.")
    if not _is_close(got, 0.5):
        raise Wrong("wrong_ratio", f"The per-round ratios are 0.5, 0.5, 0.4; their median is 0.5, not {got!r}.")


_LOSSES = [6.9, 6.7, 6.4]
_FAIR = {"lane": _LOSSES, "data": [6.9001, 6.7, 6.4], "pipe": [6.9, 6.6999, 6.4001]}
_CLEAR = {"lane": [2.0, 2.2, 4.0], "data": [1.1, 1.2, 2.1], "pipe": [1.3, 1.4, 2.6]}


@case("who is faster than each of the others in every round wins, the baseline too")
def clear_winner(winner: Winner) -> None:
    orders: list[list[str]] = [["lane", "data", "pipe"], ["lane", "pipe", "data"], ["data", "lane", "pipe"]]
    for order in orders:
        got = _call(winner, {name: _CLEAR[name] for name in order}, {name: _FAIR[name] for name in order})
        if got == "data":
            continue
        if order[0] == "data":
            raise Wrong("baseline_cannot_win", f"The baseline was the fastest in every round, and you return {got!r}.")
        if got == "pipe":
            raise Wrong("first_that_wins", "pipe beats the baseline in every round, but data beats pipe in every one.")
        raise Wrong("no_name", f"data was faster than both others in all three rounds, and you return {got!r}.")
    got = _call(winner, {"lane": [2.0]}, {"lane": _LOSSES})
    if got != "lane":
        raise Wrong("alone", f"Without others the baseline wins, as nobody was as fast; you return {got!r}.")


@case("None unless somebody wins every round; a draw is no win")
def nobody_wins(winner: Winner) -> None:
    lost_one = {"lane": [2.0, 2.2, 4.0, 2.0], "data": [1.0, 1.1, 2.0, 1.6], "pipe": [1.4, 1.5, 2.4, 1.5]}
    got = _call(winner, lost_one, _FAIR)
    if got is not None:
        raise Wrong(
            "not_every_round",
            f"data won three rounds of four and pipe the last; nobody won all, so return None, not {got!r}.",
        )
    drew_one = {"lane": [2.0, 2.2, 4.0], "data": [1.1, 1.2, 2.1], "pipe": [1.3, 1.2, 2.6]}
    got = _call(winner, drew_one, _FAIR)
    if got is not None:
        raise Wrong("draw_counts", f"data and pipe drew the second round, so neither won it; return None, not {got!r}.")


@case("an entrant whose losses differ does not count, and does not stand in the way either")
def unfair_entrants(winner: Winner) -> None:
    unfair = {
        "ignores_losses": ([6.9, 6.9, 6.9], "learned nothing"),
        "last_loss_only": ([6.9, 6.8, 6.4], "had another loss in the second step"),
        "signed_gap": ([6.9, 6.7, 6.2], "had a smaller loss in the last step, and smaller is another training too"),
        "opposite_gaps": ([7.0, 6.6, 6.4], "had a loss too high and one too low, which do not make up for each other"),
        "short_run": ([6.9, 6.7], "left out a step"),
        "long_run": ([6.9, 6.7, 6.4, 6.1], "took a step more"),
        "nan_counts": ([6.9, 6.7, math.nan], "ended with nan, and no comparison with nan is true"),
    }
    for hint_id, (losses, what) in unfair.items():
        for times in ([0.1, 0.1, 0.1], [0.1, 9.0, 9.0]):
            got = _call(winner, {"lane": _CLEAR["lane"], "cheat": times, **_CLEAR}, {**_FAIR, "cheat": losses})
            if got == "cheat":
                raise Wrong(hint_id, f"The winner {what} (losses {_listed(losses)} beside {_listed(_LOSSES)}).")
            if got != "data":
                raise Wrong(
                    "cheat_in_the_way",
                    f"cheat {what} and does not count, so data is faster than all that count; you return {got!r}.",
                )


# The losses of a baseline, from 1, where a share of 0.001 is a difference of 0.001 too, to far above and below it.
_LEVELS = ([1.02, 1.0, 0.98], [6.9, 6.7, 6.4], [0.2, 0.05, 0.01], [70.0, 68.0, 55.0])


@case("close is within 0.001 of the baseline's, step by step, however large the losses are")
def as_close_as_asked(winner: Winner) -> None:
    for right in _LEVELS:
        for sign in (1, -1):
            for gaps in ([0.0007] * 3, [0.0, 0.0009, 0.0], [0.0009] * 3):
                _judge_near(winner, right, [loss + sign * gap for loss, gap in zip(right, gaps, strict=True)])
            for gaps in ([0.0012] * 3, [0.0, 0.0, 0.0012], [0.0025, 0.0, 0.0], [0.0, 0.005, 0.0]):
                _judge_far(winner, right, [loss + sign * gap for loss, gap in zip(right, gaps, strict=True)])
    chain = {"lane": _LOSSES, "data": [loss + 0.0008 for loss in _LOSSES], "pipe": [loss + 0.0016 for loss in _LOSSES]}
    got = _call(winner, {"lane": [3.0], "data": [2.0], "pipe": [1.0]}, chain)
    if got != "data":
        raise Wrong(
            "another_than_the_baseline",
            "data's losses lie 0.0008 above the baseline's and pipe's 0.0008 above data's, so 0.0016 above the "
            f"baseline's: data counts and pipe does not. You return {got!r}; compare everybody with the baseline.",
        )


def _judge_near(winner: Winner, right: list[float], losses: list[float]) -> None:
    got = _call(winner, {"lane": [3.0], "near": [1.0]}, {"lane": right, "near": losses})
    if got != "near":
        _judge_level(right, got)
        raise Wrong(
            "too_strict",
            f"Each loss lies within 0.001 of the baseline's ({_exactly(losses)} beside {_exactly(right)}), so near "
            f"counts and wins; you return {got!r}. Look at each step by itself, unrounded.",
        )


def _judge_far(winner: Winner, right: list[float], losses: list[float]) -> None:
    got = _call(winner, {"lane": [3.0], "far": [1.0]}, {"lane": right, "far": losses})
    if got != "lane":
        _judge_level(right, got)
        off = sum(mine != loss for mine, loss in zip(losses, right, strict=True))
        raise Wrong(
            "mean_of_the_gaps" if off == 1 else "too_loose",
            f"{'One loss lies' if off == 1 else 'The losses lie'} more than 0.001 from the baseline's "
            f"({_exactly(losses)} beside {_exactly(right)}), so far does not count; you return {got!r}."
            + (" Every step must be close, not their mean." if off == 1 else ""),
        )


def _judge_level(right: list[float], got: Any) -> None:
    if right is not _LEVELS[0]:
        raise Wrong(
            "relative_gap",
            f"With losses around 1 you draw the line at 0.001, and with losses like {right[0]:g} elsewhere (you "
            f"return {got!r}): 0.001 is a difference, not a share of the loss.",
        )


@case("races by chance")
def races_by_chance(winner: Winner) -> None:
    for seconds, losses in _races():
        got, right = _call(winner, seconds, losses), _right_winner(seconds, losses)
        if got != right:
            raise Wrong(
                "wrong_winner",
                f"Seconds {_written(seconds)}; losses {_written(losses)}. The answer is {right!r}, not {got!r}.",
            )


def _call(winner: Winner, seconds: Mapping[str, Sequence[float]], losses: Mapping[str, Sequence[float]]) -> Any:
    """With copies, in the order of the seconds, so that nothing is changed for the next call."""
    return winner(
        {name: list(times) for name, times in seconds.items()}, {name: list(losses[name]) for name in seconds}
    )


def _races() -> Iterator[tuple[Table, Table]]:
    """Two to five entrants, one to four rounds; a quarter of them learns something else."""
    chance = random.Random(1606)
    for number in range(40):
        names = [f"entrant {letter}" for letter in "ABCDE"[: 2 + number % 4]]
        chance.shuffle(names)
        num_rounds, losses = 1 + number % 3, {name: list(_LOSSES) for name in names}
        for name in names[1:]:
            if chance.random() < 0.25:
                losses[name][chance.randrange(3)] += chance.choice([-1, 1]) * chance.uniform(0.01, 0.5)
        yield {name: [chance.choice([1.0, 1.5, 2.0, 3.0]) for _ in range(num_rounds)] for name in names}, losses


def _right_winner(seconds: Table, losses: Table) -> str | None:
    right = losses[next(iter(seconds))]
    fair = [
        name
        for name, mine in losses.items()
        if len(mine) == len(right) and all(abs(a - b) <= 0.001 for a, b in zip(mine, right, strict=True))
    ]
    for name in fair:
        others = [other for other in fair if other != name]
        if all(a < b for other in others for a, b in zip(seconds[name], seconds[other], strict=True)):
            return name
    return None


def _written(table: Table) -> str:
    return "; ".join(f"{name}: {_listed(numbers)}" for name, numbers in table.items())


def _ratios(baseline: Sequence[float], contender: Sequence[float]) -> list[float]:
    return [before / now for before, now in zip(baseline, contender, strict=True)]


def _is_close(got: Any, right: float) -> bool:
    return isinstance(got, int | float) and abs(got - right) <= 1e-6 * abs(right)


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)


def _exactly(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.7g}" for number in numbers)


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
        cases=(clear_winner, nobody_wins, unfair_entrants, as_close_as_asked, races_by_chance),
        hints=(
            "An entrant that forgets the optimizer is the fastest of all. Does your function name it?",
            "There are two questions, one after the other: who counts, which the losses answer, and who of those won, "
            "which the seconds answer. An entrant that does not count must not appear in the second question at all.",
            "Collect the names whose losses are as many as the baseline's and close to them at every step; ask for "
            "closeness and not for distance, because nan is neither. Then return the one name among them whose time is "
            "below that of each other one in each round, and nothing if there is no such name.",
        ),
    ),
)
