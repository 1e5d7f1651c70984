"""The cases of exercise 08.1: `clock_cycles(num_batches, num_partitions)` gives the ticks of the clock.

A list or a generator of ticks is taken, a tick may be any collection of pairs, and the pairs of a tick may come in
any order. What is judged is the schedule: every pair once, no stage twice in a tick, no result used before it is
there, and as few ticks as possible. The rules are checked on the cells; no other clock is asked.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, product
from operator import index
from random import Random

from pllab.lesson.encoding import Drawn
from pllab.lesson.exercise import Function, Wrong, case

Pair = tuple[int, int]
Ticks = list[list[Pair]]
Rule = Callable[[Ticks, int, int], None]

# Micro-batches and stages. In the first, swapped numbers show, and there are more micro-batches than stages. The long
# one has more ticks than anybody writes down by hand.
_CHANCE = Random(8)
_SHAPES = [(4, 3), (3, 2), (3, 3), (8, 4), (5, 5), (12, 7), (130, 2)]
_SHAPES += [(p + _CHANCE.randrange(20), p) for p in (_CHANCE.randrange(2, 12) for _ in range(4))]
_FEW = [(2, 3), (3, 5), (1, 4), (2, 8), (1, 2), (7, 8), (3, 40)]
_ONE_STAGE = [(4, 1), (1, 1), (120, 1)]

_ENDLESS = ("endless", "Your clock never stops: a loop that counts ticks needs an end, m + p - 1 ticks.")


def _ticks(clock_cycles: Function, m: int, p: int) -> Ticks:
    """The ticks as lists of pairs, each as it came; a clock that runs on is cut and refused."""
    given = clock_cycles(m, p)
    asked = f"For m = {m} and p = {p}"
    most = 2 * (m * p + m + p)
    try:
        ticks = [[(index(i), index(j)) for i, j in tick] for tick in islice(given, most + 1)]
    except (TypeError, ValueError):
        shown = f"{asked} your clock gave {given!r:.200}. Return a list of ticks or yield them one by one"
        why = "each tick is a list of pairs (micro-batch, stage), even if it holds only one."
        raise Wrong("no_ticks", f"{shown}; {why}") from None
    if len(ticks) > most:
        raise Wrong("endless", f"{asked} your clock gave more than {most} ticks. {_ENDLESS[1]}")
    if isinstance(given, Drawn):
        for number, (came, later) in enumerate(zip(given.came, given.later, strict=True)):
            if isinstance(came, list) and came != later:
                told = f"{asked} tick {number} was {came}, but after the next ticks the same list was {later}"
                raise Wrong("one_list", f"{told}. Make a new list for each tick; a caller may keep the ticks.")
    return ticks


def _every_pair_once(ticks: Ticks, m: int, p: int) -> None:
    times = Counter(pair for tick in ticks for pair in tick)
    given, right = set(times), set(product(range(m), range(p)))
    twice = {pair for pair, number in times.items() if number > 1}
    faults = {"leaves out": right - given, "adds": given - right, "repeats": twice}
    found = "; ".join(f"{fault} {_listed(sorted(pairs))}" for fault, pairs in faults.items() if pairs)
    if not found:
        return
    wanted = f"each of the micro-batches 0 to {m - 1} on each of the stages 0 to {p - 1}, once"
    shown = f"For m = {m} and p = {p} your clock {found}. Right is {wanted}."
    if given == {(j, i) for i, j in right}:
        raise Wrong("swapped_pair", f"{shown} A pair is (micro-batch, stage), in this order.")
    if given == {(i + 1, j + 1) for i, j in right}:
        raise Wrong("counts_from_one", f"{shown} Both numbers start at 0.")
    raise Wrong("wrong_pairs", shown)


def _listed(pairs: Sequence[Pair]) -> str:
    """The first few pairs: `(2, 2), (3, 1), (3, 2)`."""
    return ", ".join(map(str, pairs[:4])) + (" and more" if len(pairs) > 4 else "")


def _one_at_a_time(ticks: Ticks, m: int, p: int) -> None:
    for number, tick in enumerate(ticks):
        for stage, work in Counter(j for _, j in tick).items():
            if work > 1:
                told = f"For m = {m} and p = {p} tick {number} of your clock is {_listed(tick)}"
                why = f"{work} micro-batches on stage {stage}. A stage works on one in a tick."
                raise Wrong("two_on_one_stage", f"{told}: {why}")


def _after_the_stage_before(ticks: Ticks, m: int, p: int) -> None:
    when = {pair: number for number, tick in enumerate(ticks) for pair in tick}
    for (i, j), number in sorted(when.items()):
        if j > 0 and when[i, j - 1] >= number:
            told = f"micro-batch {i} is on stage {j} in tick {number}, and on stage {j - 1} in tick {when[i, j - 1]}"
            why = f"Stage {j} needs the result of stage {j - 1}, so it comes later."
            raise Wrong("wrong_order", f"For m = {m} and p = {p} {told}. {why}")


def _few_ticks(ticks: Ticks, m: int, p: int) -> None:
    if len(ticks) != m + p - 1:  # more of them: fewer break one of the other rules
        told = f"For m = {m} and p = {p} your clock has {len(ticks)} ticks, {ticks.count([])} of them empty"
        raise Wrong("too_long", f"{told}; {m + p - 1} are enough: micro-batch i can be on stage j in tick i + j.")


_RULES = (_every_pair_once, _one_at_a_time, _after_the_stage_before, _few_ticks)


def _judge(shapes: Sequence[Pair], rules: Sequence[Rule], clock_cycles: Function) -> None:
    for m, p in shapes:
        ticks = _ticks(clock_cycles, m, p)
        for rule in rules:
            rule(ticks, m, p)


_clock = partial(case, on_hang=_ENDLESS)
every_pair = _clock("every micro-batch passes every stage once")(partial(_judge, _SHAPES, [_every_pair_once]))
one_at_a_time = _clock("a stage works on one micro-batch in a tick")(partial(_judge, _SHAPES, [_one_at_a_time]))
in_order = _clock("no stage uses a result before it is there")(partial(_judge, _SHAPES, [_after_the_stage_before]))
few_ticks = _clock("the clock ticks m + p - 1 times, and no tick is empty")(partial(_judge, _SHAPES, [_few_ticks]))
fewer_than_stages = _clock("all of this holds for fewer micro-batches than stages")(partial(_judge, _FEW, _RULES))
one_stage = _clock("all of this holds for one stage")(partial(_judge, _ONE_STAGE, _RULES))
