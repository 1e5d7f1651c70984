"""The cases of exercise 16.2: `winner(seconds, losses)`, who trained the same and won every round, or nobody."""

import math
import random
from functools import partial

from pllab.lesson.exercise import Function, case
from pllab.lesson.mistakes import Mistake, compare

Table = dict[str, list[float]]

_LOSSES = [6.9, 6.7, 6.4]
_FAIR = {"lane": _LOSSES, "data": [6.9001, 6.7, 6.4], "pipe": [6.9, 6.6999, 6.4001]}
_CLEAR = {"lane": [2.0, 2.2, 4.0], "data": [1.1, 1.2, 2.1], "pipe": [1.3, 1.4, 2.6]}


def _right_winner(seconds: Table, losses: Table) -> str | None:
    right = losses[next(iter(seconds))]
    fair = [
        name
        for name, mine in losses.items()
        if len(mine) == len(right) and all(abs(a - b) <= 0.001 for a, b in zip(mine, right, strict=True))
    ]
    for name in fair:
        others = [seconds[other] for other in fair if other != name]
        if all(a < b for other in others for a, b in zip(seconds[name], other, strict=True)):
            return name
    return None


_judge = partial(compare, truth=_right_winner, asked="seconds {} and losses {}", show=repr)


@case("the entrant that is faster than each other one in every round wins, even the baseline")
def clear_winner(winner: Function) -> None:
    orders = [["lane", "data", "pipe"], ["lane", "pipe", "data"], ["data", "lane", "pipe"], ["lane"]]
    questions = [({name: _CLEAR[name] for name in order}, {name: _FAIR[name] for name in order}) for order in orders]
    _judge(winner, questions)


@case("None if nobody wins every round")
def nobody_wins(winner: Function) -> None:
    lost_one = {"lane": [2.0, 2.2, 4.0, 2.0], "data": [1.0, 1.1, 2.0, 1.6], "pipe": [1.4, 1.5, 2.4, 1.5]}
    _judge(winner, [(lost_one, _FAIR)], hint_id="not_every_round")


@case("None if the fastest two drew a round")
def draw_is_no_win(winner: Function) -> None:
    drew_one = {"lane": [2.0, 2.2, 4.0], "data": [1.1, 1.2, 2.1], "pipe": [1.3, 1.2, 2.6]}
    _judge(winner, [(drew_one, _FAIR)], hint_id="draw_counts")


# Entrants that do not count, by what they did.
_UNFAIR = {
    "learned nothing": [6.9, 6.9, 6.9],
    "another second loss": [6.9, 6.8, 6.4],
    "a smaller last loss": [6.9, 6.7, 6.2],
    "one too high, one too low": [7.0, 6.6, 6.4],
    "left out a step": [6.9, 6.7],
    "took one step more": [6.9, 6.7, 6.4, 6.1],
    "ended with nan": [6.9, 6.7, math.nan],
}


@case("an entrant whose losses differ does not count, and does not block another")
def unfair_entrants(winner: Function) -> None:
    questions = [
        ({"lane": _CLEAR["lane"], name: times, **_CLEAR}, {"lane": _LOSSES, name: losses, **_FAIR})
        for name, losses in _UNFAIR.items()
        for times in ([0.1, 0.1, 0.1], [0.1, 9.0, 9.0])
    ]
    mistakes = [
        Mistake(
            "nan_counts", "No comparison with nan is true.", when=lambda _, seconds, __: "ended with nan" in seconds
        ),
        Mistake(
            "cheat_in_the_way",
            "Leave out the entrants that do not count before you compare times.",
            when=lambda answer, *_: answer not in _UNFAIR,
        ),
    ]
    _judge(winner, questions, mistakes=mistakes)


# The losses of a baseline, from 1, where a share of 0.001 is a difference of 0.001 too, to far above and below it.
_LEVELS = ([1.02, 1.0, 0.98], [6.9, 6.7, 6.4], [0.2, 0.05, 0.01], [70.0, 68.0, 55.0], [2e7, 1e7, 1e7])
_NEAR = ([0.0007] * 3, [0.0, 0.0009, 0.0], [0.0009] * 3)
_FAR = ([0.0012] * 3, [0.0, 0.0, 0.0012], [0.0025, 0.0, 0.0], [0.0, 0.005, 0.0])


@case("close is within 0.001 of the baseline's, step by step, however large the losses are")
def as_close_as_asked(winner: Function) -> None:
    times = {"lane": [3.0], "other": [1.0]}
    questions = [
        (times, {"lane": right, "other": [round(loss + sign * gap, 4) for loss, gap in zip(right, gaps, strict=True)]})
        for right in _LEVELS
        for sign in (1, -1)
        for gaps in _NEAR + _FAR
    ]
    mistakes = [
        Mistake(
            "relative_gap",
            "0.001 is a difference, not a share of the loss.",
            when=lambda _answer, _seconds, losses: losses["lane"] != _LEVELS[0],
        ),
        Mistake("too_loose", "Every loss must lie within 0.001.", when=lambda answer, *_: answer == "other"),
        Mistake("too_strict", "Every loss lies within 0.001.", when=lambda answer, *_: answer != "other"),
    ]
    _judge(winner, questions, mistakes=mistakes)


@case("close is close to the baseline, not to another entrant")
def close_to_the_baseline(winner: Function) -> None:
    losses = {name: [round(loss + gap, 4) for loss in _LOSSES] for name, gap in (("data", 0.0008), ("pipe", 0.0016))}
    _judge(winner, [({"lane": [3.0], "data": [2.0], "pipe": [1.0]}, {"lane": _LOSSES, **losses})])


@case("random races")
def races_by_chance(winner: Function) -> None:
    """Two to five entrants, one to three rounds; a quarter of them learns something else."""
    chance = random.Random(1606)
    questions = []
    for number in range(40):
        names = [f"entrant {letter}" for letter in "ABCDE"[: 2 + number % 4]]
        chance.shuffle(names)
        losses = {name: list(_LOSSES) for name in names}
        for name in names[1:]:
            if chance.random() < 0.25:
                losses[name][chance.randrange(3)] += round(chance.choice([-1, 1]) * chance.uniform(0.01, 0.5), 2)
        times = {name: [chance.choice([1.0, 1.5, 2.0, 3.0]) for _ in range(1 + number % 3)] for name in names}
        questions.append((times, losses))
    _judge(winner, questions)
