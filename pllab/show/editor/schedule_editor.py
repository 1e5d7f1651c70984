"""The schedule editor, or bubble golf: reorder the actions of every rank, stay legal, and reach par.

The browser draws, and sends what the learner does as messages, which are carried out here. So the moves, the judgement
and every word are tested without a browser, and the same moves work from a cell.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import traitlets

from pllab.arguments import is_number, require
from pllab.schedule import Action, Kind, Schedule
from pllab.show.editor.board import draw_board, label_in, outcome_of, sentence_of, summary_of, view_of
from pllab.show.editor.positions import BoardRules, Position, halves_of, judge, merge, move, place_of, split
from pllab.show.figures import Figure
from pllab.show.theme import ENGINE_LABELS, write_number
from pllab.show.widget import Run, Widget, measure, sources_of
from pllab.simulate import Costs
from pllab.timeline import Timeline

_CLEARED = "the board is empty: place one of the next moves of a rank"


class ScheduleEditor(Widget):
    """Move, split and merge the actions of a schedule; problems, times, memory and score follow each move.

    Keys on a block: arrows choose another; Alt with left or right moves it one place; S splits a B or merges I and W;
    Ctrl+Z and Ctrl+Y undo and redo. On an emptied board, every rank shows what it can do next.

    Example: `ScheduleEditor(one_f_one_b(4, 6), memory_limit=4, run=run_emulated)` at the end of a cell, with
    `run_emulated` of `pllab.pipeline`; `.schedule` is the schedule as the learner has changed it.

    Args:
        schedule: the first schedule; reset comes back to it.
        costs: the costs for the simulator.
        memory_limit: the most micro-batches that a rank may hold, counted on all its layers: with v stages per rank, a
            micro-batch on one stage counts 1/v, as in the studio.
        par: the makespan to reach.
        run: runs a legal schedule, `run(schedule, costs=costs)`, and returns the timeline that it measured in the unit
            of the costs, as `run_emulated` does.
        projector: whether the editor fills the window, for a lecture.

    Raises:
        ValueError: `memory_limit` or `par` is no number.
    """

    _esm, _css = sources_of(__file__, "view.js", "boxes.js", "editor/dragging.js")

    view = traitlets.Dict(help="all that is shown: the order with its judgement, and what the last move did").tag(
        sync=True
    )

    def __init__(
        self,
        schedule: Schedule,
        costs: Costs | None = None,
        memory_limit: float | None = None,
        par: float | None = None,
        run: Run | None = None,
        *,
        projector: bool = False,
    ) -> None:
        is_fine = par is None or (is_number(par) and math.isfinite(par))
        require(is_fine, f"par is {par!r}; give the makespan to reach, a number, or None")
        limit = None if memory_limit == math.inf else memory_limit  # as JSON has no infinity
        self._rules = BoardRules(costs or Costs(), limit, par)
        self._run = run
        self._start = Position(schedule)
        self._positions = [self._start]  # the past ones, the present one, and those that were undone
        self._at = 0
        self._judgement = judge(self._start, self._rules)  # of the present position
        self._before: float | None = None  # the last other makespan
        self._ran: tuple[Schedule, Timeline] | None = None  # the last run, and of which order
        self._said, self._focus, self._turn = "", str(schedule.rows[0][0]), 0
        super().__init__(projector=projector)
        self._show()
        self.on_msg(self._obey)

    @property
    def schedule(self) -> Schedule:
        """What stands on the board; its name says that it is edited."""
        board = self._present.board
        return board if self._is_start else replace(board, name=f"{board.name}, edited")

    @property
    def _present(self) -> Position:
        return self._positions[self._at]

    @property
    def _is_start(self) -> bool:
        return self._present == self._start

    @property
    def _run_of_present(self) -> Timeline | None:
        return self._ran[1] if self._ran and self._ran[0] == self._present.board else None

    def static(self) -> Figure:
        """The present rows, with edges, memory and measured spans, as a figure with a text alternative."""
        return draw_board(self._judgement, self.view, self._run_of_present, summary_of(self.view))

    def do(self, verb: str, action: str = "", *, to: int | None = None) -> None:
        """Make a move from a cell: `editor.do("move", "0B0", to=2)`, `editor.do("split", "0B0")`, `editor.do("undo")`.

        move (to a place, from 0), place (the next move of a rank), split and merge are about an action; split_all,
        clear, undo, redo and reset are not.

        Raises:
            ValueError: there is no such verb, or it cannot be done; the schedule is as it was.
        """
        if not isinstance(verb, str) or verb not in self._MOVES:
            raise ValueError(f"{verb!r} is nothing the editor does; it does {', '.join(self._MOVES)}")
        self._MOVES[verb](self, action, to)
        self._show()

    def run_it(self) -> Timeline:
        """Run the present order with the editor's `run`, and draw the measured spans under the prediction.

        Raises:
            ValueError: there is no `run`, the order is illegal or not complete, or something else was measured.
            TimeoutError: it takes longer than `timeout_s`.
        """
        if self._run is None:
            raise ValueError("this editor has nothing to run with; make it with run=, a function of a Schedule")
        if problems := self._judgement.problems:
            raise ValueError(f"an illegal schedule is not run: {problems[0].sentence}")
        require(self._present.is_complete, "a part of a schedule is not run; place every action first")
        self._show(busy="Running this order.")
        try:
            timeline = measure(self._run, self.schedule, self._rules.costs, self.timeout_s)
            self._ran = (self._present.board, timeline)
            took, engine = write_number(timeline.makespan), ENGINE_LABELS[timeline.engine]
            self._said = f"This order ran: makespan {took}, engine {engine}."
        finally:
            self._show()
        return timeline

    def _obey(self, _: Any, asked: dict[str, Any], __: Any) -> None:
        """Carry out what the browser asks for; what cannot be done is told in the widget."""
        try:
            if asked.get("verb") == "run":
                self.run_it()
            else:
                to = asked.get("to")
                if "by" in asked:  # a key moves a block from where it is now, which the browser may not have drawn yet
                    to = place_of(self._present.board, Action.parse(asked["id"]))[1] + asked["by"]
                self.do(asked["verb"], asked.get("id", ""), to=to)
        except Exception as error:  # the caller's run may fail in any way, and the widget says how
            is_ours = isinstance(error, ValueError | TimeoutError | ImportError)
            trouble = str(error) if is_ours else f"{type(error).__name__}: {error}"
            self._show(trouble=sentence_of(trouble, self._judgement.whole))

    def _show(self, busy: str = "", trouble: str = "") -> None:
        """Send the present state: everything there is to draw, and which moves would do something."""
        self._turn += 1
        judged, present = self._judgement, self._present
        built = None if self._is_start else judged.family
        can = {
            "undo": self._at > 0,
            "redo": self._at < len(self._positions) - 1,
            "reset": not self._is_start,
            "clear": any(present.board.rows),
            "split_all": any(action.kind is Kind.B for action in judged.whole.actions()),
            "run": judged.is_legal and present.is_complete,
            "has_run": self._run is not None,
        }
        view = view_of(judged, self.schedule.name, self._before, self._run_of_present)
        view |= {"built": f"You built {built}." if built else "", "said": self._said, "focus": self._focus}
        self.view = view | {"trouble": trouble, "busy": busy, "can": can, "turn": self._turn}

    # The moves

    def _move(self, name: str, to: int | None) -> None:
        action, board = Action.parse(str(name)), self._present.board
        rank, _ = place_of(board, action)
        if to is None:
            raise ValueError(f"{action} is moved nowhere; give its new place in the row, to=0 for the first")
        after = move(board, action, to)
        row = after.rows[rank]
        behind = row[row.index(action) + 1 : row.index(action) + 2]
        where = f"moved before {self._label(behind[0])} on" if behind else "moved to the end of"
        words = f"{self._label(action)} {'stays where it is on' if after == board else where} rank {rank}"
        self._go(replace(self._present, board=after), words, action)

    def _place(self, name: str, _: int | None) -> None:
        action, ready = Action.parse(str(name)), [one for row in self._judgement.ready for one in row]
        if action not in ready:
            known = f"the next moves are {', '.join(map(str, ready))}" if ready else "everything stands on the board"
            raise ValueError(f"{action} cannot be placed now; {known}")
        position = self._present.place(action)
        rank, _ = place_of(position.board, action)
        self._go(position, f"{self._label(action)} placed on rank {rank}", action)

    def _split(self, name: str, _: int | None) -> None:
        action, present = Action.parse(str(name)), self._present
        first, rest = halves_of(action)
        words = f"{self._label(action)} split into {self._label(first)} and {self._label(rest)}"
        self._go(replace(present, board=split(present.board, action)), words, first)

    def _merge(self, name: str, _: int | None) -> None:
        action, present = Action.parse(str(name)), self._present
        first, rest = halves_of(action)
        whole = action._replace(kind=Kind.B)
        words = f"{self._label(first)} and {self._label(rest)} merged into {self._label(whole)}"
        self._go(replace(present, board=merge(present.board, action)), words, whole)

    _MOVES: ClassVar[dict[str, Callable[["ScheduleEditor", str, int | None], None]]] = {
        "move": _move,
        "place": _place,
        "split": _split,
        "merge": _merge,
        "split_all": lambda one, *_: one._go(one._present.split_all(), "every B is split into I and W"),
        "clear": lambda one, *_: one._go(one._present.emptied(), _CLEARED),
        "undo": lambda one, *_: one._step(-1, "undone", "nothing to undo"),
        "redo": lambda one, *_: one._step(1, "redone", "nothing to redo"),
        "reset": lambda one, *_: one._go(one._start, "back to the first order"),
    }

    def _step(self, by: int, done: str, nothing: str) -> None:
        """Go to the position before or after, and say so, or say that there is none."""
        exists = 0 <= self._at + by < len(self._positions)
        self._arrive(self._at + by if exists else self._at, done if exists else nothing)

    def _go(self, position: Position, words: str, focus: Action | None = None) -> None:
        """Make a position the present one; one equal to it leaves no entry."""
        at = self._at
        if position != self._present:
            at += 1
            self._positions[at:] = [position]
        self._arrive(at, words, focus)

    def _arrive(self, at: int, words: str, focus: Action | None = None) -> None:
        """Judge a position, and say what led there."""
        makespan = self._judgement.makespan
        if at != self._at:
            self._at = at
            self._before = self._before if makespan is None else makespan
            self._judgement = judge(self._present, self._rules)
        self._said = f"{words[:1].upper()}{words[1:]}: {outcome_of(self._judgement)}."
        self._focus = str(focus) if focus else self._focus

    def _label(self, action: Action) -> str:
        return label_in(self._judgement.whole, action)
