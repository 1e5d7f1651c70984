"""Is a schedule legal? One sentence per problem, naming the actions.

A legal schedule has every action once and each stage on one rank. Its order lets every action run: no rank waits for
itself or in a circle. It stays under the memory limit if there is one. It cannot deadlock on any engine.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby, islice

from pllab.arguments import is_number, require
from pllab.memory import Held, is_over
from pllab.schedule.dependencies import Walk, needs
from pllab.schedule.model import Action, Kind, Schedule

_SCHEDULED = frozenset({Kind.F, Kind.B, Kind.I, Kind.W})
_Counts = Counter[Action]
_MOST_PROBLEMS = 100  # a person reads the first few; a broken file must not fill the memory


class ScheduleError(ValueError):
    """A schedule that cannot run; `.problem` has the sentence and the actions it names."""

    def __init__(self, problem: "Problem") -> None:
        super().__init__(problem.sentence)
        self.problem = problem


@dataclass(frozen=True)
class Problem:
    """Why a schedule is illegal: one sentence, and the actions an editor marks."""

    sentence: str
    actions: tuple[Action, ...] = ()


def check(schedule: Schedule, memory_limit: float | None = None) -> None:
    """Refuse an illegal schedule.

    Example: `check(one_f_one_b(4, 8), memory_limit=4)` returns, `memory_limit=3` raises.

    The limit counts micro-batches on all stages of a rank. With v stages per rank, a micro-batch on one of them counts
    1/v (and 1 in `peak_in_flight`): `interleaved(2, 4)` holds 5 activations of single stages and fits in 2.5.

    Raises:
        ScheduleError: a ValueError with the first problem; for a deadlock the sentence walks the circle.
        ValueError: the memory limit is not a number.
    """
    for problem in _problems(schedule, memory_limit):
        raise ScheduleError(problem)


def problems(schedule: Schedule, memory_limit: float | None = None) -> list[Problem]:
    """All problems of a schedule (the first hundred), for an editor; empty if it is legal.

    The order of actions is judged only if none is missing or extra, and only one circle is shown.
    """
    return list(islice(_problems(schedule, memory_limit), _MOST_PROBLEMS))


def _problems(schedule: Schedule, memory_limit: float | None) -> Iterator[Problem]:
    is_fine = memory_limit is None or (is_number(memory_limit) and memory_limit >= 0)
    require(is_fine, f"memory_limit is {memory_limit}; give the most micro-batches a rank may hold, or None")
    counts = Counter(schedule.actions())
    complete = True
    for problem in chain(_nothing(schedule), _wrong(counts), _homes(schedule), _unfinished(schedule, counts)):
        complete = False
        yield problem
    if complete:
        yield from _deadlock(schedule)
    if memory_limit is not None:
        yield from _memory(schedule, memory_limit)


def _nothing(schedule: Schedule) -> Iterator[Problem]:
    if not any(schedule.rows):
        yield Problem("the schedule is empty; give every rank at least one forward and its backward")
    elif idle := [rank for rank, row in enumerate(schedule.rows) if not row]:
        yield Problem(f"rank {idle[0]} has nothing to do; leave it out or give it a stage")


def _wrong(counts: _Counts) -> Iterator[Problem]:
    """Actions that no schedule has, or not so often."""
    for action, count in counts.items():
        if not isinstance(action.kind, Kind):
            kind = f"the kind of {action} is {action.kind!r}, a {type(action.kind).__name__}"
            yield Problem(f"{kind}; make it with Action.parse, or with a Kind", (action,))
        elif action.kind not in _SCHEDULED:
            yield Problem(f"{action} is not an action a schedule orders; it orders F, B, I and W", (action,))
        elif action.stage < 0 or action.microbatch < 0:
            yield Problem(f"{action} counts below zero; stages and micro-batches count from 0", (action,))
        elif count > 1:
            yield Problem(f"{action} is scheduled {count} times; every action runs once", (action,))


def _homes(schedule: Schedule) -> Iterator[Problem]:
    homes: dict[int, tuple[int, Action]] = {}
    for rank, row in enumerate(schedule.rows):
        for action in row:
            home, first = homes.setdefault(action.stage, (rank, action))
            if home != rank:
                sentence = f"stage {action.stage} is on rank {home} ({first}) and on rank {rank} ({action})"
                yield Problem(f"{sentence}; a stage has one rank, because its weights are there", (first, action))


def _unfinished(schedule: Schedule, counts: _Counts) -> Iterator[Problem]:
    """Each stage takes each micro-batch through F, and through B or through I and W."""
    for stage in range(schedule.num_stages):
        for microbatch in range(schedule.num_microbatches):
            forward, whole, half, rest = (Action(stage, kind, microbatch) for kind in (Kind.F, Kind.B, Kind.I, Kind.W))
            if forward not in counts:
                yield Problem(f"{forward} is missing; every stage runs every micro-batch forward", (forward,))
            if half in counts and whole in counts:
                yield Problem(f"{whole} and {half} both go back through one micro-batch; keep one", (whole, half))
            elif half in counts and rest not in counts:
                yield Problem(f"{rest} is missing; {half} is only half of a backward", (rest,))
            elif rest in counts and half not in counts:
                yield Problem(f"{rest} has no {half}; a weight gradient follows its input gradient", (rest,))
            elif half not in counts and whole not in counts:
                yield Problem(f"{whole} is missing; write {whole}, or {half} and {rest}", (whole,))


def _deadlock(schedule: Schedule) -> Iterator[Problem]:
    """Let every rank run as far as it can; if some cannot end, one circle of waiting is the reason.

    Example: rank 0 with `0F0 0B0 0F1 0B1` stops at 0B0, and rank 1 with `1F0 1F1 1B0 1B1` at 1F1. 0B0 waits for 1B0,
    which comes after 1F1 on rank 1; 1F1 waits for 0F1, which comes after 0B0 on rank 0. From a stuck rank, following
    'waits for' until a rank comes up again finds the circle.
    """
    walk = Walk(schedule)
    if walk.is_over():
        return
    rows = list(zip(schedule.rows, map(len, walk.ends), strict=True))
    present = frozenset(schedule.actions())
    done = {action for row, head in rows for action in row[:head]}
    stuck = {rank: row[head] for rank, (row, head) in enumerate(rows) if head < len(row)}

    def first_need(action: Action) -> Action:
        return next(need for need in needs(action, schedule.num_stages, present) if need not in done)

    rank = next(iter(stuck))
    order: list[int] = []
    while rank not in order:
        order.append(rank)
        rank = schedule.rank_of_stage[first_need(stuck[rank]).stage]
    waits = [(stuck[rank], rank) for rank in order[order.index(rank) :]]
    parts = [_wait(action, first_need(action), waits[(i + 1) % len(waits)]) for i, (action, _) in enumerate(waits)]
    involved = tuple(item for action, _ in waits for item in (action, first_need(action)))
    yield Problem(f"the schedule deadlocks: {'; '.join(parts)}", involved)


def _wait(action: Action, need: Action, blocked_by: tuple[Action, int]) -> str:
    head, rank = blocked_by
    if head == need:  # the need is next on its rank, and is the next to wait in the circle
        return f"{action} waits for {need}"
    behind = "it" if head == action else str(head)
    return f"{action} waits for {need}, which comes after {behind} on rank {rank}"


def peak_in_flight(schedule: Schedule, held: Held | None = None) -> tuple[float, ...]:
    """Per rank, the most micro-batches whose activations it holds at once, by the order of its actions alone.

    Example: 1F1B holds `min(m, p - s)` on stage s; `(4, 3, 2, 1)` for four stages and many micro-batches.
    """
    held = held or Held()
    return tuple(max(held.after_each(row), default=0.0) for row in schedule.rows)


def gathers(schedule: Schedule) -> tuple[int, ...]:
    """Per rank, how often it gathers the sharded weights of a stage, if it keeps only those of its latest action.

    Example: `breadth_first([0, 1, 0, 1], 8)` runs each stage once up and once down, and the last one stays in between:
    `(3, 3)`. `interleaved(2, 8)` goes back and forth between its stages: `(23, 9)`.

    Source: `_add_unshard_reshard` in torch.distributed.pipelining, with one active stage.
    """
    return tuple(sum(1 for _ in groupby(action.stage for action in row)) for row in schedule.rows)


def _memory(schedule: Schedule, limit: float) -> Iterator[Problem]:
    stages = schedule.stages_per_rank
    unit = "micro-batches" if stages == 1 else f"micro-batches of {stages:g} stages"
    for rank, row in enumerate(schedule.rows):
        for action, count in zip(row, Held().after_each(row), strict=True):
            if is_over(count / stages, limit):
                sentence = f"rank {rank} holds {count / stages:g} {unit} at {action}, more than the limit of {limit:g}"
                yield Problem(f"{sentence}; run a backward before it or raise the limit", (action,))
                break
