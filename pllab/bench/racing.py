"""The race of lesson 16: entrants train in turn, round by round, in one group of two ranks.

Each round has one training of each entrant, all from the same weights on the same rows. A race refuses entrants whose
losses differ, and impossible speed-ups. Besides seconds it measures the processor time of all ranks. From both it
computes why an entrant is as fast as it is: how much of the devices' time was idle, and how much work there was. All of
it is from one round, that of the median speed-up: there the parts multiply to the speed-up, while medians would not.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pllab import comm
from pllab.bench.entrants import Entrant, Track
from pllab.bench.measure import Comparison, check_same_losses, compare, speedup
from pllab.show import Figure, Race, chart, figure
from pllab.show.boxes import IDLE
from pllab.show.theme import LIGHT

NUM_DEVICES = 2
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
        """The median of the speed-ups; the lower of two in the middle, so that it is the speed-up of a round."""
        return self.speedups(name)[self.typical_round(name)]

    def typical_round(self, name: str) -> int:
        """The round with the median speed-up, from which speed-up, idle and work are taken.

        Within a round they belong together: the speed-up is exactly devices x busy share / work / the baseline's busy
        share. Medians of several rounds do not multiply. The baseline has no speed-up: its round has the median time.
        """
        values = self.comparison.seconds[name] if name == self.names[0] else self.speedups(name)
        return values.index(statistics.median_low(values))

    def busy(self, name: str, of: str | None = None) -> float:
        """The share of the devices' time in which a processor worked, in the typical round, or in that of another."""
        number = self.typical_round(of or name)
        return self.cpu_s[name][number] / self.comparison.seconds[name][number] / self._devices(name)

    def idle(self, name: str) -> float:
        """The share of the devices' time in which no processor worked, in the typical round."""
        return max(0.0, 1.0 - self.busy(name))

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

    def table(self) -> str:
        """One line per entrant: speed-up with its range over the rounds, idle share and work."""
        width = max(map(len, self.names))
        lines = [f"{'real':{width}}  speed-up (range)       idle  work of one lane"]
        for name in self.names:
            ratios = self.speedups(name)
            span = f"{self.speedup(name):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
            lines.append(f"{name:{width}}  {span:21}  {self.idle(name):4.0%}  {self.work(name):.2f}x")
        return "\n".join(lines)

    def winner(self) -> str:
        """Which entrant won and why; none if others won rounds against the fastest, or the run was disturbed."""
        if told := self.disturbed():
            return told
        first, *others = sorted(self.names, key=self.speedup, reverse=True)
        seconds = self.comparison.seconds
        level = [name for name in others if speedup(seconds[name], seconds[first]) is None]
        said = f"{first} won: it was faster than each of the others in all {len(seconds[first])} rounds."
        if level:
            rounds = f"some of the {len(seconds[first])} rounds"
            said = f"No single winner: {' and '.join(level)} won {rounds} against {first}, or drew level."
        return " ".join([said, *(self.reason(name) for name in [first, *level])])

    def reason(self, name: str) -> str:
        """Why an entrant is as fast as it is: devices x busy share / work / the baseline's busy share.

        All of the typical round, in which this is exactly the speed-up.
        """
        base = self.names[0]
        if name == base:
            return (
                f"{name} has one device and idles {self.idle(name):.0%} of its time; its slowest round took "
                f"{self._unsteady():.2f} times as long as its fastest."
            )
        return (
            f"{name}: {NUM_DEVICES} devices, {self.busy(name):.0%} busy, with {self.work(name):.2f} times the "
            f"processor time of {base}, which was {self.busy(base, name):.0%} busy; that makes "
            f"{self.speedup(name):.2f}x."
        )

    def above_devices(self) -> list[str]:
        """A sentence for each speed-up above the number of devices: whether it is real, and where it comes from."""
        base, told = self.names[0], []
        for name in self.names:
            if self.speedup(name) <= NUM_DEVICES:
                continue
            slowest, base_busy = min(self.speedups(name)), self.busy(base, name)
            why = f"{base} idled {1 - base_busy:.0%} of its time, so the baseline was disturbed: measure again."
            if slowest <= NUM_DEVICES:
                why = f"The rounds reach down to {slowest:.2f}x, so the data does not say more than {NUM_DEVICES}."
            elif self.work(name) < base_busy:
                why = (
                    f"It took {self.work(name):.2f} of the processor time of {base} for the same numbers: smaller "
                    "pieces find more of their data in a core's cache."
                )
            told.append(f"{name}: {self.speedup(name):.2f}x on {NUM_DEVICES} devices. {why}")
        return told

    def picture(self) -> Figure:
        """Where the devices' time went: work of one lane, extra work, idle; numbers from the table, of the same rounds.

        A bar ends its busy part at the entrant's work, and its idle part is the idle share of the whole bar.
        """
        unit = f"1 is the processor time of {self.names[0]} in the same round"
        names = self.names[::-1]  # the lowest bar is drawn first
        work = [self.work(name) for name in names]
        idle = [max(0.0, done / self.busy(name) - done) for name, done in zip(names, work, strict=True)]
        same, more = [min(1.0, done) for done in work], [max(0.0, done - 1.0) for done in work]
        with chart(f"device time of one training; {unit}", "", 8.0, 0.5 * len(names) + 1.3) as axes:
            fill, outline = LIGHT.fill_of, LIGHT.outline_of
            axes.barh(names, same, 0.6, color=fill("F"), edgecolor=outline("F"), label="as much work as one lane")
            axes.barh(names, more, 0.6, same, color=fill("B"), edgecolor=outline("B"), label="more work")
            axes.barh(names, idle, 0.6, work, label="idle", **IDLE)
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=3)
            bars = zip(self.names, work[::-1], idle[::-1], strict=True)
            words = "; ".join(f"{name} {done:.2f} busy and {rest:.2f} idle" for name, done, rest in bars)
            canvas: Any = axes.figure
            return figure(canvas, f"Device time of one training (real), where {unit}: {words}.")

    def _devices(self, name: str) -> int:
        return 1 if name == self.names[0] else NUM_DEVICES

    def _unsteady(self) -> float:
        seconds = self.comparison.seconds[self.names[0]]
        return max(seconds) / min(seconds)


def race(
    entrants: Mapping[str, Entrant], track: Track, *, num_rounds: int = 7, board: Race | None = None
) -> RaceResult:
    """Let the entrants train in turn, `num_rounds` rounds after one that warms up; `board` shows it live.

    Example: `race(package_entrants(track), track).winner()`. Two processes are started, each with one compute thread.

    Raises:
        ValueError: an entrant cannot travel to another process.
        RankError: an entrant raised, there is no round, or all were not done after 300 s.
        Implausible: losses differ, or a speed-up is impossible.
    """

    def show(_rank: int, lap: tuple[str, int, float]) -> None:
        name, number, seconds = lap
        if board is not None:
            board.update(name, number / (num_rounds + 1), track.tokens / seconds)

    options: Any = {"backend": "gloo", "timeout_s": 300.0, "on_report": show}
    result: RaceResult = comm.launch(_run_in_rank, NUM_DEVICES, dict(entrants), track, num_rounds, **options)[0]
    check_same_losses(result.losses)
    result.comparison.check()
    if board is not None:
        for name, seconds in result.comparison.seconds.items():
            verdict = "baseline" if name == result.names[0] else f"{result.speedup(name):.2f}x"
            board.finish(name, [track.tokens / each for each in seconds], verdict)
    return result


def _run_in_rank(
    rank: int, _world_size: int, entrants: Mapping[str, Entrant], track: Track, num_rounds: int
) -> RaceResult:
    """All rounds: the seconds of the slowest rank, the losses of this one, and the processor time of all."""
    first = model = track.model()
    losses: dict[str, list[float]] = {}
    cpu_s: dict[str, list[float]] = {name: [] for name in entrants}

    def prepare() -> None:
        nonlocal model
        model = deepcopy(first)

    def train(name: str) -> None:
        began, start, entrant = time.perf_counter(), time.process_time(), entrants[name]
        if rank < entrant.num_ranks:  # the others have no part in it
            steps = (track.num_steps, len(track.dataset), track.lr)
            losses[name] = list(map(float, entrant.train(rank, entrant.num_ranks, model, track.dataset, *steps)))
        cpu_s[name].append(time.process_time() - start)
        if rank == 0:
            comm.report((name, len(cpu_s[name]), time.perf_counter() - began))

    runs = {name: partial(train, name) for name in entrants}
    before = dict.fromkeys(entrants, prepare)
    comparison = compare(runs, num_rounds, 1, tokens=track.tokens, before=before, in_step=True)
    by_rank = comm.all_gather_object(cpu_s)
    counted = {name: [sum(each) for each in zip(*(cpu[name] for cpu in by_rank), strict=True)][1:] for name in entrants}
    # Not checked before the losses are: a speed-up of other work is no speed-up.
    return RaceResult(replace(comparison, num_devices=NUM_DEVICES), losses, counted)
