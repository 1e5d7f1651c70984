"""The cases of exercise 17.1: what the ranks of a schedule hold at most, and how many messages they send.

Memory is held against the package's count, messages against the boundaries between stages on different ranks.
"""

import random
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from pllab import schedule as schedules
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare
from pllab.memory import Held
from pllab.schedule import Schedule, one_f_one_b, peak_in_flight


def _questions() -> list[tuple[Schedule]]:
    """Every placement, whole and split backwards and both together, a single rank, and ranks in any order.

    Small ones come first, because the first wrong answer is shown.
    """
    whole = one_f_one_b(2, 5)
    partly_split = [re.sub(r"(\d)B([13])", r"\1I\2 \1W\2", " ".join(map(str, row))).split() for row in whole.rows]
    chosen = [
        *(one_f_one_b(2, 1), one_f_one_b(4, 6), schedules.gpipe(3, 5), schedules.zb_h1(3, 4), schedules.zb_h2(4, 9)),
        *(schedules.interleaved(1, 3, 2), schedules.interleaved(2, 4, 2), schedules.interleaved(3, 6, 3)),
        *(schedules.zbv(3, 7), schedules.v_min(4, 6), Schedule((schedules.gpipe(1, 4).rows[0],))),
        Schedule.of(partly_split),
        Schedule((whole.rows[0], schedules.split_backwards(whole).rows[1])),
        Schedule(tuple(random.Random(17).sample(schedules.zbv(4, 5).rows, 4))),
        Schedule(one_f_one_b(4, 11).rows[::-1]),
    ]
    return [(schedule,) for schedule in sorted(chosen, key=lambda schedule: schedule.num_actions)]


def _pair(answer: Any, schedule: Schedule) -> tuple[list[float], float]:
    try:
        holds, messages = answer
        holds = [holds[rank] for rank in sorted(holds)] if isinstance(holds, dict) else list(holds)
        holds, messages = [round(float(one), 9) for one in holds], round(float(messages), 9)
    except (TypeError, ValueError):
        told = "return a pair: a list with a number for each rank, and a number"
        raise Wrong("no_pair", f"Your function returned {answer!r}; {told}.") from None
    if len(holds) != schedule.num_ranks:
        told = f"For this schedule:\n{schedule}\nyour list has {len(holds)} numbers"
        raise Wrong("no_pair", f"{told}; right is one for each rank, so {schedule.num_ranks}.")
    return holds, messages


def _peaks(schedule: Schedule, held: Held | None = None) -> list[float]:
    return list(peak_in_flight(schedule, held))


def _fullest_stages(schedule: Schedule) -> list[float]:
    """For each rank, the most that one of its stages holds."""
    stages = [[[a for a in row if a.stage == stage] for stage in {a.stage for a in row}] for row in schedule.rows]
    return [max(max(Held().after_each(part)) for part in parts) for parts in stages]


def _shares(schedule: Schedule) -> list[float]:
    """The peaks divided by the stages of each rank."""
    peaks = enumerate(peak_in_flight(schedule))
    return [round(peak / len(schedule.stages_of_rank(rank)), 9) for rank, peak in peaks]


def _messages(schedule: Schedule, rank_of: Callable[[int], int] | None = None) -> float:
    """An activation and a gradient of every micro-batch at every boundary between two ranks."""
    homes = map(rank_of or schedule.rank_of_stage.__getitem__, range(schedule.num_stages))
    return 2 * schedule.num_microbatches * sum(one != other for one, other in pairwise(homes))


def _compare(price: Function, part: int, truth: Callable[[Schedule], Any], hint_id: str, *mistakes: Mistake) -> None:
    """Compare one part of the pairs."""
    compare(
        price,
        _questions(),
        truth,
        mistakes,
        asked="this schedule:\n{}\n",
        read=lambda answer, schedule: _pair(answer, schedule)[part],
        hint_id=hint_id,
    )


@case("each rank holds what the rows say, for whole and for split backwards")
def right_memory(price: Function) -> None:
    _compare(
        price,
        0,
        _peaks,
        "wrong_memory",
        Mistake(
            "input_lets_all_go",
            "You release a whole micro-batch at its I; W still needs half of it.",
            like=lambda schedule: _peaks(schedule, Held(1.0)),
        ),
        Mistake(
            "only_weight_lets_go",
            "You keep all of a micro-batch until its W; its I releases half of it.",
            like=lambda schedule: _peaks(schedule, Held(0.0)),
        ),
        Mistake(
            "by_stage",
            "Count all stages of a rank: a micro-batch on two of them counts twice.",
            like=_fullest_stages,
        ),
        Mistake("divided_by_stages", "You divided by the stages of the rank.", like=_shares),
    )


@case("the messages are those between ranks, wherever the stages lie")
def right_messages(price: Function) -> None:
    _compare(
        price,
        1,
        _messages,
        "wrong_messages",
        Mistake(
            "forward_only",
            "You counted the activations; a gradient comes back through every boundary.",
            like=lambda schedule: _messages(schedule) / 2,
        ),
        Mistake(
            "row_for_rank",
            "You assumed that stages are dealt out in turn; in a V they are in another order: ask rank_of_stage.",
            like=lambda schedule: _messages(schedule, rank_of=lambda stage: stage % schedule.num_ranks),
        ),
        Mistake(
            "every_boundary",
            "You counted every boundary between stages; between two stages of one rank you send nothing.",
            like=lambda schedule: _messages(schedule, rank_of=lambda stage: stage),
        ),
    )
