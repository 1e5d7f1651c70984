"""The game behind the schedule editor, without a screen: verbs that change a schedule, and their outcomes.

The browser's commands and a learner's own calls go through the same table of verbs, so both can do the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pllab.schedule import Action, Kind, Schedule
from pllab.show.editor.board import moved_of, outcome_of, sentence_of, view_of, with_unit
from pllab.show.editor.edits import History, first_gap, merge, merge_all, move, place_of, split, split_all
from pllab.show.editor.judgement import BoardRules, Judgement, Par, judge
from pllab.show.theme import ENGINE_LABELS, write_seconds
from pllab.timeline import Timeline

MOST_ACTIONS = 600

_Shape = tuple[tuple[tuple[int, ...], ...], int]


class Game:
    """A schedule under rules, with its history, its pars and the last run.

    Example: `game.do("move", {"id": "0B0", "to": 1})`; then `game.said` says what happened, in a sentence.

    Raises:
        ValueError: no moves can make the schedule legal, or it is too long to edit.
    """

    def __init__(self, schedule: Schedule, rules: BoardRules, par: Par | None = None) -> None:
        _refuse(schedule)
        self.rules = rules
        self.said = ""
        self.focus = str(schedule.rows[0][0])
        self._history = History(schedule)
        self._pars: dict[_Shape, Par] = {shape_of(schedule): par} if par else {}
        self._ran: tuple[Schedule, Timeline] | None = None
        self._named = [schedule]  # schedules with names of their own: the first, the loaded, the solver's
        self._judged: Judgement | None = None

    @property
    def start(self) -> Schedule:
        """The schedule at the beginning of the game."""
        return self._history.start

    @property
    def schedule(self) -> Schedule:
        """The present order; its name says that it is edited."""
        present = self._history.present
        if any(present == named and present.name == named.name for named in self._named):
            return present
        return replace(present, name=f"{present.name}, edited")

    @property
    def judgement(self) -> Judgement:
        """The present order with its problems, edges and times."""
        if self._judged is None or self._judged.schedule != self._history.present:
            self._judged = judge(self.schedule, self.rules)
        return self._judged

    @property
    def par(self) -> Par | None:
        """The par for schedules of this shape, if one is known."""
        return self._pars.get(shape_of(self._history.present))

    @property
    def measured(self) -> Timeline | None:
        """The run of exactly this order, if there was one."""
        return self._ran[1] if self._ran and self._ran[0] == self._history.present else None

    def view(self) -> dict[str, Any]:
        """Everything there is to draw, as plain data."""
        return view_of(self.judgement, self.rules, self.par, self.measured)

    def can(self) -> dict[str, bool]:
        """Which of the verbs would do something."""
        kinds = {action.kind for action in self._history.present.actions()}
        return {
            "undo": self._history.can_undo,
            "redo": self._history.can_redo,
            "reset": self._history.present != self.start,
            "split_all": Kind.B in kinds,
            "merge_all": Kind.I in kinds,
            "run": self.judgement.is_legal,
            "show_par": self.par is not None and self.par.schedule is not None,
        }

    def do(self, verb: str, details: Mapping[str, Any]) -> None:
        """Carry out one verb.

        move (id, and `to` a place or `by` a number of places; moves of one `grab` are undone together), cancel (id,
        grab), split (id), merge (id), split_all, merge_all, undo, redo, reset, load (text), show_par.

        Raises:
            ValueError: there is no such verb, or it cannot be done; the schedule is as it was.
        """
        history = self._history
        verbs: dict[str, Callable[[], None]] = {
            "move": lambda: self._move(details),
            "cancel": lambda: self._cancel(details["id"], int(details["grab"])),
            "split": lambda: self._split(Action.parse(details["id"])),
            "merge": lambda: self._merge(Action.parse(details["id"])),
            "split_all": lambda: self._go(split_all(history.present), "every B is split into I and W"),
            "merge_all": lambda: self._go(merge_all(history.present), "every I is merged with its W"),
            "undo": lambda: self._step(history.undo, "undone" if history.can_undo else "nothing to undo"),
            "redo": lambda: self._step(history.redo, "redone" if history.can_redo else "nothing to redo"),
            "reset": lambda: self._go(self.start, "back to the first order"),
            "load": lambda: self._load(details["text"]),
            "show_par": self._show_par,
        }
        if verb not in verbs:
            raise ValueError(f"{verb!r} is nothing the editor does; it does {', '.join(verbs)}")
        verbs[verb]()

    def note_par(self, schedule: Schedule, par: Par) -> None:
        """Remember the par of schedules shaped like this one."""
        self._pars[shape_of(schedule)] = par
        words = par.words(self.rules.prefer_whole_backwards(schedule.num_stages))
        self.said = sentence_of(f"The solver answers: {words}")

    def note_run(self, schedule: Schedule, timeline: Timeline) -> None:
        """Remember what a run of this schedule measured.

        Raises:
            ValueError: it is not a timeline, or has other actions.
        """
        if not isinstance(timeline, Timeline):
            raise ValueError(f"run gave back {timeline!r}; it should return the Timeline it measured")
        scheduled, ran = set(schedule.actions()), (one.action for one in timeline.spans if one.action.kind in "FBIW")
        if foreign := next((action for action in ran if action not in scheduled), None):
            raise ValueError(f"run measured {foreign}, which is not in the schedule; return the run of that one")
        self._ran = (schedule, timeline)
        makespan = timeline.makespan
        took = with_unit(makespan, self.rules.unit) if self.rules.in_units else write_seconds(makespan)
        ran_so = f"This order ran: makespan {took}, engine {ENGINE_LABELS[timeline.engine]}."
        self.said = ran_so if self.measured else f"{ran_so} It has been changed since, so these times are not drawn."

    def _move(self, details: Mapping[str, Any]) -> None:
        action, before = Action.parse(details["id"]), self._history.present
        rank, place = place_of(before, action)
        after = move(before, action, int(details["to"]) if "to" in details else place + int(details["by"]))
        words = moved_of(after, action, rank) if after != before else f"{action} stays where it is on rank {rank}"
        self._go(after, words, str(action), details.get("grab"))

    def _cancel(self, name: str, grab: int) -> None:
        self._step(lambda: self._history.cancel(grab), f"{name} put back", name)

    def _split(self, action: Action) -> None:
        first, rest = action._replace(kind=Kind.I), action._replace(kind=Kind.W)
        self._go(split(self._history.present, action), f"{action} split into {first} and {rest}", str(first))

    def _merge(self, action: Action) -> None:
        first, rest, whole = (action._replace(kind=kind) for kind in (Kind.I, Kind.W, Kind.B))
        self._go(merge(self._history.present, action), f"{first} and {rest} merged into {whole}", str(whole))

    def _load(self, text: str) -> None:
        schedule = Schedule.from_csv(text.removeprefix("\ufeff").strip())
        _refuse(schedule)
        judge(schedule, self.rules)  # costs per stage may not fit it
        self._named.append(schedule)
        self._go(schedule, "schedule loaded", str(schedule.rows[0][0]))

    def _show_par(self) -> None:
        if self.par is None or self.par.schedule is None:
            raise ValueError("no order that reaches par is known; ask the solver first")
        self._named.append(self.par.schedule)
        self._go(self.par.schedule, "the solver's order")

    def _go(self, schedule: Schedule, words: str, focus: str = "", grab: int | None = None) -> None:
        self._step(lambda: self._history.push(schedule, grab), words, focus)

    def _step(self, change: Callable[[], None], words: str, focus: str = "") -> None:
        change()
        self.said = sentence_of(f"{words}: {outcome_of(self.judgement, self.rules.unit)}")
        self.focus = focus or self.focus


def shape_of(schedule: Schedule) -> _Shape:
    """The shape that a par is for: the stages of every rank and the number of micro-batches."""
    return tuple(schedule.stages_of_rank(rank) for rank in range(schedule.num_ranks)), schedule.num_microbatches


def is_plain(schedule: Schedule) -> bool:
    """Whether every rank has one stage, in order; the solver takes only such schedules."""
    return all(schedule.stages_of_rank(rank) == (rank,) for rank in range(schedule.num_ranks))


def _refuse(schedule: Schedule) -> None:
    """Refuse a schedule that is too long or that no moves can make legal."""
    if schedule.num_actions > MOST_ACTIONS:
        raise ValueError(
            f"the schedule has {schedule.num_actions} actions; the editor takes {MOST_ACTIONS}, the studio shows more"
        )
    if gap := first_gap(schedule):
        raise ValueError(f"this schedule cannot be edited: {gap}")
