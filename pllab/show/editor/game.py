"""The game behind the schedule editor, without a screen: the table of moves, and what each of them led to.

The browser and a learner's own calls go through the same table, so both can do the same.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from pllab.schedule import Action, Kind, Schedule
from pllab.show.editor.board import label_in, outcome_of, view_of
from pllab.show.editor.edits import Position, halves_of, merge, move, place_of, split
from pllab.show.editor.judgement import BoardRules, judge
from pllab.show.theme import ENGINE_LABELS, write_number
from pllab.timeline import Timeline

_CLEARED = "the board is empty: place one of the next moves of a rank"


class Game:
    """A schedule under rules, with its history and the last run.

    Example: `game.do("move", "0B0", to=1)`; then `game.said` says what happened, in a sentence.
    """

    def __init__(self, schedule: Schedule, rules: BoardRules) -> None:
        self.rules = rules
        self.said = ""
        self.focus = str(schedule.rows[0][0])
        self._start = Position(schedule)
        self._positions = [self._start]  # the past ones, the present one, and those that were undone
        self._at = 0
        self.judgement = judge(self._start, rules)  # of the present position
        self._before: float | None = None  # the last other makespan
        self._ran: tuple[Schedule, Timeline] | None = None

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

    def view(self) -> dict[str, Any]:
        """Everything there is to draw, as plain data."""
        ran = self._ran[1] if self._ran and self._ran[0] == self._present.board else None
        view = view_of(self.judgement, self.rules, self.schedule.name, self._before, ran)
        built = None if self._is_start else self.judgement.family
        return view | {"built": f"You built {built}." if built else "", "said": self.said, "focus": self.focus}

    def can(self) -> dict[str, bool]:
        """Which of the moves would do something."""
        return {
            "undo": self._at > 0,
            "redo": self._at < len(self._positions) - 1,
            "reset": not self._is_start,
            "clear": any(self._present.board.rows),
            "split_all": any(action.kind is Kind.B for action in self.judgement.whole.actions()),
            "run": self.judgement.is_legal and self._present.is_complete,
        }

    def do(self, verb: str, action: str, to: int | None) -> None:
        """Make a move of the table.

        Raises:
            ValueError: there is no such move, or it cannot be made; the schedule is as it was.
        """
        if not isinstance(verb, str) or verb not in self._MOVES:
            raise ValueError(f"{verb!r} is nothing the editor does; it does {', '.join(self._MOVES)}")
        self._MOVES[verb](self, action, to)

    def note_run(self, timeline: Timeline) -> None:
        """Remember what a run of the present order measured."""
        self._ran = (self._present.board, timeline)
        self.said = (
            f"This order ran: makespan {write_number(timeline.makespan)}, engine {ENGINE_LABELS[timeline.engine]}."
        )

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
        action, ready = Action.parse(str(name)), [one for row in self.judgement.ready for one in row]
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

    _MOVES: ClassVar[dict[str, Callable[["Game", str, int | None], None]]] = {
        "move": _move,
        "place": _place,
        "split": _split,
        "merge": _merge,
        "split_all": lambda game, *_: game._go(game._present.split_all(), "every B is split into I and W"),
        "clear": lambda game, *_: game._go(game._present.emptied(), _CLEARED),
        "undo": lambda game, *_: game._step(-1, "undone", "nothing to undo"),
        "redo": lambda game, *_: game._step(1, "redone", "nothing to redo"),
        "reset": lambda game, *_: game._go(game._start, "back to the first order"),
    }

    def _go(self, position: Position, words: str, focus: Action | None = None) -> None:
        """Make a position the present one; one equal to it leaves no entry."""
        at = self._at
        if position != self._present:
            at += 1
            self._positions[at:] = [position]
        self._show(at, words, focus)

    def _step(self, by: int, done: str, nothing: str) -> None:
        """Go to the position before or after, and say so, or say that there is none."""
        exists = 0 <= self._at + by < len(self._positions)
        self._show(self._at + by if exists else self._at, done if exists else nothing)

    def _show(self, at: int, words: str, focus: Action | None = None) -> None:
        """Go to a position, judge it, and say what led there."""
        makespan = self.judgement.makespan
        if at != self._at:
            self._at = at
            self._before = self._before if makespan is None else makespan
            self.judgement = judge(self._present, self.rules)
        self.said = f"{words[:1].upper()}{words[1:]}: {outcome_of(self.judgement)}."
        self.focus = str(focus) if focus else self.focus

    def _label(self, action: Action) -> str:
        return label_in(self.judgement.whole, action)
