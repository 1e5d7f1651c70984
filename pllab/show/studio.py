"""The bubble studio: a schedule that follows sliders, with its bubble and its memory, for a lecture or a desk.

Python makes the schedule and simulates it, the browser draws: one path for the picture, the numbers and the files.
"""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pllab.schedule import Schedule
from pllab.show.canvas import read_canvas_source
from pllab.show.export import FILE_TYPES
from pllab.show.studio_costs import MOST_RANKS, MOST_STAGES, Profile, split_costs
from pllab.show.studio_families import FAMILIES, family_of, family_of_schedule
from pllab.show.studio_files import StudioFiles
from pllab.show.studio_measured import Measured
from pllab.show.studio_setting import Setting, check_size, setting_of
from pllab.show.studio_traits import INPUTS, options_of
from pllab.show.studio_view import Screen, blocks_of, view_of
from pllab.show.widget import read_source
from pllab.show.widget_run import Run, call_run
from pllab.simulate import Costs
from pllab.timeline import Timeline


class BubbleStudio(StudioFiles):
    """Choose a schedule, sizes, costs and a memory limit; the timeline, the memory and the bubble follow at once.

    Costs are seconds for the layers of one *rank*. Where a rank has two stages each costs half of it, and its
    activations count half, so that schedules can be compared on one axis. Costs per stage are those of the stages of
    `family`, and `simulate(studio.schedule, costs)` is what is shown; for another cut of the model a stage is a part
    of its depth, and its costs are spread evenly in it.

    Keys while the timeline has the focus: arrows choose an action, plus and minus zoom, 0 shows all, Page Up and Page
    Down move the view, space plays, comma and full stop step, Escape lets go.

    Example: `BubbleStudio("1F1B", 4, 8, compare="GPipe")` at the end of a cell. With `run=`, a function from a
    schedule to the timeline it measured, the button "Run it" lays the measured spans below the predicted ones; one
    with a parameter `costs`, as `pllab.pipeline.run_emulated`, gets those on screen.
    `BubbleStudio(schedule)` shows a schedule of your own beside the families, at its sizes while it is chosen.

    Args:
        family: name of the family, one of `pllab.show.studio_families.FAMILIES`; or a schedule.
        num_ranks: ranks, 1 to 32; 4, or those of the schedule.
        num_microbatches: micro-batches, 1 to 256; 8, or those of the schedule.
        costs: seconds for a rank's layers; with values per stage, all are for a stage.
        memory_limit: the most micro-batches of a rank's layers that fit, or None.
        measured: the timeline of a run of this very schedule, to lay over the prediction.
        compare: name of a second family for the same axis.
        run: runs a schedule and returns its measured timeline.
        projector: whether type is large.

    Raises:
        ValueError: there is no such family, a size is out of range, the costs are for another number of stages, the
            schedule is illegal, or the measured timeline is not of the schedule.
    """

    _esm = read_canvas_source("studio_ahead.js", "studio.js")
    _css = read_source("studio.css")

    def __init__(
        self,
        family: str | Schedule = "1F1B",
        num_ranks: int | None = None,
        num_microbatches: int | None = None,
        costs: Costs | None = None,
        memory_limit: float | None = None,
        measured: Timeline | None = None,
        compare: str | None = None,
        run: Run | None = None,
        *,
        projector: bool = False,
    ) -> None:
        own = family_of_schedule(family) if isinstance(family, Schedule) else None
        chosen = own or family_of(str(family))
        self._families = {**({own.name: own} if own else {}), **FAMILIES}
        ranks, microbatches = chosen.sizes or (4, 8)
        sizes = (
            ranks if num_ranks is None else num_ranks,
            microbatches if num_microbatches is None else num_microbatches,
        )
        check_size("num_ranks", sizes[0], MOST_RANKS)
        check_size("num_stages", round(sizes[0] * chosen.stages_per_rank), MOST_STAGES)
        dials, self._profile, unseen = split_costs(costs or Costs(), sizes[0], chosen.stages_per_rank)
        self._unseen = unseen
        names = chosen.name, compare or ""
        setting = Setting(*names, *sizes, dials, self._profile, memory_limit, unseen, self._families)
        self._screen = Screen(setting.show(chosen.name))
        self._measured = Measured(self.schedule, self.costs, measured) if measured else None
        super().__init__(
            family=names[0],
            compare=names[1],
            num_ranks=sizes[0],
            num_microbatches=sizes[1],
            forward=dials.forward,
            backward_input=dials.backward_input,
            backward_weight=dials.backward_weight,
            p2p=dials.p2p,
            stage_costs=self._profile.stage_costs(),
            stages_per_rank=chosen.stages_per_rank,
            memory_limit=memory_limit,
            options=options_of(dials, run is not None, self._families),
            projector=projector,
        )
        self._run = run
        self._asked: Any = None
        self._named, self._chosen = self._profile, chosen.name
        self._made: deque[tuple[Setting, Measured | None, Screen]] = deque(maxlen=8)
        self._answers = 0
        self._follow()
        self.observe(self._follow, names=[*INPUTS, "stamp"])
        self.observe(self._obey, names="order")
        self.on_msg(self._look_ahead)

    @property
    def costs(self) -> Costs:
        """What a stage of the schedule costs, for `simulate(studio.schedule, studio.costs)`."""
        source = self._screen.main.source
        assert isinstance(source, Costs), "the schedule on screen is a prediction"
        return source

    def state(self) -> dict[str, Any]:
        """What was chosen, and the numbers of every run on screen."""
        chosen = {name: getattr(self, name) for name in (*INPUTS, "memory", "selected")}
        return {**chosen, "runs": [one.state() for one in self._screen.runs()], "problem": self.view["problem"]}

    def _setting(self) -> Setting:
        return self._setting_of({name: getattr(self, name) for name in INPUTS})

    def _setting_of(self, inputs: Mapping[str, Any]) -> Setting:
        """The setting of some inputs; what follows from what was chosen before is followed."""
        setting = setting_of(inputs, self._unseen, self._families)
        if setting.profile == self._named:  # not touched in the browser: as fine as it was given
            setting = replace(setting, profile=self._profile)
        return setting if setting.family == self._chosen else setting.resized()

    def _follow(self, _: Any = None) -> None:
        """Show what is asked for now: once for all traits that changed together, and in one message."""
        try:
            setting = self._setting()
        except ValueError as error:  # stage costs that are none
            self._asked = None
            self._answer({**self.view, "problem": str(error)})
            return
        asked = (setting, self.critical, self._measured)
        if asked == self._asked:
            self.view = {**self.view, "stamp": self.stamp}  # to and fro: the input is answered all the same
            return
        self._asked = asked
        with self.hold_sync():
            self._show(setting)
            self._adopt(setting)

    def _show(self, setting: Setting) -> None:
        """Draw a setting; one without a schedule, under a limit say, is a sentence, and the picture stays."""
        try:
            screen = self._screen_of(setting)
        except ValueError as error:
            self._answer({**self.view, "problem": str(error)})
            return
        self._screen = screen
        self.actions, self.compared, self.measured, self.path = blocks_of(screen, self.critical)
        self._answer(view_of(screen, self.memory_limit))

    def _adopt(self, setting: Setting) -> None:
        """Bring the controls in line: another family numbers its stages anew, and one schedule has one size."""
        now = Profile.of(self.stage_costs, self.stages_per_rank)
        self._profile, self._named, self._chosen = setting.profile, setting.named_profile(), setting.family
        with self.hold_trait_notifications():
            self.num_ranks, self.num_microbatches = setting.num_ranks, setting.num_microbatches
            if now != self._named:
                self.stage_costs, self.stages_per_rank = self._named.stage_costs(), self._named.stages_per_rank

    def _screen_of(self, setting: Setting) -> Screen:
        """Make the runs of a setting, or take them from the last few: what was seen ahead is soon asked for."""
        for known, measured, screen in self._made:
            if known == setting and measured is self._measured:
                return screen
        screen = setting.screen(self._measured)
        self._made.append((setting, self._measured, screen))
        return screen

    def _answer(self, view: dict[str, Any]) -> None:
        """Send the words, numbered: new blocks under the same words are news too."""
        self._answers += 1
        self.view = {**view, "stamp": self.stamp, "number": self._answers}

    def _look_ahead(self, _: Any, content: Any, __: Any) -> None:
        """A slider rests beside this setting: send its picture, and change nothing."""
        if "ahead" not in content:
            return
        try:
            inputs = json.loads(content["ahead"])
            setting = self._setting_of(inputs)
            screen = None if setting.is_searched else self._screen_of(setting)  # a search would keep the kernel
        except ValueError:  # told when somebody goes there
            screen = None
        if screen is None:
            self.send({"ahead": content["ahead"], "view": None})
            return
        answer = {"ahead": content["ahead"], "view": view_of(screen, inputs["memory_limit"])}
        self.send(answer, buffers=list(blocks_of(screen, inputs["critical"])))

    def _obey(self, _: Any = None) -> None:
        """A button was pressed: run the schedule, or make a file."""
        if self.order.get("what") == "run":
            self._run_it()
        elif self.order.get("what") in FILE_TYPES:
            self._deliver(self.order["what"])

    def _run_it(self) -> None:
        if self._run is None:
            return
        self.running = True
        try:
            self._measured = Measured(self.schedule, self.costs, call_run(self._run, self.schedule, self.costs))
            self._follow()
        except Exception as error:  # whatever the caller's function raises is told where the button was pressed
            self._answer({**self.view, "problem": f"the run failed: {type(error).__name__}: {error}"})
        finally:
            self.running = False
