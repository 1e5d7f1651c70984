"""Compare runs honestly: alternate them, report medians with their spread, and refuse the impossible.

A machine gets slower and faster by itself, so two times taken one after another say little. Runs that alternate
A B C A B C meet the same conditions, and their ratios within a round are steady. The runs themselves are elsewhere.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from pllab import comm
from pllab.arguments import require
from pllab.comm.devices import describe_machine, synchronize
from pllab.timeline import Engine

Run = Callable[[], object]
Clock = Callable[[], float]
_MOST_GAIN = 1.1  # of a device, with noise and larger caches


class Implausible(ValueError):
    """A result that cannot be right; the message names the failed check."""


class Spread(NamedTuple):
    """The middle of some values and the quartiles around it: half of the values lie from low to high."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Median and quartiles: `Spread.of([1, 2, 3, 4, 5])` is `Spread(median=3, low=2.0, high=4.0)`."""
        enough = values if len(values) > 1 else [*values, *values]
        low, _, high = statistics.quantiles(enough, n=4, method="inclusive")
        return cls(statistics.median(values), low, high)

    def scaled(self, factor: float) -> "Spread":
        """All three numbers times a factor."""
        return Spread(*(value * factor for value in self))

    def text(self, digits: int) -> str:
        """Median and quartiles as text: `Spread(1.5, 1.4, 1.6).text(2)` is `1.50 (1.40-1.60)`."""
        return f"{self.median:.{digits}f} ({self.low:.{digits}f}-{self.high:.{digits}f})"


@dataclass(frozen=True)
class Comparison:
    """The seconds of several runs, round by round, and the conclusions they allow.

    Example, three rounds of two runs:

        seconds            {"ddp": (0.8, 0.6, 0.9), "flat": (0.6, 0.45, 0.7)}
        ratio("flat")      of 0.75, 0.75, 0.78: median 0.75, although the times differ by half
    """

    seconds: Mapping[str, tuple[float, ...]]
    baseline: str
    num_devices: int | None = None
    tokens: int | None = None
    machine: Mapping[str, str | int] = field(default_factory=dict)

    def time(self, name: str) -> Spread:
        """Seconds of one run."""
        return Spread.of(self.seconds[name])

    def ratio(self, name: str, to: str | None = None) -> Spread:
        """The time of a run over that of another (the baseline), round by round; below 1 is faster."""
        return Spread.of(_quotients(self.seconds[name], self.seconds[to or self.baseline]))

    def speedups(self, name: str, to: str | None = None) -> list[float]:
        """How many times as fast as another (the baseline) a run is, round by round."""
        return _quotients(self.seconds[to or self.baseline], self.seconds[name])

    def tokens_per_s(self, name: str) -> float | None:
        """All tokens over all seconds, never a mean of rates; None when runs have no tokens."""
        return self.tokens and self.tokens * len(self.seconds[name]) / sum(self.seconds[name])

    def check(self) -> None:
        """Refuse impossible results.

        Raises:
            Implausible: a run is faster in every round than the baseline on all devices could be.
        """
        if self.num_devices is not None:
            for name in self.seconds:
                # In every round: one in which the baseline was disturbed proves nothing.
                check_speedup(min(self.speedups(name)), self.num_devices, name=name)

    def table(self) -> str:
        """The comparison as text, a line for each run and a sentence for each that is level with the baseline."""
        width = max(len("run"), *map(len, self.seconds))
        lines = [f"{'run':{width}}  median s  quartiles      ratio  quartiles      (to {self.baseline})"]
        notes = []
        for name in self.seconds:
            took, ratio = self.time(name), self.ratio(name)
            rate = f"  {self.tokens_per_s(name):,.0f} tokens/s" if self.tokens else ""
            lines.append(
                f"{name:{width}}  {took.median:8.4f}  {took.low:.4f}-{took.high:.4f}  {ratio.median:.3f}  "
                f"{ratio.low:.3f}-{ratio.high:.3f}{rate}"
            )
            if name != self.baseline and ratio.low <= 1 <= ratio.high:
                notes.append(
                    f"{name} and {self.baseline} cannot be told apart: half of the ratios lie from {ratio.low:.3f} "
                    f"to {ratio.high:.3f}, on both sides of 1"
                )
        return "\n".join(lines + notes)


def compare(
    runs: Mapping[str, Run],
    repeats: int = 9,
    warmup: int = 1,
    *,
    baseline: str | None = None,
    num_devices: int | None = None,
    tokens: int | None = None,
    before: Mapping[str, Run] = MappingProxyType({}),
    in_step: bool = False,
    engine: Engine = "real",
    clock: Clock = time.perf_counter,
) -> Comparison:
    """Time some runs against each other, one of each per round; `repeats` rounds count, after `warmup` others.

    Example: `compare({"plain": step, "pipe": pipe_step}, baseline="plain", num_devices=2).ratio("pipe")`.

    Ratios are to the `baseline`, by default the first run. `num_devices` is the largest possible speed-up over it; None
    if both use the same devices. `tokens` are those of one call, on all ranks together. `before` has functions by the
    name of a run; each is called right before that run and not timed. With `in_step` each rank of a group calls this
    with runs of the same names: all wait for each other before each run, and the slowest rank's time counts.

    Raises:
        ValueError: there are no rounds, or no such baseline.
        Implausible: `Comparison.check` failed.
    """
    message = f"repeats={repeats}, warmup={warmup} measure nothing; give at least one repeat and no negative warm-up"
    require(repeats >= 1 and warmup >= 0, message)
    told = f"baseline {baseline!r} is not among the runs; choose one of {', '.join(map(str, runs))}"
    require(baseline is None or baseline in runs, told)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(warmup + repeats):
        for name, run in runs.items():
            if name in before:
                before[name]()
            seconds[name].append(seconds_of(run, clock, in_step))
    by_rank = comm.all_gather_object(seconds) if in_step else [seconds]
    slowest = {name: map(max, zip(*(each[name] for each in by_rank), strict=True)) for name in runs}
    counted = {name: tuple(times)[warmup:] for name, times in slowest.items()}
    about = {**describe_machine(), "engine": engine}
    comparison = Comparison(counted, baseline or next(iter(runs)), num_devices, tokens, about)
    comparison.check()
    return comparison


def speedup(baseline_s: Sequence[float], contender_s: Sequence[float]) -> float | None:
    """Median of the speed-ups of all rounds, or None when each side won some: then there is nothing to report.

    Example: `speedup([1.0, 2.0, 1.0], [0.5, 1.0, 0.9])` is 2.0, and `speedup([1.0, 1.0], [0.9, 1.1])` is None.

    Round k timed both sides, one right after the other, so its ratio does not depend on how fast the machine was.
    Lesson 16.
    """
    ratios = _quotients(baseline_s, contender_s)
    return None if min(ratios) <= 1 <= max(ratios) else statistics.median(ratios)


def _quotients(above: Sequence[float], below: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(above, below, strict=True)]


def check_speedup(speedup: float, num_devices: int, name: str = "this run") -> None:
    """Refuse a speed-up beyond the number of devices, for example 14.4 on 2 GPUs.

    Raises:
        Implausible: the speed-up exceeds the number of devices by more than a tenth, which noise and caches explain.
    """
    if speedup > num_devices * _MOST_GAIN:
        raise Implausible(
            f"check of the speed-up failed: {name} is {speedup:.2f}x as fast on {num_devices} devices, and "
            f"no cache explains more than {_MOST_GAIN:g} times their number: the clock, the baseline or the work is "
            "wrong"
        )


def check_same_losses(losses: Mapping[str, Sequence[float]], tolerance: float = 1e-3) -> None:
    """Refuse a race between entrants that do not learn the same; the losses of the first are the reference.

    Example: `check_same_losses({"one lane": [6.97, 6.69], "no optimizer": [6.97, 6.97]})` is refused. Sums of float32
    numbers in another order differ by some 1e-6, another batch by more than the tolerance.

    Raises:
        Implausible: an entrant took another number of steps, or had another loss in one of them.
    """
    first, right = next(iter(losses.items()))
    for name, mine in losses.items():
        if len(mine) != len(right):
            raise Implausible(f"no race: {name} took {len(mine)} steps and {first} took {len(right)}")
        for step, (loss, its) in enumerate(zip(mine, right, strict=True), start=1):
            if not abs(loss - its) <= tolerance:
                at = f" of step {step}" if len(right) > 1 else ""
                raise Implausible(
                    f"no race: the loss{at} is {loss:.4f} for {name} and {its:.4f} for {first}, so they do not "
                    "train the same"
                )


def seconds_of(run: Run, clock: Clock, in_step: bool) -> float:
    """Seconds of one call; on a GPU, until its work is done, not only queued."""
    synchronize()
    if in_step:
        comm.barrier()
    start = clock()
    run()
    synchronize()
    return clock() - start
