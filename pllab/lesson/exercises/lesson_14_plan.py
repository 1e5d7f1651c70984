"""The cases of exercise 14.4: `plan(num_ranks, price, most_bytes)`, the layout of the fastest step that fits.

Models and machines are drawn under a seed. A price is a simulated step, 1F1B with the messages of tp and dp, and bytes
from a formula; the oracle prices every layout.
"""

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.mistakes import compare, whole
from pllab.schedule import one_f_one_b
from pllab.simulate import Costs, simulate

Layout = tuple[int, int, int]
Price = Callable[[int, int, int], tuple[float, float]]

_NEAR = 1.1
_FOR_ALL = 1e18  # bytes into which every layout fits


@dataclass(frozen=True)
class _Task:
    """A model, a batch of rows and a machine; times in seconds, of which a layer's forward takes one on one rank.

    sums: what the all-reduces of tp cost a layer. gradients: the same of dp, at the end. message: between two stages.
    """

    num_ranks: int
    num_layers: int
    num_heads: int
    sums: float
    gradients: float
    message: float
    rows: int = 12

    def price(self, dp: int, tp: int, pp: int) -> tuple[float, float]:
        """Seconds of a step, simulated, and bytes of a rank; nothing at all for another number of ranks, to tempt.

        Raises:
            ValueError: the model cannot be laid out so.
        """
        if min(dp, tp, pp) < 1 or self.num_heads % tp or self.num_layers % pp or self.rows % dp:
            raise ValueError(f"heads, layers or rows cannot be laid out over dp {dp}, tp {tp}, pp {pp}")
        return _price(self, dp, tp, pp) if dp * tp * pp == self.num_ranks else (0.0, 0.0)

    def choices(self) -> dict[Layout, "_Choice"]:
        """Every layout of all ranks that the model allows."""
        found = {}
        for dp, tp, pp in product(range(1, self.num_ranks + 1), repeat=3):
            if dp * tp * pp == self.num_ranks:
                with suppress(ValueError):
                    found[dp, tp, pp] = _Choice(*self.price(dp, tp, pp), (dp, tp, pp))
        return found

    @property
    def sizes(self) -> list[float]:
        """The bytes of all of them, in order."""
        return sorted({choice.num_bytes for choice in self.choices().values()})

    def __str__(self) -> str:
        ranks = f"{self.num_ranks} rank{'s' * (self.num_ranks > 1)}"
        return f"{ranks}, {self.num_heads} heads, {self.num_layers} layers, {self.rows} rows"


class _Choice(NamedTuple):
    seconds: float
    num_bytes: float
    layout: Layout

    def __str__(self) -> str:
        return f"{self.layout} with {self.seconds:.3g} s (simulated)"


@cache
def _price(task: _Task, dp: int, tp: int, pp: int) -> tuple[float, float]:
    parts, layers = task.rows // dp, task.num_layers // pp
    forward = layers * (1 + task.sums * (tp - 1)) / tp
    step = simulate(one_f_one_b(pp, parts), Costs(forward, forward, layers / tp, task.message))
    gradients_s = task.gradients * (dp - 1) / dp * layers / tp
    return step.makespan + gradients_s, 1e6 * layers / tp * (16 + min(pp, parts) * 3)


def _tasks() -> list[_Task]:
    """Worlds of many sizes, also such as have other factors than two, with quick and slow wires."""
    chance = random.Random(1404)
    return [
        _Task(
            num_ranks=num_ranks,
            num_layers=chance.choice([6, 8, 12]),
            num_heads=chance.choice([6, 8, 12]),
            sums=chance.choice([0.01, 0.1, 1.0]),
            gradients=chance.choice([0.1, 1.0, 10.0]),
            message=chance.choice([0.01, 0.1, 1.0]),
        )
        for num_ranks in (1, 2, 4, 6, 8, 8, 12, 12, 16)
    ]


def _called(plan: Function, task: _Task, most_bytes: float) -> tuple[Any, list[Layout]]:
    """The answer, and the layouts whose price was asked for."""
    calls: list[Layout] = []

    def price(dp: int, tp: int, pp: int) -> tuple[float, float]:
        calls.append((dp, tp, pp))
        return task.price(dp, tp, pp)

    try:
        return plan(task.num_ranks, price, most_bytes), calls
    except ValueError as error:
        if "cannot be laid out" not in str(error):
            raise
        told = f"price raised ValueError ({error}), and your function let it through; go on with the next layout."
        raise Wrong("refusal_not_caught", told) from None


def _choice(answer: Any, task: _Task, most_bytes: float) -> _Choice | None:
    """The price of the answer: a layout of all ranks that the model allows and that fits; or None if none fits."""
    allowed, best = task.choices(), _best(task, most_bytes)
    if answer is best is None:
        return None
    told = f"For {task} and at most {most_bytes:.4g} bytes your function gave {answer!r}"
    try:
        dp, tp, pp = map(whole, answer)
    except (TypeError, ValueError):
        raise Wrong("no_layout", f"{told}; return {best.layout if best else None}.") from None
    if (dp, tp, pp) not in allowed:
        hint_id = "not_allowed" if dp * tp * pp == task.num_ranks else "other_product"
        rules = "dp x tp x pp is the number of ranks; tp divides the heads, pp the layers, dp the rows"
        raise Wrong(hint_id, f"{told}; {rules}.")
    if (num_bytes := allowed[dp, tp, pp].num_bytes) > most_bytes:
        raise Wrong("too_large", f"{told}, which takes {num_bytes:.4g} bytes; return {best.layout if best else None}.")
    return allowed[dp, tp, pp]


def _best(task: _Task, most_bytes: float) -> _Choice | None:
    return min((choice for choice in task.choices().values() if choice.num_bytes <= most_bytes), default=None)


def _is_near(choice: _Choice | None, best: _Choice | None) -> bool:
    return not choice or not best or choice.seconds <= _NEAR * best.seconds


def _judge(plan: Function, rooms: Iterable[tuple[_Task, float]]) -> None:
    compare(
        lambda task, most_bytes: _called(plan, task, most_bytes)[0],
        rooms,
        _best,
        asked="{} and at most {:.4g} bytes",
        read=_choice,
        same=_is_near,
        hint_id="slow",
    )


@case("with room for all, an allowed layout whose step is at most 10 % longer than the best one (simulated)")
def fast(plan: Function) -> None:
    _judge(plan, ((task, _FOR_ALL) for task in _tasks()))


@case("the layout fits into the bytes, even where the fastest one does not")
def fits(plan: Function) -> None:
    rooms = []
    for task in _tasks():
        sizes = task.sizes
        rooms += [(task, sizes[at]) for at in sorted({0, len(sizes) // 4, len(sizes) // 2})]
    _judge(plan, rooms)  # exactly so many bytes are allowed


@case("None where no layout fits")
def nothing_fits(plan: Function) -> None:
    _judge(plan, ((task, 0.99 * min(task.sizes)) for task in _tasks()))


@case("no layout is priced twice, because each price is a simulated step")
def priced_once(plan: Function) -> None:
    for task, most_bytes in ((each, room) for each in _tasks() for room in (_FOR_ALL, min(each.sizes))):
        _, calls = _called(plan, task, most_bytes)
        if twice := [layout for layout in calls if calls.count(layout) > 1]:
            told = f"For {task} you ask for the price of {twice[0]} {calls.count(twice[0])} times; right is once."
            raise Wrong("priced_twice", told)
