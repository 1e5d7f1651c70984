"""The cases of exercise 14.4: `plan(num_ranks, price, most_bytes)`, the layout of the fastest step that fits.

Models and machines are drawn under a seed. A price is a simulated step, 1F1B with the messages of tp and dp, and bytes
from a formula; the oracle prices every layout.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pllab.lesson.exercise import Wrong, case
from pllab.schedule import one_f_one_b
from pllab.simulate import Costs, MessageCost
from pllab.train.step_time import Sent, step_time

Layout = tuple[int, int, int]
Price = Callable[[int, int, int], tuple[float, float]]
Plan = Callable[[int, Price, float], Any]

_NEAR = 1.1


@dataclass(frozen=True)
class _Task:
    """A model of layers with `width`, a batch of `rows`, and a machine with hosts of `ranks_per_host`."""

    num_ranks: int
    num_layers: int = 12
    width: int = 1024
    num_heads: int = 8
    rows: int = 12
    ranks_per_host: int = 4
    s_per_flop: float = 1e-14
    near: MessageCost = field(default=MessageCost(1e-5, 1e-11))
    far: MessageCost = field(default=MessageCost(1e-4, 1e-9))

    def price(self, dp: int, tp: int, pp: int) -> tuple[float, float]:
        """Seconds of a step, simulated, and bytes of a rank; nothing at all for another number of ranks, to tempt.

        Raises:
            ValueError: the model cannot be laid out so.
        """
        if min(dp, tp, pp) < 1:
            raise ValueError(f"dp {dp}, tp {tp}, pp {pp} is not a layout")
        if self.num_heads % tp or self.num_layers % pp or self.rows % dp:
            raise ValueError(f"heads, layers or rows cannot be shared by dp {dp}, tp {tp}, pp {pp}")
        return _price(self, dp, tp, pp) if dp * tp * pp == self.num_ranks else (0.0, 0.0)

    @property
    def ranks(self) -> str:
        """The number of ranks in words."""
        return "1 rank" if self.num_ranks == 1 else f"{self.num_ranks} ranks"

    @property
    def layouts(self) -> dict[Layout, tuple[float, float]]:
        """The price of every layout that the model allows."""
        found = {}
        for dp, tp, pp in _factors(self.num_ranks):
            if not (self.num_heads % tp or self.num_layers % pp or self.rows % dp):
                found[dp, tp, pp] = _price(self, dp, tp, pp)
        return found


@cache
def _price(task: _Task, dp: int, tp: int, pp: int) -> tuple[float, float]:
    parts, layers, tokens = task.rows // dp, task.num_layers // pp, 512
    size = 12 * task.width**2 * layers / tp
    forward = 2 * tokens * size * task.s_per_flop
    sent = Sent(2 * layers, 2 * layers * 2 * (tp - 1) / tp * 4 * tokens * task.width) if tp > 1 else Sent()
    after = Sent(1, 2 * (dp - 1) / dp * 4 * size) if dp > 1 else Sent()
    time = step_time(
        one_f_one_b(pp, parts),
        Costs(forward, forward, forward, task.far.seconds(1, 4 * tokens * task.width)),
        tp_forward=[sent] * pp,
        tp_backward=[sent] * pp,
        tp_link=task.near if tp <= task.ranks_per_host else task.far,
        after=after,
        link=task.far,
    )
    held = min(pp, parts) * layers * 28 * 4 * tokens * task.width / tp
    return time.total_s, 16 * size + held


def _factors(num_ranks: int) -> Iterator[Layout]:
    sizes = [size for size in range(1, num_ranks + 1) if num_ranks % size == 0]
    return ((dp, tp, num_ranks // dp // tp) for dp in sizes for tp in sizes if num_ranks // dp % tp == 0)


def _tasks() -> list[_Task]:
    """Worlds of many sizes, also such as have other factors than two, with quick and slow wires."""
    chance = random.Random(1404)
    return [
        _Task(
            num_ranks=num_ranks,
            num_layers=chance.choice([6, 8, 12]),
            width=chance.choice([256, 1024, 4096]),
            num_heads=chance.choice([6, 8, 12]),
            ranks_per_host=chance.choice([2, 4, 8]),
            near=MessageCost(1e-5, chance.choice([1e-12, 1e-11, 1e-10])),
            far=MessageCost(1e-4, chance.choice([1e-11, 1e-10, 1e-9])),
        )
        for num_ranks in (1, 2, 4, 6, 8, 8, 12, 12, 16)
    ]


@case("dp x tp x pp is the number of ranks, and the model allows the layout")
def possible(plan: Plan) -> None:
    for task in _tasks():
        _asked(plan, task, 1e18)


@case("with room for all, the step is at most 10 % longer than that of the best layout (simulated)")
def fast(plan: Plan) -> None:
    _judge(plan, [(task, 1e18) for task in _tasks()])


@case("the layout fits: at most so many bytes, also where the fastest one does not")
def fits(plan: Plan) -> None:
    rooms = []
    for task in _tasks():
        sizes = sorted({num_bytes for _, num_bytes in task.layouts.values()})
        rooms += [(task, sizes[at]) for at in sorted({0, len(sizes) // 4, len(sizes) // 2})]
    _judge(plan, rooms)  # exactly so many bytes are allowed


@case("None where no layout fits")
def nothing_fits(plan: Plan) -> None:
    for task in _tasks():
        least = min(num_bytes for _, num_bytes in task.layouts.values())
        answer, _ = _called(plan, task, least * 0.99)
        if answer is not None:
            raise Wrong(
                "too_large",
                f"Every layout of {task.ranks} takes {least:.4g} bytes or more, and a rank has room for "
                f"{least * 0.99:.4g}: return None, not {answer!r}.",
            )


@case("no layout is priced twice, because each price is a simulated step")
def priced_once(plan: Plan) -> None:
    for task in _tasks():
        _, calls = _called(plan, task, 1e18)
        twice = [layout for layout in calls if calls.count(layout) > 1]
        if twice:
            raise Wrong(
                "priced_twice",
                f"You ask for the price of dp {twice[0][0]}, tp {twice[0][1]}, pp {twice[0][2]} "
                f"{calls.count(twice[0])} times. Keep the pair that comes back.",
            )


def _called(plan: Plan, task: _Task, most_bytes: float) -> tuple[Any, list[Layout]]:
    calls: list[Layout] = []

    def price(dp: int, tp: int, pp: int) -> tuple[float, float]:
        calls.append((dp, tp, pp))
        return task.price(dp, tp, pp)

    try:
        return plan(task.num_ranks, price, most_bytes), calls
    except ValueError as error:
        if "cannot be shared" not in str(error) and "is not" not in str(error):
            raise
        raise Wrong(
            "refusal_not_caught",
            f"price raised ValueError ({error}), which says that the model allows no such layout, and your function "
            "let it through. Go on with the next layout.",
        ) from None


def _asked(plan: Plan, task: _Task, most_bytes: float) -> Layout:
    """The layout, which is one of those that the model allows."""
    answer, _ = _called(plan, task, most_bytes)
    try:
        dp, tp, pp = (int(size) for size in answer)
    except (TypeError, ValueError):
        told = "none, and some layout fits" if answer is None else f"{answer!r}"
        raise Wrong("no_layout", f"For {task.ranks} you return {told}; return (dp, tp, pp).") from None
    if dp * tp * pp != task.num_ranks:
        raise Wrong(
            "other_product",
            f"dp {dp} x tp {tp} x pp {pp} is {dp * tp * pp}, and num_ranks is {task.num_ranks}. price "
            "answers for such a layout too; it is not one to choose.",
        )
    if (dp, tp, pp) not in task.layouts:
        raise Wrong(
            "not_allowed",
            f"dp {dp}, tp {tp}, pp {pp} cannot be laid out: {task.num_heads} heads, {task.num_layers} layers and "
            f"{task.rows} rows are shared equally. price raises ValueError for it.",
        )
    return dp, tp, pp


def _judge(plan: Plan, rooms: Sequence[tuple[_Task, float]]) -> None:
    """Ask in all rooms, and name the rule that chose the layouts if it explains every one of them."""
    chosen = [_fitting(plan, task, most_bytes) for task, most_bytes in rooms]
    for at, (task, most_bytes) in enumerate(rooms):
        mine, prices = chosen[at]
        best = min(prices, key=lambda layout: prices[layout][0])
        if prices[mine][0] <= _NEAR * prices[best][0]:
            continue
        told = (
            f"{_where(task, most_bytes, mine)} takes {prices[mine][0]:.3g} s, and dp {best[0]}, tp {best[1]}, "
            f"pp {best[2]} {prices[best][0]:.3g} s"
        )
        if all(there[one][1] == min(price[1] for price in there.values()) for one, there in chosen):
            raise Wrong("least_memory", f"{told}. You choose the smallest; memory is a limit, not a goal.")
        if all(there[one][0] == max(price[0] for price in there.values()) for one, there in chosen):
            raise Wrong("slowest", f"{told}. You choose the longest step of all that fit.")
        if prices[best][1] == most_bytes:
            raise Wrong("limit_left_out", f"{told}, with exactly as many bytes as there is room for, which fits.")
        raise Wrong("slow", f"{told} (simulated), so yours is more than 10 % longer.")


def _fitting(plan: Plan, task: _Task, most_bytes: float) -> tuple[Layout, dict[Layout, tuple[float, float]]]:
    """The layout, which fits, and the prices of all that do."""
    mine = _asked(plan, task, most_bytes)
    if (num_bytes := task.layouts[mine][1]) > most_bytes:
        where = _where(task, most_bytes, mine)
        raise Wrong("too_large", f"{where} takes {num_bytes:.4g} bytes on a rank, which is more.")
    return mine, {layout: price for layout, price in task.layouts.items() if price[1] <= most_bytes}


def _where(task: _Task, most_bytes: float, mine: Layout) -> str:
    return f"{task.ranks} with room for {most_bytes:.4g} bytes: dp {mine[0]}, tp {mine[1]}, pp {mine[2]}"
