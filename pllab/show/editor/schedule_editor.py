"""The schedule editor, or bubble golf: reorder the actions of every rank, stay legal, and reach par.

The browser draws, and sends what the learner does as commands, which are carried out here. So the moves, the judgement
and every word are tested without a browser, and the same moves work from a cell.
"""

import threading
from collections.abc import Callable
from typing import Any

import traitlets

from pllab.schedule import Held, Schedule, optimal
from pllab.show.editor.board import GUIDE, sentence_of, summary_of
from pllab.show.editor.board_picture import draw_board
from pllab.show.editor.game import Game, is_plain, shape_of
from pllab.show.editor.judgement import BoardRules, Judgement, Par
from pllab.show.figures import Figure
from pllab.show.widget import Run, Widget, call_run, sources_of, takes_costs
from pllab.simulate import Costs
from pllab.timeline import Timeline


class ScheduleEditor(Widget):
    """Move, split and merge the actions of a schedule; problems, times, memory and score follow each move.

    Keys on a block: arrows choose another; Alt with left or right moves it one place; Space picks it up, then
    arrows, Home and End carry it, Enter drops it and Escape puts it back; S splits a B or merges I and W; Ctrl+Z and
    Ctrl+Y undo and redo.

    Example: `ScheduleEditor(one_f_one_b(4, 6), memory_limit=4, run=run_emulated)` at the end of a cell, with
    `run_emulated` of `pllab.pipeline`; `.schedule` is the schedule as the learner has changed it.

    Args:
        schedule: the first schedule; reset comes back to it.
        costs: the costs for the simulator.
        memory_limit: the most micro-batches that a rank may hold, counted on all its layers: with v stages per rank, a
            micro-batch on one stage counts 1/v, as in the studio.
        par: the makespan to reach: a number, an `Optimum`, or a function that returns one, called when the learner
            asks the solver. Without it the solver is `pllab.schedule.optimal`, for one stage per rank.
        run: runs a legal schedule on emulated or real ranks and returns the measured timeline. If it has a parameter
            `costs`, it gets them and measures in their unit, as `run_emulated` does; otherwise it measures seconds.
        held: what each half of a backward frees.
        unit: name of the unit of the costs, such as `"ms"`; it is only written.
        unit_s: seconds that one unit of cost takes in a `run` that measures seconds; without it the measured spans are
            scaled so that they are busy as long as the predicted ones.
        timeout_s: how long the solver and a run may take.
        projector: larger type.

    Raises:
        ValueError: no moves can make the schedule legal (an action is missing, or twice), it is too long to edit, or
            `unit_s` is given for a run in the unit of the costs.
    """

    _esm, _css = sources_of(__file__, "view.js", "boxes.js", "editor/dragging.js", "editor/edges.js")

    guide = traitlets.Unicode(GUIDE, read_only=True, help="how to move a block").tag(sync=True)
    view = traitlets.Dict(help="rows, sentences and numbers of the present order").tag(sync=True)
    said = traitlets.Unicode(help="what the last command did").tag(sync=True)
    trouble = traitlets.Unicode(help="why the last command could not be done").tag(sync=True)
    busy = traitlets.Unicode(help="what is being waited for").tag(sync=True)
    can = traitlets.Dict(help="which buttons there are and which can be pressed").tag(sync=True)
    focus = traitlets.Unicode(help="the block the last command was about").tag(sync=True)
    done = traitlets.Int(0, help="number of the last command carried out").tag(sync=True)
    commands = traitlets.List(traitlets.Dict(), help="what the browser asks for, in order").tag(sync=True)

    def __init__(
        self,
        schedule: Schedule,
        costs: Costs | None = None,
        memory_limit: float | None = None,
        par: Any = None,
        run: Run | None = None,
        held: Held | None = None,
        *,
        unit: str = "",
        unit_s: float | None = None,
        timeout_s: float = 60.0,
        projector: bool = False,
    ) -> None:
        if unit_s is not None and takes_costs(run):
            raise ValueError(
                f"unit_s is {unit_s} and run takes costs, so that it answers in their unit; leave unit_s out, "
                f"or give it to the run: partial(run, unit_s={unit_s})"
            )
        self._run, self._timeout_s = run, timeout_s
        self._ask = par if callable(par) else None
        rules = BoardRules(costs or Costs(), memory_limit, held or Held(), unit, unit_s, takes_costs(run))
        self._game = Game(schedule, rules, None if par is None or callable(par) else Par.of(par))
        self._lock = threading.RLock()
        super().__init__(projector=projector)
        self._show()
        self.observe(self._obey, names=["commands"])

    @property
    def schedule(self) -> Schedule:
        """The present order; its name says that it is edited."""
        return self._game.schedule

    @property
    def judgement(self) -> Judgement:
        """The present order with its problems, edges and times."""
        return self._game.judgement

    @property
    def measured(self) -> Timeline | None:
        """The run of exactly this order, if there was one."""
        return self._game.measured

    def state(self) -> dict[str, Any]:
        """The order as CSV, whether it is legal, its sentences, numbers and score."""
        timeline, par = self.judgement.timeline, self._game.par
        measured, in_units = self.measured.makespan if self.measured else None, self._game.rules.in_units
        return {
            "schedule": self.schedule.to_csv(),
            "is_legal": self.judgement.is_legal,
            "problems": [problem.sentence for problem in self.judgement.problems],
            "engine": "simulated",
            "makespan": timeline.makespan if timeline else None,
            "bubble_fraction": timeline.bubble_fraction if timeline else None,
            "bubble_overhead": timeline.bubble_overhead if timeline else None,
            "peak_in_flight": [row["peak"] for row in self.view["rows"]],
            "par": par.makespan if par else None,
            "score": self.view["score"],
            "measured_makespan_s": None if in_units else measured,
            "measured_makespan": measured if in_units else None,
            "said": self.said,
        }

    def static(self) -> Figure:
        """The present rows, with edges, memory and measured spans, as a figure with a text alternative."""
        return draw_board(self.view, summary_of(self.view))

    def do(self, verb: str, action: str = "", **details: Any) -> None:
        """Make a move from a cell: `editor.do("move", "0B0", to=2)`, `editor.do("split", "0B0")`, `editor.do("undo")`.

        Raises:
            ValueError: there is no such verb, or it cannot be done; the schedule is as it was.
        """
        with self._lock, self.hold_sync():
            self.trouble = ""
            self._game.do(verb, {"id": action, **details})
            self._show()

    def run_it(self) -> Timeline:
        """Run the present order with the editor's `run`, and draw the measured spans under the prediction.

        Raises:
            ValueError: there is no `run`, or the order is illegal.
            TimeoutError: it takes longer than `timeout_s`.
        """
        run, schedule, costs = self._run, self.schedule, self._game.rules.costs
        if run is None:
            raise ValueError("this editor has nothing to run with; make it with run=, a function of a Schedule")
        if not self.judgement.is_legal:
            raise ValueError(f"an illegal schedule is not run: {self.judgement.problems[0].sentence}")
        timeline: Timeline = answer_within(lambda: call_run(run, schedule, costs), self._timeout_s, "the run")
        with self._lock, self.hold_sync():
            self._game.note_run(schedule, timeline)
            self._show()
        return timeline

    def ask_solver(self) -> Par:
        """The par of these sizes, costs and limit, from the function `par` or from `pllab.schedule.optimal`.

        Raises:
            ValueError: the solver has no answer for this schedule.
            TimeoutError: it takes longer than `timeout_s`.
        """
        schedule = self.schedule
        par = Par.of(answer_within(self._solver_for(schedule), self._timeout_s, "the solver"))
        with self._lock, self.hold_sync():
            self._game.note_par(schedule, par)
            self._show()
        return par

    def _solver_for(self, schedule: Schedule) -> Callable[[], Any]:
        if self._ask is not None and shape_of(schedule) == shape_of(self._game.start):
            return self._ask
        if not is_plain(schedule):
            raise ValueError("the solver knows schedules with one stage on each rank; give par= for this one")
        rules = self._game.rules
        limit = schedule.num_microbatches if rules.memory_limit is None else rules.memory_limit
        sizes = schedule.num_stages, schedule.num_microbatches
        return lambda: optimal(*sizes, rules.costs, limit, held=rules.held)

    def _obey(self, _: Any) -> None:
        """Carry out what is new, in order; the list may hold commands that were carried out before."""
        with self._lock, self.hold_sync():
            for command in self.commands:
                if int(command["n"]) > self.done:
                    self.done = int(command["n"])
                    self._carry_out(dict(command))
            self._show()

    def _carry_out(self, command: dict[str, Any]) -> None:
        self.trouble = ""
        try:
            if command["verb"] == "run":
                self._in_background(self.run_it, "Running this order")
            elif command["verb"] == "solve":
                self._in_background(self.ask_solver, "The solver is at work")
            else:
                self._game.do(command["verb"], command)
        except ValueError as error:
            self.trouble = sentence_of(str(error))

    def _in_background(self, work: Callable[[], Any], what: str) -> None:
        """Start slow work in a thread, so that the kernel can go on; the widget shows a failure."""
        if self.busy:
            raise ValueError(f"one thing at a time: {self.busy}")
        self.busy = f"{what}."
        threading.Thread(target=self._wait_for, args=(work,), name="pllab editor", daemon=True).start()

    def _wait_for(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except Exception as error:  # the caller's run may fail in any way, and the widget says how
            expected = isinstance(error, ValueError | TimeoutError | ImportError)
            with self._lock:  # a change made while another thread sends traits would not be sent
                self.trouble = sentence_of(str(error) if expected else f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                self.busy = ""

    def _show(self) -> None:
        """Send the present state of the game."""
        game = self._game
        solvable = is_plain(game.schedule) or self._ask is not None
        self.view, self.said, self.focus = game.view(), game.said, game.focus
        self.can = {**game.can(), "has_run": self._run is not None, "solve": solvable and game.par is None}


def answer_within(ask: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """The answer of `ask`, called in a thread of its own; what it raises is raised here.

    A thread cannot be ended from outside. One that is late is left to the deadline of its own work, and what it
    answers then is dropped; being a daemon it does not keep the process alive.

    Raises:
        TimeoutError: there is no answer after `timeout_s` seconds.
    """
    answers: list[tuple[bool, Any]] = []

    def work() -> None:
        try:
            answers.append((True, ask()))
        except Exception as error:  # raised again for the caller
            answers.append((False, error))

    thread = threading.Thread(target=work, name=f"pllab {what}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not answers:
        raise TimeoutError(f"{what} has not answered in {timeout_s:g} s; give it less to do or a longer timeout_s")
    is_answer, value = answers[0]
    if not is_answer:
        raise value
    return value
