"""Where a pipeline of lesson 16 loses time against its prediction: small pieces, two lanes at once, idle lanes.

Naive model parallel does in turn what one lane does. The prediction cuts each of its boxes into eighths and simulates
the pipeline's own order with them. Three steps are recorded by torch.profiler and read like any other trace:

    whole      the batch in one piece, in turn: the boxes of the prediction
    eighth     one micro-batch alone; what eight of them take beyond the whole is the fixed cost of small pieces
    pipeline   eight of them on two lanes at once; what they take beyond eight alone, the lanes take from each other

What is left is the time in which lanes are idle, by cause.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.profiler import ProfilerActivity, profile, record_function

from pllab.arguments import require
from pllab.bench.entrants import LANES, NUM_MICROBATCHES, Track, batch_of, scored_pipe, scored_stages
from pllab.bench.racing import RaceResult
from pllab.pipeline import create_workers
from pllab.pipeline.lanes import every_lane
from pllab.show import Figure, draw_timeline
from pllab.simulate import Costs, idle_causes, simulate
from pllab.timeline import Timeline
from pllab.traces import Recorded, read_trace

PipeStep = Callable[..., float]


class MarkedStage(nn.Module):
    """A stage whose work torch.profiler can name: `PP:0F1` is forward, `PP:0B1` backward.

    A backward begins with the gradient of the stage's output, and ends with those of all
    its weights. The last stage has the targets of each micro-batch, and its output is the
    loss of each row.
    """

    def __init__(
        self,
        number: int,
        layers: nn.Module,
        targets: Sequence[torch.Tensor | None],
    ) -> None:
        super().__init__()
        self.layers, self._number, self._turns = layers, number, cycle(enumerate(targets))
        register_multi_grad_hook(list(layers.parameters()), self._end_backward)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers under the name of the action; micro-batches come in order."""
        turn, targets = next(self._turns)
        with record_function(f"PP:{self._number}F{turn}"):
            y: torch.Tensor = self.layers(x if targets is None else (x, targets))
        y.register_hook(partial(self._begin_backward, turn))
        return y

    def _begin_backward(self, turn: int, _: torch.Tensor) -> None:
        self._backward = record_function(f"PP:{self._number}B{turn}")
        self._backward.__enter__()

    def _end_backward(self, _: Sequence[torch.Tensor | None]) -> None:
        self._backward.__exit__(None, None, None)


@dataclass(frozen=True)
class MissingTime:
    """Three recorded steps of one pipe, and where the pipeline's step loses time against the simulated one.

    Example: `lost = missing_time(track)`, then `lost.picture()`, `print(lost.report())` and
    `print(lost.in_race(result, "pipeline"))`.
    """

    whole: Recorded
    eighth: Recorded
    pipeline: Recorded

    @cached_property
    def predicted(self) -> Timeline:
        """The pipeline's own order, simulated with the boxes of the whole batch, each cut into equal micro-batches."""
        return simulate(self.pipeline.schedule, self._costs)

    def speedup(self, result: RaceResult, name: str) -> float:
        """How many times as fast as the race's baseline the predicted step is, in the typical round of an entrant."""
        return _step_s(result, result.names[0], name) / self.predicted.makespan

    @cached_property
    def parts(self) -> dict[str, float]:
        """The seconds by which a step is longer than predicted, by reason; a reason can also save some."""
        measured, order = self.pipeline.timeline, self.pipeline.schedule
        eighths = self.eighth.timeline.busy * order.num_microbatches
        both = {
            "small pieces, one at a time, against the batch as a whole": eighths - self.whole.timeline.busy,
            "two lanes at once, against one: they share memory, caches and Python's lock": measured.busy - eighths,
        }
        pairs = zip(*(idle_causes(order, run, self._costs) for run in (measured, self.predicted)), strict=True)
        both |= {f"idle, {real.words}": real.seconds - simulated.seconds for real, simulated in pairs}
        return {reason: seconds / measured.num_ranks for reason, seconds in both.items() if seconds}

    def report(self) -> str:
        """By how much a step is longer than predicted, and where the difference comes from."""
        measured, predicted = self.pipeline.timeline.makespan, self.predicted.makespan
        parts = "\n".join(f"{1e3 * seconds:+7.1f} ms  {reason}" for reason, seconds in self.parts.items())
        return (
            f"The step took {1e3 * measured:.0f} ms (real) in place of {1e3 * predicted:.0f} ms (simulated). "
            f"Of the {1e3 * (measured - predicted):+.1f} ms, mean of the lanes:\n{parts}"
        )

    def in_race(self, result: RaceResult, name: str) -> str:
        """What an entrant lost in the race compared with the simulation, and how much of it the recorded step explains.

        Nothing, if the race was disturbed.
        """
        if told := result.disturbed():
            return told
        took, base = _step_s(result, name, name), result.names[0]
        lost, explained = took - self.predicted.makespan, sum(self.parts.values())
        most = max(self.parts, key=lambda reason: self.parts[reason])
        return (
            f"In the round of its median speed-up {name} took {1e3 * took:.0f} ms a step and was "
            f"{result.speedup(name):.2f}x as fast as {base} (real); the predicted step would be "
            f"{self.speedup(result, name):.2f}x (simulated). Of the {1e3 * lost:+.0f} ms between the two, "
            f"the recorded step accounts for {1e3 * explained:+.0f} ms; its largest part, "
            f"{1e3 * self.parts[most]:+.0f} ms, is: {most}. The rest, "
            f"{1e3 * (lost - explained):+.0f} ms, is set-up, the optimizer's step, the profiler's own time, and the "
            "machine."
        )

    def picture(self) -> Figure:
        """The recorded step above the predicted one."""
        titles = ["a step of the pipe, from its trace", "predicted"]
        return draw_timeline(self.pipeline.timeline, self.predicted, titles=titles)

    @cached_property
    def _costs(self) -> Costs:
        count, stages = self.pipeline.schedule.num_microbatches, range(self.whole.schedule.num_stages)
        spans = self.whole.timeline.spans
        boxes = {(span.action.stage, str(span.action.kind)): span.duration / count for span in spans}
        return Costs([boxes[stage, "F"] for stage in stages], [boxes[stage, "B"] for stage in stages], 0.0)


def _step_s(result: RaceResult, name: str, of: str) -> float:
    """Seconds of a step of the entrant `name` in the typical round of the entrant `of`."""
    return result.comparison.seconds[name][result.typical_round(of)] / len(result.losses[name])


def missing_time(track: Track, pipe_step: PipeStep | None = None, *, repeats: int = 3) -> MissingTime:
    """Record the steps of a pipe on two lanes: the learner's `pipe_step` of exercise 09.5, or the package's pipe.

    Example: `missing_time(track, mine("09.5")).picture()`. Of `repeats` recorded steps the shortest counts: other
    programs only ever add time.

    Raises:
        ValueError: the batch cannot be cut into micro-batches of one size.
    """
    rows = len(track.dataset)
    problem = f"{rows} rows cannot be cut into {NUM_MICROBATCHES} micro-batches of one size"
    require(rows % NUM_MICROBATCHES == 0, f"{problem}; give a multiple of {NUM_MICROBATCHES}")
    alone = replace(track, dataset=track.dataset[: rows // NUM_MICROBATCHES])
    with ExitStack() as pipes:
        wanted = [(track, 1), (alone, 1), (track, NUM_MICROBATCHES)]
        steps = [pipes.enter_context(_step_of(of, count, pipe_step)) for of, count in wanted]
        for step in steps:
            step()  # warms up
        rounds = [[_recorded(step) for step in steps] for _ in range(repeats)]
    return MissingTime(*(min(runs, key=lambda run: run.timeline.makespan) for runs in zip(*rounds, strict=True)))


def _recorded(step: Callable[[], object]) -> Recorded:
    """A step under torch.profiler, read from its trace."""
    with profile(activities=[ProfilerActivity.CPU], experimental_config=every_lane()) as recording:
        step()
    with tempfile.TemporaryDirectory(prefix="pllab-trace-") as folder:
        file = Path(folder, "lanes.json")
        recording.export_chrome_trace(str(file))
        return read_trace(file)


@contextmanager
def _step_of(track: Track, num_microbatches: int, pipe_step: PipeStep | None) -> Iterator[Callable[[], Any]]:
    """Forward and backward of the batch, with its actions marked; the package's lanes mark theirs themselves."""
    ids, targets = batch_of(track.dataset, len(track.dataset))
    model = track.model()
    if pipe_step is None:
        with scored_pipe(model, track.sizes, num_microbatches) as pipe:
            yield lambda: pipe((ids, targets)).mean().backward()
        return
    split_size = len(ids) // num_microbatches
    first, last = scored_stages(model, track.sizes)
    stages = [MarkedStage(0, first, [None] * num_microbatches), MarkedStage(1, last, targets.split(split_size))]
    devices = [torch.device(lane) for lane in LANES]
    with create_workers(devices) as queues:
        yield lambda: pipe_step(ids, targets, stages, devices, *queues, split_size, lambda losses, _: losses.mean())
