"""Compare runs honestly: alternate them, report medians with their spread, and refuse the impossible.

A machine gets slower and faster by itself, so two times taken one after the other say little. Runs that alternate
A B C A B C meet the same conditions, and their ratios within a round are steady. The runs themselves are elsewhere.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from pllab import comm
from pllab.comm.devices import describe_machine, synchronize
from pllab.timeline import Engine

Run = Callable[[], object]
Clock = Callable[[], float]


class Implausible(ValueError):
    """A result that cannot be right; the sentence names the failed check."""


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

    def text(self, digits: int, unit: str = "") -> str:
        """Median and quartiles as text: `Spread(1.5, 1.4, 1.6).text(2, "x")` is `1.50x (1.40-1.60)`."""
        return f"{self.median:.{digits}f}{unit} ({self.low:.{digits}f}-{self.high:.{digits}f})"


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
        """Time of a run over that of another (the baseline), taken round by round; below 1 is faster."""
        others = self.seconds[to or self.baseline]
        return Spread.of([mine / other for mine, other in zip(self.seconds[name], others, strict=True)])

    def speedups(self, name: str, to: str | None = None) -> list[float]:
        """How many times as fast a run is as another (the baseline), round by round."""
        return _speedups(self.seconds[to or self.baseline], self.seconds[name])

    def speedup(self, name: str) -> float | None:
        """How many times as fast as the baseline; None if each of the two won some rounds."""
        return speedup(self.seconds[self.baseline], self.seconds[name])

    def tokens_per_s(self, name: str) -> float | None:
        """All tokens over all seconds, never a mean of rates; None when runs have no tokens."""
        return self.tokens and self.tokens * len(self.seconds[name]) / sum(self.seconds[name])

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each run that cannot be told from the baseline."""
        return tuple(
            f"{name} and {self.baseline} cannot be told apart: half of the ratios lie from {ratio.low:.3f} "
            f"to {ratio.high:.3f}, on both sides of 1"
            for name in self.seconds
            if name != self.baseline and (ratio := self.ratio(name)).low <= 1 <= ratio.high
        )

    def check(self) -> None:
        """Refuse impossible results.

        Raises:
            Implausible: a run took no time, or is faster in every round than the baseline on all devices could be.
        """
        for name, seconds in self.seconds.items():
            if min(seconds) <= 0:
                raise Implausible(f"{name} took {min(seconds)} s, which no clock can tell from nothing")
        baseline = self.seconds[self.baseline]
        for name in self.seconds:
            if self.num_devices is not None and name != self.baseline:
                # In every round: one in which the baseline was disturbed proves nothing.
                slowest = min(before / now for before, now in zip(baseline, self.seconds[name], strict=True))
                check_speedup(slowest, self.num_devices, name=name)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`: machine, baseline, notes, and per run its times, ratio and rate."""
        runs = {
            name: {
                "seconds": list(seconds),
                "median_s": self.time(name).median,
                "quartiles_s": list(self.time(name)[1:]),
                "ratio": self.ratio(name).median,
                "ratio_quartiles": list(self.ratio(name)[1:]),
                "speedup": self.speedup(name),
                "tokens_per_s": self.tokens_per_s(name),
            }
            for name, seconds in self.seconds.items()
        }
        return {
            "machine": dict(self.machine),
            "baseline": self.baseline,
            "num_devices": self.num_devices,
            "tokens": self.tokens,
            "runs": runs,
            "notes": list(self.notes),
        }

    def table(self) -> str:
        """The comparison as text, one line per run and one per note."""
        width = max(len("run"), *map(len, self.seconds))
        lines = [f"{'run':{width}}  median s  quartiles      ratio  quartiles      (to {self.baseline})"]
        for name in self.seconds:
            took, ratio = self.time(name), self.ratio(name)
            rate = f"  {self.tokens_per_s(name):,.0f} tokens/s" if self.tokens else ""
            lines.append(
                f"{name:{width}}  {took.median:8.4f}  {took.low:.4f}-{took.high:.4f}  {ratio.median:.3f}  "
                f"{ratio.low:.3f}-{ratio.high:.3f}{rate}"
            )
        return "\n".join([*lines, *self.notes])


def compare(
    runs: Mapping[str, Run],
    repeats: int = 9,
    warmup: int = 1,
    *,
    baseline: str | None = None,
    num_devices: int | None = None,
    tokens: int | None = None,
    before: Mapping[str, Run] | None = None,
    in_step: bool = False,
    engine: Engine = "real",
    clock: Clock = time.perf_counter,
) -> Comparison:
    """Time some runs against each other, one of each per round; `repeats` rounds count, after `warmup` others.

    Example: `compare({"plain": step, "pipe": pipe_step}, baseline="plain", num_devices=2).ratio("pipe")`.

    Ratios are to the `baseline`, by default the first run. `num_devices` is the largest possible speed-up over it; None
    if both use the same devices. `tokens` are those of one call, on all ranks together. `before` has a function for
    each run, called right before it and not timed. With `in_step` each rank of a group calls this with runs of the same
    names: all wait for each other before each run, and the slowest rank's time counts.

    Raises:
        ValueError: there are no runs, no rounds, or no such baseline.
        Implausible: `Comparison.check` failed.
    """
    _check_request(runs, repeats, warmup, baseline)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(warmup + repeats):
        for name, run in runs.items():
            if before is not None:
                before[name]()
            seconds[name].append(_timed(run, clock, in_step))
    if in_step:
        seconds = _slowest(comm.all_gather_object(seconds))
    counted = {name: tuple(times[warmup:]) for name, times in seconds.items()}
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
    ratios = _speedups(baseline_s, contender_s)
    return None if min(ratios) <= 1 <= max(ratios) else statistics.median(ratios)


def _speedups(baseline_s: Sequence[float], contender_s: Sequence[float]) -> list[float]:
    return [before / now for before, now in zip(baseline_s, contender_s, strict=True)]


def check_speedup(speedup: float, num_devices: int, tolerance: float = 0.1, name: str = "this run") -> None:
    """Refuse a speed-up beyond the number of devices, for example 14.4 on 2 GPUs.

    Raises:
        Implausible: the speed-up exceeds the number of devices by more than the tolerance.
    """
    if speedup > num_devices * (1 + tolerance):
        raise Implausible(
            f"check of the speed-up failed: {name} is {speedup:.2f}x as fast on {num_devices} devices, and "
            f"more than {1 + tolerance:g} times their number no cache explains: the two did not do the same work"
        )


def check_same_gradients(norms: Mapping[str, torch.Tensor], baseline: str, rtol: float, atol: float) -> None:
    """Refuse to compare ways whose gradients differ; `norms` has the norm of every gradient, for each way.

    Raises:
        Implausible: a way did not compute the baseline's gradients.
    """
    for name, norm in norms.items():
        if not torch.allclose(norm, norms[baseline], rtol=rtol, atol=atol):
            raise Implausible(f"check of the gradients failed: {name} and {baseline} did not compute the same")


def check_rounds(repeats: int, warmup: int) -> None:
    """Refuse numbers of rounds that measure nothing, before anything is started.

    Raises:
        ValueError: there is no repeat, or the warm-up is negative.
    """
    if repeats < 1 or warmup < 0:
        raise ValueError(
            f"repeats={repeats}, warmup={warmup} measure nothing; give at least one repeat and no negative warm-up"
        )


def _check_request(runs: Mapping[str, Run], repeats: int, warmup: int, baseline: str | None) -> None:
    check_rounds(repeats, warmup)
    if not runs:
        raise ValueError("there are no runs to compare; give at least one")
    if baseline not in (None, *runs):
        raise ValueError(f"baseline {baseline!r} is not among the runs; choose one of {', '.join(runs)}")


def _slowest(by_rank: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Per run and round, the time of the slowest rank."""
    return {run: [max(times) for times in zip(*(rank[run] for rank in by_rank), strict=True)] for run in by_rank[0]}


def _timed(run: Run, clock: Clock, in_step: bool) -> float:
    """Seconds of one call; on a GPU, until its work is done and not only queued."""
    synchronize()
    if in_step:
        comm.barrier()
    start = clock()
    run()
    synchronize()
    return clock() - start
