"""The cases of exercise 17.1: what the ranks of a schedule hold at most, and how many messages they send.

Memory is held against the package's count, messages against the boundaries between stages on different ranks. A wrong
number is compared with what people take for the right one.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.schedule import (
    Action,
    Kind,
    Schedule,
    gpipe,
    interleaved,
    one_f_one_b,
    peak_in_flight,
    split_backwards,
    v_min,
    zb_h1,
    zb_h2,
    zbv,
)

Price = Callable[[Schedule], Any]
_Answer = tuple[list[float], float]


@cache
def _schedules() -> tuple[Schedule, ...]:
    """Every placement, whole and split backwards and both together, a single rank, and ranks in any order."""
    draw = random.Random(17)
    rows = zip(one_f_one_b(2, 5).rows, split_backwards(one_f_one_b(2, 5)).rows, strict=True)
    half_split = Schedule(tuple(tuple(_some_of(whole, split)) for whole, split in rows), "1F1B, partly split")
    one_splits = Schedule(
        (one_f_one_b(2, 3).rows[0], split_backwards(one_f_one_b(2, 3)).rows[1]), "1F1B, split on the last rank"
    )
    mixed = Schedule(tuple(draw.sample(zbv(4, 5).rows, 4)), "ZB-V, its ranks in another order")
    turned = Schedule(one_f_one_b(4, 11).rows[::-1], "1F1B from the last rank to the first")
    alone = Schedule((gpipe(1, 4).rows[0],), "one rank")
    return (
        *(one_f_one_b(4, 6), gpipe(3, 5), zb_h1(3, 4), zb_h2(4, 9), interleaved(2, 4, 2), interleaved(3, 6, 3)),
        *(
            zbv(3, 7),
            v_min(4, 6),
            half_split,
            one_splits,
            mixed,
            turned,
            interleaved(1, 3, 2),
            alone,
            one_f_one_b(2, 1),
        ),
    )


def _some_of(whole: Sequence[Action], split: Sequence[Action]) -> Iterator[Action]:
    """A row whose odd micro-batches go back in halves."""
    for action in whole:
        if action.kind is Kind.B and action.microbatch % 2:
            yield from (half for half in split if half.kind in (Kind.I, Kind.W) and half[::2] == action[::2])
        else:
            yield action


def right_form(price: Price) -> None:
    """A pair: numbers, one for each rank, and a number."""
    for schedule in _schedules():
        _asked(price, schedule)


def right_memory(price: Price) -> None:
    """The first is the most micro-batches that each rank holds at once."""
    got = [_asked(price, schedule)[0] for schedule in _schedules()]
    _judge(got, [list(peak_in_flight(schedule)) for schedule in _schedules()], _NOT_THE_MEMORY, "wrong_memory", "holds")


def right_messages(price: Price) -> None:
    """The second is the number of messages between ranks in one step."""
    got = [_asked(price, schedule)[1] for schedule in _schedules()]
    _judge(got, [_messages(schedule) for schedule in _schedules()], _NOT_THE_MESSAGES, "wrong_messages", "messages")


def _messages(schedule: Schedule) -> float:
    """An activation and a gradient of every micro-batch at every boundary between two ranks."""
    return 2 * schedule.num_microbatches * _crossed([schedule.rank_of_stage[s] for s in range(schedule.num_stages)])


def _crossed(homes: Sequence[int]) -> int:
    return sum(one != other for one, other in zip(homes, homes[1:], strict=False))


def _steps(row: Sequence[Action], share: dict[str, float]) -> Iterator[float]:
    held = 0.0
    for action in row:
        held += share[action.kind]
        yield held


def _peaks(share: dict[str, float]) -> Callable[[Schedule], list[float]]:
    return lambda schedule: [max(_steps(row, share)) for row in schedule.rows]


_Suspect = tuple[str, Callable[[Schedule], Any], str]
_NOT_THE_MEMORY: list[_Suspect] = [
    (
        "never_lets_go",
        _peaks({"F": 1, "B": 0, "I": 0, "W": 0}),
        "You count every forward. A backward lets its micro-batch go: count what is there at one moment.",
    ),
    (
        "at_the_end",
        lambda schedule: [0.0] * schedule.num_ranks,
        "At the end of a row everything has been let go. What counts is the highest value on the way.",
    ),
    (
        "input_lets_all_go",
        _peaks({"F": 1, "B": -1, "I": -1, "W": 0}),
        "You let a whole micro-batch go at its I. W still needs half of it.",
    ),
    (
        "only_weight_lets_go",
        _peaks({"F": 1, "B": -1, "I": 0, "W": -1}),
        "You keep all of a micro-batch until its W. Its I lets half of it go.",
    ),
    (
        "whole_backward_forgotten",
        _peaks({"F": 1, "B": 0, "I": -0.5, "W": -0.5}),
        "You let go at I and W alone; a whole backward B lets a micro-batch go too.",
    ),
    (
        "half_of_a_whole",
        _peaks({"F": 1, "B": -0.5, "I": -0.5, "W": -0.5}),
        "You let half a micro-batch go at a whole backward. A B is I and W together, so it is one.",
    ),
    (
        "by_stage",
        lambda schedule: [
            max(
                peak_in_flight(Schedule((tuple(a for a in row if a.stage == stage),)))[0]
                for stage in {a.stage for a in row}
            )
            for row in schedule.rows
        ],
        "You give the most that one stage holds, or count a micro-batch on two stages of a rank once. A rank with "
        "several stages holds for all of them, and each of its stages counts.",
    ),
    (
        "divided_by_stages",
        lambda schedule: [
            peak / max(1, len({action.stage for action in row}))
            for peak, row in zip(peak_in_flight(schedule), schedule.rows, strict=True)
        ],
        "You divide by the stages of the rank. Here a micro-batch counts one for each stage that holds it.",
    ),
]

_NOT_THE_MESSAGES: list[_Suspect] = [
    (
        "forward_only",
        lambda schedule: _messages(schedule) / 2,
        "You counted the activations. A gradient comes back through every boundary.",
    ),
    (
        "every_boundary",
        lambda schedule: 2 * schedule.num_microbatches * (schedule.num_stages - 1),
        "You counted every boundary between stages. Between two stages of one rank nothing is sent.",
    ),
    (
        "row_for_rank",
        lambda schedule: (
            2 * schedule.num_microbatches * _crossed([s % schedule.num_ranks for s in range(schedule.num_stages)])
        ),
        "You take the stages as dealt out in turn. In a V the ranks come in another order: ask rank_of_stage.",
    ),
    (
        "per_micro_batch",
        lambda schedule: _messages(schedule) / schedule.num_microbatches,
        "That is for one micro-batch; each of them sends its own.",
    ),
    ("both_ends", lambda schedule: 2 * _messages(schedule), "You counted every message where it is sent and received."),
    (
        "own_needs",
        lambda schedule: _messages(schedule) + sum(action.kind is not Kind.F for action in schedule.actions()),
        "You counted needs within a rank too: a backward needs its own forward, and a W its own I, without a message.",
    ),
]


def _judge(got: list[Any], right: list[Any], suspects: list[_Suspect], default: str, what: str) -> None:
    off = [number for number, pair in enumerate(zip(got, right, strict=True)) if not _same(*pair)]
    if not off:
        return
    schedules = _schedules()
    for hint_id, formula, sentence in suspects:
        if all(_same(mine, formula(schedule)) for mine, schedule in zip(got, schedules, strict=True)):
            raise Wrong(hint_id, sentence)
    if all(_same(sorted(_many(mine)), sorted(_many(truth))) for mine, truth in zip(got, right, strict=True)):
        raise Wrong("ranks_mixed_up", "The numbers are right and stand on the wrong ranks: row r belongs to rank r.")
    schedule, mine, truth = schedules[off[0]], got[off[0]], right[off[0]]
    raise Wrong(default, f"In this schedule:\n{schedule}\nyour {what} are {mine}; counted they are {truth}.")


def _many(answer: Any) -> list[float]:
    return answer if isinstance(answer, list) else [answer]


def _same(one: Any, other: Any) -> bool:
    pairs = _many(one), _many(other)
    return len(pairs[0]) == len(pairs[1]) and all(abs(a - b) < 1e-9 for a, b in zip(*pairs, strict=True))


def _asked(price: Price, schedule: Schedule) -> _Answer:
    answer = price(schedule)
    if answer is None:
        raise Wrong("nothing", "Your function returned None; return the pair (holds, messages).")
    try:
        holds, messages = answer
        holds = [float(holds[rank]) for rank in sorted(holds)] if isinstance(holds, dict) else [float(x) for x in holds]
        messages = float(messages)
    except (TypeError, ValueError):
        told = "return a pair: a list with a number for each rank, and a number"
        raise Wrong("no_pair", f"Your function returned {answer!r}; {told}.") from None
    if len(holds) != schedule.num_ranks:
        told = f"In this schedule:\n{schedule}\nyour list has {len(holds)} numbers for {schedule.num_ranks} ranks"
        raise Wrong("number_per_rank", f"{told}; give one for each rank, also where it has several stages.")
    return holds, messages
