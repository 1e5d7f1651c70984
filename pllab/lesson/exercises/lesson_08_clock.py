"""The cases of exercise 08.1: `clock_cycles(num_batches, num_partitions)` gives the ticks of the clock.

A list or a generator of ticks is taken, a tick may be any collection of pairs, and the pairs of a tick may come in
any order. What is judged is the schedule: every pair once, no stage twice in a tick, no result used before it is
there, and as few ticks as possible. The rules are checked on the cells; no other clock is asked.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from random import Random
from typing import Any

from pllab.lesson.encoding import Drawn
from pllab.lesson.exercise import Case, Wrong, case

ClockCycles = Callable[[int, int], Any]
Pair = tuple[int, int]
Ticks = list[list[Pair]]

# Micro-batches and stages. The first tells a clock without its last tick from one that never drains; two are square,
# and swapped numbers show in the others. The long one has more ticks than anybody writes down by hand.
_CHANCE = Random(8)
_SHAPES = [(4, 3), (3, 2), (3, 3), (8, 4), (5, 5), (12, 7), (130, 2)]
_SHAPES += [(p + _CHANCE.randrange(20), p) for p in (_CHANCE.randrange(2, 12) for _ in range(4))]
_FEW = [(2, 3), (3, 5), (1, 4), (2, 8), (1, 2), (7, 8), (3, 40)]

ENDLESS = ("endless", "Your clock never stops: a loop that counts ticks needs an end, m + p - 1 ticks.")


@case("all of it holds for fewer micro-batches than stages", on_hang=ENDLESS)
def fewer_than_stages(clock_cycles: ClockCycles) -> None:
    _at_the_edge(clock_cycles, _FEW, "few_batches", "fewer micro-batches than stages")


@case("all of it holds for one stage", on_hang=ENDLESS)
def one_stage(clock_cycles: ClockCycles) -> None:
    _at_the_edge(clock_cycles, [(4, 1), (1, 1), (120, 1)], "one_stage", "a single stage")


def _at_the_edge(clock_cycles: ClockCycles, shapes: list[Pair], hint_id: str, where: str) -> None:
    for m, p in shapes:
        try:
            ticks = _ticks(clock_cycles, m, p)
            for judge in _RULES.values():
                judge(ticks, m, p)
        except NotImplementedError:
            raise
        except Wrong as wrong:
            sentence = f"Right so far, but not with {where}, m = {m} and p = {p}: {wrong.sentence}"
            raise Wrong(hint_id, sentence) from None
        except Exception as error:
            raise Wrong(
                hint_id,
                f"Right so far, but with {where}, m = {m} and p = {p}, your clock raised {type(error).__name__}: "
                f"{error}. One range for the stages of a tick, with a lower and an upper end, holds for every m and p.",
            ) from None


def _ticks(clock_cycles: ClockCycles, m: int, p: int) -> Ticks:
    """The ticks as lists of pairs, each copied when it comes; a clock that runs on is cut and refused."""
    given = clock_cycles(m, p)
    if given is None:
        raise Wrong("nothing", "clock_cycles returned None; yield each tick, or return a list of all ticks.")
    if not isinstance(given, Iterable):
        raise Wrong("no_ticks", f"clock_cycles should give ticks, lists of pairs, and it gave {given!r}.")
    most = 2 * (m * p + m + p)
    kept, ticks = list[Any](), Ticks()
    for tick in islice(given, most + 1):
        kept.append(tick)
        ticks.append(_pairs(tick))
    if len(ticks) > most:
        raise Wrong("endless", f"For m = {m} and p = {p} your clock ticked more than {most} times. {ENDLESS[1]}")
    if any(
        isinstance(tick, list) and _pairs(tick) != pairs for tick, pairs in zip(_later(given, kept), ticks, strict=True)
    ):
        raise Wrong(
            "one_list",
            f"For m = {m} and p = {p} a tick was another list of pairs when the clock had gone on: your clock fills "
            "one list again and again, and whoever keeps the ticks has the last one many times. Begin each tick with "
            "a list of its own.",
        )
    return ticks


def _later(given: Iterable[Any], kept: list[Any]) -> list[Any]:
    """The ticks as they are when all have come."""
    return given.later if isinstance(given, Drawn) else kept


def _pairs(tick: Any) -> list[Pair]:
    if isinstance(tick, tuple) and len(tick) == 2 and not isinstance(tick[0], Iterable):
        raise Wrong(
            "flat",
            f"Your clock gave the pair {tick!r} where a tick was expected: a tick is a list of the pairs that run at "
            "the same time, also when it holds only one.",
        )
    try:
        return [(int(i), int(j)) for i, j in tick]
    except (TypeError, ValueError):
        raise Wrong(
            "no_ticks", f"A tick is a list of pairs (micro-batch, stage), and your clock gave {tick!r}."
        ) from None


def _judge_pairs(ticks: Ticks, m: int, p: int) -> None:
    cells = {pair for tick in ticks for pair in tick}
    asked = f"For m = {m} micro-batches and p = {p} stages"
    if not cells:
        raise Wrong(
            "empty",
            f"{asked} your clock gave no pair at all. A loop over an empty schedule runs zero times, and nothing that "
            "stands inside it can fail; so this is asked first.",
        )
    outside = sorted((i, j) for i, j in cells if not (0 <= i < m and 0 <= j < p))
    if not outside:
        return
    if all(0 <= i < p and 0 <= j < m for i, j in cells):
        raise Wrong(
            "swapped_pair",
            f"{asked} your clock gave the pair {outside[0]}: a pair is (micro-batch, stage), in this order.",
        )
    if min(i for i, _ in cells) == min(j for _, j in cells) == 1:
        raise Wrong("counts_from_one", f"{asked} your clock gave the pair {outside[0]}: both numbers start at 0.")
    raise Wrong(
        "outside",
        f"{asked} your clock gave the pair {outside[0]}, and there are only micro-batches 0 to {m - 1} and stages 0 to "
        f"{p - 1}. At the start not all stages have work, at the end neither; both ends of the range need a limit.",
    )


def _judge_complete(ticks: Ticks, m: int, p: int) -> None:
    times = Counter(pair for tick in ticks for pair in tick)
    missing = [(i, j) for i in range(m) for j in range(p) if (i, j) not in times]
    asked = f"For m = {m} and p = {p}"
    if missing == [(m - 1, p - 1)]:
        raise Wrong(
            "missing_tick",
            f"{asked} the pair {missing[0]} never comes: the last tick is missing, and the last micro-batch never "
            "leaves the pipe. The first tick has number 0 and the last m + p - 2.",
        )
    if missing:
        raise Wrong("missing_pair", f"{asked} these pairs never come: {_listed(missing)}. {_DRAIN}")
    twice = sorted(pair for pair, number in times.items() if number > 1)
    if twice:
        raise Wrong("duplicate", f"{asked} the pair {twice[0]} comes {times[twice[0]]} times; once is the rule.")


_DRAIN = "The clock runs until the last micro-batch has left the last stage."


def _listed(pairs: list[Pair]) -> str:
    """The first few pairs: `(2, 2), (3, 1), (3, 2)`, and dots where there are more."""
    return ", ".join(map(str, pairs[:4])) + (", ..." if len(pairs) > 4 else "")


def _judge_single(ticks: Ticks, _m: int, _p: int) -> None:
    for number, tick in enumerate(ticks):
        for stage, work in Counter(j for _, j in tick).items():
            if work > 1:
                raise Wrong(
                    "two_on_one_stage",
                    f"Tick {number} is {tick}: it gives stage {stage} {work} micro-batches at once, and a stage works "
                    "on one.",
                )


def _judge_order(ticks: Ticks, _m: int, _p: int) -> None:
    when = {pair: number for number, tick in enumerate(ticks) for pair in tick}
    for (i, j), number in sorted(when.items()):
        if j == 0 or when[i, j - 1] < number:
            continue
        if when[i, j - 1] == number:
            raise Wrong(
                "no_skew",
                f"In tick {number} both stage {j - 1} and stage {j} work on micro-batch {i}. Stage {j} needs the "
                "result of the stage before it, so it comes one tick later.",
            )
        raise Wrong(
            "wrong_order",
            f"Stage {j} works on micro-batch {i} in tick {number}, and stage {j - 1} only in tick {when[i, j - 1]}: "
            "the result is used before it is there.",
        )


def _judge_length(ticks: Ticks, m: int, p: int) -> None:
    asked = f"For m = {m} and p = {p}"
    if [] in ticks:
        raise Wrong("empty_tick", f"{asked} tick {ticks.index([])} is empty: all devices would wait for nothing.")
    if len(ticks) == m * p and m > 1 < p:
        raise Wrong(
            "unpipelined",
            f"{asked} your clock ticks {m * p} times, one pair at a time: nothing overlaps. Pairs that do not wait for "
            "each other belong in one tick.",
        )
    if len(ticks) != m + p - 1:
        raise Wrong(
            "too_long",
            f"{asked} your clock ticks {len(ticks)} times, and {m + p - 1} are enough: micro-batch i can be on stage j "
            "in tick i + j.",
        )


# What every clock keeps to: the claim as a student reads it, and who judges.
_RULES: dict[str, Callable[[Ticks, int, int], None]] = {
    "there are ticks, and their pairs name what exists": _judge_pairs,
    "every micro-batch passes every stage once": _judge_complete,
    "a stage works on one micro-batch in a tick": _judge_single,
    "no stage uses a result before it is there": _judge_order,
    "the clock ticks m + p - 1 times, and no tick is empty": _judge_length,
}


def _on_all_shapes(judge: Callable[[Ticks, int, int], None], clock_cycles: ClockCycles) -> None:
    for m, p in _SHAPES:
        judge(_ticks(clock_cycles, m, p), m, p)


RULES = tuple(Case(claim, partial(_on_all_shapes, judge), ENDLESS) for claim, judge in _RULES.items())
