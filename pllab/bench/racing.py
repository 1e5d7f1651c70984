"""The race of lesson 16: entrants train in turn, round by round, in one group of two ranks.

Each round has one training of each entrant, all from the same weights on the same rows. A race refuses entrants whose
losses differ, and speed-ups that cannot be. Beside seconds it takes the processor time of all ranks. From both it is
computed why an entrant is as fast as it is: how much of the devices' time was idle, and how much work there was. All of
it is from one round, that of the median speed-up: there the parts multiply to the speed-up, and medians would not.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn

from pllab import comm
from pllab.bench.entrants import Entrant, Track
from pllab.bench.measure import Comparison, Implausible, check_rounds, compare, speedup
from pllab.show import Figure, Race, figure
from pllab.show.figures import chart
from pllab.show.theme import LIGHT

NUM_DEVICES = 2
_TOLERANCE = 1e-3  # of a loss: float32 sums in another order differ by some 1e-6, another batch by more
_MOST_IDLE = 0.1  # of the baseline, which waits for nobody
_MOST_UNSTEADY = 1.5  # its slowest round over its fastest; two devices gain at most 2, which drowns in more


@dataclass(frozen=True)
class RaceResult:
    """Seconds, losses and processor time of every entrant; the first is the baseline, which has one device.

    Example: `print(result.table())`, `print(result.winner())`, `result.picture()`.
    """

    comparison: Comparison
    losses: Mapping[str, Sequence[float]]
    cpu_s: Mapping[str, Sequence[float]]
    """Processor seconds of each round, all ranks together."""

    @property
    def names(self) -> list[str]:
        """The entrants, the baseline first."""
        return list(self.comparison.seconds)

    def speedups(self, name: str) -> list[float]:
        """How many times as fast as the baseline, round by round."""
        return self.comparison.speedups(name, self.names[0])

    def speedup(self, name: str) -> float:
        """The median of the speed-ups; of two in the middle the lower one, so that it is the speed-up of a round."""
        return self.speedups(name)[self.typical_round(name)]

    def typical_round(self, name: str) -> int:
        """The round with the median speed-up, from which speed-up, idle and work are taken.

        Within a round they belong together: the speed-up is exactly devices x busy share / work / the baseline's busy
        share. Medians of several rounds do not multiply. The baseline has no speed-up: its round has the median time.
        """
        values = self.comparison.seconds[name] if name == self.names[0] else self.speedups(name)
        return values.index(statistics.median_low(values))

    def idle(self, name: str) -> float:
        """The share of the devices' time in which no processor worked, in the typical round."""
        return max(0.0, 1.0 - self._busy(name, self.typical_round(name)))

    def work(self, name: str) -> float:
        """Processor time as a multiple of the baseline's in the same round, the typical one."""
        number = self.typical_round(name)
        return self.cpu_s[name][number] / self.cpu_s[self.names[0]][number]

    def disturbed(self) -> str:
        """A sentence that calls the race unusable if the baseline idled or was unsteady; empty if it was neither."""
        base = self.names[0]
        if self.idle(base) <= _MOST_IDLE and self._unsteady() <= _MOST_UNSTEADY:
            return ""
        return (
            f"This run cannot be used: {base} idled {self.idle(base):.0%} of its time, and its slowest round took "
            f"{self._unsteady():.2f} times as long as its fastest; other programs used the machine, so close them "
            "and race again."
        )

    def check(self) -> None:
        """Refuse entrants that did not learn the same, then what no clock can have measured.

        Raises:
            Implausible: losses differ, or a speed-up is impossible.
        """
        check_same_losses(self.losses)
        self.comparison.check()

    def table(self) -> str:
        """One line per entrant: speed-up with its range over the rounds, idle share and work; then `disturbed`."""
        width = max(map(len, self.names))
        lines = [f"{'real':{width}}  tokens/s  speed-up (range)       idle  work of one lane"]
        for name in self.names:
            ratios = self.speedups(name)
            span = f"{self.speedup(name):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
            rate = self.comparison.tokens_per_s(name)
            lines.append(f"{name:{width}}  {rate:8,.0f}  {span:21}  {self.idle(name):4.0%}  {self.work(name):.2f}x")
        return "\n".join([*lines, *filter(None, [self.disturbed()])])

    def winner(self) -> str:
        """Who won and why, in sentences; nobody, if others won rounds against the fastest."""
        ranking = sorted(self.names, key=self.speedup, reverse=True)
        first, seconds = ranking[0], self.comparison.seconds
        level = [name for name in ranking[1:] if speedup(seconds[name], seconds[first]) is None]
        rounds = len(seconds[first])
        if level:
            said = f"No single winner: {_listed(level)} won some of the {rounds} rounds against {first}, or drew level."
        else:
            said = f"{first} won: it was faster than each of the others in all {rounds} rounds."
        return " ".join([said, *(self.reason(name) for name in [first, *level])])

    def reason(self, name: str) -> str:
        """Why an entrant is as fast as it is: devices x busy share / work / the baseline's busy share.

        All of the typical round, in which this is exactly the speed-up.
        """
        base, number = self.names[0], self.typical_round(name)
        if name == base:
            return (
                f"{name} has one device and idles {self.idle(name):.0%} of its time; its slowest round took "
                f"{self._unsteady():.2f} times as long as its fastest."
            )
        return (
            f"{name}: {NUM_DEVICES} devices, {self._busy(name, number):.0%} busy, with {self.work(name):.2f} times the "
            f"processor time of {base}, which was {self._busy(base, number):.0%} busy; that makes "
            f"{self.speedup(name):.2f}x."
        )

    def above_devices(self) -> list[str]:
        """A sentence for each speed-up above the number of devices: whether it is one, and where it comes from."""
        return [self._above(name) for name in self.names if self.speedup(name) > NUM_DEVICES]

    def picture(self) -> Figure:
        """Where the devices' time went: work of one lane, more work, idle; numbers of the table, of the same rounds.

        A bar ends its busy part at the entrant's work, and its idle part is the idle share of the whole bar.
        """
        base = self.names[0]
        label = f"device time of one training; 1 is the processor time of {base} in the same round"
        with chart(label, "", 8.0, 0.5 * len(self.names) + 1.3) as axes:
            words = list[str]()
            for row, name in enumerate(reversed(self.names)):
                number, count = self.typical_round(name), 1 if name == base else NUM_DEVICES
                work, total = self.work(name), count * self.comparison.seconds[name][number] / self.cpu_s[base][number]
                parts = [min(1.0, work), max(0.0, work - 1.0), max(0.0, total - work)]
                for kind, (left, width) in enumerate(zip((0, parts[0], parts[0] + parts[1]), parts, strict=True)):
                    axes.barh(row, width, left=left, height=0.6, **_LOOKS[kind])
                words.insert(0, f"{name} {work:.2f} busy and {parts[2]:.2f} idle")
            axes.set_yticks(range(len(self.names)), list(reversed(self.names)))
            canvas: Any = axes.figure
            axes.legend(_names_first(axes), _PARTS, loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=3)
            about = f"Device time of one training (real), where 1 is the processor time of {base} in the same round"
            return figure(canvas, f"{about}: {'; '.join(words)}.")

    def _above(self, name: str) -> str:
        ratios, base = self.speedups(name), self.names[0]
        said = f"{name}: {self.speedup(name):.2f}x on {NUM_DEVICES} devices. "
        if min(ratios) <= NUM_DEVICES:
            return (
                said + f"The rounds reach down to {min(ratios):.2f}x, so the data does not say more than {NUM_DEVICES}."
            )
        base_busy = self._busy(base, self.typical_round(name))
        if self.work(name) < base_busy:
            return said + (
                f"It took {self.work(name):.2f} of the processor time of {base} for the same numbers: smaller pieces "
                "find more of their data in a core's cache."
            )
        return said + f"{base} idled {1 - base_busy:.0%} of its time, so the baseline was disturbed: measure again."

    def _busy(self, name: str, number: int) -> float:
        """The share of the devices' time in which a processor worked, in one round."""
        count = 1 if name == self.names[0] else NUM_DEVICES
        return self.cpu_s[name][number] / self.comparison.seconds[name][number] / count

    def _unsteady(self) -> float:
        seconds = self.comparison.seconds[self.names[0]]
        return max(seconds) / min(seconds)


_PARTS = ("as much work as one lane", "more work", "idle")
_LOOKS: list[dict[str, Any]] = [
    {"facecolor": LIGHT.fill_of("F"), "edgecolor": LIGHT.outline_of("F")},
    {"facecolor": LIGHT.fill_of("B"), "edgecolor": LIGHT.outline_of("B")},
    {"facecolor": LIGHT.idle, "edgecolor": LIGHT.idle},
]


def race(
    entrants: Mapping[str, Entrant],
    track: Track,
    *,
    num_rounds: int = 7,
    board: Race | None = None,
    timeout_s: float = 300.0,
) -> RaceResult:
    """Let the entrants train in turn, `num_rounds` rounds after one that warms up; `board` shows it live.

    Example: `race(package_entrants(track), track).winner()`. Two processes are started, each with one compute thread.

    Raises:
        ValueError: there is no round, or an entrant cannot travel to another process.
        RankError: an entrant raised, or all were not done after `timeout_s` seconds.
        Implausible: losses differ, or a speed-up is impossible.
    """
    check_rounds(num_rounds, 1)
    show = partial(_show, board, track.tokens, num_rounds + 1)
    options: Any = {"backend": "gloo", "timeout_s": timeout_s, "on_report": show}
    results = comm.launch(_run_in_rank, NUM_DEVICES, dict(entrants), track, num_rounds, **options)
    comparison, losses, _ = results[0]
    cpu_s = {
        name: [sum(all_ranks) for all_ranks in zip(*(cpu[name] for *_, cpu in results), strict=True)] for name in losses
    }
    result = RaceResult(replace(comparison, num_devices=NUM_DEVICES), losses, cpu_s)
    result.check()
    if board is not None:
        for name in losses:
            board.finish(name, [track.tokens / seconds for seconds in comparison.seconds[name]])
    return result


def check_same_losses(losses: Mapping[str, Sequence[float]]) -> None:
    """Refuse a race between trainings that do not learn the same; the first has the losses that count.

    Raises:
        Implausible: an entrant took another number of steps, or another loss in one of them.
    """
    first, right = next(iter(losses.items()))
    for name, mine in losses.items():
        if len(mine) != len(right):
            raise Implausible(f"no race: {name} took {len(mine)} steps and {first} took {len(right)}")
        for step, (loss, its) in enumerate(zip(mine, right, strict=True), start=1):
            if not abs(loss - its) <= _TOLERANCE:
                raise Implausible(
                    f"no race: the loss of step {step} is {loss:.4f} for {name} and {its:.4f} for {first}, so they do "
                    "not train the same"
                )


class _Laps:
    """One entrant in one rank: a fresh model before each training, then losses and processor time."""

    def __init__(self, name: str, entrant: Entrant, track: Track, start: nn.Sequential, rank: int) -> None:
        self.name, self.track, self.rank = name, track, rank
        self._entrant, self._start = entrant, start
        self.losses: list[float] = []
        self.cpu_s: list[float] = []

    def prepare(self) -> None:
        """A copy of the first weights; not timed."""
        self._model = deepcopy(self._start)

    def run(self) -> None:
        """One training, or nothing if this rank has no part in it."""
        began, start = time.perf_counter(), time.process_time()
        if self.rank < self._entrant.num_ranks:
            track, size = self.track, len(self.track.dataset)
            steps = (track.num_steps, size, track.lr)
            losses = self._entrant.train(self.rank, self._entrant.num_ranks, self._model, track.dataset, *steps)
            self.losses = [float(loss) for loss in losses]
        self.cpu_s.append(time.process_time() - start)
        if self.rank == 0:
            comm.report((self.name, len(self.cpu_s), time.perf_counter() - began))


def _run_in_rank(
    rank: int,
    world_size: int,  # noqa: ARG001 - what launch calls
    entrants: Mapping[str, Entrant],
    track: Track,
    num_rounds: int,
) -> tuple[Comparison, dict[str, list[float]], dict[str, list[float]]]:
    start = track.model()
    laps = {name: _Laps(name, entrant, track, start, rank) for name, entrant in entrants.items()}
    runs = {name: lap.run for name, lap in laps.items()}
    before = {name: lap.prepare for name, lap in laps.items()}
    comparison = compare(runs, num_rounds, 1, tokens=track.tokens, before=before, in_step=True)
    losses = {name: lap.losses for name, lap in laps.items()}
    return comparison, losses, {name: lap.cpu_s[1:] for name, lap in laps.items()}


def _show(board: Race | None, tokens: int, num_laps: int, _rank: int, lap: tuple[str, int, float]) -> None:
    if board is not None:
        name, number, seconds = lap
        board.update(name, number / num_laps, tokens / seconds)


def _names_first(axes: Any) -> list[Any]:
    """One bar of each kind, for the legend."""
    return [container[0] for container in axes.containers[: len(_PARTS)]]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
