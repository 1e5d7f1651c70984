"""The words of the schedule editor: title, score, numbers and announcements, each made from the numbers it names."""

from dataclasses import dataclass
from typing import Any

from pllab.schedule import Action, Kind, Schedule
from pllab.schedule.check import stages_per_rank
from pllab.show.editor_judge import Judgement
from pllab.show.theme import ENGINE_LABELS, paint_of, write_number, write_percent, write_seconds
from pllab.timeline import Timeline

GUIDE = (
    "Drag a block along its rank. Keys: arrows choose a block; Alt+Left or Right moves it one place; Space picks it "
    "up, arrows carry it, Enter drops it, Escape puts it back; S splits a B or merges I and W; Ctrl+Z and Ctrl+Y undo "
    "and redo."
)


@dataclass(frozen=True)
class Par:
    """The makespan to reach, what nothing can be shorter than, and the schedule that reaches it if one is known."""

    makespan: float
    bound: float | None = None
    proven: bool = False
    schedule: Schedule | None = None

    @classmethod
    def of(cls, given: Any) -> "Par":
        """From an `Optimum` of `pllab.schedule.optimal`, or from a plain number.

        Raises:
            ValueError: it is neither.
        """
        if isinstance(given, int | float) and not isinstance(given, bool):
            return cls(float(given))
        try:
            return cls(float(given.makespan), float(given.bound), bool(given.proven), given.schedule)
        except AttributeError:
            raise ValueError(f"par is {given!r}; give a makespan, an Optimum, or a function that returns one") from None

    @property
    def words(self) -> str:
        """`par 14, proven: no order is shorter`."""
        told = f"par {write_number(self.makespan)}"
        if self.proven:
            return f"{told}, proven by the solver: no order is shorter"
        if self.bound is not None:
            return f"{told}, the solver's best; it has proven only that none is below {write_number(self.bound)}"
        return told


def score_of(makespan: float, par: Par) -> str:
    """`1 over par`, `par`, or `2 under par`; differences below a millionth are rounding."""
    over = makespan - par.makespan
    if abs(over) <= 1e-6 * max(abs(par.makespan), 1e-12):
        return "par"
    return f"{write_number(abs(over))} {'over' if over > 0 else 'under'} par"


def numbers_of(timeline: Timeline, unit: str) -> list[str]:
    """Makespan and both bubble numbers, each with its definition, and the engine that made them."""
    total = timeline.busy + timeline.idle
    idle, busy = write_number(max(timeline.idle, 0.0)), write_number(timeline.busy)
    return [
        f"makespan {with_unit(timeline.makespan, unit)}",
        f"bubble fraction, idle / all: {idle}/{write_number(total)} = {write_percent(timeline.bubble_fraction)}",
        f"bubble overhead, idle / busy: {idle}/{busy} = {write_percent(timeline.bubble_overhead)}",
        f"engine: {timeline.engine}",
    ]


def outcome_of(judgement: Judgement, unit: str) -> str:
    """`legal, makespan 14, bubble fraction 18.2 %`, or `illegal, 2 problems`."""
    if not judgement.is_legal:
        count = len(judgement.problems)
        return "illegal, 1 problem" if count == 1 else f"illegal, {count} problems"
    assert judgement.timeline is not None
    told = judgement.timeline
    return f"legal, makespan {with_unit(told.makespan, unit)}, bubble fraction {write_percent(told.bubble_fraction)}"


def verdict_of(judgement: Judgement, limit: float | None) -> list[str]:
    """The problems as sentences, or one sentence that there is none."""
    if judgement.problems:
        return [sentence_of(problem.sentence) for problem in judgement.problems]
    unit = counted_of(judgement.schedule)
    under = "" if limit is None else f", and no rank holds more than {write_number(limit)} {unit}"
    return [f"Legal: every action can run in this order{under}."]


def moved_of(schedule: Schedule, action: Action, rank: int) -> str:
    """`1B0 moved before 1F2 on rank 1`, or to the end of the row."""
    row = schedule.rows[rank]
    place = row.index(action)
    where = f"before {row[place + 1]} on" if place + 1 < len(row) else "to the end of"
    return f"{action} moved {where} rank {rank}"


def title_of(schedule: Schedule, limit: float | None) -> str:
    """`8 micro-batches on 4 ranks, memory limit 4`; the unit is named where it is not a stage's."""
    batches = count_of(schedule.num_microbatches, "micro-batch", "micro-batches")
    ranks = count_of(schedule.num_ranks, "rank", "ranks")
    unit = f" {counted_of(schedule)}" if stages_per_rank(schedule) != 1 else ""
    return f"{batches} on {ranks}" + ("" if limit is None else f", memory limit {write_number(limit)}{unit}")


def counted_of(schedule: Schedule) -> str:
    """What memory is counted in: `micro-batches`, or `micro-batches of 2 stages` where so many make a rank's share."""
    stages = stages_per_rank(schedule)
    return "micro-batches" if stages == 1 else f"micro-batches of {write_number(stages)} stages"


def measured_of(measured: Timeline, predicted: Timeline, unit_s: float, unit: str, is_derived: bool) -> str:
    """The measured makespan with its engine, beside the predicted one on the same scale."""
    engine = ENGINE_LABELS[measured.engine]
    scale = f"{f'1 {unit}' if unit else 'one unit'} of cost = {write_seconds(unit_s)}"
    how = f"{scale}, so that both are busy as long" if is_derived else scale
    return (
        f"Measured, engine {engine}: makespan {write_seconds(measured.makespan)}, bubble fraction "
        f"{write_percent(measured.bubble_fraction)}. Drawn under the prediction with {how}: "
        f"{_beside(measured.makespan / unit_s, predicted.makespan, unit)}."
    )


def measured_in_units_of(measured: Timeline, predicted: Timeline, unit: str) -> str:
    """The same of a run that was given the costs and answers in their unit."""
    return (
        f"Measured, engine {ENGINE_LABELS[measured.engine]}, in the unit of the costs: bubble fraction "
        f"{write_percent(measured.bubble_fraction)}, makespan {_beside(measured.makespan, predicted.makespan, unit)}."
    )


def _beside(measured: float, predicted: float, unit: str) -> str:
    """`12.1 against 12, 0.8 % longer`."""
    off = (measured / predicted - 1) if predicted else 0.0
    how = f"{abs(off) * 100:.1f} % {'longer' if off >= 0 else 'shorter'}"
    return f"{with_unit(measured, unit)} against {with_unit(predicted, unit)}, {how}"


def block_of(action: Action, place: int, length: int, rank: int) -> str:
    """What a screen reader says of a block: `1B0, backward of micro-batch 0 on stage 1, place 3 of 8 on rank 1`."""
    kind = paint_of(action.kind).name
    named = f"{action}, {kind} of micro-batch {action.microbatch} on stage {action.stage}"
    return f"{named}, place {place + 1} of {length} on rank {rank}"


def change_of(action: Action) -> str:
    """What the split button does to a block: `Split 1B0`, `Merge 1I0 and 1W0`, or nothing."""
    if action.kind is Kind.B:
        return f"Split {action}"
    if action.kind is Kind.F:
        return ""
    return f"Merge {action._replace(kind=Kind.I)} and {action._replace(kind=Kind.W)}"


def held_of(peak: float, limit: float | None) -> str:
    """`holds 4 of 4`, `holds 5 of 4: too many`, or `holds 4` without a limit."""
    if limit is None:
        return f"holds {write_number(peak)}"
    return f"holds {write_number(peak)} of {write_number(limit)}" + (": too many" if peak > limit + 1e-9 else "")


def with_unit(value: float, unit: str) -> str:
    """`14`, or `14 ms`."""
    return f"{write_number(value)} {unit}".rstrip()


def sentence_of(text: str) -> str:
    """With a capital, unless it starts with the name of an action or of code, and a full stop."""
    start = text[:1].upper() + text[1:] if text.partition(" ")[0].strip(",:;").isalpha() else text
    return start if start.endswith(".") else f"{start}."


def count_of(number: int, one: str, many: str) -> str:
    """`1 rank`, `2 ranks`."""
    return f"{number} {one if number == 1 else many}"
