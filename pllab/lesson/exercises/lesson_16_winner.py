"""The cases of exercise 16.2: `winner(seconds, losses)`, who trained the same and won every round, or nobody."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pllab.lesson.exercise import Wrong, case

Table = dict[str, list[float]]
Winner = Callable[[Table, Table], Any]

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
                raise Wrong(hint_id, f"The winner {what} (losses {listed(losses)} beside {listed(_LOSSES)}).")
            if got != "data":
                raise Wrong(
                    "cheat_in_the_way",
                    f"cheat {what} and does not count, so data is faster than all that count; you return {got!r}.",
                )


# The losses of a baseline, from 1, where a share of 0.001 is a difference of 0.001 too, to far above and below it.
_LEVELS = ([1.02, 1.0, 0.98], [6.9, 6.7, 6.4], [0.2, 0.05, 0.01], [70.0, 68.0, 55.0], [2e7, 1e7, 1e7])


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
            f"Each loss lies within 0.001 of the baseline's ({exactly(losses)} beside {exactly(right)}), so near "
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
            f"({exactly(losses)} beside {exactly(right)}), so far does not count; you return {got!r}."
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
    return "; ".join(f"{name}: {listed(numbers)}" for name, numbers in table.items())


def listed(numbers: Sequence[float]) -> str:
    """`1.82, 2`."""
    return ", ".join(f"{number:.3g}" for number in numbers)


def exactly(numbers: Sequence[float]) -> str:
    """With the digits that tell 1.82 from 1.821."""
    return ", ".join(f"{number:.12g}" for number in numbers)
