"""The schedule editor, or bubble golf: reorder the actions of every rank, stay legal, and reach par.

The browser draws, and sends what the learner does as messages, which are carried out here. So the moves, the judgement
and every word are tested without a browser, and the same moves work from a cell.
"""

import math
from typing import Any

import traitlets

from pllab.arguments import deadline, require
from pllab.schedule import Schedule
from pllab.schedule.legality import check_memory_limit
from pllab.show.editor.board import sentence_of, summary_of
from pllab.show.editor.board_picture import draw_board
from pllab.show.editor.game import Game
from pllab.show.editor.judgement import BoardRules
from pllab.show.figures import Figure
from pllab.show.widget import Run, Widget, measure, sources_of
from pllab.simulate import Costs
from pllab.timeline import Timeline


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
        timeout_s: how long a run may take.
        projector: whether the editor fills the window, for a lecture.

    Raises:
        ValueError: `memory_limit` or `timeout_s` is no number.
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
        timeout_s: float = 60.0,
        projector: bool = False,
    ) -> None:
        check_memory_limit(memory_limit)
        limit = None if memory_limit == math.inf else memory_limit  # as JSON has no infinity
        self._run, self._timeout_s = run, deadline(timeout_s)
        self._game = Game(schedule, BoardRules(costs or Costs(), limit, par))
        self._trouble = ""
        self._turn = 0
        super().__init__(projector=projector)
        self._show()
        self.on_msg(self._obey)

    @property
    def schedule(self) -> Schedule:
        """What stands on the board; its name says that it is edited."""
        return self._game.schedule

    def static(self) -> Figure:
        """The present rows, with edges, memory and measured spans, as a figure with a text alternative."""
        return draw_board(self.view, summary_of(self.view))

    def do(self, verb: str, action: str = "", *, to: int | None = None) -> None:
        """Make a move from a cell: `editor.do("move", "0B0", to=2)`, `editor.do("split", "0B0")`, `editor.do("undo")`.

        move (to a place, from 0), place (the next move of a rank), split and merge are about an action; split_all,
        clear, undo, redo and reset are not.

        Raises:
            ValueError: there is no such verb, or it cannot be done; the schedule is as it was.
        """
        self._trouble = ""
        self._game.do(verb, action, to)
        self._show()

    def run_it(self) -> Timeline:
        """Run the present order with the editor's `run`, and draw the measured spans under the prediction.

        Raises:
            ValueError: there is no `run`, the order is illegal or not complete, or something else was measured.
            TimeoutError: it takes longer than `timeout_s`.
        """
        if self._run is None:
            raise ValueError("this editor has nothing to run with; make it with run=, a function of a Schedule")
        if problems := self._game.judgement.problems:
            raise ValueError(f"an illegal schedule is not run: {problems[0].sentence}")
        require(self._game.can()["run"], "a part of a schedule is not run; place every action first")
        self._show("Running this order.")
        try:
            timeline = measure(self._run, self.schedule, self._game.rules.costs, self._timeout_s)
            self._game.note_run(timeline)
        finally:
            self._show()
        return timeline

    def _obey(self, _: Any, asked: dict[str, Any], __: Any) -> None:
        """Carry out what the browser asks for; what cannot be done is told in the widget."""
        self._trouble = ""
        try:
            if asked.get("verb") == "run":
                self.run_it()
            else:
                self._game.do(asked["verb"], asked.get("id", ""), asked.get("to"))
        except Exception as error:  # the caller's run may fail in any way, and the widget says how
            self._trouble = self._sentence(error)
        self._show()

    def _sentence(self, error: Exception) -> str:
        is_ours = isinstance(error, ValueError | TimeoutError | ImportError)
        return sentence_of(str(error) if is_ours else f"{type(error).__name__}: {error}", self._game.judgement.whole)

    def _show(self, busy: str = "") -> None:
        """Send the present state of the game."""
        self._turn += 1
        can = {**self._game.can(), "has_run": self._run is not None}
        told = {"trouble": self._trouble, "busy": busy, "can": can, "turn": self._turn}
        self.view = self._game.view() | told
